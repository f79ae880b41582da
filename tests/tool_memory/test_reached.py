"""The tool memory as it is accessed: over MCP, from the command line, through hooks, jobs and the viewer."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from claude_lines import call as used
from claude_lines import prompt as asked
from claude_lines import result as answered
from claude_lines import says, write
from click.testing import CliRunner
from hooked import hooked
from laid_bank import EMBEDDER
from mcp.client import Client
from scripted_runs import Script, opened

from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.cli.main import cli
from swarm_memory.server.jobs.handlers import evaluate_logged
from swarm_memory.server.jobs.transcripts import learn_from_job
from swarm_memory.server.jobs.worker import ProgressReporter
from swarm_memory.server.mcp.app import build_server
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.wiring import make_worker, open_toolbox, place_of
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.tool_memory.advise import errors_seen, tools_in_use
from swarm_memory.tools.tool_memory.log import EVALUATE, learn_and_log
from swarm_memory.tools.toolbox import Toolbox
from tests.tool_memory.logged import at, call, failed, forward, log_calls


@asynccontextmanager
async def connected(folder: Path) -> AsyncGenerator[Client]:
    """Connect to a server with a real bank and a real worker."""
    place = place_of(folder, Settings())
    bank = ServedBank(lambda: open_toolbox(place, Settings()), lambda toolbox: make_worker(toolbox, place))
    async with Client(build_server(bank)) as client:
        yield client


async def answer(client: Client, tool: str, **arguments: Any) -> dict[str, Any]:
    result = await client.call_tool(tool, arguments)
    return result.structured_content or {"error": result.is_error}


async def test_who_logs_more_calls_of_a_tool_than_are_kept_is_told(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        logged = await answer(client, "log_tool_call", calls=[call()] * 100)
        assert logged == {"logged": 100, "known": 0, "tools": ["search"]}
        more = await answer(client, "log_tool_call", calls=[call()] * 3)
        assert more["notice"] == "search: only the newest 100 calls per tool are kept, others as totals"


async def test_calls_are_logged_summarized_and_retrieved_over_mcp(tmp_path: Path) -> None:
    async with connected(tmp_path) as client:
        logged = await answer(client, "log_tool_call", calls=[*[call()] * 4, failed()])
        assert logged == {"logged": 5, "known": 0, "tools": ["search"]}
        given = await answer(client, "summarize_tool_memory")
        assert given["status"] == "completed"
        message = "Successfully processed 1 tool memories: 1 summarized, 0 skipped (already up-to-date)"
        assert given["result"]["message"] == message
        found = await answer(client, "retrieve_tool_memory", tool_names=["search"])
        assert "## `search`" in found["markdown"]
        ranked = await answer(client, "retrieve_tool_memory", task="weather in Rome")
        assert (ranked["ranked"][0]["tool_name"], ranked["ranked"][0]["similar_calls"]) == ("search", 5)
        faulty = await answer(client, "log_tool_call", calls=[{"tool_name": "x"}])
        assert faulty["error"]
        status = await answer(client, "memory_status")
        assert status["tools"].startswith("1 tool, 5 calls (5 kept, 0 not evaluated)")


def test_the_command_line_logs_shows_and_forgets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, given: str | None = None, of: str = "tools") -> str:
        done = CliRunner().invoke(cli, [of, *arguments], input=given, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    lines = "\n".join(json.dumps(each) for each in (*[call()] * 4, failed()))
    assert json.loads(run("log", "--json", given=lines)) == {"logged": 5, "known": 0, "tools": ["search"]}
    assert "Successfully processed 1 tool memories: 1 summarized, 0 skipped" in run("list", "--summarize")
    assert "## `search`" in run("show", "search")
    assert "1. `search`" in run("show", "--task", "weather in Rome")
    assert json.loads(run("list", "--json"))["tools"][0]["calls"] == 5
    assert json.loads(run("forget", "--tool", "*", "--yes", "--json", of="memories")) == {"forgotten": 1}
    assert run("list").startswith("tools: none")


async def test_the_job_of_a_stop_queues_the_evaluation_and_that_evaluates_and_summarizes(
    open_bank: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = "Find the weather in Rome please"
    lines = [
        asked(task),
        says(used("a", "x", "search")),
        answered("a", "Rome"),
        says(used("b", "x", "search")),
        answered("b", "no", error=True),
    ]
    path = str(write(tmp_path / "s1.jsonl", lines))
    monkeypatch.setattr("swarm_memory.server.jobs.handlers.SUMMARIZE_AFTER", 2)
    async with open_bank() as toolbox:
        given = {"session_id": "s1", "transcript_path": path}
        await hooked(toolbox, {"hook_event_name": "UserPromptSubmit", "prompt": task, **given})
        await hooked(toolbox, {"hook_event_name": "Stop", **given})
        (stopped,) = await toolbox.store.list_jobs(toolbox.scope, ("queued",), 10)
        assert (await learn_from_job(toolbox, stopped, root=tmp_path))["calls"] == 2
        jobs = await toolbox.store.list_jobs(toolbox.scope, ("queued",), 10)
        (job,) = [each for each in jobs if each.kind == EVALUATE]
        kept = await toolbox.store.tool_memory.recent_calls(toolbox.scope, "search", 10)
        assert {each.call.task for each in kept} == {task}
        assert [each.call.success for each in sorted(kept, key=lambda each: each.seq)] == [True, False]
        forward(toolbox, 61)
        result = await evaluate_logged(toolbox, job, ProgressReporter())
        assert result["message"] == (
            "Successfully processed 1 tool memories: 1 summarized, 0 skipped (already up-to-date)"
        )


async def test_a_users_correction_is_noted_from_the_prompt(toolbox: Toolbox) -> None:
    prompts = ("Find the weather in Rome please", "no, that is wrong, I meant Rome in Georgia")
    for prompt in prompts:
        event = {"hook_event_name": "UserPromptSubmit", "session_id": "s1", "prompt": prompt}
        await hooked(toolbox, event)
    (noted,) = await toolbox.store.events_of_kind(toolbox.scope, "tool_call.corrected", 10)
    assert noted.subject_id == "s1"


MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'config/test.toml'"


async def test_tools_are_shown_with_their_success_time_and_tokens_the_most_used_first(toolbox: Toolbox) -> None:
    await log_calls(toolbox, [call("rare", time_cost=2.0, token_cost=10, create_time=at(5))])
    await log_calls(toolbox, [call(time_cost=1.0), call(time_cost=3.0), failed()])
    search, rare = await tools_in_use(toolbox)
    assert (search.names, search.totals.calls, search.rate) == (["search"], 3, wilson(2, 3))
    assert (search.totals.time_cost_us, search.totals.timed) == (4_000_000, 2)
    assert (rare.totals.token_cost, rare.totals.counted) == (10, 1)
    await log_calls(toolbox, [call(name) for name in ("bash", "Bash", "run_shell_command", "execute_sql")])
    (shell,) = [use for use in await tools_in_use(toolbox) if "Bash" in use.names]
    assert (sorted(shell.names), shell.totals.calls) == (["Bash", "bash", "run_shell_command"], 3)
    assert await tools_in_use(toolbox, "bash") == [shell]
    with pytest.raises(NotFoundError, match="nothing"):
        await tools_in_use(toolbox, "nothing")


async def test_errors_are_the_same_whatever_the_run_and_the_most_frequent_stand_first(toolbox: Toolbox) -> None:
    lines = [f"Error: limit must be at most {number}, request {number}7 was refused" for number in (100, 200)]
    calls = [failed(line, session_id=f"s{at}", call_id=f"c{at}") for at, line in enumerate(lines)]
    calls += [failed("Error: the index is locked by a writer"), failed("exit code 1"), call()]
    await log_calls(toolbox, calls)
    found = await errors_seen(toolbox)
    assert [(each.times, each.sessions) for each in found] == [(2, 2), (1, 1)]
    assert "limit must be at most" in found[0].line
    assert await errors_seen(toolbox, ["other"]) == []


def run(session: str) -> Trajectory:
    script = Script("make the returns tests pass", task_id=f"{session}:1").shell("pytest tests/returns", MISSING, 1)
    script.shell("cp config/test.example.toml config/test.toml").shell("pytest tests/returns", "12 passed in 0.32s")
    return script.say("They pass.").done().model_copy(update={"session_id": session})


async def test_an_error_has_what_ended_it(tmp_path: Path) -> None:
    async with opened(tmp_path, EMBEDDER) as (tools, _):
        first = await learn_and_log(tools, run("s0"))
        await learn_and_log(tools, run("s1"))
        await learn_and_log(tools, run("s2"))
        (error,) = await errors_seen(tools)
        assert (error.signature.program, error.signature.kind, error.times) == ("pytest", "missing-file", 3)
        (fix,) = error.fixes
        assert fix.item.id in {item.id for item in first.stored}
        assert (fix.known.worked, fix.known.tried) == (3, 3)
        assert error.last.call.task_id == "s2:1"
