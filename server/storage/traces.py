"""Where traces of memories are in a bank: the records of their tasks, and every text that quotes them. It only reads.

What is done about them stands in `forgetting`.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.server.storage.rows import find_scopes, to_json

if TYPE_CHECKING:
    from swarm_memory.server.storage.engine.driver import Connection

MIN_PHRASE = 16
"""A line of fewer characters says too little to be known again in another text."""

TABLES = ("trajectories", "events", "sessions", "jobs", "runs", "benchmarks", "calls")
"""Where a memory may be quoted: each has its query `texts_of_…`."""

_QUERY_BEGINS = 200
"""By so many characters the words of a task are known again in a query."""

_FEW = 64
"""So many phrases are looked for one by one; more of them by their rarest words first."""

_NUMBER = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*])\s+")
_WORD = re.compile(r"\w+")
_QUERIES = queries("forgetting")


class Task(NamedTuple):
    """A task whose record is to go."""

    scope_id: int
    task_id: str


@dataclass(frozen=True, slots=True)
class Traces:
    """What is to be forgotten with some memories, and what stands in the way."""

    ids: tuple[str, ...]
    tasks: tuple[Task, ...]
    """Those that no memory rests on that stays, or that were asked for in any case."""
    trajectory_ids: tuple[str, ...]
    scope_ids: tuple[int, ...]
    """Every scope of the tenant."""
    phrases: "Phrases"
    quoting: Mapping[str, tuple[Any, ...]]
    """By table the rows that quote them."""
    queries: tuple[int, ...]
    """Events that hold the words of such a task as a query."""
    tools: tuple[tuple[int, str], ...]
    """Tools whose summary quotes them."""
    resting: tuple[str, ...]
    """Memories that stay, and for whose sake the record of a task stays."""
    alike: tuple[str, ...]
    """Memories that stay and hold the title of one that goes, or were archived as its duplicates."""


class Phrases:
    """Lines to be found again word for word, plain or as JSON has them."""

    def __init__(self, lines: Iterable[str]) -> None:
        stripped = (_NUMBER.sub("", line).strip() for line in lines)
        plain = dict.fromkeys(line for line in stripped if len(line) >= MIN_PHRASE)
        once = {line: to_json(line)[1:-1] for line in plain}
        twice = [to_json(line)[1:-1] for line in once.values()]
        # The longest first: a short one may be part of it.
        self.forms = sorted({*plain, *once.values(), *twice}, key=len, reverse=True)
        self._by_word: dict[str, list[str]] = {}
        if len(self.forms) > _FEW:
            words = {form: _WORD.findall(form) for form in self.forms}
            common = Counter(word for each in words.values() for word in set(each))
            for form, each in words.items():
                self._by_word.setdefault(min(each, key=common.__getitem__, default=""), []).append(form)

    def stand_in(self, texts: Iterable[str | None]) -> bool:
        """Whether any of the texts holds any of them."""
        return any(form in text for text in texts if text for form in self._possible(text))

    def taken_from(self, text: str | None, instead: str) -> str | None:
        """Return a text with another word in the place of each."""
        if not text:
            return text
        for form in self._possible(text):
            text = text.replace(form, instead)
        return text

    def _possible(self, text: str) -> Sequence[str]:
        if not self._by_word:
            return self.forms
        words = set(_WORD.findall(text)) & self._by_word.keys()
        return sorted((form for word in words for form in self._by_word[word]), key=len, reverse=True)


def find_traces(
    connection: "Connection", scopes: Sequence[Scope], ids: Sequence[str], *, with_trajectories: bool
) -> Traces:
    """Look through every table of the tenant. `with_trajectories`: records go that memories rest on which stay, too."""
    scope_ids = to_json(list(find_scopes(connection, scopes)))
    rows = connection.execute(_QUERIES["patterns_to_forget"], {"ids": to_json(list(ids)), "scope_ids": scope_ids})
    found = rows.fetchall()
    known = {row[0] for row in found}
    tasks: dict[Task, None] = {}
    resting: dict[str, None] = {}
    for task in dict.fromkeys(Task(row[1], row[2]) for row in found if row[2] is not None):
        others = [each for (each,) in connection.execute(_QUERIES["patterns_of_task"], task._asdict())]
        staying = [each for each in others if each not in known]
        resting |= dict.fromkeys(staying)
        if with_trajectories or not staying:
            tasks[task] = None
    versions = [
        row for task in tasks for row in connection.execute(_QUERIES["trajectories_of_task"], task._asdict()).fetchall()
    ]
    asked = Phrases(query[:_QUERY_BEGINS] for _, _, query, _ in versions)
    phrases = Phrases(line for row in found for line in _lines_of(connection, row[0], row[3]))
    tenant = tuple(row[0] for row in connection.execute(_QUERIES["scopes_of_tenants"], {"scope_ids": scope_ids}))
    quoting = {name: tuple(_quoting(connection, name, tenant, phrases)) for name in TABLES} if phrases.forms else {}
    return Traces(
        ids=tuple(known),
        tasks=tuple(tasks),
        trajectory_ids=tuple(row[1] for row in versions),
        scope_ids=tenant,
        phrases=phrases,
        quoting=quoting,
        queries=tuple(_quoting(connection, "events", tenant, asked)) if asked.forms else (),
        tools=tuple(_tools_quoting(connection, tenant, phrases)),
        resting=() if with_trajectories else tuple(resting),
        alike=tuple(_alike(connection, tenant, found, known)),
    )


def texts_of(
    connection: "Connection", name: str, scope_ids: Sequence[int], key: object = None
) -> Iterator[tuple[Any, ...]]:
    """Yield (key, text …) of the rows of a table, or of one; read to the end, or a cursor stays open."""
    values: dict[str, Any] = {"scope_ids": to_json(list(scope_ids)), "key": key}
    if name == "calls":
        del values["key"]
    yield from connection.execute(_QUERIES[f"texts_of_{name}"], values)


def _lines_of(connection: "Connection", memory_id: str, data: str) -> Iterator[str]:
    """Yield the lines that an item has, and those that it had."""
    edits = connection.execute(_QUERIES["former_texts"], (memory_id,)).fetchall()
    former = [json.loads(event).get("pattern_data") for (event,) in edits]
    for text in (data, *filter(None, former)):
        item = json.loads(text)
        yield item["title"]
        yield from item.get("description", "").splitlines()
        yield from item["content"].splitlines()


def _quoting(connection: "Connection", name: str, scope_ids: Sequence[int], phrases: Phrases) -> list[Any]:
    return [key for key, *texts in texts_of(connection, name, scope_ids) if phrases.stand_in(texts)]


def _tools_quoting(connection: "Connection", scope_ids: Sequence[int], phrases: Phrases) -> Iterator[tuple[int, str]]:
    for scope_id, tool, summary in connection.execute(
        _QUERIES["summaries_of_tools"], {"scope_ids": to_json(list(scope_ids))}
    ).fetchall():
        if phrases.stand_in((summary,)):
            yield scope_id, tool


def _alike(
    connection: "Connection", scope_ids: Sequence[int], found: Sequence[tuple[Any, ...]], gone: set[str]
) -> list[str]:
    titles = Phrases(json.loads(row[3])["title"] for row in found)
    linked = connection.execute(_QUERIES["duplicates_of"], {"ids": to_json(sorted(gone))}).fetchall()
    same = [each for (each,) in linked]
    if titles.forms:
        rows = connection.execute(_QUERIES["texts_of_patterns"], {"scope_ids": to_json(list(scope_ids))})
        same += [key for key, data in rows if titles.stand_in((data,))]
    return [each for each in dict.fromkeys(same) if each not in gone]
