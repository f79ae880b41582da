"""Permanent deletion: memories, the records of their tasks, and every text in the bank that quotes them.

Labels and digests still tell which transcripts were learned from, and ids which calls were logged, so that the same
transcript does not bring any of it back.
"""

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from swarm_memory.schema.base import Scope
from swarm_memory.schema.sqlite.events import RETRIEVED, VERDICT
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.location import LOG, write_private
from swarm_memory.server.storage.driver import Connection
from swarm_memory.server.storage.search.index import Index
from swarm_memory.server.storage.stores.memories import delete_item, find_patterns
from swarm_memory.server.storage.stores.rows import Queries, content_hash, find_scopes, log_event, to_json
from swarm_memory.server.storage.stores.team.sharing import forget_shared
from swarm_memory.server.storage.stores.tool_memory import forget_words, leave_window
from swarm_memory.tools.ports.memories import Forgotten

MIN_PHRASE = 16
"""A line with fewer characters says too little to be recognized in another text."""

TABLES = ("trajectories", "events", "sessions", "jobs", "runs", "benchmarks", "calls")
"""Tables where a memory may be quoted: each has its query `texts_of_…`."""

_QUERY_BEGINS = 200
"""How many of the first characters of a task's text are used to recognize it in a query."""

_FEW = 64
"""Up to this many phrases are all searched for; if there are more, only those whose rarest word is in the text."""

_NUMBER = re.compile(r"^\s*(?:\d{1,3}[.)]|[-*])\s+")
_WORD = re.compile(r"\w+")

FORGOTTEN = "(forgotten)"
"""Replaces text that was removed."""

_COLUMNS = {
    "trajectories": ("blank_trajectory", ("query", "trajectory_json", "verdict_json")),
    "events": ("put_event", ("data",)),
    "sessions": ("put_session", ("task",)),
    "jobs": ("put_job", ("payload", "result", "error")),
    "runs": ("put_run", ("summary",)),
    "benchmarks": ("put_benchmark", ("settings", "results")),
}
_WORDS_OF_RUN = ("task", "preamble", "notes", "reason")
_WORDS_OF_ROLLOUT = ("notes", "error")
_SQL, _MEMORIES, _PEOPLE = Queries("forgetting"), Queries("memories"), Queries("people")


class Task(NamedTuple):
    """A task whose record is to lose its text."""

    scope_id: int
    task_id: str


class Traces(NamedTuple):
    """What is to be forgotten with some memories, and what stands in the way."""

    ids: tuple[str, ...]
    tasks: tuple[Task, ...]
    """Those that no remaining memory rests on, or that were requested in any case."""
    trajectory_ids: tuple[str, ...]
    scope_ids: tuple[int, ...]
    """Every scope of the tenant."""
    phrases: "Phrases"
    quoting: Mapping[str, tuple[Any, ...]]
    """By table, the keys of the rows that quote the phrases."""
    queries: tuple[int, ...]
    """Events whose query holds the text of such a task."""
    tools: tuple[tuple[int, str], ...]
    """(scope id, tool) of the tools whose summary quotes the phrases."""
    resting: tuple[str, ...]
    """Remaining memories for whose sake a task's record stays."""
    alike: tuple[str, ...]
    """Remaining memories that hold the title of a forgotten one, or were archived as its duplicates."""


