"""What a hook tells of an error that came again: what still holds, once, as a retrieval is recorded, or nothing."""

import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.base import GLOBAL_PROJECT, MEMORY, RUN, TRAJECTORY, Scope, new_id
from swarm_memory.schema.errors import StoreBusy
from swarm_memory.schema.memory import MemoryItem, MemoryLink, Provenance
from swarm_memory.schema.outcome import LiftReport
from swarm_memory.schema.sqlite import events
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.location import Location
from swarm_memory.server.storage import hook_reader
from swarm_memory.server.storage.engine.lock import writer_lock
from swarm_memory.server.storage.hook_reader import HookBank, open_for_hook
from swarm_memory.server.storage.store import SqliteStore
from swarm_memory.tools.credit.holdout import Lots
from swarm_memory.tools.ports.journal import HostSession
from swarm_memory.tools.ports.trajectories import LearnRecord, TriedWay
from swarm_memory.tools.ports.upkeep import UpkeepBatch, UpkeepChange

NOW = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
SIGNATURE, OTHER = "a" * 32, "b" * 32
SESSION = "6b9f1f0e-1111-4222-8333-444455556666"


def opened(place: Location, wait_s: float) -> AbstractContextManager[HookBank]:
    return open_for_hook(place.database, ("default", place.project), wait_s)


NEVER, ALWAYS = Lots(), Lots(holdout_rate=1.0)


def first(ways: Sequence[tuple[str, str, str, int, int, int | None]], contradicting: object) -> tuple[str, list[str]]:
    return ways[0][0], [ways[0][0]]


@pytest.fixture
def place(database: Path, tmp_path: Path) -> Location:
    return Location(tmp_path / "here", database)


@pytest.fixture
async def store(open_bank: Any) -> AsyncGenerator[SqliteStore]:
    async with open_bank() as store:
        yield store


@pytest.fixture
def learn(store: SqliteStore, here: Scope, embedder: Any, item: Any, with_indexes: Any) -> Callable[..., Any]:
    """Store a memory that ended errors of a signature; return it."""

    async def learned(
        title: str, signature: str = SIGNATURE, task_id: str = "", more: tuple[TriedWay, ...] = (), **fields: Any
    ) -> MemoryItem:
        made: MemoryItem = item(title, **fields)
        record = LearnRecord(
            scope=made.scope,
            run_id=new_id(RUN),
            trajectory_id=new_id(TRAJECTORY),
            trajectory=Trajectory(task_id=task_id or new_id(MEMORY), task=f"mend {title}"),
            verdict=Verdict(label="Success", confidence=0.9, judge="evidence"),
            embedder=embedder.name,
            memories=(with_indexes(made, embedder),),
            reinforced=(),
            reinforcement=0.0,
            at=NOW,
            ways_out=(TriedWay(signature, made.id), *more),
        )
        await store.save_learning(record)
        return made

    return learned


def ask(place: Location, session: str = SESSION, signature: str = SIGNATURE, lots: Lots = NEVER) -> str | None:
    """Return the id of the surest way that the session was not told yet, told alone."""
    with opened(place, 0.3) as bank:
        return bank.tell_ways_out(session, signature, first, lots) or None


async def test_a_way_out_is_told_once_in_a_session_and_then_another(learn: Any, place: Location) -> None:
    sure, less = await learn("Install it", confidence=0.9), await learn("Leave it out", confidence=0.4)
    assert [ask(place), ask(place), ask(place)] == [sure.id, less.id, None]
    assert ask(place, session="another") == sure.id
    assert ask(place, session="another", signature=OTHER) is None


