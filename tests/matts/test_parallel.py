"""Parallel scaling: k rollouts yield k stored trajectories, one comparison and one best, whatever single ones do."""

from contextlib import closing
from pathlib import Path

import pytest
from laid_bank import DRIVER
from scripted_runs import learn_fix

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Progress
from swarm_memory.schema.memory import FIX
from swarm_memory.schema.rollout import MattsRequest, RolloutRequest, RunnerAnswer
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.runners.build import GivenRunner
from swarm_memory.server.storage.driver import choose
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.matts.matts import run_matts
from swarm_memory.tools.memories.decide import to_review
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox
from tests.attacks.attacked_bank import files_with
from tests.matts.worlds import (
    EMBEDDER,
    GREEN,
    MIGRATE,
    RED,
    TASK,
    Scripted,
    attempt,
    by_number,
    matts,
    met,
    missed,
    opened,
    ran,
)

SQLITE = choose(DRIVER).module
"""The only SQLite library of the process: a second one next to an open bank would crash sqlite-vec."""

FAILED = RunnerAnswer(status="failed", error="the agent could not be started")


def mixed(request: RolloutRequest) -> Trajectory:
    return met() if request.number in (2, 5) else missed()


def linked(folder: Path, run_id: str) -> list[str]:
    """Return the trajectories that the database links to a run."""
    with closing(SQLITE.connect(folder / "memory.db")) as connection:
        rows = connection.execute("SELECT id FROM task_trajectories WHERE matts_run_id = ? ORDER BY id", (run_id,))
        return [name for (name,) in rows.fetchall()]


async def test_k_rollouts_are_all_kept_and_linked_to_the_run(tools: Toolbox, tmp_path: Path) -> None:
    result = await run_matts(tools, MattsRequest(task=TASK, count=6), Scripted(mixed))
    rollouts = result.run.summary.rollouts
    assert [each.number for each in rollouts] == [1, 2, 3, 4, 5, 6]
    for each in rollouts:
        assert each.trajectory_id
        kept = await tools.store.get_trajectory(tools.scope, each.trajectory_id)
        assert kept is not None
        assert kept[1] is not None
        assert kept[1].label == each.label == ("Success" if each.number in (2, 5) else "Failure")
    assert linked(tmp_path, result.run.run_id) == [each.trajectory_id for each in rollouts]


async def test_k_is_six_unless_said_rollouts_stay_within_the_limit_and_differ_in_seed_and_temperature(
    tmp_path: Path,
) -> None:
    runner = Scripted(mixed, together=2)
    await ran(tmp_path, runner, matts(max_concurrency=2))
    assert runner.most_running == 2
    requests = sorted(runner.requests, key=lambda request: request.number)
    assert [request.temperature for request in requests] == [0.2, 0.36, 0.52, 0.68, 0.84, 1.0]
    assert len({request.seed for request in requests}) == 6


async def test_the_memories_that_fit_are_in_the_prompt_of_every_rollout(tools: Toolbox) -> None:
    runner, task = Scripted(mixed), "Make pytest pass in the billing service: no such table."
    known = await learn_fix(tools, met().model_copy(update={"task_id": "earlier", "task": TASK}))
    result = await run_matts(tools, MattsRequest(task=task, count=3), runner)
    title = known[0].title
    assert all(title in request.prompt and request.task in request.prompt for request in runner.requests)
    assert result.run.summary.memory_ids == (known[0].id,)
    outcome = await tools.store.get_outcome(tools.scope, result.run.task_id)
    assert outcome is not None
    assert outcome.label == "Failure", "credit goes by the first rollout, not by the best of n"


async def test_the_comparison_gives_items_with_the_run_as_their_provenance(tools: Toolbox) -> None:
    result = await run_matts(tools, MattsRequest(task=TASK, count=6), Scripted(mixed))
    items = await tools.store.list_memories((tools.scope,), MemoryFilter())
    assert 1 <= len(items) <= 3
    assert {item.id for item in items} == {item.id for item in result.stored} == set(result.run.summary.stored)
    assert {item.provenance.run_id for item in items} == {result.run.run_id}
    strategy = next(item for item in items if "contrast" in item.tags)
    assert "Run `alembic upgrade head`." in strategy.content
    assert strategy.provenance.distiller == "extractive"
    assert strategy.provenance.evidence[0].startswith("r2-s")
    assert result.run.summary.distiller == "extractive"


async def test_the_best_is_a_success_with_the_fewest_steps(tmp_path: Path) -> None:
    longer = met().model_copy(update={"steps": (*missed().steps[:4], *met().steps)})
    runner = by_number({1: missed(), 2: longer, 3: met()})
    result = await ran(tmp_path, runner, count=3)
    assert result.run.summary.best == 3
    assert result.best is not None
    best = result.run.rollout(3)
    assert best is not None
    assert best.label == "Success"
    assert runner.settled == [(result.run.run_id, 3)]


async def test_of_one_success_and_one_failure_the_one_action_that_differs_is_kept_for_review(tools: Toolbox) -> None:
    whole, half = ("sh export.sh --all", "wrote 12 rows", 0), ("sh export.sh", "wrote 3 rows", 0)
    opening = ("sh open.sh", "opened", 0)
    verdicts = {1: Verdict.by_agent("Success", 0.8), 2: Verdict.by_agent("Failure", 0.8)}
    runner = GivenRunner([attempt(opening, whole), attempt(opening, half)], verdicts)
    (item,) = (await run_matts(tools, MattsRequest(task="Export all invoices.", count=2), runner)).stored
    assert (item.status, item.outcome) == ("candidate", "Success")
    assert item.title == "Run `sh export.sh --all` instead of `sh export.sh`"
    assert await tools.store.list_memories((tools.scope,), MemoryFilter()) == [], "one pair proves nothing"
    counts, _, (card,) = await to_review(tools)
    assert (counts["quarantined"], card.item.id) == (1, item.id)


