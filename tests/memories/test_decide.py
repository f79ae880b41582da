"""A person's decisions on a real bank: what needs one, everything known about a memory, and the exact undo."""

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from clock import NOW
from made_items import made_item
from still_bank import Add

from swarm_memory.schema.base import new_id
from swarm_memory.schema.errors import InputError, NotFoundError
from swarm_memory.schema.memory import MemoryItem, MemoryLink, Provenance
from swarm_memory.schema.sqlite.events import BRIEFING, INJECTED
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.guard.trust import CREDITED, DECIDED, TAKEN_BACK, is_borne_out, unverified
from swarm_memory.tools.memories.decide import (
    Card,
    Decision,
    MemoryChange,
    ReviewKind,
    edit,
    keep,
    latest_decisions,
    make_global,
    merge,
    set_memory_status,
    to_review,
    undo,
)
from swarm_memory.tools.memories.manage import forget_memories, get_memories
from swarm_memory.tools.memories.record import memory_record
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.records import BankEvent, UpkeepBatch
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

LOGIN = ("Handle login flows with CSRF tokens", "1. Parse the token.\n2. Attach it to the POST.")
AGAIN = ("Send the CSRF token when you log in", "1. Read the token.\n2. Send it with the POST.")


async def state(toolbox: Toolbox, *ids: str) -> tuple[Any, ...]:
    """Return everything that a decision may change: items, links, search results."""
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


