"""Measures the hook commands that no server answers over `python -I -c pass`, all in one run: medians in ms.

    python benchmarks/speed_hooks.py [--rounds 30]

The bank holds the memory of the demo session, and the session is at a task. After each SessionEnd
the worker that it started is waited for, so that it takes no time from the next measurement.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from swarm_memory.server.cli.commands.setup import SESSION
from swarm_memory.server.hosts.entries import hook_command

HOOKS = hook_command()[1:]
VERBS = ("session-start", "stop", "session-end")
LIMIT_MS = 600.0


def prepare(folder: Path) -> tuple[Path, dict[str, str], dict[str, str]]:
    """Make a project whose bank holds the demo's memory; return it, its environment and the event of its session."""
    project, config = folder / "shop", folder / "claude"
    transcript = config / "projects" / "shop" / "s1.jsonl"
    for parent in (project, transcript.parent):
        parent.mkdir(parents=True)
    transcript.write_bytes(SESSION.read_bytes())
    environment = {**os.environ, "CLAUDE_PROJECT_DIR": str(project), "CLAUDE_CONFIG_DIR": str(config)}
    command = [sys.executable, "-I", "-m", "swarm_memory.server.cli", "learn", str(transcript)]
    subprocess.run(command, cwd=project, env=environment, check=True, stdout=subprocess.DEVNULL)
    prompt = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": "Make the tests of the shop pass"}
    seconds((*HOOKS, "prompt"), project, environment, json.dumps(prompt))
    return project, environment, {"session_id": "s1", "transcript_path": str(transcript), "cwd": str(project)}


def seconds(arguments: Sequence[str], project: Path, environment: Mapping[str, str], told: str) -> float:
    """Return the wall time of one command, from its start to its end."""
    begin = time.perf_counter()
    command = [sys.executable, *arguments]
    subprocess.run(command, cwd=project, env=environment, input=told, text=True, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begin


def wait_for_workers(project: Path) -> None:
    """Wait until no process has the project as its folder (only where /proc tells)."""
    while any(_works_in(process, project) for process in Path("/proc").glob("[0-9]*")):
        time.sleep(0.02)


def _works_in(process: Path, project: Path) -> bool:
    try:
        return (process / "cwd").readlink() == project
    except OSError:
        return False


def main(rounds: int) -> None:
    """Measure and print one line for each command."""
    times: dict[str, list[float]] = {title: [] for title in ("python -I -c pass", *VERBS)}
    with tempfile.TemporaryDirectory() as name:
        project, environment, event = prepare(Path(name).resolve())
        for _ in range(rounds):
            for title, measured in times.items():
                arguments = ("-I", "-c", "pass") if title.startswith("python") else (*HOOKS, title)
                measured.append(seconds(arguments, project, environment, json.dumps(event)))
                wait_for_workers(project)
    base = statistics.median(times["python -I -c pass"])
    for title, measured in times.items():
        median = statistics.median(measured)
        print(
            f"{title:20} {1000 * median:7.1f} ms, {1000 * (median - base):6.1f} over the first (at most {LIMIT_MS:g})"
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    main(parser.parse_args().rounds)
