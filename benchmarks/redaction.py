"""How many secrets redaction finds, by line and through the product, and how many look-alikes it touches.

    python benchmarks/redaction.py [--split tune|held] [--file labelled.jsonl] [--show]

Lines are made from a seed and `redaction.toml`; a format or frame is in one half only. A file of your own has a line
`{"kind": "vendor" | "generic" | "look-alike", "text": "…", "secrets": ["…"]}` for each text. "Through the product"
means that nothing stored contains the secret: no transcript, no log of tool calls, and nothing that `remember` stores.
"""

import argparse
import asyncio
import json
import random
import re
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "shared"))

from laid_bank import opened_bank
from secret_lines import after

from swarm_memory.schema.base import Scope
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import ReportedCall
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.guard.redact import archivable, redact, strip_places
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.tool_memory.log import kept_call
from swarm_memory.tools.toolbox import Toolbox

DATA: dict[str, dict[str, Any]] = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
PLAIN = Settings.model_validate({"distill": {"redact_pii": False}})
PROSE = "The migration went on and nothing in it was out of the ordinary. " * 60
NOW = datetime(2026, 1, 1, tzinfo=UTC)
LINES = 150


class Line(NamedTuple):
    """A text and the secret in it; for a look-alike, the harmless value, or empty if it is made as a whole."""

    kind: str
    text: str
    secret: str
    name: str = ""
    """The name of the field that holds the value, if any."""


def half(values: Sequence[str], split: str) -> Sequence[str]:
    """Return every second value of a random but fixed order."""
    mixed = random.Random(35).sample(values, len(values))
    return mixed[split == "held" :: 2]


def framed(frame: str, name: str, value: str) -> str:
    """Put a value into a frame that may hold its name as {N}AME, {n}ame, {d}ash-ed, {P}ascal case or in {w}ords."""
    words = re.sub(r"(?<=[a-z])(?=[A-Z])|[_.]", " ", name).lower()
    names = {
        "N": words.upper().replace(" ", "_"),
        "n": name,
        "d": words.replace(" ", "-"),
        "w": words,
        "P": words.title().replace(" ", ""),
    }
    return frame.format(value, **names)


def lines(split: str) -> Iterator[Line]:
    """Yield the lines of a half: vendors' keys, generic secrets, look-alikes."""
    draw = random.Random(f"35 {split}")
    vendors, generic, harmless = (
        {name: half(values, split) for name, values in DATA[part].items()}
        for part in ("vendors", "generic", "harmless")
    )
    for at in range(LINES):
        by_name = at % 4 == 3
        name, _, template = draw.choice(vendors["named"]).partition("=")
        secret = after(template if by_name else vendors["values"][at % len(vendors["values"])])(draw)
        frame = draw.choice([each for each in vendors["frames"] if not by_name or "{n}" in each.lower()])
        yield Line("vendor", framed(frame, name, secret), secret)
    for at in range(LINES):
        if at % 6 == 5:
            template = generic["whole"][at // 6 % len(generic["whole"])]
            text = after(template)(draw)
            fixed = re.split(r"<\w+ \d+>", template)
            yield Line("generic", text, text[len(fixed[0]) : len(text) - len(fixed[1])])
            continue
        name = draw.choice(generic["names"])
        of_password = re.search("(?i)pass", name)
        secret = after(draw.choice(generic["passwords" if of_password else "keys"]))(draw)
        yield Line("generic", framed(generic["frames"][at % len(generic["frames"])], name, secret), secret, name)
    for at in range(LINES):
        if at % 2:
            yield Line("look-alike", after(harmless["whole"][at // 2 % len(harmless["whole"])])(draw), "")
            continue
        value = harmless["values"][at // 2 % len(harmless["values"])]
        name = draw.choice(generic["names"])
        yield Line("look-alike", framed(draw.choice(harmless["frames"]), name, value), value, name)


def kept(line: Line) -> Iterator[tuple[str, str]]:
    """Yield (way, stored text) for each way by which a line gets into a transcript or the log."""
    inputs: dict[str, dict[str, Any]] = {
        "command": {"command": f"cat <<'X' > f\n{line.text}\nX"},
        "content": {"file": "a", "content": line.text},
        "long": {"content": f"{PROSE}\n{line.text}\n{PROSE * 5}"},
        "field": {"env": {line.name: line.secret}} if line.name else {},
        "pair": {"env": [{"name": line.name, "value": line.secret}]} if line.name else {},
    }
    for way, given in inputs.items():
        text = "\n".join(map(str, given.values())) if way in ("content", "long") else json.dumps(given)
        observed = json.dumps({"stdout": text}) if way == "command" else text
        steps = (
            Step(id="1", kind="message", role="user", text=text),
            Step(id="2", kind="tool_call", role="assistant", tool_name="Bash", tool_input=given, call_id="c"),
            Step(id="3", kind="observation", role="tool", call_id="c", text=observed),
        )
        trajectory = Trajectory(task_id="t", task=text, steps=steps, source="claude_code")
        yield f"transcript, {way}", strip_places(archivable(trajectory, PLAIN), PLAIN).model_dump_json()
        logged = ReportedCall(tool_name="x", input=given, output=observed, success=True)
        yield (f"log, {way}", kept_call(logged, Scope(project="x"), PLAIN, NOW).model_dump_json())


async def ways_wrong(toolbox: Toolbox, line: Line) -> list[str]:
    """Return the ways by which a secret is stored, or by which a look-alike is redacted."""
    said = (await remember(toolbox, f"Remember for this project: {line.text}")).item
    every = [("line", redact(line.text, pii=False).text), ("remember", f"{said.title}\n{said.content}"), *kept(line)]
    if line.kind == "look-alike":
        return [way for way, text in every if "[secret:" in text]
    forms = {form[-12:] for form in (line.secret, json.dumps(line.secret)[1:-1])}
    return [way for way, text in every if any(form in text for form in forms)]


def labelled(path: Path) -> Iterator[Line]:
    """Yield a line for each secret of a file's texts, and one for each look-alike."""
    for row in map(json.loads, path.read_text(encoding="utf-8").splitlines()):
        yield from (Line(row["kind"], row["text"], secret) for secret in row["secrets"] or [""])


async def figures(lines: Iterator[Line], *, show: bool) -> None:
    """Print the shares of some lines."""
    wrong: dict[str, list[list[str]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        async with opened_bank(Path(folder) / "memory.db", settings=PLAIN) as toolbox:
            for line in lines:
                ways = await ways_wrong(toolbox, line)
                wrong.setdefault(line.kind, []).append(ways)
                if ways and show:
                    print(f"{line.kind}: {line.text!r}: {', '.join(ways)}")
    for kind, every in wrong.items():
        by_line = sum("line" in ways for ways in every) / len(every)
        by_any = sum(bool(ways) for ways in every) / len(every)
        shares = (by_line, by_any) if kind == "look-alike" else (1 - by_line, 1 - by_any)
        said = "touched" if kind == "look-alike" else "found"
        print(f"{kind:<11}{len(every):>4} lines, {said} by line {shares[0]:.2f}, through the product {shares[1]:.2f}")


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", choices=("tune", "held"), default="tune")
    parser.add_argument("--file", type=Path, help="your own lines instead")
    parser.add_argument("--show", action="store_true", help="print what is wrong")
    arguments = parser.parse_args()
    given = labelled(arguments.file) if arguments.file else lines(arguments.split)
    asyncio.run(figures(given, show=arguments.show))


if __name__ == "__main__":
    main()
