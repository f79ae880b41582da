"""Speed of the running server, as ratios and percentiles measured in one run on one machine.

1. From process start to the answer of `tools/list`: `swarm-memory serve` compared with an empty MCPServer.
2. The hook command of UserPromptSubmit, in excess of `python -I -c pass`, with a bank of 10,000 memories: once with a
   running server that it can call, once without one. The server starts as a session begins, together with the
   session's hook; the first prompt comes 2.5 s later, like that of `claude -p`.
3. The hook commands of PreToolUse and PostToolUseFailure with that bank and a running server, in excess of the same.
   An agent's note names each call and error, and each occurs once per session.
4. The hook commands at a session's start, a turn's end and a session's end with that bank and no server, in excess of
   the same. The worker that a session's end starts is waited for, so that it does not slow down the next command.

    python benchmarks/speed_server.py [--runs 15] [--memories 10000] [--prompts 60]
"""

import argparse
import asyncio
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.append(str(Path(__file__).parent.parent / "tests" / "shared"))

from made_banks import add, docstrings, made_memory, own_home, stdlib_modules
from stdio_server import Server

from swarm_memory.server.cli.commands.setup import SESSION
from swarm_memory.server.hosts.settings import hook_command

if TYPE_CHECKING:
    from swarm_memory.schema.base import Scope
    from swarm_memory.schema.memory import MemoryItem

LIMIT_START_RATIO = 1.25
LIMIT_PROMPT_P95_MS = {"server": 60.0, "hook": 600.0}
"""By what does the work; in excess of an interpreter's start."""

LIMIT_MOMENT_P95_MS = 50.0
"""For a call and for a failed one, with a server; in excess of an interpreter's start."""

LIMIT_SESSION_P95_MS = 600.0
"""At a session's start, a turn's end and a session's end, without a server; in excess of an interpreter's start."""

NOTE = {
    "title": "Lease before send",
    "when": "When `parcelctl send` says `E17 no lease`.",
    "note": "`parcelctl lease --for relay` first.",
}

EMPTY_SERVER = "from mcp.server import MCPServer; MCPServer('empty').run()"
SERVE = ("-I", "-m", "swarm_memory.server.cli", "serve")
PROMPT = (*hook_command()[1:], "prompt")
SESSION_START = (*hook_command()[1:], "session-start")
CALL = {"tool_name": "Bash", "tool_input": {"command": "parcelctl send 7"}}
ERROR = "Exit code 1\nparcelctl: E17 no lease"
MOMENTS: dict[str, dict[str, Any]] = {
    "before-tool": {"hook_event_name": "PreToolUse", **CALL},
    "tool-failure": {"hook_event_name": "PostToolUseFailure", "error": ERROR, **CALL},
}
"""The event of each hook, by the hook's verb; every event belongs to a new session."""

FIRST_PROMPT_S = 2.5
NOTHING = ("-I", "-c", "pass")

VERBS = ("Fix", "Speed up", "Test", "Document", "Rewrite", "Replace", "Port", "Review")


def paragraphs(count: int) -> list[str]:
    """Return `count` distinct English paragraphs from the standard library's docstrings, in a fixed order."""
    texts = (text for path in stdlib_modules() for text in docstrings(path))
    every = list(dict.fromkeys(piece for text in texts for piece in _pieces(text)))
    random.Random(7).shuffle(every)
    if len(every) < count:
        raise RuntimeError(f"the standard library has only {len(every)} paragraphs; ask for fewer memories")
    return every[:count]


def _pieces(docstring: str) -> Iterator[str]:
    """Yield the paragraphs of a docstring, in pieces of 8 to 40 words."""
    for text in docstring.split("\n\n"):
        words = text.split()
        for start in range(0, len(words), 40):
            if len(piece := words[start : start + 40]) >= 8:
                yield " ".join(piece)[:600]


def started(arguments: tuple[str, ...], root: Path, environ: Mapping[str, str]) -> Server:
    """Start a server."""
    pipe, null = subprocess.PIPE, subprocess.DEVNULL
    command = [sys.executable, *arguments]
    return Server(subprocess.Popen(command, cwd=root, env=dict(environ), stdin=pipe, stdout=pipe, stderr=null))


