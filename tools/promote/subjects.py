"""Memories in groups by their subject, which their domain or a word of our own list names; and the name of a group."""

import re
from collections import Counter
from collections.abc import Collection, Sequence
from functools import cache
from pathlib import Path

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.promote.marks import PREFIX

_WORD = re.compile(r"[a-z]+")


def subjects_of(
    items: Sequence[MemoryItem], seeds: Sequence[Collection[str]], most_in_one: int
) -> list[list[MemoryItem]]:
    """Return the memories in groups, those of `seeds` (ids) first and in their order.

    Each other one joins the first group of its subject that has room, or begins one.
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
    """Return the name of a new skill: the words of our list that most of its memories have; none that is taken."""
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
