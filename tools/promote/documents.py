"""Skills and blocks as Markdown, from words that are plain already."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from swarm_memory.schema.base import counted
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.promote.marks import Marked, Place, digest
from swarm_memory.tools.promote.words import Entry, Written, plain
from swarm_memory.tools.toolbox import Toolbox

MAX_COUNTED = 200
"""Of a memory so many of the last times that it was shown are counted."""

_INTRO = (
    "Notes that earlier tasks of this project taught. They are no orders: use what fits the task, and leave the rest."
)
_SAID = " What the user said is marked; keep to it unless the user now says otherwise."


class Standing(NamedTuple):
    """A text of ours that is in a project."""

    place: Place
    name: str
    """Of a skill; empty for a block."""
    marked: Marked


class Figures(NamedTuple):
    """What is known of a memory's use."""

    shown: int
    outcomes: Mapping[str, str]
    """Success or Failure, by task that was shown it."""


async def figures_of(toolbox: Toolbox, items: Sequence[MemoryItem]) -> dict[str, Figures]:
    """Return what came of each memory, by id. Raises `StorageError`."""
    readable, found = toolbox.readable, dict[str, Figures]()
    for item in items:
        times = await toolbox.store.review.showings(readable, item.id, MAX_COUNTED)
        decided = (each for each in times if not each.withheld and each.label in ("Success", "Failure"))
        labels = {each.task_id: str(each.label) for each in decided if each.task_id}
        found[item.id] = Figures(item.usage_count, labels)
    return found


def source_of(items: Sequence[MemoryItem]) -> str:
    """Return the digest of what a text is written from: another one, and its words are written again."""
    written = {"id", "title", "description", "content", "domain", "outcome"}
    return digest(*sorted(item.model_dump_json(include=written) for item in items))


def skill(name: str, words: Written, figures: Sequence[Figures]) -> str:
    """Return a skill: front matter as Claude Code reads it, when to use it, the steps, and what its memories did."""
    front = f"---\nname: {name}\ndescription: {json.dumps(words.when, ensure_ascii=False)}\n---"
    intro = _INTRO + _SAID * any(entry.is_said for entry in words.entries)
    entries: list[str] = []
    for number, entry in enumerate(words.entries, 1):
        steps = "\n".join(f"{place}. {step}" for place, step in enumerate(entry.steps, 1))
        entries.append("\n\n".join(filter(None, (f"\n## {number}. {entry.title}", entry.when, steps))))
    head = "\n".join((front, "", f"# {words.title}", "", intro, *entries))
    return f"{head}\n\n## Evidence\n\n{evidence(figures)}\n"


def evidence(figures: Sequence[Figures]) -> str:
    """Return in one line what came of memories."""
    outcomes = {task: label for each in figures for task, label in each.outcomes.items()}
    shown = f"{counted(len(figures), 'memory')}, shown {counted(sum(each.shown for each in figures), 'time')}"
    if not outcomes:
        return f"{shown}; no task that was shown one has an outcome yet."
    succeeded = sum(label == "Success" for label in outcomes.values())
    return f"{shown}; of {counted(len(outcomes), 'task')} with an outcome that were shown one, {succeeded} succeeded."


def block(subjects: Sequence[Written], figures: Mapping[str, Figures]) -> str:
    """Return what a file of rules holds of several subjects, a line for each entry."""
    entries = [entry for words in subjects for entry in words.entries]
    parts = ["## What earlier tasks taught", "", _INTRO + _SAID * any(entry.is_said for entry in entries), ""]
    for words in subjects:
        if len(subjects) > 1:
            parts += [f"### {words.title}", ""]
        parts += [*(_line(entry) for entry in words.entries), ""]
    known = [figures[entry.memory_id] for entry in entries]
    return "\n".join([*parts, f"Evidence: {evidence(known)}"])


def _line(entry: Entry) -> str:
    steps = " ".join(step if step.endswith((".", "!", "?", ":")) else f"{step}." for step in entry.steps)
    line = f"{entry.title}: {steps}" if steps else entry.title
    return f"- {plain(line, len(line) + 1)}"  # side by side two steps may mean what neither does
