"""`run_matts` and `job` over MCP, on a real bank with a real worker."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from patience import HANG_S

from swarm_memory.schema.settings import MattsSettings, Settings
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import open_toolbox

AGENT = """
import os, pathlib, time
root, number = pathlib.Path({root!r}), os.environ["MATTS_ROLLOUT"]
with open(root / "ran.txt", "a") as ran:
    ran.write(number)
if number == "2" and not (root / "gate").exists():
    time.sleep(60)
print("done")
"""
TASK = "Make the tests of the shop pass."


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("swarm_memory.server.served_bank.FIRST_LOOK_S", 0.0)
    monkeypatch.setattr("swarm_memory.server.jobs.worker.REPORT_S", 0.05)


@pytest.fixture
def settings(settings: Settings, tmp_path: Path) -> Settings:
    """Settings that allow two commands: one never ends by itself; the second rollout of the other waits for a file."""
    root = tmp_path / "shop"
    root.mkdir()
    script = root / "agent.py"
    script.write_text(AGENT.format(root=str(root)))
    allowed = ("sleep 60", f"{sys.executable} -I {script}")
    return settings.model_copy(update={"matts": MattsSettings(allowed_commands=allowed, max_concurrency=1)})


@pytest.fixture
def attempts(fixed: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one attempt that stopped at the error, and one that resolved it."""
    return [{"steps": fixed["steps"][:2]}, {"steps": fixed["steps"]}]


async def test_an_agent_gives_its_attempts_and_gets_the_comparison(
    connected: Callable[[], Any], attempts: list[dict[str, Any]]
) -> None:
    async with connected() as caller:
        answer = await caller.call("run_matts", task=TASK, runner="given", attempts=attempts, task_id="t1")
        assert answer["status"] == "completed"
        result = answer["result"]
        assert [each["label"] for each in result["rollouts"]] == ["Failure", "Success"]
        assert (result["best"], result["best_answer"]) == (2, "Done: the tests pass after the migration.")
        listed = (await caller.call("job", action="list"))["jobs"]
        assert [(each["job_id"], each["kind"], each["status"]) for each in listed] == [
            (answer["job_id"], "run_matts", "completed")
        ]
        found = await caller.call("retrieve_memories", query="the tests fail: no such table orders")
        assert found["preamble"].count("Noted by an agent, not confirmed: ") == len(result["stored"]) > 0


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"runner": "command", "command": "rm -rf ."}, "matts.allowed_commands"),
    ({"runner": "given"}, "attempts"),
    ({"runner": "given", "attempts": [{"steps": []}]}, "steps is empty"),
    ({"runner": "shell"}, "runner"),
    ({"runner": "command", "command": "sleep 60", "folder": ".."}, "folder"),
]


async def test_what_cannot_run_says_what_to_change_and_is_not_queued(connected: Callable[[], Any]) -> None:
    async with connected() as caller:
        for arguments, said in REFUSED:
            assert said in await caller.error("run_matts", task=TASK, **arguments)
        assert (await caller.call("job", action="list"))["jobs"] == []
        assert "action list" in await caller.error("job", action="result", job_id="job_x")
        assert "job_id" in await caller.error("job", action="cancel")


async def test_consolidation_says_what_it_did_and_is_taken_back_by_its_run(
    connected: Callable[[], Any], fixed: dict[str, Any]
) -> None:
    async with connected() as caller:
        await caller.call("learn_from_trajectory", **fixed)
        done = await caller.call("consolidate_memories")
        assert (done["kind"], done["status"]) == ("consolidate", "completed")
        assert (await caller.call("consolidate_memories", undo=done["result"]["run_id"]))["status"] == "completed"
        assert (await caller.call("consolidate_memories", dry_run=True))["result"]["dry_run"] is True
        assert "cs_unknown" in await caller.error("consolidate_memories", undo="cs_unknown")


async def test_a_cancelled_run_is_gone_on_with_by_its_run_id_and_finished_rollouts_are_not_run_again(
    connected: Callable[[], Any], monkeypatch: pytest.MonkeyPatch, settings: Settings, place: Location
) -> None:
    monkeypatch.setattr("swarm_memory.server.jobs.control.WAIT_S", 0.05)
    ran, gate = place.root / "ran.txt", place.root / "gate"
    async with connected() as caller:
        begun = await caller.call(
            "run_matts", task=TASK, runner="command", command=settings.matts.allowed_commands[1], k=2
        )
        assert begun["status"] in ("queued", "running")
        assert "job" in begun["hint"]
        with anyio.fail_after(HANG_S):
            while not (ran.exists() and len(ran.read_text()) == 2):
                await anyio.lowlevel.checkpoint()
        assert (await caller.call("job", action="cancel", job_id=begun["job_id"]))["jobs"][0]["status"] == "cancelled"
    gate.touch()
    monkeypatch.setattr("swarm_memory.server.jobs.control.WAIT_S", 4.0)
    async with connected() as caller:
        run_id = await _run_id(place, settings)
        (ended,) = (await caller.call("job", action="resume", job_id=run_id))["jobs"]
        assert ended["status"] == "completed", ended
        assert ended["job_id"] != begun["job_id"]
        assert ended["result"]["run_id"] == run_id
        assert [each["number"] for each in ended["result"]["rollouts"]] == [1, 2]
        assert ran.read_text() == "122", "the first was not run again"
        assert "nothing to resume" in await caller.error("job", action="resume", job_id=run_id)
        assert (await caller.call("job", action="status", job_id=run_id))["jobs"][0]["job_id"] == ended["job_id"]


async def _run_id(place: Location, settings: Settings) -> str:
    toolbox = await open_toolbox(place, settings)
    (run,) = await toolbox.store.list_runs(toolbox.scope, ("cancelled",), 5)
    await toolbox.store.close()
    return run.run_id
