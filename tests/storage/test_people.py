"""People of a tenant in the bank: found by how they are identified, and named on each row that they wrote."""

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item
from made_work import AT, WON, made_job

from swarm_memory.schema.base import PERSON, Scope, new_id
from swarm_memory.schema.sqlite.statements import Query
from swarm_memory.schema.team.person import Person
from swarm_memory.schema.tool_memory import ToolCall
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.storage.stores.team.people import ADDED, REVOKED, ROLE_CHANGED, TOKEN_MADE
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.records import BankEvent


@pytest.fixture(params=["auto", "postgres"])
def open_store(request: pytest.FixtureRequest, bank_on: Any) -> Any:
    """Open the test's bank on each engine."""
    return bank_on(request.param)


@pytest.fixture
async def store(open_store: Any) -> AsyncGenerator[Any]:
    async with open_store() as store:
        yield store


def person(name: str = "ada", **others: Any) -> Person:
    made: dict[str, Any] = {"id": new_id(PERSON), "tenant_id": "default", "name": name, "role": "write"}
    return Person.model_validate(made | {"created_at": AT} | others)


async def rows(store: Any, query: str) -> list[Any]:
    """Return the rows of a query that bypasses the stores."""
    named = Query(query)
    named.name = f"test.{query}"

    def read(connection: Any) -> list[Any]:
        return connection.execute(named).fetchall()

    return await store.read(read)


async def test_a_person_is_found_by_token_and_name_in_their_tenant_alone(store: Any) -> None:
    ada = person()
    people = store.people
    assert await people.add(ada, "hash-a")
    assert not await people.add(person("ada"), "hash-b")
    assert await people.add(person("ada", tenant_id="other"), "hash-c")
    assert await people.find("default", token_hash="hash-a") == ada
    assert await people.find("other", token_hash="hash-a") is None
    assert await people.find("default", name="ada") == ada
    assert await people.find("default", person_id=ada.id) == ada
    assert await people.find("other", person_id=ada.id) is None
    assert await people.find("default") is None
    assert await people.list("default") == [ada]


async def test_roles_tokens_and_revoking_count_at_once_and_stand_in_the_trail(store: Any) -> None:
    ada, root = person(), person("root", role="admin")
    await store.people.add(root, "r")
    mine = store.by(root.id).people
    await mine.add(ada, "old")
    await mine.set_role(ada, "review")
    await mine.set_token(ada, "new")
    assert await store.people.find("default", token_hash="old") is None
    assert (await store.people.find("default", token_hash="new")).role == "review"
    await mine.revoke(ada)
    assert await store.people.find("default", token_hash="new") is None
    assert (await store.people.find("default", name="ada")).revoked_at is not None
    await mine.set_token(ada, "again")
    assert await store.people.find("default", token_hash="again") is not None
    trail = await store.people.audit("default", 10)
    assert [each.action for each in trail] == [TOKEN_MADE, REVOKED, TOKEN_MADE, ROLE_CHANGED, ADDED, ADDED]
    assert {each.person for each in trail[:5]} == {"root"}
    assert (trail[5].person, trail[5].subject) == (None, "root")
    assert trail[3].data == {"from": "write", "to": "review"}
    assert await store.people.audit("other", 10) == []


async def test_every_row_that_a_person_writes_names_them_and_no_other_row_does(open_store: Any) -> None:
    ada = person()
    theirs, ours = made_item("Retry the upload"), made_item("Close the file")
    call = ToolCall(scope=HERE, tool_name="Bash", success=True, created_at=AT, call_id="c")
    async with open_store() as store:
        await store.people.add(ada, "hash")
        for bank, which, mark in ((store, ours, "o"), (store.by(ada.id), theirs, "t")):
            await bank.add_memories([stored(which, NUMBERS)], NUMBERS.name)
            await bank.save_verdict(HERE, f"tr_{mark}", Trajectory(task_id=mark, task=mark), WON)
            await bank.tool_memory.add_calls([call.model_copy(update={"call_id": mark})], 100)
            await bank.add_event(HERE, BankEvent("noted", AT, mark))
            await bank.record_retrieval(RetrievalRecord(f"rt_{mark}", HERE, "q", {which.id: 1.0}, 1.0, AT))
            await bank.enqueue(made_job(mark, id=f"job_{mark}"))
        assert await store.people.authors([HERE], [theirs.id, ours.id]) == {theirs.id: "ada"}
        assert await store.people.authors([Scope(project="there")], [theirs.id]) == {}
        assert (await store.get_job(HERE, "job_t")).person_id == ada.id
        await store.set_status([HERE], [theirs.id, ours.id], "archived", "done with")
        await store.recorder.settle()
        keys = {"patterns": "id", "task_trajectories": "task_id", "tool_calls": "call_id", "jobs": "key"}
        for table, key in keys.items():
            written = dict(await rows(store, f"SELECT {key}, person_id FROM {table}"))
            assert set(written) in ({"o", "t"}, {ours.id, theirs.id})
            assert {who for row, who in written.items() if row in ("t", theirs.id)} == {ada.id}
            assert {who for row, who in written.items() if row in ("o", ours.id)} == {None}
        events = await rows(store, "SELECT type, subject_id, person_id FROM events")
    by_ada = {(kind, subject) for kind, subject, who in events if who == ada.id}
    assert by_ada == {
        ("judged", "tr_t"),
        ("noted", "t"),
        ("reasoning_memory.created", theirs.id),
        ("reasoning_memory.retrieved", "rt_t"),
    }
    assert len(events) == 2 * len(by_ada) + 2  # and the archiving, by nobody


async def test_somebody_is_forgotten_with_what_they_brought_and_nobody_else_is(store: Any) -> None:
    ada, eve = person(), person("eve")
    for who in (ada, eve):
        await store.people.add(who, f"hash of {who.name}")
        theirs = store.by(who.id)
        brought = made_item(f"What {who.name} brought to all")
        await theirs.add_memories([stored(brought, NUMBERS)], NUMBERS.name)
        await theirs.save_verdict(HERE, f"tr_{who.name}", Trajectory(task_id=who.name, task=who.name), WON)
        call = ToolCall(scope=HERE, tool_name="Bash", success=True, created_at=AT, call_id=who.name)
        await theirs.tool_memory.add_calls([call], 100)
    ids = await store.people.contributed_ids(ada, 9)
    await store.forget(await store.people.scopes("default"), ids)
    assert await store.forget_person(ada) == 1
    assert [each.name for each in await store.people.list("default")] == ["eve"]
    assert await store.people.find("default", token_hash="hash of ada") is None
    assert [row[0] for row in await rows(store, "SELECT person_id FROM patterns")] == [eve.id]
    assert [row[0] for row in await rows(store, "SELECT person_id FROM tool_calls")] == [eve.id]
    assert dict(await rows(store, "SELECT task_id, query FROM task_trajectories")) == {
        "ada": "(forgotten)",
        "eve": "eve",
    }
    trail = await store.people.audit("default", 9)
    assert (trail[0].action, trail[0].subject_id, trail[0].subject) == ("person.forgotten", ada.id, None)
