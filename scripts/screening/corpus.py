"""The texts that the classifier is trained on: frames written for it, with alternatives in braces, expanded by a seed.

It reads `texts/`, the half of the attack tests that rules may be made on (never the other half, nor `unseen`), and as
sound texts of no special kind the documentation within Python's standard library, which it does not keep. Whole
memories by several authors, who did not know each other's texts nor the rules, are in `texts/memories_*.jsonl`: of an
attack the poisoned sentence is marked where its author marked it; a sound twin is an attack whose poisoned part was
replaced by what a careful engineer writes there.
"""

import ast
import json
import random
import re
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

REPOSITORY = Path(__file__).parent.parent.parent
sys.path.insert(0, str(REPOSITORY / "tests" / "shared"))

from screened_texts import attacks, half_of, strategies  # noqa: E402

ITEMS, ITEM = 500, "items"
DOCUMENTATION, DOCUMENTATION_WEIGHT = "documentation", 0.6
COUNTED_WHOLE = {
    "own_lessons": 12,
    "users_words": 6,
    "strategies": 30,
    "conversation": 20,
    "service_words": 8,
    "agents_words": 10,
    "about_agents": 30,
    "changes": 30,
}
"""How many texts of a frame are made where to doubt one would cost most, so that each counts whole: what the distiller
without a model and models write as strategies, what people say to one another and to an agent, what agents say at work
and to customers, what is written about agents, and messages of commits."""
WEIGHT_OF = {"plain": 3.0, "look": 2.0}
"""How much sound memories of whole authors count: other sound text is far from what agents read at work."""
FRAMES = "frames"
"""The author of all that is no whole memory."""

_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
_NO_PROSE = {"site-packages", "test", "tests", "lib2to3"}
_SHORTEST, _LONGEST, _PROSE = 40, 1200, 0.8
_TEXTS = Path(__file__).parent / "texts"
_ALTERNATIVES = re.compile(r"\{([^{}]*\|[^{}]*)\}")
_SLOT = re.compile(r"\$([A-Z]{3,})\b")


class Example(NamedTuple):
    """One text; those of a frame weigh together as much as one, where they do not count whole."""

    text: str
    attack: bool
    shape: str
    """The file it is in."""
    weight: float
    author: str = FRAMES
    poison: str | None = None
    """What of an attack makes it one, where that is known."""


def examples(seed: int, per_frame: int) -> list[Example]:
    """Return the texts of all frames, at most so many of one frame, and the half of the test sets that is open."""
    chance = random.Random(seed)
    slots = _slots()
    found: list[Example] = []
    for attack, shape, frame in _frames():
        most = COUNTED_WHOLE.get(shape, per_frame)
        kept = list(dict.fromkeys(_expand(frame, slots, chance) for _ in range(most * 2)))[:most]
        weight = 1.0 if shape in COUNTED_WHOLE else 1 / len(kept)
        found += (Example(text, attack, shape, weight) for text in kept)
    items = list(_items(found, chance))
    documentation = (Example(text, False, DOCUMENTATION, DOCUMENTATION_WEIGHT) for text in _documentation())
    return [*found, *items, *documentation, *_memories()]


def _items(texts: list[Example], chance: random.Random) -> Iterator[Example]:
    """Yield sound texts of several sentences, as memories are."""
    sound = [each.text for each in texts if not each.attack]
    for _ in range(ITEMS):
        between = chance.choice((" ", "\n"))
        yield Example(between.join(chance.sample(sound, chance.randint(2, 4))), False, ITEM, 1.0)


def _memories() -> Iterator[Example]:
    for attack, name in ((True, "memories_attacks"), (False, "memories_sound")):
        for line in (_TEXTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            memory = json.loads(line)
            text = "\n".join((memory["title"], memory["description"], memory["content"]))
            shape = memory["shape"]
            yield Example(text, attack, shape, WEIGHT_OF.get(shape, 1.0), memory["author"], memory.get("poison"))


def _frames() -> Iterator[tuple[bool, str, str]]:
    for attack, folder in ((True, "attacks"), (False, "benign")):
        for file in sorted((_TEXTS / folder).glob("*.txt")):
            for line in file.read_text(encoding="utf-8").splitlines():
                if line.strip():
                    yield attack, file.stem, line.replace("\\n", "\n")
    for each in attacks():
        if each.half == "dev":
            yield True, each.shape, each.text
    for sound in strategies():
        if half_of(sound.text) == "dev":
            yield False, sound.shape, sound.text


def _documentation() -> Iterator[str]:
    """Yield the paragraphs of prose in the docstrings of the standard library and in `help()`'s topics."""
    library = Path(sysconfig.get_path("stdlib"))
    found: dict[str, None] = {}
    for file in sorted(library.rglob("*.py")):
        if not _NO_PROSE.isdisjoint(file.relative_to(library).parts):
            continue
        tree = ast.parse(file.read_bytes())
        texts = (ast.get_docstring(node) for node in ast.walk(tree) if isinstance(node, _DOCUMENTED))
        if file.parent.name == "pydoc_data":
            constants = (node.value for node in ast.walk(tree) if isinstance(node, ast.Constant))
            texts = (each for each in constants if isinstance(each, str))
        found.update((" ".join(part.split()), None) for text in texts if text for part in text.split("\n\n"))
    for text in found:
        letters = sum(each.isalpha() or each == " " for each in text)
        if _SHORTEST <= len(text) <= _LONGEST and letters > _PROSE * len(text):
            yield text


def _slots() -> dict[str, list[str]]:
    lines = (_TEXTS / "slots.txt").read_text(encoding="utf-8").splitlines()
    return {name: values.split("|") for name, _, values in (line.partition(" = ") for line in lines)}


def _expand(frame: str, slots: dict[str, list[str]], chance: random.Random) -> str:
    """Return the frame with one alternative of each pair of braces, and a filling for each slot."""
    while found := _ALTERNATIVES.search(frame):
        frame = frame[: found.start()] + chance.choice(found[1].split("|")) + frame[found.end() :]
    filled = _SLOT.sub(lambda match: chance.choice(slots[match[1]]) if match[1] in slots else match[0], frame)
    return re.sub(r" +([,.;])", r"\1", re.sub(r"  +", " ", filled)).strip()
