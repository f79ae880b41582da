"""The life of a run: refined one after another, interrupted and continued, cancelled, failed."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from made_items import made_item

from swarm_memory.schema.errors import ConfigError, StoreBusy
from swarm_memory.schema.rollout import MattsRequest, RolloutRequest, RunnerAnswer, ScalingMode
from swarm_memory.schema.settings import CreditSettings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.runners.build import GivenRunner
from swarm_memory.tools.matts.matts import run_matts
from swarm_memory.tools.retrieve.embed import prepare
from swarm_memory.tools.toolbox import Toolbox
from tests.matts.worlds import GREEN, MIGRATE, RED, TASK, Scripted, attempt, by_number, matts, met, missed, opened, ran


@pytest.mark.parametrize(("count", "refinements"), [(2, 2), (None, 3)])
async def test_sequential_scaling_refines_one_attempt_r_times(
    tmp_path: Path, count: int | None, refinements: int
) -> None:
    runner, total = Scripted(lambda _: missed()), refinements + 1
    result = await ran(tmp_path, runner, mode="sequential", count=count)
    assert [request.number for request in runner.requests] == [*range(1, total + 1)]
    assert (result.run.k, result.run.total, len(result.run.summary.rollouts)) == (refinements, total, total)


async def test_a_refinement_is_asked_to_check_and_correct_the_former_attempt(tmp_path: Path) -> None:
    runner = by_number({1: missed(), 2: met()})
    await ran(tmp_path, runner, mode="sequential", count=1)
    first, second = (request.prompt for request in runner.requests)
    assert "no such table" not in first
    assert second.startswith(TASK)
    assert "no such table: invoices" in second
    assert "judged: Failure" in second
    assert "NOTE:" in second


async def test_hard_evidence_of_success_ends_the_refinements_early(tmp_path: Path) -> None:
    runner = by_number({1: missed(), 2: met(), 3: met(), 4: met()})
    result = await ran(tmp_path, runner, mode="sequential", count=3)
    assert len(runner.requests) == 2
    assert result.run.summary.rollouts[1].is_hard
    assert (result.run.status, result.run.summary.best) == ("completed", 2)


async def test_notes_of_the_refinements_are_kept_and_come_into_the_items(tmp_path: Path) -> None:
    corrected = attempt(RED, MIGRATE, GREEN, said="NOTE: the table was missing; the error names it; migrate first")
    runner = by_number({1: missed(), 2: missed(), 3: corrected})
    result = await ran(tmp_path, runner, mode="sequential", count=2)
    assert result.run.summary.rollouts[2].notes == ("the table was missing; the error names it; migrate first",)
    assert any("the error names it" in item.content for item in result.stored)


async def test_a_refinement_that_fails_to_run_leaves_the_attempt_before_it_to_be_refined(tmp_path: Path) -> None:
    runner = by_number({1: missed(), 2: RunnerAnswer(status="failed", error="lost"), 3: met()})
    result = await ran(tmp_path, runner, mode="sequential", count=2)
    assert "no such table" in runner.requests[2].prompt
    assert result.run.summary.best == 3


class Interrupted(Exception):
    """Simulates the end of the process in the middle of a rollout."""


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_a_run_survives_a_restart_and_finished_rollouts_are_not_run_again(
    tmp_path: Path, mode: ScalingMode
) -> None:
    def dies(request: RolloutRequest) -> Trajectory:
        if request.number == 3:
            raise Interrupted
        return missed()

    first, second = Scripted(dies), Scripted(lambda _: met())
    settings = matts(max_concurrency=1)
    count = 4 if mode == "parallel" else 3
    asked = MattsRequest(task=TASK, mode=mode, count=count, run_id="run_A", task_id="t1")
    async with opened(tmp_path, settings) as tools:
        with pytest.raises(BaseExceptionGroup if mode == "parallel" else Interrupted):
            await run_matts(tools, asked, first)
        run = await tools.store.get_run(tools.scope, "run_A")
        assert run is not None
        assert (run.status, [each.number for each in run.summary.rollouts]) == ("running", [1, 2])
    result = await ran(tmp_path, second, settings, task="", run_id="run_A")
    assert [request.number for request in second.requests] == ([3, 4] if mode == "parallel" else [3])
    assert second.requests[0].task == TASK
    assert result.run.status == "completed"
    assert [each.label for each in result.run.summary.rollouts][:3] == ["Failure", "Failure", "Success"]
    assert result.run.summary.best == 3
    seeds = {each.seed for each in result.run.summary.rollouts}
    assert len(seeds) == len(result.run.summary.rollouts)


async def test_a_completed_run_is_given_back_and_not_done_again(tools: Toolbox) -> None:
    runner, never = Scripted(lambda _: met()), Scripted(lambda _: missed())
    first = await run_matts(tools, MattsRequest(task=TASK, count=2, run_id="run_A"), runner)
    second = await run_matts(tools, MattsRequest(task=TASK, count=2, run_id="run_A"), never)
    assert never.requests == []
    assert second.run == first.run
    assert [item.id for item in second.stored] == [item.id for item in first.stored]
    assert second.best == first.best


async def test_a_cancelled_run_stops_its_rollouts_and_keeps_what_ended(tools: Toolbox) -> None:
    runner = by_number({1: met(), 2: None, 3: None})

    async def cancel_after_the_first() -> None:
        while True:
            run = await tools.store.get_run(tools.scope, "run_A")
            if run is not None and run.summary.rollouts:
                assert await tools.store.cancel_run(tools.scope, "run_A")
                group.cancel_scope.cancel()
                return
            await anyio.lowlevel.checkpoint()

    async with anyio.create_task_group() as group:
        group.start_soon(cancel_after_the_first)
        await run_matts(tools, MattsRequest(task=TASK, count=3, run_id="run_A"), runner)
    result = await run_matts(tools, MattsRequest(task=TASK, count=3, run_id="run_A"), runner)
    assert result.run.status == "cancelled"
    assert [each.number for each in result.run.summary.rollouts] == [1]
    assert result.stored == ()
    assert runner.running == 0
    assert runner.settled == [("run_A", None)]
    assert not await tools.store.cancel_run(tools.scope, "run_A")


async def test_a_rollout_that_ends_after_the_run_was_cancelled_is_not_written(tmp_path: Path) -> None:
    class Cancels(Scripted):
        async def run(self, request: RolloutRequest) -> RunnerAnswer:
            if request.number == 2:
                await tools.store.cancel_run(tools.scope, request.run_id)
            return await super().run(request)

    runner = Cancels(lambda _: met())
    async with opened(tmp_path, matts(max_concurrency=1)) as tools:
        result = await run_matts(tools, MattsRequest(task=TASK, count=3), runner)
    assert (result.run.status, [each.number for each in result.run.summary.rollouts]) == ("cancelled", [1])
    assert (result.stored, runner.settled) == ((), [(result.run.run_id, None)])


async def test_an_error_that_every_rollout_would_meet_fails_the_run_and_it_can_be_gone_on_with(tools: Toolbox) -> None:
    def refuses(_: RolloutRequest) -> Trajectory:
        raise ConfigError("the command `rm -rf` is not allowed")

    with pytest.raises(ConfigError, match="not allowed"):
        await run_matts(tools, MattsRequest(task=TASK, count=3, run_id="run_A"), Scripted(refuses))
    (run,) = await tools.store.list_runs(tools.scope, ("failed",), 10)
    assert "not allowed" in (run.summary.reason or "")
    result = await run_matts(tools, MattsRequest(task=TASK, run_id="run_A"), Scripted(lambda _: met()))
    assert (result.run.status, len(result.run.summary.rollouts)) == ("completed", 3)


async def test_a_database_that_is_busy_leaves_the_run_to_be_gone_on_with(tools: Toolbox) -> None:
    def busy(_: RolloutRequest) -> Trajectory:
        raise StoreBusy("the writer lock was not free")

    with pytest.raises(StoreBusy):
        await run_matts(tools, MattsRequest(task=TASK, count=2, run_id="run_A"), Scripted(busy))
    run = await tools.store.get_run(tools.scope, "run_A")
    assert run is not None
    assert run.status == "running"


async def test_given_trajectories_are_compared_as_if_they_had_been_run(tmp_path: Path) -> None:
    result = await ran(tmp_path, GivenRunner([missed(), met()]), count=3)
    assert [each.label for each in result.run.summary.rollouts] == ["Failure", "Success", None]
    assert "only 2 trajectories" in (result.run.summary.rollouts[2].error or "")
    assert result.run.summary.best == 2
    assert result.stored


async def test_the_agents_own_verdict_on_a_given_trajectory_counts_unless_evidence_refutes_it(tools: Toolbox) -> None:
    silent = attempt(("ls", "a b", 0))
    said = Verdict(label="Success", confidence=0.9, judge="agent")
    runner = GivenRunner([silent, missed()], {1: said, 2: said})
    result = await run_matts(tools, MattsRequest(task=TASK, count=2), runner)
    assert [each.label for each in result.run.summary.rollouts] == ["Success", "Failure"]


async def test_a_task_that_is_held_out_is_shown_nothing_whether_it_has_an_id_or_not(tools: Toolbox) -> None:
    known = made_item("Migrate before the tests of the billing service", scope=tools.scope)
    await tools.store.add_memories(await prepare(tools, [known]), tools.embedder.name)
    settings = tools.settings.model_copy(update={"credit": CreditSettings(holdout_rate=1.0)})
    held = replace(tools, settings=settings)
    for given, task_id in ((tools, "t2"), (held, "t3"), (held, None)):
        done = await run_matts(given, MattsRequest(task=TASK, count=1, task_id=task_id), Scripted(lambda _: met()))
        is_held = given is not tools
        assert (not done.run.summary.memory_ids, not done.run.summary.preamble) == (is_held, is_held)