async def test_all_that_is_told_is_recorded_and_nothing_of_it_told_again(
    store: SqliteStore, learn: Any, place: Location, here: Scope
) -> None:
    items = [await learn(f"Way {number}", confidence=number / 10) for number in (9, 8, 7, 6)]
    ids = [item.id for item in items]

    def three(ways: Sequence[tuple[str, str, str, int, int, int | None]], _: object) -> tuple[str, list[str]]:
        return "told", [way[0] for way in ways[:3]]

    with opened(place, 0.3) as bank:
        assert bank.tell_ways_out(SESSION, SIGNATURE, three, NEVER) == "told"
    (event,) = await store.events_of_kind(here, events.RETRIEVED, 9)
    assert event.data["scores"] == dict.fromkeys(ids[:3], 1.0)
    assert [item.usage_count for item in await store.get_memories([here], ids)] == [1, 1, 1, 0]
    assert [ask(place), ask(place)] == [ids[3], None]


async def test_what_worked_more_often_is_told_first_and_a_task_counts_once(
    store: SqliteStore, learn: Any, place: Location, here: Scope
) -> None:
    often = await learn("Install it", confidence=0.2)
    seldom = await learn("Leave it out", confidence=0.9, task_id="t1")
    await learn("Something else", OTHER, task_id="t1", more=(TriedWay(SIGNATURE, seldom.id, worked=False),))
    assert [way[1:] for way in await store.known_ways(here, [SIGNATURE])] == [
        (seldom.id, 1, 1, None),
        (often.id, 1, 1, None),
    ]
    await learn("A third thing", OTHER, task_id="t2", more=(TriedWay(SIGNATURE, seldom.id, worked=False),))
    ways = await store.known_ways(here, [SIGNATURE])
    assert [way[1:] for way in ways] == [(often.id, 1, 1, None), (seldom.id, 1, 2, None)]
    assert await store.ways_beside(here, [seldom.id]) == ways
    assert [ask(place), ask(place)] == [often.id, seldom.id]


async def test_a_way_that_tasks_did_better_with_is_told_first(
    store: SqliteStore, learn: Any, place: Location, here: Scope
) -> None:
    sure, other = await learn("Install it", confidence=0.9), await learn("Leave it out", confidence=0.4)
    await store.save_lifts(here, {sure.id: -0.1, other.id: 0.1}, LiftReport(dropout=0.1))
    assert ask(place, session="without lots") == sure.id
    measured = Lots(dropout=1e-9, key=b"key")
    assert [ask(place, lots=measured), ask(place, lots=measured)] == [other.id, sure.id]


async def test_that_tasks_keep_to_a_way_is_noted_a_few_times_and_counts_for_no_error(
    store: SqliteStore, learn: Any, here: Scope
) -> None:
    item = await learn("Install it", task_id="t0")
    for number in range(1, 12):
        await learn(f"Thing {number}", OTHER, task_id=f"t{number}", more=(TriedWay("", item.id),))
    (way,) = await store.known_ways(here, [SIGNATURE])
    assert way[1:] == (item.id, 1, 1, None)
    assert len((await store.memory_histories([here], [item.id], [events.TRIED]))[item.id]) == 9


async def test_ways_that_a_link_sets_against_each_other_are_told_of(
    store: SqliteStore, learn: Any, place: Location, here: Scope
) -> None:
    one, other = await learn("Install it"), await learn("Do not install it")
    link = MemoryLink(src_id=other.id, dst_id=one.id, relation="contradicts", weight=0.9)
    await store.write_upkeep(here, UpkeepBatch(new_id(RUN), NOW, (), (link,)))
    seen: list[object] = []

    def look(
        ways: Sequence[tuple[str, str, str, int, int, int | None]], contradicting: object
    ) -> tuple[str, list[str]]:
        seen.append(contradicting)
        return first(ways, contradicting)

    with opened(place, 0.3) as bank:
        bank.tell_ways_out(SESSION, SIGNATURE, look, NEVER)
    assert seen == [{frozenset((one.id, other.id))}]


