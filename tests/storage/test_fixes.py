"""What is known about a recurring error: only what still holds; the project's own and what worked more often first."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item
from made_work import AT, made_record

from swarm_memory.schema.base import GLOBAL_PROJECT, MEMORY, RUN, Scope, new_id
from swarm_memory.schema.memory import MemoryItem, MemoryLink, Provenance
from swarm_memory.schema.sqlite import events
from swarm_memory.schema.sqlite.statements import queries
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.tools.ports.records import TriedFix, UpkeepBatch, UpkeepChange

SIGNATURE, OTHER = "a" * 32, "b" * 32
SESSION = "6b9f1f0e-1111-4222-8333-444455556666"


@pytest.fixture
def learn(store: SqliteStore) -> Callable[..., Any]:
    """Return a function that stores a memory that ended errors of a signature, and returns the memory."""

    async def learned(
        title: str, signature: str = SIGNATURE, task_id: str = "", more: tuple[TriedFix, ...] = (), **fields: Any
    ) -> MemoryItem:
        made: MemoryItem = made_item(title, **fields)
        done = Trajectory(task_id=task_id or new_id(MEMORY), task=f"mend {title}")
        fixes = (TriedFix(signature, made.id), *more)
        record = made_record(done, stored(made, NUMBERS), scope=made.scope, tried_fixes=fixes)
        await store.save_learning(record)
        return made

    return learned


async def known(store: SqliteStore, signature: str = SIGNATURE, scope: Scope = HERE) -> list[str]:
    """Return the ids of what is known about an error, the surest first."""
    return [way.memory_id for way in await store.known_fixes(scope, [signature])]


async def test_what_worked_more_often_is_shown_first_and_a_task_counts_once(store: SqliteStore, learn: Any) -> None:
    often = await learn("Install it", confidence=0.2)
    seldom = await learn("Leave it out", confidence=0.9, task_id="t1")
    await learn("Something else", OTHER, task_id="t1", more=(TriedFix(SIGNATURE, seldom.id, worked=False),))
    assert [way[1:] for way in await store.known_fixes(HERE, [SIGNATURE])] == [
        (seldom.id, 1, 1, None),
        (often.id, 1, 1, None),
    ]
    await learn("A third thing", OTHER, task_id="t2", more=(TriedFix(SIGNATURE, seldom.id, worked=False),))
    ways = await store.known_fixes(HERE, [SIGNATURE])
    assert [way[1:] for way in ways] == [(often.id, 1, 1, None), (seldom.id, 1, 2, None)]
    assert await store.known_fixes(HERE, beside=[seldom.id]) == ways


async def test_that_tasks_keep_to_a_fix_is_noted_and_counts_for_no_error(store: SqliteStore, learn: Any) -> None:
    item = await learn("Install it", task_id="t0")
    for number in range(1, 12):
        await learn(f"Thing {number}", OTHER, task_id=f"t{number}", more=(TriedFix("", item.id),))
    (way,) = await store.known_fixes(HERE, [SIGNATURE])
    assert way[1:] == (item.id, 1, 1, None)
    assert len((await store.memory_histories([HERE], [item.id], [events.TRIED]))[item.id]) == 9


async def test_only_what_holds_is_known(store: SqliteStore, learn: Any) -> None:
    item = await learn("Install it")
    await store.set_status([HERE], [item.id], "quarantined", "suspect")
    assert await known(store) == []
    await store.set_status([HERE], [item.id], "active", "looked at")
    assert await known(store) == [item.id]
    await store.forget([HERE], [item.id])
    assert await known(store) == []
    rows = await store.read(lambda connection: connection.execute("SELECT count(*) FROM handles").fetchone())
    assert rows == (0,)


async def test_nothing_is_known_in_other_projects_and_tenants_and_global_memories_come_last(
    store: SqliteStore, learn: Any
) -> None:
    shared = await learn("Everywhere", scope=Scope(project=GLOBAL_PROJECT), confidence=0.9)
    mine = await learn("Here", confidence=0.1)
    await learn("Theirs", scope=Scope(tenant_id="t", project="here"))
    assert await known(store) == [mine.id, shared.id]
    assert await known(store, scope=Scope(project="there")) == [shared.id]


async def test_what_only_repeats_what_was_read_comes_after_the_others(store: SqliteStore, learn: Any) -> None:
    repeated = await learn("As the output said", confidence=0.9, provenance=Provenance(repeats_shown=True))
    found = await learn("As was found out", confidence=0.3)
    assert await known(store) == [found.id, repeated.id]


async def test_in_the_place_of_a_duplicate_stands_what_it_was_archived_for(store: SqliteStore, learn: Any) -> None:
    one, two, kept = await learn("Install it"), await learn("Install them"), await learn("Install all", OTHER)
    for gone, stays in ((one, two), (two, kept)):
        (seen,) = await store.upkeep_items_of(HERE, NUMBERS, [gone.id])
        change = UpkeepChange(seen, seen.confidence, "archived", f"duplicate of {stays.id}")
        link = MemoryLink(src_id=gone.id, dst_id=stays.id, relation="duplicate_of", weight=0.9)
        await store.write_upkeep(HERE, UpkeepBatch(new_id(RUN), AT, (change,), (link,)))
    assert await known(store) == [kept.id]


async def test_the_look_up_goes_by_the_indexes(store: SqliteStore) -> None:
    text = queries("fixes")
    values = dict.fromkeys(re.findall(r":(\w+)", " ".join(text.values())), "[]")
    plans = await store.read(
        lambda connection: {
            name: [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", values).fetchall()]
            for name, query in text.items()
            if name != "add_fix"
        }
    )
    # Only tables of a few rows are scanned: the recursive table, and the given ids.
    gone_through = {line for lines in plans.values() for line in lines if line.startswith("SCAN")}
    assert gone_through <= {"SCAN s", "SCAN json_each VIRTUAL TABLE INDEX 1:"}
    assert "SEARCH w USING PRIMARY KEY (handle=?)" in plans["fixes"]
    of_patterns = [line for line in plans["fixes"] if line.startswith("SEARCH p ")]
    assert len(of_patterns) == 3
    assert all("(id=?)" in line or "(rowid=?)" in line for line in of_patterns)
    assert not any("AUTOMATIC" in line for lines in plans.values() for line in lines)
