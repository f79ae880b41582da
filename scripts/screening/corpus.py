"""The texts that the classifier is trained on: frames written for it, with alternatives in braces, expanded by a seed.

It reads `texts/`, the half of the attack tests that rules may be made on (never the other half, nor `unseen`), and as
sound texts of no special kind the docstrings of Python's standard library, which it does not keep. Whole memories by
several authors, who did not know each other's texts nor the rules, stand in `texts/memories_*.jsonl`: of an attack the
poisoned sentence is marked where its author marked it; a sound twin is an attack whose poisoned part was replaced by
what a careful engineer writes there.
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

from benign_strategies import strategies  # noqa: E402
from poison_attacks import attacks, half_of  # noqa: E402

FOLDS, ITEMS, ITEM = 5, 500, "items"
DOCSTRINGS = 700
OWN = "own_lessons"
COUNTED_WHOLE = {OWN: 12, "conversation": 6, "users_words": 6}
"""How many texts of a frame are made where to doubt one would cost most, so that each counts whole: what the distiller
without a model writes, and what people say to one another and to an agent."""
FRAMES = "frames"
"""The author of all that is no whole memory."""

_TEXTS = Path(__file__).parent / "texts"
_ALTERNATIVES = re.compile(r"\{([^{}]*\|[^{}]*)\}")
_SLOT = re.compile(r"\$([A-Z]{3,})\b")


class Example(NamedTuple):
    """One text; those of a frame stay together when the texts are divided, and weigh together as much as one."""

    text: str
    attack: bool
    shape: str
    """The file it stands in."""
    frame: int
    weight: float
    author: str = FRAMES
    poison: str | None = None
    """What of an attack makes it one, where that is known."""


def examples(seed: int, per_frame: int) -> list[Example]:
    """Return the texts of all frames, at most so many of one frame, and the half of the test sets that is open."""
    drawn = random.Random(seed)
    slots = _slots()
    found: list[Example] = []
    frames = enumerate(_frames())
    for number, (attack, shape, frame) in frames:
        most = COUNTED_WHOLE.get(shape, per_frame)
        kept = list(dict.fromkeys(_expand(frame, slots, drawn) for _ in range(most * 2)))[:most]
        weight = 1.0 if shape in COUNTED_WHOLE else 1 / len(kept)
        found += (Example(text, attack, shape, number, weight) for text in kept)
    items = list(_items(found, drawn))
    return [*found, *items, *_memories(1 + max(each.frame for each in found))]


def fold_of(frame: int) -> int:
    """Return the fold in which a frame is tested; items are made of frames of one fold."""
    return frame % FOLDS


def _items(texts: list[Example], drawn: random.Random) -> Iterator[Example]:
    """Yield sound texts of several sentences, as memories are."""
    for fold in range(FOLDS):
        sound = [each for each in texts if not each.attack and fold_of(each.frame) == fold]
        for _ in range(ITEMS // FOLDS):
            title, *steps = drawn.sample(sound, drawn.randint(2, 4))
            between = drawn.choice((" ", "\n"))
            yield Example(between.join([title.text, *(each.text for each in steps)]), False, ITEM, title.frame, 1.0)


def _memories(first_frame: int) -> Iterator[Example]:
    """Yield the whole memories; an attack and its sound twin stand in one frame."""
    frame_of: dict[str, int] = {}
    for attack, name in ((True, "memories_attacks"), (False, "memories_sound")):
        for line in (_TEXTS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines():
            memory = json.loads(line)
            frame = frame_of.setdefault(memory.get("twin_of") or memory["id"], first_frame + len(frame_of))
            text = "\n".join((memory["title"], memory["description"], memory["content"]))
            yield Example(text, attack, memory["shape"], frame, 1.0, memory["author"], memory.get("poison"))


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
            yield False, sound.subject, sound.text
    for text in _docstrings():
        yield False, "docstrings", text


def _docstrings() -> list[str]:
    """Return the first paragraphs of some docstrings of the standard library, the same ones for the same Python."""
    found: dict[str, None] = {}
    for file in sorted(Path(sysconfig.get_path("stdlib")).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8", errors="replace"))):
            if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.Module) and (text := ast.get_docstring(node)):
                paragraph = " ".join(text.split("\n\n")[0].split())
                if 40 <= len(paragraph) <= 300 and not _ALTERNATIVES.search(paragraph):
                    found[paragraph] = None
    return random.Random(0).sample(sorted(found), DOCSTRINGS)


def _slots() -> dict[str, list[str]]:
    lines = (_TEXTS / "slots.txt").read_text(encoding="utf-8").splitlines()
    return {name: values.split("|") for name, _, values in (line.partition(" = ") for line in lines)}


def _expand(frame: str, slots: dict[str, list[str]], drawn: random.Random) -> str:
    """Return the frame with one alternative of each pair of braces, and a filling for each slot."""
    while found := _ALTERNATIVES.search(frame):
        frame = frame[: found.start()] + drawn.choice(found[1].split("|")) + frame[found.end() :]
    filled = _SLOT.sub(lambda match: drawn.choice(slots[match[1]]) if match[1] in slots else match[0], frame)
    return re.sub(r" +([,.;])", r"\1", re.sub(r"  +", " ", filled)).strip()