async def test_a_memory_that_ends_two_errors_is_not_told_twice_in_a_session(
    store: SqliteStore, learn: Any, place: Location, here: Scope
) -> None:
    first = await learn("Install it")
    await store.write(
        lambda connection: connection.execute(
            "INSERT INTO ways_out SELECT ?, seq FROM patterns WHERE id = ?", (OTHER, first.id)
        )
    )
    assert ask(place) == first.id
    assert ask(place, signature=OTHER) is None


async def test_only_what_holds_is_told(store: SqliteStore, learn: Any, place: Location, here: Scope) -> None:
    item = await learn("Install it")
    await store.set_status([here], [item.id], "quarantined", "suspect")
    assert ask(place, "s1") is None
    await store.set_status([here], [item.id], "active", "looked at")
    assert ask(place, "s1") == item.id
    await store.forget([here], [item.id])
    assert ask(place, "s2") is None
    rows = await store.read(lambda connection: connection.execute("SELECT count(*) FROM ways_out").fetchone())
    assert rows == (0,)


async def test_other_projects_and_tenants_are_told_nothing_and_global_memories_come_last(
    learn: Any, place: Location
) -> None:
    shared = await learn("Everywhere", scope=Scope(project=GLOBAL_PROJECT), confidence=0.9)
    mine = await learn("Here", confidence=0.1)
    await learn("Theirs", scope=Scope(tenant_id="t", project="here"))
    assert [ask(place), ask(place), ask(place)] == [mine.id, shared.id, None]
    assert ask(place._replace(root=place.root.with_name("there"))) == shared.id


async def test_what_only_repeats_what_was_told_comes_after_the_others(learn: Any, place: Location) -> None:
    told = await learn("As the output said", confidence=0.9, provenance=Provenance(hearsay=True))
    found = await learn("As was found out", confidence=0.3)
    assert [ask(place), ask(place)] == [found.id, told.id]


async def test_in_the_place_of_a_duplicate_stands_what_it_was_archived_for(
    store: SqliteStore, learn: Any, place: Location, here: Scope, embedder: Any
) -> None:
    one, two, kept = await learn("Install it"), await learn("Install them"), await learn("Install all", OTHER)
    for gone, stays in ((one, two), (two, kept)):
        (seen,) = await store.upkeep_items_of(here, embedder.name, embedder.dimensions, [gone.id])
        change = UpkeepChange(seen, seen.confidence, "archived", f"duplicate of {stays.id}")
        link = MemoryLink(src_id=gone.id, dst_id=stays.id, relation="duplicate_of", weight=0.9)
        await store.write_upkeep(here, UpkeepBatch(new_id(RUN), NOW, (change,), (link,)))
    assert [ask(place), ask(place)] == [kept.id, None]


async def test_the_telling_is_recorded_as_a_retrieval_of_the_sessions_task(
    store: SqliteStore, learn: Any, place: Location, here: Scope, embedder: Any
) -> None:
    item = await learn("Install it")
    session = HostSession(
        session_id=SESSION, scope=here, task_id=f"{SESSION}:2", task="ship", task_number=2, updated_at=NOW
    )
    await store.put_session(session)
    assert ask(place) == item.id
    given = await store.injections(here, f"{SESSION}:2")
    assert (list(given.given), given.withheld, given.held_out) == ([item.id], (), False)
    assert (await store.statistics(here, embedder.name)).retrievals == 1
    (event,) = await store.events_of_kind(here, events.RETRIEVED, 9)
    assert event.data["failure"] == SIGNATURE
    assert (event.data["session_id"], event.data["task_id"], event.data["query"]) == (SESSION, f"{SESSION}:2", "")
    (read,) = await store.get_memories([here], [item.id])
    assert read.usage_count == 1
    assert read.last_used is not None
    assert abs(read.last_used - datetime.now(UTC)) < timedelta(minutes=1)