def start_to_tools_ms(arguments: tuple[str, ...], root: Path, environ: Mapping[str, str]) -> float:
    """Return the milliseconds from the start of the process to its list of tools."""
    began = time.perf_counter()
    server = started(arguments, root, environ)
    server.initialize()
    server.ask("tools/list", {})
    took = (time.perf_counter() - began) * 1000
    server.process.communicate(timeout=10)
    return took


def made_item(text: str, scope: "Scope", **fields: Any) -> "MemoryItem":
    """Return a memory with a text."""
    words = text.split()
    described = f"Of use when {' '.join(words[8:20])}"
    return made_memory(scope, " ".join(words[:8]), f"1. {text}", description=described, **fields)


async def fill(root: Path, texts: list[str]) -> None:
    """Write a memory for each text into a new bank."""
    from swarm_memory.schema.memory import Note, Provenance
    from swarm_memory.schema.settings import Settings
    from swarm_memory.server.wiring import open_toolbox, place_of
    from swarm_memory.tools.memories.remember import remember_notes

    chance, said = random.Random(7), Provenance(distiller="user")
    toolbox = await open_toolbox(place_of(root, Settings()), Settings())
    items = [
        made_item(text, toolbox.scope, confidence=round(chance.uniform(0.3, 0.95), 3), provenance=said)
        for text in texts
    ]
    await add(toolbox, items)
    await remember_notes(toolbox, [Note.model_validate(NOTE)])
    await toolbox.store.close()


def prompts_over_ms(root: Path, environ: Mapping[str, str], about: list[str], way: str) -> list[float]:
    """Return how many milliseconds longer each prompt's hook command takes than an interpreter that does nothing.

    `way`: `server` runs a server that the commands call, `hook` does not; the recorded retrievals must confirm it.
    """
    server = None
    if way == "server":
        began = time.monotonic()
        server = started(SERVE, root, environ)
        command_ms(SESSION_START, root, environ, json.dumps({"session_id": f"{way}-0", "source": "startup"}))
        server.initialize()
        server.ask("tools/list", {})
        time.sleep(max(0.0, began + FIRST_PROMPT_S - time.monotonic()))
    chance = random.Random(11)
    hooks: list[float] = []
    nothing: list[float] = []
    injected = 0
    for number, text in enumerate(about):
        prompt = f"{chance.choice(VERBS)} this: {' '.join(text.split()[:25])}"
        event = {"hook_event_name": "UserPromptSubmit", "session_id": f"{way}-{number}", "prompt": prompt}
        nothing.append(command_ms(NOTHING, root, environ, "")[0])
        took, said = command_ms(PROMPT, root, environ, json.dumps(event))
        hooks.append(took)
        injected += "additionalContext" in said
    if server is not None:
        server.process.communicate(timeout=10)
    if injected < len(about) / 2:
        raise RuntimeError(f"only {injected} of {len(about)} prompts were given memories")
    if (others := retrievals_not_by(root, way)) > len(about) / 10:
        raise RuntimeError(f"{others} of {len(about)} prompts were not served by the {way}")
    base = statistics.median(nothing)
    sys.stderr.write(f"{way}: the first prompt {hooks[0] - base:.0f} ms over an interpreter\n")
    return [took - base for took in hooks]


def moments_over_ms(root: Path, environ: Mapping[str, str], count: int) -> dict[str, list[float]]:
    """Return how many milliseconds longer each hook command of a call takes than an interpreter that does nothing."""
    server = started(SERVE, root, environ)
    server.initialize()
    server.ask("tools/list", {})
    taken, shown = hooks_over_ms(root, environ, MOMENTS, count)
    server.process.communicate(timeout=10)
    if shown < 0.9 * count * len(MOMENTS):  # if the server is busy, the call proceeds without a note
        raise RuntimeError(f"only {shown} of {count * len(MOMENTS)} calls were given a note")
    return taken


def session_hooks_over_ms(root: Path, environ: Mapping[str, str], count: int) -> dict[str, list[float]]:
    """Return how many milliseconds longer a session's hook commands take than an interpreter, without a server."""
    transcript = root.parent / ".claude" / "projects" / root.name / "s1.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.write_bytes(SESSION.read_bytes())
    event = {"transcript_path": str(transcript), "cwd": str(root)}
    return hooks_over_ms(root, environ, dict.fromkeys(("session-start", "stop", "session-end"), event), count)[0]


