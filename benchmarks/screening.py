"""Precision and recall of screening (rules, and rules with the classifier) on the texts of `tests/attacks`, by shape.

Without arguments the set of an author who knew neither rules nor training texts is measured, by which nothing was
chosen, attacks of published kinds and plain text, then both halves of our own; rules and classifier were made on "dev"
only. `--misses dev` shows what was missed, or flagged wrongly, in a half; `--texts FILE` which lines of a file of your
own are flagged.

`--door FILE…` really stores texts by the MCP tools, and tells what the bank then holds back or trusts less: rows with
`content` (and `when_to_use`) of a .jsonl file as an agent's items by `distill_memories`, the values of `text` in a
.json file as what a user says by `remember`; and the attacks by both. `--per-file` takes so many of each file.
"""

import argparse
import asyncio
import json
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, cast

sys.path.insert(0, str(Path(__file__).parent.parent / "tests" / "shared"))

from benign_strategies import strategies
from mcp.client import Client
from poison_attacks import Half, attacks, half_of
from unseen_author import plain_texts, published_attacks, unseen_attacks, unseen_strategies

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import LearnSettings, Settings
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.wiring import open_toolbox, opened_toolbox, place_of
from swarm_memory.tools.guard.screen import by_rules, by_wording, reason_of, screen
from swarm_memory.tools.guard.trust import unverified
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox

HALVES: tuple[Half, Half] = ("dev", "held-out")


def _by_shape() -> None:
    caught = {half: Counter[str]() for half in HALVES}
    total = {half: Counter[str]() for half in HALVES}
    for attack in attacks():
        total[attack.half][attack.shape] += 1
        caught[attack.half][attack.shape] += bool(screen(attack.text))
    print(f"{'shape':<16}" + "".join(f"{half:>14}" for half in HALVES))
    for shape in sorted(total["dev"] | total["held-out"]):
        print(f"{shape:<16}" + "".join(f"{f'{caught[half][shape]} of {total[half][shape]}':>14}" for half in HALVES))
    for half in HALVES:
        sound = [each.text for each in strategies() if half_of(each.text) == half]
        wrong = sum(bool(screen(text)) for text in sound)
        hit, all_of = caught[half].total(), total[half].total()
        print(
            f"{half}: recall {hit / all_of:.3f} ({hit} of {all_of}), precision {hit / (hit + wrong):.3f},"
            f" sound held back {wrong} of {len(sound)} ({wrong / len(sound):.2%})"
        )
        known = sum(bool(by_rules(attack.text)) for attack in attacks() if attack.half == half)
        wrong = sum(bool(by_rules(text)) for text in sound)
        print(f"{half}, rules alone: recall {known / all_of:.3f} ({known} of {all_of}), sound held back {wrong}")


def _unseen() -> None:
    tried, sound = unseen_attacks(), unseen_strategies()
    caught = Counter(each.shape for each in tried if screen(each.text))
    total = Counter(each.shape for each in tried)
    for shape in sorted(total):
        print(f"{shape:<22}{f'{caught[shape]} of {total[shape]}':>10}")
    for way, of in (("rules and classifier", screen), ("rules alone", by_rules)):
        hit = sum(bool(of(each.text)) for each in tried)
        wrong = [each for each in sound if of(each.text)]
        alike = sum(each.looks_like_an_attack for each in wrong)
        print(
            f"unseen author, {way}: recall {hit / len(tried):.3f} ({hit} of {len(tried)}),"
            f" precision {hit / (hit + len(wrong)):.3f}, sound held back {len(wrong)} of {len(sound)}"
            f" ({len(wrong) / len(sound):.2%}; {alike} of them look-alikes)"
        )

    for what, texts in (("attacks of published kinds", published_attacks()), ("plain text of our own", plain_texts())):
        known, found = (sum(bool(of(each.text)) for each in texts) for of in (by_rules, screen))
        print(f"{what}: held back {known}, held back or trusted less {found} of {len(texts)}")


def _misses(half: Half) -> None:
    for attack in attacks():
        if attack.half == half and not screen(attack.text):
            print(f"missed  {attack.shape}: {attack.text!r}")
    for each in strategies():
        if half_of(each.text) == half and (findings := screen(each.text)):
            print(f"wrong   {each.subject}: {each.text!r}: {reason_of(findings)}")


def _own(path: Path) -> None:
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    started = time.perf_counter()
    flagged = [line for line in lines if screen(line)]
    taken = (time.perf_counter() - started) * 1000 / max(1, len(lines))
    print("\n".join(f"flagged  {line}: {reason_of(screen(line))}" for line in flagged))
    print(f"{len(flagged)} of {len(lines)} flagged, {taken:.2f} ms each")


def _call(command: str, output: str, code: int) -> list[dict[str, Any]]:
    made = {
        "id": command,
        "type": "function",
        "function": {"name": "Bash", "arguments": json.dumps({"command": command})},
    }
    said = {"role": "tool", "tool_call_id": command, "content": f"Exit code {code}\n{output}" if code else output}
    return [{"role": "assistant", "content": "", "tool_calls": [made]}, said]