async def test_a_held_out_task_is_told_nothing_and_its_record_says_what_was_kept_from_it(
    store: SqliteStore, learn: Any, place: Location, here: Scope, embedder: Any
) -> None:
    item = await learn("Install it")
    task_id = f"{SESSION}:2"
    await store.put_session(HostSession(session_id=SESSION, scope=here, task_id=task_id, updated_at=NOW))
    assert ask(place, lots=ALWAYS) is None
    given = await store.injections(here, task_id)
    assert (given.given, given.withheld, given.held_out) == ({}, (item.id,), True)
    assert (await store.statistics(here, embedder.name)).retrievals == 0
    assert ask(place, "no-task-yet", lots=ALWAYS) is None


async def test_a_busy_bank_tells_nothing_in_time_and_records_nothing(
    store: SqliteStore, learn: Any, place: Location, here: Scope
) -> None:
    item = await learn("Install it")
    started = time.monotonic()
    with writer_lock(place.database, 1), pytest.raises(StoreBusy), opened(place, 0.02) as bank:
        bank.tell_ways_out(SESSION, SIGNATURE, first, NEVER)
    assert time.monotonic() - started < 1
    assert await store.events_of_kind(here, events.TOLD_AT_FAILURE, 9) == []
    assert ask(place) == item.id


async def test_where_nothing_is_known_nothing_is_written_and_nobody_waited_for(learn: Any, place: Location) -> None:
    await learn("Install it")
    with writer_lock(place.database, 1), opened(place, 0.02) as bank:
        assert bank.tell_ways_out(SESSION, OTHER, first, NEVER) == ""


async def test_the_look_up_goes_by_the_indexes(store: SqliteStore, place: Location) -> None:
    text = hook_reader.queries("ways_out")
    values: dict[str, str] = dict.fromkeys(
        [
            "signature",
            "tenant_id",
            "project",
            "global",
            "team",
            "team_global",
            "limit",
            "session_id",
            "type",
            "tried",
            "ids",
            "id",
            "worked",
            "lifts",
        ],
        "[]",
    )
    plans = await store.read(
        lambda connection: {
            name: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()]
            for name, query in text.items()
            if name != "add_way_out"
        }
    )
    # What is gone through holds a few rows: the recursive table, and ids that were given.
    gone_through = {line for lines in plans.values() for line in lines if line.startswith("SCAN")}
    assert gone_through <= {"SCAN s", "SCAN json_each VIRTUAL TABLE INDEX 1:"}
    assert "SEARCH w USING PRIMARY KEY (signature=?)" in plans["ways_out"]
    of_patterns = [line for line in plans["ways_out"] if line.startswith("SEARCH p ")]
    assert len(of_patterns) == 3
    assert all("(id=?)" in line or "(rowid=?)" in line for line in of_patterns)
    assert not any("AUTOMATIC" in line for lines in plans.values() for line in lines)
    assert any("events_by_subject" in line for line in plans["told_at_failures"])


async def test_what_names_only_what_the_project_has_no_more_is_told_neither_at_a_failure_nor_in_a_briefing(
    place: Location, learn: Callable[..., Any]
) -> None:
    """A part of what it names is enough, and what names nothing always applies."""
    named = Provenance(distiller="model", judge="evidence", anchors=("script:make check", "file:a.py"))
    lost = await learn("Run make check", confidence=0.9, provenance=named)
    kept = await learn("Look at the log", confidence=0.4)

    def told(*there: str) -> list[list[str]]:
        found: list[list[str]] = []
        with open_for_hook(place.database, ("default", place.project), 0.1, there.__contains__) as bank:

            def every(
                ways: Sequence[tuple[str, str, str, int, int, int | None]], contradicting: object
            ) -> tuple[str, list[str]]:
                found.append([way[0] for way in ways])
                return "", []

            bank.tell_ways_out(SESSION, SIGNATURE, every, NEVER)
            found.append([row[0] for row in bank.briefing_rows(5)])
        return found

    assert told("file:a.py")[0] == [lost.id, kept.id]
    assert lost.id in told("file:a.py")[1]
    assert told() == [[kept.id], [each for each in told("file:a.py")[1] if each != lost.id]]
