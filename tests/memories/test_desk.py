"""What wants a person's decision, and all that is known of one memory, on a real bank."""

from clock import NOW
from still_bank import Add

from swarm_memory.schema.base import new_id
from swarm_memory.schema.memory import MemoryLink, Provenance
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.memories.decide import (
    Card,
    DeskKind,
    MemoryChange,
    desk,
    desk_counts,
    edit,
    keep,
    latest_decisions,
    merge,
    set_memory_status,
    undo,
)
from swarm_memory.tools.memories.record import memory_record
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.ports.records import UpkeepBatch
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

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


async def cards(toolbox: Toolbox, kind: DeskKind) -> list[Card]:
    counts, _, found = await desk(toolbox, kind)
    assert counts == await desk_counts(toolbox)
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
    assert (await desk_counts(toolbox)).total() == 0  # nor as a pair that contradicts each other
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
    assert (card.item.id, card.reason) == (doubtful, "shown 3 times, and only a model vouches for it")
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
    held, given = record.injections
    assert (held.withheld, held.task_id, held.via, held.label) == (True, "t2", "hook", None)
    assert (given.withheld, given.task_id, given.query, given.score) == (False, "t1", "the query", 0.7)
    assert (given.label, given.use, given.change) == ("Success", "cited", 0.05)


async def test_what_a_query_only_names_is_not_shown(toolbox: Toolbox, add: Add) -> None:
    one = await add("Parse the token")
    await retrieve(toolbox, f"what is {one}?", task_id="t1")
    await toolbox.store.injections(toolbox.scope, "t1")
    assert (await memory_record(toolbox, one)).injections == ()