class Phrases:
    """Lines to be found verbatim, plain or escaped as in JSON."""

    def __init__(self, lines: Iterable[str]) -> None:
        stripped = (_NUMBER.sub("", line).strip() for line in lines)
        plain = dict.fromkeys(line for line in stripped if len(line) >= MIN_PHRASE)
        once = {line: to_json(line)[1:-1] for line in plain}
        twice = [to_json(line)[1:-1] for line in once.values()]
        # The longest first: a shorter one may be part of a longer one.
        self.forms = sorted({*plain, *once.values(), *twice}, key=len, reverse=True)
        self._by_word: dict[str, list[str]] = {}
        if len(self.forms) > _FEW:
            words = {form: _WORD.findall(form) for form in self.forms}
            common = Counter(word for each in words.values() for word in set(each))
            for form, each in words.items():
                self._by_word.setdefault(min(each, key=common.__getitem__, default=""), []).append(form)

    def stand_in(self, texts: Iterable[str | None]) -> bool:
        """Whether any of the texts contains any of the lines."""
        return any(form in text for text in texts if text for form in self._possible(text))

    def taken_from(self, text: str | None, instead: str) -> str | None:
        """Return a text with each of the lines replaced by `instead`."""
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
    connection: Connection,
    scopes: Sequence[Scope],
    ids: Sequence[str],
    *,
    with_trajectories: bool,
    also: Sequence[Task] = (),
) -> Traces:
    """Search every table of the tenant. `with_trajectories`: also include records that remaining memories rest on.

    The records of the tasks in `also` are included in any case.
    """
    scope_ids = find_scopes(connection, scopes)
    found = _SQL.rows(connection, "patterns_to_forget", ids=ids, scope_ids=scope_ids)
    known = {row[0] for row in found}
    tasks: dict[Task, None] = dict.fromkeys(also)
    resting: dict[str, None] = {}
    for task in dict.fromkeys(Task(row[1], row[2]) for row in found if row[2] is not None):
        others = _SQL.column(connection, "patterns_of_task", **task._asdict())
        staying = [each for each in others if each not in known]
        resting |= dict.fromkeys(staying)
        if with_trajectories or not staying:
            tasks[task] = None
    versions = [row for task in tasks for row in _SQL.rows(connection, "trajectories_of_task", **task._asdict())]
    asked = Phrases(query[:_QUERY_BEGINS] for _, _, query, _ in versions)
    phrases = Phrases(line for row in found for line in _lines_of(connection, row[0], row[3]))
    tenant = tuple(_SQL.column(connection, "scopes_of_tenants", scope_ids=scope_ids))
    quoting = {name: tuple(_quoting(connection, name, tenant, phrases)) for name in TABLES} if phrases.forms else {}
    summaries = _SQL.rows(connection, "summaries_of_tools", scope_ids=tenant)
    titles = Phrases(json.loads(row[3])["title"] for row in found)
    same = _SQL.column(connection, "duplicates_of", ids=sorted(known))
    same += _quoting(connection, "patterns", tenant, titles) if titles.forms else []
    return Traces(
        ids=tuple(known),
        tasks=tuple(tasks),
        trajectory_ids=tuple(row[1] for row in versions),
        scope_ids=tenant,
        phrases=phrases,
        quoting=quoting,
        queries=tuple(_quoting(connection, "events", tenant, asked)) if asked.forms else (),
        tools=tuple((scope_id, tool) for scope_id, tool, summary in summaries if phrases.stand_in((summary,))),
        resting=() if with_trajectories else tuple(resting),
        alike=tuple(each for each in dict.fromkeys(same) if each not in known),
    )


def texts_of(
    connection: Connection, name: str, scope_ids: Sequence[int], key: object = None
) -> Iterator[tuple[Any, ...]]:
    """Yield (key, text, …) of the rows of a table, or of one row. Read it to the end, or a cursor stays open."""
    yield from _SQL.run(connection, f"texts_of_{name}", scope_ids=scope_ids, key=key)


def _lines_of(connection: Connection, memory_id: str, data: str) -> Iterator[str]:
    """Yield the lines of an item's present and former texts."""
    former = [json.loads(data).get("pattern_data") for data in _SQL.column(connection, "former_texts", memory_id)]
    for text in (data, *filter(None, former)):
        item = json.loads(text)
        yield item["title"]
        yield from item.get("description", "").splitlines()
        yield from item["content"].splitlines()


def _quoting(connection: Connection, name: str, scope_ids: Sequence[int], phrases: Phrases) -> list[Any]:
    return [key for key, *texts in texts_of(connection, name, scope_ids) if phrases.stand_in(texts)]


def forget(connection: Connection, index: Index, scopes: Sequence[Scope], traces: Traces) -> Forgotten:
    """Delete the memories and remove their traces from every table."""
    records = _take_out(connection, traces)
    for found in find_patterns(connection, scopes, traces.ids):
        _, item_id, scope_id, _ = found
        delete_item(connection, index, found)
        forget_shared(connection, item_id)
        log_event(connection, scope_id, "reasoning_memory.forgotten", item_id, {})
    if traces.ids:
        _MEMORIES.run(connection, "optimize_keyword_index")
    index.tidy(connection)
    return Forgotten(traces.ids, records, traces.resting, traces.alike)


def find_traces_of_person(connection: Connection, scopes: Sequence[Scope], person_id: str) -> Traces:
    """Find what a person contributed apart from memories: records of tasks, calls, queries."""
    tasks = [Task(*row) for row in _PEOPLE.rows(connection, "tasks_of_person", person_id, FORGOTTEN)]
    traces = find_traces(connection, scopes, (), with_trajectories=True, also=tasks)
    calls = tuple(_PEOPLE.column(connection, "calls_of_person", person_id))
    asked = _PEOPLE.column(connection, "retrievals_of_person", person_id, RETRIEVED)
    return traces._replace(
        quoting={**traces.quoting, "calls": calls}, queries=tuple(dict.fromkeys([*traces.queries, *asked]))
    )


