"""What outcomes add up to: the effect of memory with its interval, and the weekly figures."""

import random
from datetime import date, timedelta
from statistics import fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from made_tasks import NOW, Shop, done, ran, said

from swarm_memory.schema.outcome import Arm, Effect, OutcomeRecord, TaskFigures
from swarm_memory.schema.rollout import MattsRun, Rollout, RunSummary, ScalingMode
from swarm_memory.schema.trajectory import Label, Usage
from swarm_memory.tools.credit.intervals import Interval, difference, mean_interval, rate_difference, wilson
from swarm_memory.tools.credit.metrics import MIN_TASKS, effect_of, weekly_metrics
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.ports.records import MattsRunEnd
from swarm_memory.tools.retrieve.retrieve import retrieve

SEED = 11


def tasks(
    arm: Arm, successes: int, failures: int, *, steps: float = 10, randomised: bool = True, undecided: int = 0
) -> list[OutcomeRecord]:
    """Return tasks of one arm; their steps vary around `steps`, with a hundred tokens per step."""
    counts: dict[Label, int] = {"Success": successes, "Failure": failures, "Undecided": undecided}
    labels: list[Label] = [label for label, count in counts.items() for _ in range(count)]
    found: list[OutcomeRecord] = []
    for number, label in enumerate(labels):
        count = int(steps) + number % 3 - 1
        figures = TaskFigures(steps=count, tokens=100 * count)
        known = {"task_id": f"{arm}-{number}", "label": label, "arm": arm, "randomised": randomised}
        found.append(
            OutcomeRecord.model_validate({**known, "digest": "", "judge": "user", "figures": figures, "at": NOW})
        )
    return found


def effect(*groups: list[OutcomeRecord]) -> Effect:
    found = effect_of([task for group in groups for task in group])
    assert found is not None
    return found


def test_with_few_tasks_nothing_is_concluded_however_clear_they_look() -> None:
    found = effect(tasks("memory", MIN_TASKS - 1, 0), tasks("held_out", 0, 40))
    assert found.success_rate is not None
    assert found.success_rate.low > 0
    assert found.success_rate.conclusion == "too few tasks to tell"
    assert "too few tasks to tell: 10 on each side are needed; about 52 more tasks" in found.says
    assert "100%" not in found.says


def test_a_clear_difference_is_said_with_its_interval_and_counts() -> None:
    found = effect(tasks("memory", 56, 14, steps=6), tasks("held_out", 48, 32, steps=9))
    rate, steps, tokens = found.success_rate, found.steps, found.tokens
    assert rate is not None
    assert steps is not None
    assert tokens is not None
    assert (rate.n_with, rate.n_without, rate.conclusion) == (70, 80, "better with memory")
    assert (rate.low, rate.high) == (pytest.approx(0.0524, abs=5e-5), pytest.approx(0.3339, abs=5e-5))
    assert steps.low < -3 < steps.high
    assert (steps.conclusion, tokens.conclusion) == ("better with memory", "better with memory")
    assert found.basis == "hold_out"


@pytest.mark.parametrize(
    ("ours", "theirs", "conclusion"),
    [((10, 40, 20), (40, 10, 5), "worse with memory"), ((20, 20, 10), (20, 20, 10), "no difference shown")],
)
def test_a_harm_is_said_as_well_and_no_difference_is_none(
    ours: tuple[int, int, int], theirs: tuple[int, int, int], conclusion: str
) -> None:
    found = effect(tasks("memory", *ours[:2], steps=ours[2]), tasks("held_out", *theirs[:2], steps=theirs[2]))
    assert found.success_rate is not None
    assert found.steps is not None
    assert {found.success_rate.conclusion, found.steps.conclusion} == {conclusion}


def test_undecided_tasks_count_for_steps_and_not_for_the_rate() -> None:
    found = effect(tasks("memory", 10, 0, undecided=5), tasks("held_out", 5, 5))
    assert (found.with_memory.tasks, found.with_memory.decided, found.with_memory.success_rate) == (15, 10, 1.0)
    assert found.steps is not None
    assert found.steps.n_with == 15


