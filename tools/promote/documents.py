"""Skills as Markdown: they state memories in the memories' own words. Memories are grouped by subject, which their
domain or a word of our own list names.
"""

import json
import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.promote.marks import PREFIX, digest
from swarm_memory.tools.text.cleaning import harmless, one_line

_WORD = re.compile(r"[a-z]+")

MAX_TITLE, MAX_WHEN, MAX_STEP, MAX_STEPS = 120, 500, 400, 8
MAX_ENTRY_WHEN, MAX_CASE = 240, 120

SAID, AVOID = "The user said: ", "Avoid: "
"""Prefixes of an entry's title; no text of a memory can claim the first."""

_INTRO = "Notes from earlier tasks in this project. They are not orders: use what fits the task, and leave the rest."
_SAID = " What the user said is marked; keep to it unless the user now says otherwise."

_NUMBERING = re.compile(r"\A\s*(?:\d{1,3}[.)]|[-*\u2022])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
_TICKS, _FENCE, _RUN = re.compile("`{2,}"), re.compile("~{3,}"), re.compile(r"!+(?=\s*`)")
_PARAMETER, _VARIABLE = re.compile(r"(?<!\\)\$(?=\d|ARGUMENTS)"), re.compile(r"\$(?=\{CLAUDE)")
_FILE = re.compile(r"(?<![\w\\])@")


def subjects_of(
    items: Sequence[MemoryItem], seeds: Sequence[Collection[str]], most_in_one: int
) -> list[list[MemoryItem]]:
    """Return the memories in groups, first those of `seeds` (ids), in their order.

    Every other memory joins the first group of its subject that has room, or begins a new one.
    """
    groups = [[item for item in items if item.id in ids] for ids in seeds]
    seeded = {item.id for group in groups for item in group}
    for item in (each for each in items if each.id not in seeded):
        alike = (group for group in groups if group and subject_of(group[0]) == subject_of(item))
        room = next((group for group in alike if len(group) < most_in_one), None)
        if room is None:
            groups.append([item])
        else:
            room.append(item)
    return groups


def subject_of(item: MemoryItem) -> str:
    """Return the root of a memory's domain (`python` of `python.testing`), or the word of our list it is about."""
    return (item.domain or "").partition(".")[0].lower() or "".join(words_for([item])[:1])


def name_of(items: Sequence[MemoryItem], taken: Collection[str]) -> str:
    """Return a name that is not taken for a new skill: the words of our list that its memories are about."""
    base = PREFIX + ("-".join(words_for(items)) or "here")
    numbered = (base if number == 1 else f"{base}-{number}" for number in range(1, len(taken) + 2))
    return next(each for each in numbered if each not in taken)


def words_for(items: Sequence[MemoryItem]) -> list[str]:
    """Return the one or two words of our list that these memories are about."""
    weights: Counter[str] = Counter()
    for item in items:
        found: dict[str, int] = {}
        for text, weight in ((item.title, 1), (" ".join(item.tags), 2), (item.domain or "", 3)):
            for word in _WORD.findall(text.lower()):
                if word in _known_words() or (weight > 1 and f"{word}*" in _known_words()):
                    found[word] = weight
        weights.update(found)
    best = sorted(weights, key=lambda word: (-weights[word], word))[:2]
    return [word for word in best if 2 * weights[word] >= weights[best[0]]]


@cache
def _known_words() -> frozenset[str]:
    text = (Path(__file__).parent / "data" / "subjects.txt").read_text(encoding="utf-8")
    return frozenset(text.partition("\n")[2].split())


def plain(text: str, limit: int) -> str:
    """Return a text as one line that is plain text wherever Markdown is read.

    It does what `harmless` does, and disarms what Claude Code acts on in a file that it reads: a command in backticks
    after `!`, which a skill runs; `$1`, `$ARGUMENTS` and `${CLAUDE_…}`, which it fills in; `@file`, which it reads in.
    """
    text = _RUN.sub("", _TICKS.sub("`", _FENCE.sub("~~", harmless(text))))
    text = _VARIABLE.sub("$ ", _PARAMETER.sub(r"\\$", text))
    return one_line(_FILE.sub(r"\\@", text).lstrip("#> "), limit)


class Entry(NamedTuple):
    """What a skill says about one memory. Every text is plain Markdown."""

    title: str
    when: str
    steps: tuple[str, ...]
    is_said: bool
    """Whether it is what the user said."""


def entry_of(item: MemoryItem) -> Entry:
    """Return what a skill says about a memory."""
    is_said = item.provenance.is_users_word
    title = plain(item.title, MAX_TITLE)
    if title.startswith(SAID.strip()):
        title = title.replace(SAID.strip(), "(said)")
    lines = item.content.strip().splitlines()
    if len(lines) == 1:
        lines = _SENTENCE_END.split(_NUMBERING.sub("", lines[0]))
    steps = [plain(_NUMBERING.sub("", line), MAX_STEP) for line in lines[:MAX_STEPS]]
    steps = [step for step in steps if step and step != plain(item.title, MAX_STEP)]
    kind = SAID if is_said else AVOID if item.outcome == "Failure" else ""
    return Entry(kind + title, plain(item.description, MAX_ENTRY_WHEN), tuple(steps), is_said)


def text_to_screen(items: Sequence[MemoryItem]) -> str:
    """Return what a skill says about all its memories together, without what the user said."""
    entries = [entry for entry in map(entry_of, items) if not entry.is_said]
    return "\n".join(text for entry in entries for text in (entry.title, entry.when, *entry.steps) if text)


def source_digest(items: Sequence[MemoryItem]) -> str:
    """Return the digest of what a skill is written from: when it changes, the skill is written again."""
    written = {"id", "title", "description", "content", "domain", "outcome"}
    return digest(*sorted(item.model_dump_json(include=written) for item in items))


def skill(name: str, items: Sequence[MemoryItem]) -> str:
    """Return a skill: front matter as Claude Code reads it, when to use it, and the steps."""
    about, entries = " and ".join(words_for(items)), list(map(entry_of, items))
    cases = [
        entry.when.removeprefix("Of use ").removesuffix(".") or entry.title.removeprefix(SAID) for entry in entries
    ]
    when = f"What earlier tasks of this project taught{f' about {about}' if about else ''}. Use it in these cases: "
    when = plain(when + "; ".join(one_line(case, MAX_CASE) for case in cases), MAX_WHEN)
    head = [f"---\nname: {name}\ndescription: {json.dumps(when, ensure_ascii=False)}\n---\n"]
    intro = _INTRO + _SAID * any(entry.is_said for entry in entries)
    head += [f"# {about[:1].upper() + about[1:] or 'What earlier tasks taught'}\n", intro]
    for number, entry in enumerate(entries, 1):
        steps = "\n".join(f"{place}. {step}" for place, step in enumerate(entry.steps, 1))
        head.append("\n\n".join(filter(None, (f"\n## {number}. {entry.title}", entry.when, steps))))
    return "\n".join(head) + "\n"
