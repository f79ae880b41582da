"""What one run of the loop writes, on every rung: all of it or nothing, once, and what it supersedes."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from swarm_memory.schema.base import Scope, new_id
from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict
from swarm_memory.tools.ports.bank import MemoryFilter, StoredMemory
from swarm_memory.tools.ports.trajectories import LearnRecord

Make = Callable[..., MemoryItem]
WithIndexes = Callable[..., StoredMemory]
AT = datetime(2026, 5, 1, 9, 30, tzinfo=UTC)
WON = Verdict(label="Success", confidence=0.9, reasons=("tests passed",), evidence=("s1",), judge="evidence")


def trajectory(*texts: str, task_id: str = "t1") -> Trajectory:
    steps = tuple(
        Step(id=f"s{number}", kind="message", role="assistant", text=text, at=AT)
        for number, text in enumerate(texts, start=1)
    )
    return Trajectory(task_id=task_id, task="Fix the lock", steps=steps, started_at=AT)


@pytest.fixture
def record(embedder: Any, here: Scope, item: Make, with_indexes: WithIndexes) -> Callable[..., LearnRecord]:
    """Make the record of a run that gives items of these titles."""

    def made(
        done: Trajectory, *titles: str, reinforced: tuple[str, ...] = (), reinforcement: float = 0.0
    ) -> LearnRecord:
        run_id = new_id("run")
        source = Provenance(task_id=done.task_id, run_id=run_id)
        items = [item(title, provenance=source) for title in titles]
        return LearnRecord(
            scope=here,
            run_id=run_id,
            trajectory_id=new_id("tr"),
            trajectory=done,
            verdict=WON,
            embedder=embedder.name,
            memories=tuple(with_indexes(each, embedder) for each in items),
            reinforced=reinforced,
            reinforcement=reinforcement,
            at=AT,
        )

    return made


async def test_a_run_is_written_whole_and_known_again(open_bank: Any, here: Scope, record: Any) -> None:
    done = trajectory("one", "two")
    run = record(done, "Retry once", "Log it")
    async with open_bank() as store:
        assert await store.learned_before(here, "t1", done.content_digest) is None
        assert await store.save_learning(run) == ()
    async with open_bank() as store:
        before = await store.learned_before(here, "t1", done.content_digest)
        assert before is not None
        assert (before.trajectory_id, before.run_id, before.verdict) == (run.trajectory_id, run.run_id, WON)
        assert before.memory_ids == tuple(each.item.id for each in run.memories)
        assert await store.get_trajectory(here, run.trajectory_id) == (done, WON)
        assert await store.get_trajectory(here, "t1") == (done, WON)
        assert await store.get_trajectory(Scope(project="there"), "t1") is None
        assert await store.learned_before(Scope(project="there"), "t1", done.content_digest) is None
        (event,) = await store.memory_history([here], run.run_id)
        assert (event.kind, event.at, event.data["label"]) == ("learned", AT, "Success")


async def test_learning_twice_from_the_same_changes_nothing(open_bank: Any, here: Scope, record: Any) -> None:
    done = trajectory("one")
    async with open_bank() as store:
        await store.save_learning(record(done, "Retry once"))
        assert await store.save_learning(record(done, "Something else")) == ()
        assert [each.title for each in await store.list_memories([here], MemoryFilter())] == ["Retry once"]
        assert (await store.statistics(here, "numbers")).trajectories == 1


async def test_what_a_longer_version_of_a_task_does_not_give_again_is_archived(
    open_bank: Any, here: Scope, record: Any
) -> None:
    first = record(trajectory("one"), "Retry once", "Log it")
    kept, gone = (each.item.id for each in first.memories)
    elsewhere = record(trajectory("one", task_id="t2"), "Of another task")
    second = record(trajectory("one", "two"), "Quote it", reinforced=(kept,))
    async with open_bank() as store:
        await store.save_learning(first)
        await store.save_learning(elsewhere)
        assert await store.save_learning(second) == (gone,)
        (archived,) = await store.get_memories([here], [gone])
        assert archived.status == "archived"
        assert "superseded" in (archived.status_reason or "")
        titles = {each.title for each in await store.list_memories([here], MemoryFilter())}
        assert titles == {"Retry once", "Quote it", "Of another task"}
        assert (await store.get_trajectory(here, "t1"))[0] == second.trajectory


async def test_what_another_task_gives_again_becomes_surer_but_never_more_than_sure(
    open_bank: Any, here: Scope, record: Any
) -> None:
    first = record(trajectory("one"), "Retry once")
    (known,) = (each.item.id for each in first.memories)
    async with open_bank() as store:
        await store.save_learning(first)
        for number, (step, expected) in enumerate([(0.05, 0.55), (0.9, 1.0), (0.0, 1.0)]):
            run = record(trajectory("x", task_id=f"o{number}"), reinforced=(known,), reinforcement=step)
            await store.save_learning(run)
            (found,) = await store.get_memories([here], [known])
            assert found.confidence == pytest.approx(expected)


async def test_a_run_with_one_bad_vector_writes_nothing(open_bank: Any, here: Scope, record: Any) -> None:
    from array import array
    from dataclasses import replace

    done = trajectory("one")
    run = record(done, "Retry once", "Log it")
    broken = replace(run.memories[1], vector=array("f", [float("nan")] * 16))
    async with open_bank() as store:
        with pytest.raises(StorageError, match="refused"):
            await store.save_learning(replace(run, memories=(run.memories[0], broken)))
        assert await store.learned_before(here, "t1", done.content_digest) is None
        assert await store.list_memories([here], MemoryFilter()) == []
        await store.save_learning(run)


async def test_a_verdict_alone_is_kept_and_is_no_learning(open_bank: Any, here: Scope, record: Any) -> None:
    done = trajectory("one")
    lost = WON.model_copy(update={"label": "Failure"})
    async with open_bank() as store:
        await store.save_verdict(here, "tr_1", done, WON)
        await store.save_verdict(here, "tr_1", done, lost)
        assert await store.get_trajectory(here, "tr_1") == (done, lost)
        assert await store.learned_before(here, "t1", done.content_digest) is None
        assert (await store.statistics(here, "numbers")).verdicts == {"Failure": 1}
        await store.save_verdict(Scope(project="there"), "tr_1", done, WON)
        assert await store.get_trajectory(here, "tr_1") == (done, lost)
        await store.save_learning(record(done, "Retry once"))
        assert await store.learned_before(here, "t1", done.content_digest) is not None