async def test_when_every_rollout_misses_or_meets_the_task_alike_what_all_did_is_learned(tmp_path: Path) -> None:
    missing = await ran(tmp_path / "missed", Scripted(lambda _: missed()), count=3)
    meeting = await ran(tmp_path / "met", Scripted(lambda _: met()), count=3)
    assert (missing.run.status, meeting.run.status) == ("completed", "completed")
    assert {item.outcome for item in missing.stored} == {"Failure"}
    assert "no such table" in missing.stored[0].content
    assert {item.outcome for item in meeting.stored} == {"Success"}
    assert not any("that did not" in item.content for item in meeting.stored), "nothing is called a contrast"


async def test_when_no_rollout_leaves_anything_the_run_has_failed_and_says_why(tools: Toolbox) -> None:
    result = await run_matts(tools, MattsRequest(task=TASK, count=3), Scripted(lambda _: FAILED))
    assert result.run.status == "failed"
    assert "could not be started" in (result.run.summary.reason or "")
    assert [each.status for each in result.run.summary.rollouts] == ["failed"] * 3
    assert (result.best, result.stored) == (None, ())
    assert await tools.store.list_memories((tools.scope,), MemoryFilter()) == []


@pytest.mark.parametrize(("first", "status"), [(FAILED, "failed"), (None, "timed_out")], ids=["it fails", "it hangs"])
async def test_one_rollout_that_fails_or_hangs_does_not_stop_the_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: RunnerAnswer | None, status: str
) -> None:
    monkeypatch.setattr("swarm_memory.tools.matts.rollouts.OVERDUE_S", 0.0)
    result = await ran(tmp_path, by_number({1: first, 2: met(), 3: missed()}), matts(rollout_timeout_s=0.3), count=3)
    assert [each.status for each in result.run.summary.rollouts] == [status, "finished", "finished"]
    assert (result.run.status, result.run.summary.best) == ("completed", 2)


async def test_progress_is_what_is_done_of_what_there_is_to_do(tools: Toolbox) -> None:
    reported: list[Progress] = []

    async def note(progress: Progress) -> None:
        reported.append(progress)

    await run_matts(tools, MattsRequest(task=TASK, count=3), Scripted(mixed), note)
    assert [(each.done, each.total) for each in reported] == [(0, 4), (1, 4), (2, 4), (3, 4), (4, 4)]


async def test_secrets_of_a_rollout_are_never_stored(tmp_path: Path) -> None:
    token = "ghp_" + "aB3dE5fG7hJ9kL1mN3pQ5rS7tU9vW1xY3zA5"
    leaky = met().model_copy(update={"steps": met().steps[:-1]})
    step = leaky.steps[1].model_copy(update={"text": f"{leaky.steps[1].text}\nGITHUB_TOKEN={token}"})
    leaky = leaky.model_copy(update={"steps": (leaky.steps[0], step, *leaky.steps[2:])})
    await ran(tmp_path, Scripted(lambda _: leaky), task=f"{TASK} The token is {token}.", count=2)
    assert files_with(tmp_path, token) == 0
    assert files_with(tmp_path, "no such table") > 0


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (MattsRequest(task="  ", count=2), "task is empty"),
        (MattsRequest(task=TASK, count=0), "k is 0"),
        (MattsRequest(task=TASK, count=33), "k is 33"),
        (MattsRequest(task=TASK, mode="sequential", count=0), "r is 0"),
    ],
)
async def test_a_task_that_is_empty_or_a_count_out_of_bounds_is_refused(
    tools: Toolbox, asked: MattsRequest, said: str
) -> None:
    with pytest.raises(InputError, match=said):
        await run_matts(tools, asked, Scripted(mixed))
    assert await tools.store.list_runs(tools.scope, ("queued", "running", "failed"), 10) == []


async def test_scaling_that_is_switched_off_says_so(tmp_path: Path) -> None:
    async with opened(tmp_path, matts(enabled=False)) as tools:
        with pytest.raises(ConfigError, match=r"matts\.enabled"):
            await run_matts(tools, MattsRequest(task=TASK, count=2), Scripted(mixed))


async def test_the_same_comparison_again_stores_nothing_twice(tools: Toolbox) -> None:
    first = await run_matts(tools, MattsRequest(task=TASK, count=3), Scripted(mixed))
    second = await run_matts(tools, MattsRequest(task=TASK, count=3), Scripted(mixed))
    assert first.stored
    assert second.stored == ()
    assert set(second.run.summary.reinforced) <= {item.id for item in first.stored}
    statistics = await tools.store.statistics(tools.scope, EMBEDDER.name)
    assert statistics.memories["active"] == len(first.stored)


async def test_a_fix_that_a_failed_task_found_too_is_one_memory_that_both_bear_out(tools: Toolbox) -> None:
    found = attempt(RED, MIGRATE, GREEN, ("make deploy", "make: *** No rule to make target 'deploy'", 2))
    failed = found.model_copy(update={"task_id": "earlier", "task": "Put the new release on the server."})
    own = Verdict(label="Failure", confidence=0.9, judge="agent")
    result = await run_matts(tools, MattsRequest(task=TASK, count=3), Scripted(mixed))
    (known,) = (item for item in result.stored if "contrast" in item.tags)
    assert (await learn(tools, failed, agent_verdict=own)).reinforced == (known.id,)
    fixes = await tools.store.list_memories((tools.scope,), MemoryFilter(tags=(FIX,)))
    assert [item.id for item in fixes] == [known.id]
    assert fixes[0].confidence > known.confidence
