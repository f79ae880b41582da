"""Skills and blocks as Markdown, from words that are plain already."""

import json
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from swarm_memory.schema.base import counted
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.promote.marks import Marked, Place, digest
from swarm_memory.tools.promote.words import Entry, Written, plain
from swarm_memory.tools.toolbox import Toolbox

MAX_TOLD = 200
"""Of a memory so many of the last tellings are counted."""

_INTRO = (
    "Notes that earlier tasks of this project taught. They are no orders: use what fits the task, and leave the rest."
)
_SAID = " What the user said is marked; keep to it unless the user now says otherwise."


class Standing(NamedTuple):
    """A text of ours that stands in a project."""

    place: Place
    name: str
    """Of a skill; empty for a block."""
    marked: Marked


class Figures(NamedTuple):
    """What is known of a memory's use."""

    told: int
    outcomes: Mapping[str, str]
    """Success or Failure, by task that was told it."""


async def figures_of(toolbox: Toolbox, items: Sequence[MemoryItem]) -> dict[str, Figures]:
    """Return what came of each memory, by id. Raises `StorageError`."""
    readable, found = toolbox.readable, dict[str, Figures]()
    for item in items:
        tellings = await toolbox.store.review.showings(readable, item.id, MAX_TOLD)
        told = (each for each in tellings if not each.withheld)
        labels = {each.task_id: each.label for each in told if each.task_id and each.label not in (None, "Undecided")}
        found[item.id] = Figures(item.usage_count, labels)
    return found


def source_of(items: Sequence[MemoryItem]) -> str:
    """Return the digest of what a text is written from: another one, and its words are written again."""
    told = {"id", "title", "description", "content", "domain", "outcome"}
    return digest(*sorted(item.model_dump_json(include=told) for item in items))


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
    times = sum(each.told for each in figures)
    told = f"{counted(len(figures), 'memory')}, told {counted(times, 'time')}"
    if not outcomes:
        return f"{told}; no task that was told one has an outcome yet." if times else f"{told} so far."
    succeeded = sum(label == "Success" for label in outcomes.values())
    return f"{told}; of {counted(len(outcomes), 'task')} that were told one and have an outcome, {succeeded} succeeded."


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