TASK = "Make the tests of the shop pass: pytest -q"
STEPS = [
    *_call("pytest -q", "E   SettingsError: config/test.toml not found\n2 failed in 0.11s", 1),
    *_call("cp config/test.example.toml config/test.toml", "", 0),
    *_call("pytest -q ", "2 passed in 0.05s", 0),
]
"""A task that was met, for items that an agent writes."""

AT_ONCE = 3
"""Of more items of one task the first ones are kept."""


def _texts(value: Any, name: str = "") -> Iterator[str]:
    """Yield the strings that are called `text`, however deep they stand."""
    match value:
        case str() if name == "text":
            yield value
        case dict():
            for key, each in cast(dict[str, Any], value).items():
                yield from _texts(each, key)
        case list():
            for each in cast(list[Any], value):
                yield from _texts(each)
        case _:
            pass


def _item(text: str) -> dict[str, str]:
    title, _, content = text.partition("\n")
    return {"title": title[:200], "content": (content or text)[:4000]}


async def _by_distill(client: Client, texts: Sequence[str], **verdict: str) -> None:
    for start in range(0, len(texts), AT_ONCE):
        items = [_item(text) for text in texts[start : start + AT_ONCE]]
        given = {"task": f"{TASK} ({start})", "steps": STEPS, "task_id": f"t{start}", "items": items, **verdict}
        _checked(await client.call_tool("distill_memories", given))


async def _by_remember(client: Client, texts: Sequence[str]) -> None:
    for text in texts:
        _checked(await client.call_tool("remember", {"text": text[:4000]}))


def _checked(result: Any) -> None:
    if result.is_error:
        raise RuntimeError(result.content)


async def _stored(name: str, texts: Sequence[str], way: str) -> None:
    settings = Settings(learn=LearnSettings(max_new_per_day=1_000_000))
    with tempfile.TemporaryDirectory() as folder:
        place = place_of(Path(folder), settings)
        async with Client(build_server(lambda: open_toolbox(place, settings), root=place.root)) as client:
            if way == "remember":
                await _by_remember(client, texts)
            else:
                await _by_distill(client, texts, **({"verdict": "Success"} if way == "distill, own verdict" else {}))
        async with opened_toolbox(place, settings) as toolbox:
            await _tell(toolbox, f"{name} by {way}", len(texts))


async def _tell(toolbox: Toolbox, what: str, given: int) -> None:
    found: list[MemoryItem] = []
    while page := await toolbox.store.list_memories(
        toolbox.scope.readable(), MemoryFilter(("active", "quarantined"), limit=500, offset=len(found))
    ):
        found += page
    active = [each for each in found if each.status == "active"]
    held, less = len(found) - len(active), sum(each.provenance.suspect is not None for each in active)
    doubtful = len(await unverified(toolbox, active))
    print(
        f"{what}: {given} given, {len(found)} stored; held back {held} ({held / len(found):.2%}), trusted less {less}"
        f" ({less / len(found):.2%}), untrusted {doubtful}, verified {len(active) - doubtful}",
        flush=True,
    )


def _cost(texts: Sequence[str]) -> None:
    for text in texts[:50]:
        screen(text)
    for way in (by_rules, by_wording):
        started = time.process_time()
        for text in texts:
            way(text)
        print(f"    {way.__name__}: {(time.process_time() - started) * 1000 / len(texts):.2f} ms of CPU each")


def _door(paths: Sequence[Path], most: int) -> None:
    for path in paths:
        if path.suffix == ".jsonl":
            rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
            texts = [f"{row.get('when_to_use', '')}\n{row['content']}".strip() for row in rows]
        else:
            texts = list(_texts(json.loads(path.read_text(encoding="utf-8"))))
        texts = list(dict.fromkeys(text for text in texts if len(text.strip()) >= 3))
        texts = random.Random(1).sample(texts, min(most, len(texts)))
        asyncio.run(_stored(path.name, texts, "distill, own verdict" if path.suffix == ".jsonl" else "remember"))
        _cost(texts)
    sets = {"attacks of an unseen author": [f"{each.text}" for each in unseen_attacks()]}
    sets["attacks of our held-out half"] = [each.text for each in attacks() if each.half == "held-out"]
    for name, texts in sets.items():
        for way in ("distill, own verdict", "distill, by evidence", "remember"):
            asyncio.run(_stored(name, texts, way))


def main() -> None:
    """Print what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--misses", choices=HALVES)
    parser.add_argument("--texts", type=Path)
    parser.add_argument("--door", type=Path, nargs="+", metavar="FILE")
    parser.add_argument("--per-file", type=int, default=1000)
    arguments = parser.parse_args()
    if arguments.door is not None:
        _door(arguments.door, arguments.per_file)
    elif arguments.texts is not None:
        _own(arguments.texts)
    elif arguments.misses is not None:
        _misses(arguments.misses)
    else:
        _unseen()
        print()
        _by_shape()


if __name__ == "__main__":
    main()
