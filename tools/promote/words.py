"""What a skill or a block says of the memories of one subject, in their own words."""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.promote.subjects import words_for
from swarm_memory.tools.text.cleaning import harmless, one_line

MAX_TITLE, MAX_WHEN, MAX_STEP, MAX_STEPS = 120, 500, 400, 8
MAX_ENTRY_WHEN = 240

SAID, AVOID = "The user said: ", "Avoid: "
"""Begin the title of an entry; no text of a memory can claim the first."""

_NUMBERING = re.compile(r"\A\s*(?:\d{1,3}[.)]|[-*\u2022])\s+")
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
_TICKS, _FENCE, _RUN = re.compile("`{2,}"), re.compile("~{3,}"), re.compile(r"!+(?=\s*`)")
_PARAMETER, _VARIABLE = re.compile(r"(?<!\\)\$(?=\d|ARGUMENTS)"), re.compile(r"\$(?=\{CLAUDE)")
_FILE = re.compile(r"(?<![\w\\])@")


class Entry(NamedTuple):
    """What stands for one memory. Every text is `plain`."""

    memory_id: str
    title: str
    when: str
    steps: tuple[str, ...]

    @property
    def is_said(self) -> bool:
        """Whether it is what the user said."""
        return self.title.startswith(SAID)


class Written(NamedTuple):
    """The words for one subject. Every text is `plain`."""

    title: str
    when: str
    entries: tuple[Entry, ...]

    def of(self, ids: Collection[str]) -> "Written":
        """Return it with the entries of these memories alone."""
        return self._replace(entries=tuple(entry for entry in self.entries if entry.memory_id in ids))

    def texts(self) -> Iterator[str]:
        """Yield every text of it."""
        yield from (self.title, self.when)
        for entry in self.entries:
            yield from filter(None, (entry.title, entry.when, *entry.steps))


def plain(text: str, limit: int) -> str:
    """Return a text as one line that means nothing but itself, wherever Markdown is read.

    As `harmless` does; and of what Claude Code acts on in a file that it reads, nothing is left: a command between
    backticks after `!`, which a skill runs; `$1`, `$ARGUMENTS` and `${CLAUDE_…}`, which it fills in; `@file`, read in.
    """
    text = _RUN.sub("", _TICKS.sub("`", _FENCE.sub("~~", harmless(text))))
    text = _VARIABLE.sub("$ ", _PARAMETER.sub(r"\\$", text))
    return one_line(_FILE.sub(r"\\@", text).lstrip("#> "), limit)


def written(items: Sequence[MemoryItem]) -> Written:
    """Return the words for a subject, the surest memories first."""
    entries = tuple(map(_entry, sorted(items, key=lambda item: (-item.provenance.standing, -item.confidence, item.id))))
    about = " and ".join(words_for(items))
    cases = [
        one_line(entry.when.removeprefix("Of use ").removesuffix(".") or entry.title.removeprefix(SAID), 120)
        for entry in entries
    ]
    when = f"What earlier tasks of this project taught{f' about {about}' if about else ''}. Use it in these cases: "
    return Written(
        (about[:1].upper() + about[1:]) or "What earlier tasks taught",
        plain(when + "; ".join(cases), MAX_WHEN),
        entries,
    )


def _entry(item: MemoryItem) -> Entry:
    kind = SAID if item.provenance.is_users_word else AVOID if item.outcome == "Failure" else ""
    title = plain(item.title, MAX_TITLE)
    if title.startswith(SAID.strip()):
        title = title.replace(SAID.strip(), "(said)")
    lines = item.content.strip().splitlines()
    if len(lines) == 1:
        lines = _SENTENCE_END.split(_NUMBERING.sub("", lines[0]))
    steps = [plain(_NUMBERING.sub("", line), MAX_STEP) for line in lines[:MAX_STEPS]]
    steps = [step for step in steps if step and step != plain(item.title, MAX_STEP)]
    return Entry(item.id, kind + title, plain(item.description, MAX_ENTRY_WHEN), tuple(steps))