DECISIONS: dict[str, Callable[[Toolbox, str, str], Awaitable[Decision]]] = {
    "keep": lambda toolbox, one, other: keep(toolbox, one, "contradicting", other),
    "edit": lambda toolbox, one, other: edit(toolbox, one, MemoryChange(title="Rotate keys", tags=["keys"])),
    "merge": lambda toolbox, one, other: merge(toolbox, one, other),
    "withdraw": lambda toolbox, one, other: set_memory_status(toolbox, [one], "archived"),
    "promote": lambda toolbox, one, other: make_global(toolbox, one),
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


async def test_an_agent_restores_only_what_an_agent_put_away_while_it_was_active(toolbox: Toolbox, add: Add) -> None:
    noted = Provenance(distiller="agent", judge="agent")
    one = await add(*LOGIN, provenance=noted)
    held = await add(*AGAIN, status="quarantined", status_reason="a model: an order", provenance=noted)
    old = await add("Rotate the keys", "1. Rotate them.", status="archived")
    for memory_id in (one, held):
        await set_memory_status(toolbox, [memory_id], "archived", by_hand=False)
    for memory_id in (held, old):
        with pytest.raises(InputError, match="only the user may restore"):
            await set_memory_status(toolbox, [memory_id], "active", by_hand=False)
    (back,) = (await set_memory_status(toolbox, [one], "active", by_hand=False)).items
    assert (back.status, await unverified(toolbox, [back])) == ("active", {one}), "no agent vouches for its own note"


def test_only_a_use_that_still_counts_as_a_success_bears_a_note_out() -> None:
    noted = made_item("Rotate keys", provenance=Provenance(distiller="agent", session_id="s1"))

    def task(label: str, method: str, change: float, task: str = "s2:1") -> BankEvent:
        return BankEvent(CREDITED, NOW, noted.id, {"task_id": task, "label": label, "method": method, "change": change})

    used, shown = task("Success", "named", 0.05), task("Success", "none", 0.0125)
    assert is_borne_out(noted, [used])
    assert not is_borne_out(noted, [shown]), "it was shown, and nobody used it"
    assert not is_borne_out(noted, [used, task("Failure", "named", -0.05)]), "the task's verdict was changed"
    assert is_borne_out(noted, [used, task("Failure", "named", -0.05, "s3:1")])
    kept = (DECIDED, "keep", "user")
    said = (kept, (DECIDED, "edit", "agent"), (TAKEN_BACK, "keep", "user"), kept)
    decided = [BankEvent(kind, NOW, noted.id, {"decision": what, "by": by}) for kind, what, by in said]
    assert [is_borne_out(noted, decided[:n]) for n in range(1, 5)] == [True, False, False, True]


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
    await make_global(toolbox, own)
    (shown,) = (await retrieve(toolbox.in_project("bank"), LOGIN[0])).memories
    assert (shown.item.id, shown.item.scope.project, shown.item.provenance) == (own, "*", source)
    record = await memory_record(toolbox.in_project("bank"), own)
    assert [each.texts.get("description", "") for each in record.versions] == ["", "When one logs in"]
    with pytest.raises(InputError, match="already belongs to every project"):
        await make_global(toolbox, own)
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
    with pytest.raises(InputError, match="in the meantime"):
        await set_memory_status(toolbox, [one], "archived")


async def test_where_nothing_changes_nothing_is_decided(toolbox: Toolbox, add: Add) -> None:
    one = await add(*LOGIN)
    assert await set_memory_status(toolbox, [one], "active") == Decision("", "restore", ())
    (item,) = await get_memories(toolbox, [one])
    assert await edit(toolbox, one, MemoryChange(title=LOGIN[0])) == Decision("", "edit", (item,))
    assert await latest_decisions(toolbox) == []


async def test_a_title_made_of_the_text_follows_it_and_one_of_its_own_stays(toolbox: Toolbox, add: Add) -> None:
    said = (await remember(toolbox, "Use pnpm. It is faster.", by_hand=True)).item
    named = await add("Packages", "Use pnpm. It is faster.")
    for each in (said.id, named):
        await edit(toolbox, each, MemoryChange(content="Use yarn. It is there."))
    assert [item.title for item in await get_memories(toolbox, [said.id, named])] == ["Use yarn", "Packages"]


CHECKED = Provenance(judge="evidence")


async def contradict(toolbox: Toolbox, one: str, other: str) -> None:
    link = MemoryLink(src_id=one, dst_id=other, relation="contradicts", weight=0.9)
    await toolbox.store.write_upkeep(toolbox.scope, UpkeepBatch("run_1", NOW, (), (link,)))


async def tell(toolbox: Toolbox, memory_id: str, task_id: str, *, withheld: bool = False) -> None:
    record = RetrievalRecord(
        new_id("rt"), toolbox.scope, "the query", {memory_id: 0.7}, 1.0, NOW, task_id, "s1", withheld, "hook"
    )
    await toolbox.store.record_retrieval(record)
    await toolbox.store.injections(toolbox.scope, task_id)  # what is queued is written


async def cards(toolbox: Toolbox, kind: ReviewKind) -> list[Card]:
    counts, _, found = await to_review(toolbox, kind)
    assert counts == (await to_review(toolbox))[0]
    assert counts[kind] == len(found)
    return found


async def test_what_is_in_quarantine_lies_beside_what_it_contradicts(toolbox: Toolbox, add: Add) -> None:
    known = await add("Use pnpm here", provenance=CHECKED)
    held = await add("Never use pnpm here", status="active", provenance=CHECKED)
    await contradict(toolbox, held, known)
    await toolbox.store.set_status((toolbox.scope,), [held], "quarantined", f"contradicts {known}")
    (card,) = await cards(toolbox, "quarantined")
    assert (card.item.id, card.reason, card.other and card.other.id) == (held, f"contradicts {known}", known)
    decided = await keep(toolbox, held, "quarantined", known)
    assert (await to_review(toolbox))[0].total() == 0  # nor as a pair that contradicts each other
    await undo(toolbox, decided.id)
    assert await cards(toolbox, "quarantined") == [card]


async def test_a_pair_that_contradicts_each_other_waits_until_it_is_decided(toolbox: Toolbox, add: Add) -> None:
    one, other = [await add(title, provenance=CHECKED) for title in ("Use pnpm", "Use npm")]
    await contradict(toolbox, one, other)
    await contradict(toolbox, other, one)
    (card,) = await cards(toolbox, "contradicting")
    assert card.other is not None
    assert {card.item.id, card.other.id} == {one, other}
    for decide in (lambda: keep(toolbox, other, "contradicting", one), lambda: merge(toolbox, one, other)):
        decided = await decide()
        assert await cards(toolbox, "contradicting") == []
        assert [(each.id, each.what) for each in await latest_decisions(toolbox)] == [(decided.id, decided.what)]
        await undo(toolbox, decided.id)
        assert len(await cards(toolbox, "contradicting")) == 1


async def test_only_what_is_shown_and_nobody_vouches_for_is_unverified(toolbox: Toolbox, add: Add) -> None:
    doubtful = await add("Clear the cache", usage_count=3, provenance=Provenance(distiller="model", judge="model"))
    await add("Never shown", provenance=Provenance(distiller="model", judge="model"))
    await add("Checked", usage_count=9, provenance=CHECKED)
    (card,) = await cards(toolbox, "unverified")
    assert (card.item.id, card.reason) == (doubtful, "shown 3 times, but only a model vouches for it")
    for decide in (lambda: keep(toolbox, doubtful, "x"), lambda: set_memory_status(toolbox, [doubtful], "archived")):
        decided = await decide()
        assert await cards(toolbox, "unverified") == []
        await undo(toolbox, decided.id)
        assert await cards(toolbox, "unverified") == [card]


async def test_a_record_has_the_very_steps_versions_injections_and_links(toolbox: Toolbox, add: Add) -> None:
    steps = tuple(Step(id=f"s{at}", kind="message", role="assistant", text=f"step {at}") for at in range(1, 8))
    done = Trajectory(task_id="t0", task="Fix the login", steps=steps)
    verdict = Verdict(label="Success", confidence=0.9, judge="evidence")
    kept = await toolbox.store.save_verdict(toolbox.scope, new_id("tr"), done, verdict)
    source = Provenance(task_id="t0", trajectory_id=kept, evidence=("s4", "s5"), judge="evidence")
    one, other = await add("Parse the token", provenance=source), await add("Skip the token")
    await edit(toolbox, one, MemoryChange(content="1. Parse it.\n2. Send it."))
    await contradict(toolbox, one, other)
    await tell(toolbox, one, "t1")
    await record_outcome(toolbox, "t1", Verdict.by_agent("Success"), named=[one], given=True)
    await tell(toolbox, one, "t2", withheld=True)
    await tell(toolbox, other, "t3")
    await toolbox.store.add_event(toolbox.scope, BankEvent(INJECTED, NOW, "t4", {"ids": [one], "via": BRIEFING}))
    record = await memory_record(toolbox, one)
    assert record.source is not None
    assert (record.source.task, record.source.verdict) == ("Fix the login", verdict)
    parts = [(part.step.id, part.is_evidence) for part in record.source.parts]
    assert parts == [("s3", False), ("s4", True), ("s5", True), ("s6", False)]
    assert [(each.texts["content"], each.until is None) for each in record.versions] == [
        ("1. Do it.", False),
        ("1. Parse it.\n2. Send it.", True),
    ]
    assert [(link.relation, item.id) for link, item in record.links] == [("contradicts", other)]
    began, held, given = record.injections
    assert (began.via, began.task_id, record.item.usage_count) == ("briefing", "t4", 2)
    assert (held.withheld, held.task_id, held.via, held.label) == (True, "t2", "hook", None)
    assert (given.withheld, given.task_id, given.query, given.score) == (False, "t1", "the query", 0.7)
    assert (given.label, given.use, given.change) == ("Success", "cited", 0.05)


async def test_what_a_query_only_names_is_not_shown(toolbox: Toolbox, add: Add) -> None:
    one = await add("Parse the token")
    await retrieve(toolbox, f"what is {one}?", task_id="t1")
    await toolbox.store.injections(toolbox.scope, "t1")
    assert (await memory_record(toolbox, one)).injections == ()