def test_only_what_was_chosen_at_random_is_compared_and_without_a_hold_out_it_says_that_tasks_differ() -> None:
    before, easy = tasks("memory", 30, 0, randomised=False), tasks("nothing_fitted", 30, 0)
    found = effect(before, easy, tasks("memory", 10, 10), tasks("held_out", 10, 10))
    assert (found.with_memory.tasks, found.without_memory.tasks) == (20, 20)
    found = effect(tasks("memory", 20, 0, randomised=False), tasks("nothing_fitted", 5, 15, randomised=False))
    assert found.basis == "observed"
    assert "not at random" in found.says
    assert "--measure on" in found.says


async def test_a_hold_out_finds_the_effect_that_is_there(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.tools.credit.outcome.ETA", 0.0)
    draw = random.Random(SEED)
    await shop.add("Migrate the orders table before the tests", "1. Run `make migrate`.")
    half = shop.set(holdout_rate=0.5)
    for number in range(60):
        task_id = f"task-{number}"
        found = await retrieve(half.toolbox, "the tests fail: no such table orders, migrate", task_id=task_id)
        helped = bool(found.memories)
        met = draw.random() < (0.9 if helped else 0.3)
        calls = [ran("pytest") for _ in range(draw.randint(2, 5) + (0 if helped else 6))]
        await half.outcome("Success" if met else "Failure", done(*calls, task_id=task_id), task_id=task_id)
    effect = (await memory_status(half.toolbox)).effect
    assert effect is not None
    assert effect.basis == "hold_out"
    assert effect.with_memory.tasks + effect.without_memory.tasks == 60
    assert effect.success_rate is not None
    assert effect.steps is not None
    assert effect.success_rate.low > 0
    assert effect.success_rate.low < 0.6 < effect.success_rate.high
    assert effect.steps.low < -6 < effect.steps.high


async def test_the_weeks_have_the_figures_of_their_tasks(shop: Shop) -> None:
    memory = await shop.add(created_at=NOW)
    await shop.add("Ask first", "1. Ask.", created_at=NOW)
    await shop.inject(memory, task_id="a")
    week: list[tuple[str, Label, int, int, int]] = [
        ("a", "Success", 0, 4, 10),
        ("b", "Success", 1, 8, 30),
        ("c", "Failure", 2, 99, 99),
        ("d", "Undecided", 3, 1, 1),
        ("e", "Success", 7, 2, 5),
    ]
    for task_id, label, days, calls, minutes in week:
        began = NOW + timedelta(days=days)
        steps = [said(f"With [{memory}]."), *(ran("make") for _ in range(calls))]
        usage = Usage(input_tokens=1000 * calls)
        times: dict[str, Any] = {"started_at": began, "ended_at": began + timedelta(minutes=minutes), "usage": usage}
        await shop.outcome(label, done(*steps, task_id=task_id, **times), task_id=task_id)
    first, second = await weekly_metrics(shop.toolbox)
    assert (first["week"], second["week"]) == (date(2026, 3, 2), date(2026, 3, 9))
    assert (first["tasks"], first["successes"], first["failures"], first["undecided"]) == (4, 2, 1, 1)
    assert first["success_rate"] == pytest.approx(2 / 3)
    assert (first["success_rate_with_memory"], first["success_rate_without_memory"]) == (1.0, 0.5)
    assert (first["steps_to_success"], first["time_to_resolution_s"]) == (6.0, 20 * 60)
    assert first["tokens_per_success"] == pytest.approx(1000 * (4 + 8 + 99 + 1) / 2)
    assert (first["new_items"], first["new_items_per_100_tasks"]) == (2, 50.0)
    assert first["active_items_used_per_task"] == 0.25
    assert (second["tasks"], second["new_items"], second["success_rate_with_memory"]) == (1, 0, None)


async def test_the_lift_of_matts_is_what_the_chosen_rollout_gains_over_a_single_attempt(shop: Shop) -> None:
    store, scope = shop.toolbox.store, shop.toolbox.scope
    rounds: list[tuple[str, ScalingMode, list[Label], int]] = [
        ("r1", "parallel", ["Failure", "Success", "Failure", "Undecided"], 2),  # 1 of 3 single ones: gains 2/3
        ("r2", "sequential", ["Failure", "Success"], 2),  # the first attempt failed: gains 1
        ("r3", "parallel", ["Undecided"], 1),
    ]
    for run_id, mode, labels, best in rounds:
        summary = RunSummary(runner="given")
        run = MattsRun(
            run_id=run_id, scope=scope, task_id=run_id, task="x", mode=mode, k=4, summary=summary, created_at=NOW
        )
        await store.begin_run(run)
        for number, label in enumerate(labels, 1):
            rollout = Rollout(number=number, status="finished", seed=number, temperature=0.7, label=label)
            await store.save_rollout(scope, run_id, rollout, None, None)
        kept = await store.get_run(scope, run_id)
        assert kept is not None
        ended = kept.model_copy(
            update={"status": "completed", "summary": kept.summary.model_copy(update={"best": best})}
        )
        await store.end_run(MattsRunEnd(ended, shop.toolbox.embedder.name))
    (week,) = await weekly_metrics(shop.toolbox)
    assert (week["matts_runs"], week["tasks"]) == (3, 0)
    assert week["matts_lift"] == pytest.approx((2 / 3 + 1) / 2)


@pytest.mark.parametrize(
    ("found", "low", "high"),
    [
        (wilson(81, 263), 0.2553, 0.3662),
        (wilson(15, 148), 0.0624, 0.1605),
        (wilson(0, 20), 0.0, 0.1611),
        (wilson(1, 29), 0.0061, 0.1718),
        (rate_difference(56, 70, 48, 80), 0.0524, 0.3339),
        (rate_difference(9, 10, 3, 10), 0.1705, 0.8090),
        (rate_difference(10, 10, 0, 20), 0.6791, 1.0),
        (rate_difference(10, 10, 0, 10), 0.6075, 1.0),
    ],
)
def test_rates_and_their_differences_have_the_score_intervals_of_the_literature(
    found: Interval, low: float, high: float
) -> None:
    assert (found.low, found.high) == (pytest.approx(low, abs=5e-5), pytest.approx(high, abs=5e-5))


@pytest.mark.parametrize(
    ("freedom", "quantile"),
    [(1, 12.7062), (2, 4.3027), (3, 3.1824), (5, 2.5706), (10, 2.2281), (30, 2.0423), (100, 1.9840), (10_000, 1.9602)],
)
def test_the_quantiles_of_t_are_those_of_the_tables_or_a_little_wider(freedom: int, quantile: float) -> None:
    values = [0.0] * freedom + [1.0]
    found = (mean_interval(values).high - fmean(values)) / stdev(values) * len(values) ** 0.5 / quantile - 1
    assert -1e-4 < found < (0.003 if freedom >= 5 else 0.05 if freedom >= 2 else 0.4)


def test_a_difference_of_means_has_an_interval_a_little_wider_than_welchs() -> None:
    few = difference(mean_interval([1, 2, 3, 4, 5]), mean_interval([2, 4, 6, 8, 10]))
    # by hand: standard errors √0.5 and √2, 4 degrees of freedom each, whose quantile is 2.7764; Welch's half is 3.8878
    assert few.value == -3
    assert (few.low, few.high) == (pytest.approx(-7.390, abs=0.03), pytest.approx(1.390, abs=0.03))
    values = [float(number) for number in range(30)]
    many = difference(mean_interval(values), mean_interval([2 * value for value in values]))
    assert many.high - many.value == pytest.approx(7.25, rel=0.03), "Welch's"


@given(st.integers(0, 40), st.integers(1, 40), st.integers(0, 40), st.integers(1, 40))
def test_a_difference_lies_in_its_interval_and_turns_its_sign_with_its_sides(a: int, n: int, b: int, m: int) -> None:
    a, b = min(a, n), min(b, m)
    found, turned = rate_difference(a, n, b, m), rate_difference(b, m, a, n)
    assert -1 - 1e-9 <= found.low <= found.value + 1e-9
    assert found.value - 1e-9 <= found.high <= 1 + 1e-9
    assert (turned.low, turned.high) == (pytest.approx(-found.high), pytest.approx(-found.low))
