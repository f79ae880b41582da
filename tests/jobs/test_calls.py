"""The tool calls in a transcript are logged once, whoever reads it: the job of a Stop or SessionEnd, or an import."""

from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from claude_lines import SESSION, Line, call, prompt, result, says, text, write
from hooked import hooked

from swarm_memory.schema.job import Progress
from swarm_memory.server.jobs.transcripts import import_files
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import make_worker
from swarm_memory.tools.tool_memory.log import MAX_CALL_CHARS
from swarm_memory.tools.toolbox import Toolbox

TASK = "The checkout tests fail with a SettingsError, please mend them"
EVENT = {"session_id": SESSION}
KEY = "AKIA" + "IOSFODNN7" + "ABCDEFG"
WAYS = ("Stop", "SessionEnd", "import")

LINES: list[Line] = [
    prompt(TASK),
    says(call("c1", "make test")),
    result("c1", "Exit code 2\nno rule", error=True),
    says(call("c2", "make tests")),
    result("c2", "2 passed"),
    says(text("Done: they pass.")),
]


@pytest.fixture
def transcript(home: Path) -> Path:
    return write(home / ".claude" / "projects" / "shop" / f"{SESSION}.jsonl", LINES)


async def read_by(way: str, toolbox: Toolbox, place: Location, transcript: Path) -> int:
    """Read a transcript in one way; return how many calls that logged."""
    if way == "import":
        return (await import_files(toolbox, [transcript], False, _ignore)).calls
    await hooked(toolbox, {"hook_event_name": way, "transcript_path": str(transcript), **EVENT})
    await make_worker(toolbox, place).work_off_all()
    done = await toolbox.store.list_jobs(toolbox.scope, ("completed",), 20)
    key = f"{SESSION}:1" if way == "Stop" else f"{SESSION}:all"
    (job,) = [job for job in done if job.kind == "learn" and job.key == key]
    calls = (job.result or {})["calls"]
    assert isinstance(calls, int)
    return calls


async def _ignore(progress: Progress) -> None:
    del progress


async def kept_calls(toolbox: Toolbox, tool: str = "Bash") -> list[Any]:
    kept = await toolbox.store.tool_memory.recent_calls(toolbox.scope, tool, 50)
    return [each.call for each in sorted(kept, key=lambda each: each.seq)]


@pytest.mark.parametrize("ways", list(permutations(WAYS)))
async def test_each_call_is_one_row_in_whatever_order_the_transcript_is_read(
    toolbox: Toolbox, place: Location, transcript: Path, ways: tuple[str, ...]
) -> None:
    await hooked(toolbox, {"hook_event_name": "UserPromptSubmit", "prompt": TASK, **EVENT})
    assert [await read_by(way, toolbox, place, transcript) for way in ways] == [2, 0, 0]
    logged = [(each.output, each.success, each.call_id) for each in await kept_calls(toolbox)]
    assert logged == [("Exit code 2\nno rule", False, "c1"), ("2 passed", True, "c2")]
    (memory,) = await toolbox.store.tool_memory.memories(toolbox.scope, ["Bash"])
    assert (memory.totals.calls, memory.totals.kept) == (2, 2)


async def test_a_task_that_goes_on_has_its_new_calls_logged_and_the_old_ones_once(
    toolbox: Toolbox, place: Location, transcript: Path
) -> None:
    await hooked(toolbox, {"hook_event_name": "UserPromptSubmit", "prompt": TASK, **EVENT})
    assert await read_by("Stop", toolbox, place, transcript) == 2
    write(transcript, [*LINES, prompt("now run them again"), says(call("c3", "make tests")), result("c3", "2 passed")])
    assert await read_by("SessionEnd", toolbox, place, transcript) == 1
    assert [each.call_id for each in await kept_calls(toolbox)] == ["c1", "c2", "c3"]
    assert {each.task_id for each in await kept_calls(toolbox)} == {f"{SESSION}:1"}


async def test_a_call_is_kept_without_secrets_and_cut(toolbox: Toolbox, place: Location, transcript: Path) -> None:
    output = f"aws_access_key_id={KEY} " + "x" * 100_000
    write(transcript, [prompt(TASK), says(call("c1", f"export K={KEY}")), result("c1", output), says(text("Done."))])
    assert await read_by("SessionEnd", toolbox, place, transcript) == 1
    (kept,) = await kept_calls(toolbox)
    assert KEY not in kept.input + kept.output
    assert "export" in kept.input
    assert len(kept.output) <= MAX_CALL_CHARS


async def test_our_own_tools_and_calls_that_were_interrupted_or_never_ended_are_not_logged(
    toolbox: Toolbox, place: Location, transcript: Path
) -> None:
    lines = [
        prompt(TASK),
        says(call("c1", "x", "mcp__swarm-memory__retrieve_memories")),
        result("c1", "[]"),
        says(call("c2", "make")),
        result("c2", "", interrupted=True),
        says(call("c3", "make test")),
    ]
    write(transcript, lines)
    assert await read_by("SessionEnd", toolbox, place, transcript) == 0
    assert await kept_calls(toolbox) == []
