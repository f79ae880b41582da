"""What memories are worth by the lots that were drawn: per memory and kind, withdrawn where they harm, and told."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from clock import SetClock
from made_tasks import NOW, Shop, done, said

from swarm_memory.schema.base import RETRIEVAL, new_id
from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.outcome import Lift, LiftReport, OutcomeRecord, TaskFigures
from swarm_memory.schema.sqlite.events import DRAWN, Draw
from swarm_memory.schema.trajectory import Label
from swarm_memory.server.hosts.files.skills import plan_promoted, write_promotion
from swarm_memory.tools.consolidate.consolidate import undo_consolidation
from swarm_memory.tools.consolidate.withdrawal import measure_memories
from swarm_memory.tools.credit.lift import Lot, lift_report, lots_of, outcome_of, worth_of
from swarm_memory.tools.credit.metrics import weekly_metrics
from swarm_memory.tools.memories.decide import restore
from swarm_memory.tools.memories.record import memory_record
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.ports.credit import TaskOutcome
from swarm_memory.tools.ports.jobs import MEASURE
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.promote.paying import not_paying, proven
from swarm_memory.tools.retrieve.retrieve import retrieve

SESSION = "0b6f4a7e-93c1-4d21-8a57-5d1f0a2b3c4d"
QUERY = "prepare the test configuration of the shop"
RATE = 0.5


def task(name: str, label: Label = "Success", weight: float = 1.0, repeats: int = 0) -> TaskOutcome:
    return TaskOutcome(name, label, "memory", False, TaskFigures(repeats=repeats), 1, 0, NOW, weight)


def drawn(name: str, told: Sequence[str], left_out: Sequence[str] = (), minute: int = 0) -> Event:
    data = Draw(RATE, tuple(told), tuple(left_out), 10)._asdict()
    return Event(DRAWN, NOW + timedelta(minutes=minute), name, {**data, "told": list(told), "left_out": list(left_out)})


async def live(
    shop: Shop, ids: Sequence[str], tasks: int, *, harm: bool = True, begin: int = 0, judged: bool = True
) -> None:
    """Let tasks be told each memory or not, and fail exactly where they were told one, or were not.

    Those that were told take nine steps for five.
    """
    store, scope = shop.toolbox.store, shop.toolbox.scope
    for number in range(begin, begin + tasks):
        at, is_told = NOW + timedelta(minutes=number), number % 2 == 0
        draw = Draw(RATE, tuple(ids) if is_told else (), () if is_told else tuple(ids), 100 * is_told)
        record = RetrievalRecord(new_id(RETRIEVAL), scope, "q", {}, 1.0, at, f"t{number}", draw=draw)
        await store.record_retrieval(record)
        label: Label = "Failure" if is_told is harm else "Success"
        figures = TaskFigures(steps=9 if is_told else 5, tokens=900 if is_told else 500, duration_s=60.0)
        outcome = OutcomeRecord(
            task_id=f"t{number}",
            digest="",
            label=label if judged else "Undecided",
            judge="user",
            weight=float(judged),
            arm="memory",
            figures=figures,
            at=at,
        )
        await store.injections(scope, "")  # what is queued is written
        await store.save_outcome((scope,), outcome)


def by_lot(shop: Shop) -> Shop:
    return Shop(replace(shop.set(dropout=0.1).toolbox, lot_key=b"key"))


def test_a_label_counts_by_its_weight_and_without_one_repeated_failures_tell() -> None:
    def outcome(*given: Any, guess: float = 0.5) -> float:
        return outcome_of(task("t", *given)).given(guess)

    assert outcome("Success") == 1
    assert outcome("Failure") == 0
    assert outcome("Success", 0.6) == pytest.approx(0.8)
    assert outcome("Failure", 0.6) == pytest.approx(0.2)
    assert [outcome("Undecided", 0.0, repeats) for repeats in (0, 1, 4)] == [0.5, 0.25, 0.1]
    assert outcome("Success", 0.6, 1) < outcome("Success", 0.6)
    assert outcome("Undecided", 0.0, guess=0.9) == 0.9


def test_a_memory_counts_once_for_each_session_for_the_first_task_that_it_was_drawn_for() -> None:
    first, second, other = f"{SESSION}:1", f"{SESSION}:2", "t9"
    draws = [
        drawn(second, ["a"], ["b"], 1),
        drawn(first, ["a"]),
        drawn(first, ["a"], minute=5),
        drawn(other, [], ["a"]),
    ]
    lots = lots_of(draws, [task(first), task(second), task(other)])
    found = [(lot.memory_id, lot.told, lot.task.task_id) for lot in lots]
    assert sorted(found) == [("a", False, other), ("a", True, first), ("b", False, second)]
    assert lots_of(draws, [task(second)])[0].memory_id == "b"
    assert lots_of([drawn("unknown", ["a"])], [task(other)]) == []


def test_each_lot_has_the_rate_that_it_was_drawn_with() -> None:
    draw = Draw.of({"a": 0.1, "b": 0.4}, {"b"}, 0.1, "notes")
    event = Event(DRAWN, NOW, "t1", draw._asdict())
    assert [(lot.memory_id, lot.told, lot.rate) for lot in lots_of([event], [task("t1")])] == [
        ("a", True, 0.1),
        ("b", False, 0.4),
    ]


async def test_a_memory_that_harms_withdraws_itself_with_its_figures_and_a_useful_one_is_proven(shop: Shop) -> None:
    harmful, said_by_user = await shop.add("Drop the tables"), await shop.add(provenance=Provenance(distiller="user"))
    await live(shop, [harmful, said_by_user], 40)
    done = await measure_memories(shop.toolbox)
    assert done.withdrawn == (harmful,)
    (item,) = await shop.toolbox.store.get_memories(shop.toolbox.scope.readable(), [harmful])
    assert item.status == "archived"
    assert (item.status_reason or "").startswith("tasks did better without it: told 20 times, left out 20: lift -")
    assert [each.id for each in done.report.withdrawn] == [harmful]
    assert (await measure_memories(shop.toolbox)).withdrawn == ()
    useful = await shop.add("Migrate first")
    await live(shop, [useful], 40, harm=False, begin=100)
    (lift,) = [each for each in (await measure_memories(shop.toolbox)).report.memories if each.of == useful]
    assert (lift.worth, lift.told, lift.left_out) == ("proven", 20, 20)
    assert (await memory_record(shop.toolbox, useful)).lift == lift


async def test_what_is_proven_is_promoted_with_that_and_named_when_it_is_proven_no_longer(
    shop: Shop, tmp_path: Path
) -> None:
    useful = await shop.add("Migrate first")
    assert await proven(shop.toolbox) == []
    await live(shop, [useful], 40, harm=False)
    await measure_memories(shop.toolbox)
    assert await proven(shop.toolbox) == [useful]
    done, changes = await plan_promoted(shop.toolbox, tmp_path, [useful], "skill")
    assert "1 proven by lot: tasks did better with it than without" in (changes[0].after or "")
    await write_promotion(shop.toolbox, tmp_path, done, changes)
    assert await not_paying(shop.toolbox, [useful]) == {}
    await live(shop, [useful], 36, begin=1000)
    await measure_memories(shop.toolbox)
    why = await not_paying(shop.toolbox, [useful])
    assert why[useful].startswith("it was proven when it was promoted; now: told 38 times, left out 38")


async def test_with_few_tasks_nothing_is_concluded_however_clear_they_look(shop: Shop) -> None:
    memory = await shop.add()
    await live(shop, [memory], 6)
    done = await measure_memories(shop.toolbox)
    assert done.withdrawn == ()
    assert done.report.whole is not None
    assert done.report.whole.says == "told 3 times, left out 3: too few to tell"
    assert done.report.memories[0].says.endswith("too few to tell")
    assert done.report.tasks_wanted
    assert f"; about {done.report.tasks_wanted:,} more tasks with memories until" in done.report.says


async def test_who_is_restored_or_whose_withdrawal_is_undone_is_measured_anew(shop: Shop) -> None:
    memory = await shop.add()
    await live(shop, [memory], 40)
    clock = cast("SetClock", shop.toolbox.clock)
    clock.forward(days=1)
    done = await measure_memories(shop.toolbox)
    assert (await undo_consolidation(shop.toolbox, done.run_id)).restored == 1
    assert (await measure_memories(shop.toolbox)).withdrawn == ()
    await live(shop, [memory], 40, begin=2000)
    assert (await measure_memories(shop.toolbox)).withdrawn == (memory,)
    clock.forward(days=9)
    await restore(shop.toolbox, [memory])
    assert (await measure_memories(shop.toolbox)).withdrawn == ()
    (item,) = await shop.toolbox.store.get_memories(shop.toolbox.scope.readable(), [memory])
    assert item.status == "active"


async def test_the_report_has_the_whole_the_kinds_and_what_notes_took(shop: Shop) -> None:
    ways = await shop.add("Install it", tags=("repair",))
    guard = await shop.add("Do not drop the tables", outcome="Failure", provenance=Provenance(distiller="model"))
    await live(shop, [ways, guard], 60)
    await measure_memories(by_lot(shop).toolbox)
    found = await lift_report(by_lot(shop).toolbox)
    assert found.whole is not None
    assert (found.whole.told, found.whole.left_out, found.whole.worth) == (60, 60, "harmful")
    assert {each.of for each in found.kinds} == {"way out", "guardrail"}
    assert {each.of for each in found.sources} == {"rules", "model"}
    assert found.whole.steps is not None
    assert found.whole.steps.low < 0.8 < found.whole.steps.high, "nine steps for five"
    assert found.whole.repeats is None
    assert "; steps +" in found.says
    assert found.note_tokens == 30 * 100
    assert found.saved_tokens is not None
    assert found.saved_tokens.high < 0
    assert isinstance(found.tasks_wanted, int)
    assert (await memory_status(by_lot(shop).toolbox)).lift == found
    (week,) = await weekly_metrics(shop.toolbox)
    assert (week.told_by_lot, week.left_out_by_lot, week.note_tokens, week.withdrawn) == (60, 60, 3000, 2)


async def test_what_tasks_took_is_known_without_a_verdict_and_withdraws_nothing(shop: Shop) -> None:
    memory = await shop.add()
    await live(shop, [memory], 80, judged=False)
    done = await measure_memories(by_lot(shop).toolbox)
    assert done.withdrawn == ()
    (lift,) = done.report.memories
    assert (lift.worth, lift.success and lift.success.value) == ("too few to tell", 0)
    assert lift.steps is not None
    assert lift.steps.low > 0
    assert lift.says.endswith(f"; steps {lift.steps.says}; tokens {lift.tokens and lift.tokens.says}")
    assert f"; steps {lift.steps.says}" in done.report.says, "status tells it where it is known"


def test_whether_a_failure_came_again_is_an_outcome_and_one_long_night_decides_nothing() -> None:
    figures = [TaskFigures(repeats=3 * (at % 2), duration_s=60.0) for at in range(40)]
    tasks = [task(f"t{at}")._replace(figures=each) for at, each in enumerate(figures)]
    lots = lots_of([drawn(f"t{at}", ["a"][: at % 2], ["a"][at % 2 :]) for at in range(40)], tasks)

    def worth(*lots: Lot) -> Lift:
        return worth_of(lots, {}, {})["memories"][0]

    repeats = worth(*lots).repeats
    assert repeats is not None
    assert repeats.low > 0
    slow = [lots[-1].task._replace(figures=TaskFigures(duration_s=60.0 * times)) for times in (1, 100, 1000)]
    short, long, longer = (worth(*lots[:-1], lots[-1]._replace(task=each)).duration_s for each in slow)
    assert short is not None
    assert short.value == pytest.approx(0)
    assert long == longer != short


def test_a_memory_that_leaves_nothing_to_decide_its_tasks_by_does_not_lose_by_that() -> None:
    ends: list[tuple[Label, float]] = [("Success", 0.9), ("Undecided", 0.0)]
    tasks = [task(f"t{at}", *ends[at % 2]) for at in range(200)]
    lots = lots_of([drawn(f"t{at}", ["a"][: at % 2], ["a"][at % 2 :]) for at in range(200)], tasks)
    lift = worth_of(lots, {}, {})["memories"][0]
    assert (lift.worth, round(lift.success.value, 1)) == ("too few to tell", 0)


async def test_nothing_is_measured_where_no_lot_was_drawn(shop: Shop) -> None:
    assert (await measure_memories(shop.toolbox)).report == LiftReport(dropout=0.0)
    assert (await lift_report(shop.toolbox)).says.startswith("no memory is left out")
    assert (await lift_report(by_lot(shop).toolbox)).says.startswith("no task has ended yet")


async def test_what_is_expected_of_a_memory_moves_it_up_or_down(shop: Shop) -> None:
    good, bad, unknown = await shop.add(), await shop.add("Test the shop"), await shop.add("Set up the shop")
    drawing = by_lot(shop).toolbox

    async def confidences() -> dict[str, float]:
        return {each.item.id: each.parts.confidence for each in (await retrieve(drawing, QUERY)).memories}

    assert await confidences() == {good: 0.5, bad: 0.5, unknown: 0.5}
    await live(shop, [good], 8, harm=False)
    await live(shop, [bad], 4, begin=100)
    await measure_memories(drawing)
    found = await confidences()
    assert found[good] > 0.5 > found[bad]
    assert found[unknown] == 0.5
    (rate,) = (await drawing.store.dropout_rates(drawing.scope)).items()
    assert rate == (bad, 0.5), "what probably harms is left out every other time"
    assert {each.parts.confidence for each in (await retrieve(shop.toolbox, QUERY)).memories} == {0.5}


async def test_an_outcome_has_memories_measured_in_the_background_where_lots_are_drawn(shop: Shop) -> None:
    await shop.outcome("Success", done(said("ok")))
    assert await shop.toolbox.store.find_job(shop.toolbox.scope, MEASURE, MEASURE) is None
    await by_lot(shop).outcome("Success", done(said("ok"), task_id="t2"), task_id="t2")
    job = await shop.toolbox.store.find_job(shop.toolbox.scope, MEASURE, MEASURE)
    assert job is not None
    assert job.status == "queued"
