"""Export, import, copy and forget: totals go along, twice is once, nothing is left behind."""

from pathlib import Path
from typing import Any

from logged import bank, call, failed

from swarm_memory.tools.tool_memory.advise import retrieve_tool_memory
from swarm_memory.tools.tool_memory.evaluate import evaluate_tool_calls
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory
from swarm_memory.tools.tool_memory.transfer import copy_tools, export_tools, import_tools
from swarm_memory.tools.toolbox import Toolbox


async def totals(toolbox: Toolbox) -> Any:
    """Return what is counted in the scope."""
    return [each.totals for each in await toolbox.store.tool_memory.memories(toolbox.scope, None)]


async def filled(toolbox: Toolbox) -> None:
    """Log more than the window holds: equal calls without an id, and some with one."""
    await log_tool_calls(toolbox, [call()] * 4 + [failed(session_id="s", call_id=f"c{n}") for n in range(4)])
    await evaluate_tool_calls(toolbox)


async def test_an_export_brings_calls_evaluations_and_totals_and_twice_is_once(tmp_path: Path) -> None:
    async with bank(tmp_path / "a", max_history_tool_call_cnt=5) as here, bank(tmp_path / "b") as there:
        await filled(here)
        lines = [line async for line in export_tools(here)]
        assert len(lines) == 6
        first = await import_tools(there, lines)
        assert (first.tools, first.calls, first.known, first.faulty) == (1, 5, 0, 0)
        assert await totals(there) == await totals(here)
        assert (await totals(there))[0].calls == 8
        second = await import_tools(there, lines)
        assert (second.tools, second.calls, second.known) == (0, 0, 5)
        assert await totals(there) == await totals(here)
        assert (await evaluate_tool_calls(there)).evaluated == 0
        assert (await retrieve_tool_memory(there, task="weather in Rome")).experience


async def test_importing_what_is_here_changes_nothing(toolbox: Toolbox) -> None:
    await filled(toolbox)
    before = await totals(toolbox)
    lines = [line async for line in export_tools(toolbox)]
    assert (await import_tools(toolbox, lines)).calls == 0
    assert await totals(toolbox) == before


async def test_a_copy_stands_in_the_other_project_and_lives_its_own_life(toolbox: Toolbox) -> None:
    await filled(toolbox)
    done = await copy_tools(toolbox, "other")
    other = toolbox.in_project("other")
    assert (done.calls, await totals(other)) == (8, await totals(toolbox))
    await log_tool_calls(other, [call()])
    assert [each.calls for each in await totals(toolbox)] == [8]
    await toolbox.store.tool_memory.forget_tools(toolbox.scope, None)
    assert [each.calls for each in await totals(other)] == [9]


async def test_a_faulty_line_is_told_of_and_the_others_are_read(toolbox: Toolbox) -> None:
    await filled(toolbox)
    lines = [line async for line in export_tools(toolbox)]
    done = await import_tools(toolbox.in_project("other"), ["{", lines[0], '{"kind":"call"}', *lines[1:], "[]"])
    assert (done.faulty, done.calls) == (3, 8)
    assert done.faults[0].startswith("line 1: ")


async def test_what_is_forgotten_leaves_no_trace_in_the_files(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        word = "zebrafinch"
        made = call(input={"query": f"{word} song"}, output=f"{word} song heard", task=f"find a {word}")
        await log_tool_calls(toolbox, [made, call("other")])
        await summarize_tool_memory(toolbox)
        assert (await retrieve_tool_memory(toolbox, task=f"{word} song")).experience
        assert await toolbox.store.tool_memory.forget_tools(toolbox.scope, ["search"]) == 1
        assert (await retrieve_tool_memory(toolbox, task=f"{word} song")).experience == ()
        assert [each.tool_name for each in await totals(toolbox)] == ["other"]
    held = b"".join(file.read_bytes() for file in (tmp_path / ".swarm").iterdir() if file.is_file())
    assert word.encode() not in held
