"""What the viewer shows of tools: figures, and errors with what ended them."""

from pathlib import Path

import pytest
from laid_bank import EMBEDDER
from scripted_runs import Script, opened

from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.tool_memory.advise import errors_seen, tools_in_use
from swarm_memory.tools.tool_memory.log import learn_and_log
from swarm_memory.tools.toolbox import Toolbox
from tests.tool_memory.logged import at, call, failed, log_calls

MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'config/test.toml'"


async def test_tools_are_shown_with_their_success_time_and_tokens_the_most_used_first(toolbox: Toolbox) -> None:
    await log_calls(toolbox, [call("rare", time_cost=2.0, token_cost=10, create_time=at(5))])
    await log_calls(toolbox, [call(time_cost=1.0), call(time_cost=3.0), failed()])
    search, rare = await tools_in_use(toolbox)
    assert (search.memory.totals.tool_name, search.memory.totals.calls, search.rate) == ("search", 3, wilson(2, 3))
    assert search.time_s == pytest.approx(2.0)
    assert (rare.time_s, rare.tokens, search.memory.totals.kept) == (2.0, 10.0, 3)
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
    assert await errors_seen(toolbox, "other") == []


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
