"""Benchmarks from the command line and over MCP."""

import json
import os
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from forked import CLI, Forked, run
from laid_bank import BY_TABLE
from mcp.client import Client
from patience import HANG_S
from pydantic import JsonValue

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import Settings
from swarm_memory.server.benchmark.job import checked_payload
from swarm_memory.server.benchmark.running import SUITES
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.wiring import make_worker, open_toolbox, opened_toolbox, place_of
from swarm_memory.tools.text.tokens import count_tokens
from tests.benchmark.conftest import NORMALIZED

TINY = ["-o", "dataset=file", "-o", "path=tiny.json", "-o", "systems=hybrid,bm25-okapi"]

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def swarm(root: Path) -> Command:
    """Return a function that runs `swarm-memory` in the project's folder."""

    def ran(*arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        done = run([*CLI, *arguments], cwd=root, text=True)
        assert done.returncode == code, done.stderr
        return done

    return ran


def test_a_run_is_listed_and_reported(swarm: Command) -> None:
    first = json.loads(swarm("benchmark", "run", *TINY, "--json").stdout)
    assert first["status"] == "completed"
    assert Path(first["file"]).is_file()
    second = json.loads(swarm("benchmark", "run", *TINY, "-o", "limit=2", "--json", "--out", "b.json").stdout)
    listed = json.loads(swarm("benchmark", "report", "--list", "--json").stdout)
    assert [each["run_id"] for each in listed] == [second["run_id"], first["run_id"]]
    assert swarm("benchmark", "report", first["run_id"]).stdout.startswith("# Benchmark: retrieval\n")
    assert swarm("benchmark", "report", first["run_id"], "b.json").stdout.count("# Benchmark: retrieval\n") == 2


def test_wrong_options_end_with_code_2_and_say_what_to_change(swarm: Command) -> None:
    assert "there is no suite 'speed'" in swarm("benchmark", "run", "speed", code=2).stderr
    assert "option k.0" in swarm("benchmark", "run", "-o", "k=0", code=2).stderr
    assert "there is no run" in swarm("benchmark", "report", "bench_x", code=2).stderr
    swarm("benchmark", "run", "-o", "dataset=locomo", code=2)
    assert "no run has measured" in swarm("benchmark", "report", code=2).stderr, "a failed run measured nothing"
    assert "locomo" in swarm("benchmark", "run", "--list").stdout


@pytest.fixture
def endless(root: Path) -> Path:
    """The project's folder, with so many questions that no run reaches the last one."""
    data = NORMALIZED | {"questions": NORMALIZED["questions"] * 5_000}
    (root / "tiny.json").write_text(json.dumps(data), encoding="utf-8")
    return root


@pytest.mark.skipif(os.name == "nt", reason="Ctrl-C is another matter there")
def test_ctrl_c_leaves_what_was_measured(endless: Path, swarm: Command) -> None:
    running = Forked(
        [*CLI, "-v", "benchmark", "run", *TINY], cwd=endless, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    # The row is written before the first question is asked, the file only at the end.
    while "running" not in swarm("benchmark", "report", "--list", "--json").stdout:
        assert running.poll() is None
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=HANG_S)
    assert running.returncode == 130, said
    assert "stopped" in said
    (row,) = json.loads(swarm("benchmark", "report", "--list", "--json").stdout)
    assert row["status"] == "interrupted"
    (file,) = (endless / ".swarm" / "benchmarks").glob("bench_*.json")
    assert json.loads(file.read_text("utf-8"))["run_id"] == row["run_id"]


def _server(root: Path) -> Any:
    settings = Settings(embedding=BY_TABLE)
    place = place_of(root, settings)
    return build_server(ServedBank(lambda: open_toolbox(place, settings), lambda toolbox: make_worker(toolbox, place)))


async def test_the_tool_runs_a_benchmark_and_answers_its_tables(root: Path) -> None:
    reports: list[float] = []

    async def on_progress(progress: float, total: float | None, message: str | None) -> None:
        reports.append(progress)

    options = {"dataset": "file", "path": "tiny.json", "systems": ["hybrid", "hybrid+context", "bm25-okapi"]}
    async with Client(_server(root)) as client:
        result = await client.call_tool("run_benchmark", {"options": options}, progress_callback=on_progress)
        assert not result.is_error
        answer = result.structured_content
        refused = await client.call_tool("run_benchmark", {"options": {"systems": ["psychic"]}})
    assert answer is not None
    assert answer["status"] == "completed"
    assert "## Retrieval on tiny" in answer["result"]["tables"]
    assert answer["result"]["file"].endswith(f"{answer['result']['run_id']}.json")
    assert reports
    assert refused.is_error
    assert "option systems: " in getattr(refused.content[0], "text", "")


async def test_without_arguments_the_tool_runs_nothing_and_says_what_each_suite_measures_and_costs(root: Path) -> None:
    async with Client(_server(root)) as client:
        listed = (await client.call_tool("run_benchmark", {})).structured_content
        jobs = (await client.call_tool("job", {"action": "list"})).structured_content
    assert listed is not None
    assert [each["suite"] for each in listed["suites"]] == list(SUITES)
    assert all(each["measures"] and each["cost"] and "seed" in each["options"] for each in listed["suites"])
    assert "nothing was run" in listed["hint"]
    assert jobs == {"jobs": []}
    assert count_tokens(json.dumps(listed)) < 1500


async def test_a_benchmark_that_was_begun_by_the_tool_can_be_cancelled(
    endless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.server.jobs.control.WAIT_S", 0.5)
    async with Client(_server(endless)) as client:
        begun = await client.call_tool("run_benchmark", {"options": {"dataset": "file", "path": "tiny.json"}})
        assert begun.structured_content is not None
        job_id = begun.structured_content["job_id"]
        while "asked" not in str((await client.call_tool("job", {"action": "list"})).structured_content):
            pass
        await client.call_tool("job", {"action": "cancel", "job_id": job_id})
        ended = await client.call_tool("job", {"action": "result", "job_id": job_id})
    assert ended.structured_content is not None
    assert ended.structured_content["jobs"][0]["status"] == "cancelled"
    async with opened_toolbox(place_of(endless, Settings()), Settings()) as opened:
        (row,) = await opened.store.benchmarks.list_benchmarks(opened.scope, 5)
    assert row.status == "cancelled"


@pytest.mark.parametrize("options", [{"tasks": "x"}, {"command": "x"}])
def test_a_model_names_no_programs_to_start(options: dict[str, JsonValue]) -> None:
    with pytest.raises(InputError, match="is for the user alone"):
        checked_payload("learning", options)
