"""What the viewer tells of tools: figures, programs, errors with what ended them, and whether telling it helped."""

from pathlib import Path
from typing import Any

import pytest
from hooked import after_failure
from laid_bank import EMBEDDER
from logged import at, call, failed
from scripted_runs import NOW, Script, opened

from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.credit.intervals import wilson
from swarm_memory.tools.ports.journal import HostSession
from swarm_memory.tools.tool_memory.log import learn_and_log, log_tool_calls
from swarm_memory.tools.tool_memory.overview import errors_seen, tool_in_use, tools_in_use
from swarm_memory.tools.toolbox import Toolbox

MISSING = "FileNotFoundError: [Errno 2] No such file or directory: 'config/test.toml'"


async def test_tools_are_told_with_their_success_time_and_tokens_the_most_used_first(toolbox: Toolbox) -> None:
    await log_tool_calls(toolbox, [call("rare", time_cost=2.0, token_cost=10, create_time=at(5))])
    await log_tool_calls(toolbox, [call(time_cost=1.0), call(time_cost=3.0), failed()])
    (search, memory), (rare, _) = await tools_in_use(toolbox)
    assert (search.name, search.calls, search.succeeded, search.rate) == ("search", 3, 2, wilson(2, 3))
    assert search.time_s == pytest.approx(2.0)
    assert (rare.time_s, rare.tokens, memory.totals.kept) == (2.0, 10.0, 3)
    with pytest.raises(NotFoundError, match="nothing"):
        await tool_in_use(toolbox, "nothing")


async def test_of_a_tool_that_runs_commands_the_programs_are_told(toolbox: Toolbox) -> None:
    def ran(command: str, **fields: Any) -> dict[str, Any]:
        return call("Bash", input={"command": command}, output="ok", **fields)

    broken = failed(MISSING, tool="Bash", input={"command": "pytest tests/returns"})
    await log_tool_calls(toolbox, [ran("cd /srv && pytest -q"), broken, ran("git push"), call("search")])
    found = await tool_in_use(toolbox, "Bash")
    assert [(use.name, use.calls, use.succeeded) for use in found.programs] == [("pytest", 2, 1), ("git push", 1, 1)]
    assert (await tool_in_use(toolbox, "search")).programs == ()


async def test_errors_are_the_same_whatever_the_run_and_the_most_frequent_stand_first(toolbox: Toolbox) -> None:
    lines = [f"Error: limit must be at most {number}, request {number}7 was refused" for number in (100, 200)]
    calls = [failed(line, session_id=f"s{at}", call_id=f"c{at}") for at, line in enumerate(lines)]
    calls += [failed("Error: the index is locked by a writer"), failed("exit code 1"), call()]
    await log_tool_calls(toolbox, calls)
    found = await errors_seen(toolbox)
    assert [(each.times, each.sessions) for each in found.seen] == [(2, 2), (1, 1)]
    assert (found.calls, found.unnamed) == (4, 1)
    assert "limit must be at most" in found.seen[0].line
    assert (await errors_seen(toolbox, "other")).calls == 0


def run(session: str) -> Trajectory:
    script = Script("make the returns tests pass", task_id=f"{session}:1").shell("pytest tests/returns", MISSING, 1)
    script.shell("cp config/test.example.toml config/test.toml").shell("pytest tests/returns", "12 passed in 0.32s")
    return script.say("They pass.").done().model_copy(update={"session_id": session})


async def test_an_error_has_its_way_out_and_what_came_of_telling_it(tmp_path: Path) -> None:
    async with opened(tmp_path, EMBEDDER) as (tools, _):
        first = await learn_and_log(tools, run("s0"))
        await learn_and_log(tools, run("s1"))
        for session in ("s2", "s3"):
            told = HostSession(session_id=session, scope=tools.scope, task_id=f"{session}:1", updated_at=NOW)
            await tools.store.put_session(told)
            assert await after_failure(tools, session, "pytest tests/returns", f"Exit code 1\n{MISSING}")
        await learn_and_log(tools, run("s2"))
        (error,) = (await errors_seen(tools)).seen
        assert (error.signature.program, error.signature.kind, error.times) == ("pytest", "missing-file", 3)
        (way,) = error.ways
        assert way.item.id in {item.id for item in first.stored}
        assert (way.known.worked, way.known.tried) == (3, 3)
        assert way.told is not None
        assert (way.told.told, way.told.withheld, way.told.helped, way.told.in_vain) == (2, 0, 1, 0)
        assert error.last.call.task_id == "s2:1"