def forget_person(connection: Connection, person_id: str, traces: Traces) -> int:
    """Remove a person's name and contributions apart from memories; return how many records lost their text."""
    blanked = _take_out(connection, traces)
    for scope_id, task_id in _PEOPLE.rows(connection, "verdicts_of_person", person_id, VERDICT):
        _SQL.run(connection, "clear_verdicts_of_task", scope_id=scope_id, task_id=task_id, type=VERDICT)
    _PEOPLE.run(connection, "drop_work_of_person", person_id)
    _PEOPLE.run(connection, "drop_person", person_id)
    return blanked


def _take_out(connection: Connection, traces: Traces) -> int:
    """Remove the traces from everything but the memories' own rows; return how many trajectories lost their text."""
    calls = set(traces.quoting.get("calls", ()))
    blanked = 0
    for task in traces.tasks:
        blanked += blank_task(connection, task, FORGOTTEN)
        # Its text is also in its jobs, and in what was retrieved for it.
        _SQL.run(connection, "clear_jobs_of_task", **task._asdict())
        _SQL.run(connection, "clear_queries_of_task", task_id=task.task_id, scope_ids=traces.scope_ids)
        calls.update(_SQL.column(connection, "calls_of_task", **task._asdict()))
    for seq in traces.queries:
        _SQL.run(connection, "clear_query", seq)
    for name in _COLUMNS:
        for key in traces.quoting.get(name, ()):
            _scrub(connection, traces, name, key)
    # Calls leave the window of their tools as old ones do: totals and ids stay, words do not.
    tools = {*traces.tools, *leave_window(connection, sorted(calls))}
    for tool in tools:
        _SQL.run(connection, "clear_summary", *tool)
        _SQL.run(connection, "summarize_again", *tool)
    if tools:
        forget_words(connection)
    return blanked


def take_out_of_log(folder: Path, traces: Traces) -> int:
    """Remove the lines that quote what is forgotten from the log file next to the bank; return how many."""
    taken = 0
    for path in (folder / LOG, folder / f"{LOG}.1"):
        if not path.is_file() or path.is_symlink():
            continue
        lines = path.read_text("utf-8", errors="replace").splitlines(keepends=True)
        kept = [line for line in lines if not traces.phrases.stand_in((line,))]
        if len(kept) == len(lines):
            continue
        taken += len(lines) - len(kept)
        write_private(path, "".join(kept))
    return taken


def blank_task(connection: Connection, task: Task, instead: str) -> int:
    """Replace a task's text in its record with `instead`; return how many trajectories this changed.

    Label, confidence and digest stay, so that its transcript is recognized when it comes again.
    """
    values = task._asdict()
    rows = _SQL.rows(connection, "trajectories_of_task", **values)
    for seq, trajectory_id, _, verdict in rows:
        text = Trajectory(task_id=task.task_id, task=instead).model_dump_json(exclude_defaults=True)
        if verdict is not None:
            judged = Verdict.model_validate_json(verdict).model_copy(update={"reasons": (), "evidence": ()})
            verdict = judged.model_dump_json()
        _put_trajectory(connection, seq, trajectory_id, instead, text, verdict)
    for run_id, summary in _SQL.rows(connection, "runs_of_task", **values):
        if summary is not None:
            kept: dict[str, Any] = json.loads(summary)
            parts = [(kept, _WORDS_OF_RUN), *((each, _WORDS_OF_ROLLOUT) for each in kept.get("rollouts", ()))]
            for part, words in parts:
                for name in words:
                    part.pop(name, None)
            _SQL.run(connection, "put_run", key=run_id, summary=kept)
    _SQL.run(connection, "clear_session_of_task", **values, query=instead)
    _SQL.run(connection, "clear_verdicts_of_task", **values, type=VERDICT)
    return len(rows)


def _put_trajectory(
    connection: Connection, seq: int, trajectory_id: str, query: str | None, text: str | None, verdict: str | None
) -> None:
    texts = {"query": query, "trajectory_json": text, "verdict_json": verdict}
    _SQL.run(connection, "blank_trajectory", **texts, key=seq, content_hash=content_hash(trajectory_id, text or ""))


def _scrub(connection: Connection, traces: Traces, name: str, key: Any) -> None:
    """Remove the phrases from the texts of one row of a table."""
    put, columns = _COLUMNS[name]
    for _, *texts in list(texts_of(connection, name, traces.scope_ids, key)):
        changed = [traces.phrases.taken_from(each, FORGOTTEN) for each in texts]
        if name == "trajectories":
            _put_trajectory(connection, key, _SQL.column(connection, "trajectory_id", key)[0], *changed)
        else:
            values = dict(zip(columns, changed, strict=True))
            _SQL.run(connection, put, key=key, scope_ids=traces.scope_ids, **values)