def hooks_over_ms(
    root: Path, environ: Mapping[str, str], events: Mapping[str, Mapping[str, Any]], count: int
) -> tuple[dict[str, list[float]], int]:
    """Return by verb how much longer hook commands take than an interpreter, and how many of them added something."""
    taken: dict[str, list[float]] = {verb: [] for verb in events}
    nothing: list[float] = []
    shown = 0
    for number in range(count):
        nothing.append(command_ms(NOTHING, root, environ, "")[0])
        for verb, event in events.items():
            given = json.dumps({**event, "session_id": f"{verb}-{number}"})
            took, said = command_ms((*hook_command()[1:], verb), root, environ, given)
            shown += "additionalContext" in said
            taken[verb].append(took)
            if verb == "session-end":
                wait_for_workers(root)
    base = statistics.median(nothing)
    return {verb: [took - base for took in times] for verb, times in taken.items()}, shown


def wait_for_workers(root: Path) -> None:
    """Wait until no process has the project as its working directory (only where there is /proc)."""

    def works_here(process: Path) -> bool:
        try:
            return (process / "cwd").readlink() == root
        except OSError:  # it has ended meanwhile, or belongs to another user
            return False

    while any(map(works_here, Path("/proc").glob("[0-9]*"))):
        time.sleep(0.02)


def command_ms(arguments: tuple[str, ...], root: Path, environ: Mapping[str, str], given: str) -> tuple[float, str]:
    """Return how many milliseconds a command took, and what it printed."""
    began = time.perf_counter()
    done = subprocess.run(
        [sys.executable, *arguments],
        cwd=root,
        env=dict(environ),
        input=given,
        capture_output=True,
        text=True,
        check=True,
    )
    return (time.perf_counter() - began) * 1000, done.stdout


def retrievals_not_by(root: Path, way: str) -> int:
    """Return how many of this way's prompts were recorded as served another way."""
    from swarm_memory.server.storage.driver import choose
    from swarm_memory.server.storage.engine.connection import connect

    connection = connect(root / ".swarm" / "memory.db", driver=choose(), read_only=True)
    kept = connection.execute("SELECT data FROM events WHERE type = 'reasoning_memory.retrieved'").fetchall()
    connection.close()
    retrieved = [json.loads(data) for (data,) in kept]
    return sum(each["via"] != way for each in retrieved if str(each["session_id"]).startswith(f"{way}-"))


def main() -> int:
    """Measure, print one JSON object, and return 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--memories", type=int, default=10_000)
    parser.add_argument("--prompts", type=int, default=60)
    options = parser.parse_args()
    with own_home() as root:
        environ = dict(os.environ)
        pairs = [
            (start_to_tools_ms(SERVE, root, environ), start_to_tools_ms(("-I", "-c", EMPTY_SERVER), root, environ))
            for _ in range(options.runs)
        ]
        ours, empty = (statistics.median(times) for times in zip(*pairs, strict=True))
        texts = paragraphs(options.memories + options.prompts)
        asyncio.run(fill(root, texts[options.prompts :]))
        over = {way: prompts_over_ms(root, environ, texts[: options.prompts], way) for way in LIMIT_PROMPT_P95_MS}
        moments = moments_over_ms(root, environ, options.prompts)
        sessions = session_hooks_over_ms(root, environ, options.runs)
    figures: dict[str, float] = {
        "serve_start_ms": round(ours, 1),
        "empty_start_ms": round(empty, 1),
        "start_ratio": round(ours / empty, 3),
        "start_ratio_limit": LIMIT_START_RATIO,
        "memories": options.memories,
    }
    limited = [(f"prompt_by_{way}", times, LIMIT_PROMPT_P95_MS[way]) for way, times in over.items()]
    limited += [(verb, times, LIMIT_MOMENT_P95_MS) for verb, times in moments.items()]
    limited += [(verb, times, LIMIT_SESSION_P95_MS) for verb, times in sessions.items()]
    is_quick = ours / empty <= LIMIT_START_RATIO
    for name, times, limit in limited:
        p95 = statistics.quantiles(times, n=20)[-1]
        is_quick = is_quick and p95 <= limit
        figures |= {
            f"{name}_p50_over_ms": round(statistics.median(times), 1),
            f"{name}_p95_over_ms": round(p95, 1),
            f"{name}_p95_limit_ms": limit,
        }
    print(json.dumps(figures))
    return 0 if is_quick else 1


if __name__ == "__main__":
    sys.exit(main())
