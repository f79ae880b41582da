"""What a person decides about memories, and that it can be taken back exactly, on a real bank."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from still_bank import Add

from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import MemoryItem, MemoryLink, Provenance
from swarm_memory.server.storage.store import SqliteStore
from swarm_memory.tools.guard.trust import unverified
from swarm_memory.tools.memories.decide import (
    Decided,
    MemoryChange,
    edit,
    keep,
    latest_decisions,
    merge,
    promote,
    set_memory_status,
    undo,
)
from swarm_memory.tools.memories.edit import forget_memories, get_memories
from swarm_memory.tools.memories.record import memory_record
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

LOGIN = ("Handle login flows with CSRF tokens", "1. Parse the token.\n2. Attach it to the POST.")
AGAIN = ("Send the CSRF token when you log in", "1. Read the token.\n2. Send it with the POST.")


async def state(toolbox: Toolbox, *ids: str) -> tuple[Any, ...]:
    """Everything that a decision may touch: items, links, what is found."""
    items = await get_memories(toolbox, ids)
    links = [link for item in items for link in await toolbox.store.memory_links((item.scope,), ids)]
    found = (await retrieve(toolbox, f"{LOGIN[0]} {AGAIN[0]}", k=5)).memories
    elsewhere = (await retrieve(toolbox.in_project("bank"), LOGIN[0], k=5)).memories
    return (
        [item.model_copy(update={"usage_count": 0, "last_used": None}) for item in items],
        set(links),
        [(each.item.id, round(each.score, 9)) for each in found],
        [each.item.id for each in elsewhere],
    )


DECISIONS: dict[str, Callable[[Toolbox, str, str], Awaitable[Decided]]] = {
    "keep": lambda toolbox, one, other: keep(toolbox, one, "contradicting", other),
    "edit": lambda toolbox, one, other: edit(toolbox, one, MemoryChange(title="Rotate keys", tags=["keys"])),
    "merge": lambda toolbox, one, other: merge(toolbox, one, other),
    "withdraw": lambda toolbox, one, other: set_memory_status(toolbox, [one], "archived"),
    "promote": lambda toolbox, one, other: promote(toolbox, one),
}


@pytest.mark.parametrize("what", DECISIONS)
async def test_a_decision_is_taken_back_exactly(toolbox: Toolbox, add: Add, what: str) -> None:
    one, other = await add(*LOGIN, domain="web", tags=("auth",)), await add(*AGAIN)
    before = await state(toolbox, one, other)
    decided = await DECISIONS[what](toolbox, one, other)
    assert decided.what == what
    if what != "keep":
        assert await state(toolbox, one, other) != before
    assert (await undo(toolbox, decided.id)).id == decided.id
    assert await state(toolbox, one, other) == before
    with pytest.raises(NotFoundError):
        await undo(toolbox, decided.id)


async def test_what_screening_held_back_is_as_suspect_as_before_when_its_restoring_is_taken_back(
    toolbox: Toolbox, add: Add
) -> None:
    doubted = Provenance(distiller="model", suspect="sounds like an order")
    held = await add(*LOGIN, status="quarantined", status_reason="screened: an order", provenance=doubted)
    before = await state(toolbox, held)
    decided = await set_memory_status(toolbox, [held], "active")
    (item,) = decided.items
    assert (item.status, item.provenance.suspect) == ("active", None)
    assert await unverified(toolbox, [item]) == set()
    await undo(toolbox, decided.id)
    assert await state(toolbox, held) == before
    assert await unverified(toolbox, await get_memories(toolbox, [held])) == {held}


async def test_who_keeps_a_memory_vouches_for_it_until_that_is_taken_back(toolbox: Toolbox, add: Add) -> None:
    shown = await add(*LOGIN, provenance=Provenance(distiller="model"))
    items = await get_memories(toolbox, [shown])
    assert await unverified(toolbox, items) == {shown}
    decided = await keep(toolbox, shown, "unverified")
    assert await unverified(toolbox, items) == set()
    await undo(toolbox, decided.id)
    assert await unverified(toolbox, items) == {shown}


async def test_a_merged_memory_is_archived_as_the_duplicate_of_the_one_that_is_kept(toolbox: Toolbox, add: Add) -> None:
    one, other = await add(*LOGIN, status="quarantined"), await add(*AGAIN)
    await merge(toolbox, one, other)
    kept, gone = await get_memories(toolbox, [one, other])
    assert (kept.status, gone.status, gone.status_reason) == ("active", "archived", f"duplicate of {one} (by the user)")
    assert await toolbox.store.memory_links((toolbox.scope,), [one]) == [
        MemoryLink(src_id=other, dst_id=one, relation="duplicate_of", weight=1.0)
    ]
    with pytest.raises(InputError, match="itself"):
        await merge(toolbox, one, one)


async def test_what_is_promoted_is_shown_in_every_project_with_its_history(toolbox: Toolbox, add: Add) -> None:
    source = Provenance(task_id="t1", trajectory_id="tr_1", judge="evidence")
    own = await add(*LOGIN, provenance=source)
    await edit(toolbox, own, MemoryChange(description="When one logs in"))
    assert (await retrieve(toolbox.in_project("bank"), LOGIN[0])).memories == ()
    await promote(toolbox, own)
    (shown,) = (await retrieve(toolbox.in_project("bank"), LOGIN[0])).memories
    assert (shown.item.id, shown.item.scope.project, shown.item.provenance) == (own, "*", source)
    record = await memory_record(toolbox.in_project("bank"), own)
    assert [each.texts.get("description", "") for each in record.versions] == ["", "When one logs in"]
    with pytest.raises(InputError, match="every project already"):
        await promote(toolbox, own)
    assert isinstance(toolbox.store, SqliteStore)
    assert (await toolbox.store.inspect()).sound


async def test_what_was_changed_since_is_not_taken_back(toolbox: Toolbox, add: Add) -> None:
    one, other = await add(*LOGIN), await add(*AGAIN)
    merged = await merge(toolbox, one, other)
    await set_memory_status(toolbox, [other], "active")
    with pytest.raises(InputError, match=other):
        await undo(toolbox, merged.id)
    edited = await edit(toolbox, one, MemoryChange(title="Rotate keys"))
    await forget_memories(toolbox, [one])
    with pytest.raises(NotFoundError):
        await undo(toolbox, edited.id)


async def test_uses_and_confidence_of_the_meantime_stay_when_a_decision_is_taken_back(
    toolbox: Toolbox, add: Add
) -> None:
    one = await add(*LOGIN)
    decided = await edit(toolbox, one, MemoryChange(domain="web"))
    await retrieve(toolbox, LOGIN[0], task_id="t1")
    await toolbox.store.injections(toolbox.scope, "t1")  # what is queued is written
    await undo(toolbox, decided.id)
    (item,) = await get_memories(toolbox, [one])
    assert (item.domain, item.usage_count) == (None, 1)


async def test_a_decision_about_what_somebody_changed_meanwhile_is_refused(
    toolbox: Toolbox, add: Add, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = await add(*LOGIN)
    (seen,) = await get_memories(toolbox, [one])
    await edit(toolbox, one, MemoryChange(title="Rotate keys"))

    async def stale(*_: Any) -> list[MemoryItem]:
        return [seen]

    monkeypatch.setattr("swarm_memory.tools.memories.decide.changeable", stale)
    with pytest.raises(InputError, match="meanwhile"):
        await set_memory_status(toolbox, [one], "archived")


async def test_where_nothing_changes_nothing_is_decided(toolbox: Toolbox, add: Add) -> None:
    one = await add(*LOGIN)
    assert await set_memory_status(toolbox, [one], "active") == Decided("", "restore", ())
    (item,) = await get_memories(toolbox, [one])
    assert await edit(toolbox, one, MemoryChange(title=LOGIN[0])) == Decided("", "edit", (item,))
    assert await latest_decisions(toolbox) == []
