"""What each event of the host does, on a real database."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from clock import SetClock

from swarm_memory.schema.job import Job, JobStatus
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import HookSettings, Settings, StorageSettings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.hooks.event import HookEvent
from swarm_memory.server.hooks.events import handle_hook
from swarm_memory.server.hooks.spool import drain_spool
from swarm_memory.server.storage.engine.connection import connect
from swarm_memory.server.wiring import open_toolbox, place_of
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.toolbox import Toolbox

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
TASK = "The checkout tests fail with a SettingsError, please mend them"


@asynccontextmanager
async def bank(folder: Path, **hooks: Any) -> AsyncGenerator[Toolbox]:
    """Open a bank that knows one strategy."""
    settings = Settings(storage=StorageSettings(project="shop"), hooks=HookSettings(**hooks))
    toolbox = replace(await open_toolbox(place_of(folder, settings), settings), clock=SetClock(NOW))
    try:
        await learn(
            toolbox,
            Trajectory(task_id="t0", task="mend the checkout tests"),
            agent_verdict=Verdict(label="Success", confidence=0.9, judge="agent"),
            agent_drafts=[MemoryDraft(title="Mend a SettingsError of the checkout tests", content="Copy the example.")],
        )
        yield toolbox
    finally:
        await toolbox.store.close()


async def send(toolbox: Toolbox, name: str, **fields: Any) -> dict[str, Any]:
    event = {"session_id": "s1", "transcript_path": "/home/dev/s1.jsonl", **fields, "hook_event_name": name}
    answer = await handle_hook(toolbox, HookEvent.model_validate(event))
    await toolbox.store.release(toolbox.scope, "none", NOW)  # writes come one after another: now the event's are there
    return answer


async def jobs(toolbox: Toolbox, *statuses: JobStatus) -> list[Job]:
    return await toolbox.store.list_jobs(toolbox.scope, statuses or ("queued",), 50)


async def current_task(toolbox: Toolbox) -> str | None:
    session = await toolbox.store.get_session(toolbox.scope, "s1")
    return session.task_id if session else None


async def test_a_task_gets_the_strategies_that_fit_it(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        answer = await send(toolbox, "UserPromptSubmit", prompt=TASK)
        told = answer["hookSpecificOutput"]
        assert told["hookEventName"] == "UserPromptSubmit"
        assert "Copy the example" in told["additionalContext"]
        assert await current_task(toolbox) == "s1:1"


@pytest.mark.parametrize("prompt", ["/cost", "", "hello", "mend tests now", "<command-name>/clear</command-name>"])
async def test_a_short_prompt_or_a_slash_command_gets_nothing(tmp_path: Path, prompt: str) -> None:
    async with bank(tmp_path) as toolbox:
        assert await send(toolbox, "UserPromptSubmit", prompt=prompt) == {}


async def test_a_task_that_nothing_fits_gets_nothing(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        prompt = "translate the landing page into French and keep its layout"
        assert await send(toolbox, "UserPromptSubmit", prompt=prompt) == {}
        assert await current_task(toolbox) == "s1:1"


async def test_injection_can_be_switched_off_and_tasks_are_still_noted(tmp_path: Path) -> None:
    async with bank(tmp_path, inject=False) as toolbox:
        assert await send(toolbox, "UserPromptSubmit", prompt=TASK) == {}
        assert await current_task(toolbox) == "s1:1"


async def test_a_continued_task_is_told_nothing_twice(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        again = "the checkout tests still fail with the same SettingsError"
        assert await send(toolbox, "UserPromptSubmit", prompt=again) == {}
        assert await current_task(toolbox) == "s1:1"


async def test_a_task_that_began_with_too_few_words_is_told_when_it_goes_on(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt="fix tests")
        again = "no, it is the checkout tests that fail with a SettingsError"
        assert "hookSpecificOutput" in await send(toolbox, "UserPromptSubmit", prompt=again)
        assert await current_task(toolbox) == "s1:1"


async def test_a_stop_queues_the_task_and_a_later_one_replaces_it(tmp_path: Path) -> None:
    async with bank(tmp_path, settle_s=20) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        assert await send(toolbox, "Stop", last_assistant_message="done") == {}
        await send(toolbox, "Stop")
        (job,) = await jobs(toolbox)
        assert (job.kind, job.key, job.run_after) == ("learn", "s1:1", NOW + timedelta(seconds=20))
        assert job.payload == {"transcript_path": "/home/dev/s1.jsonl", "session_id": "s1", "task_id": "s1:1"}


async def test_a_continued_task_is_not_learned_from_before_its_next_stop(tmp_path: Path) -> None:
    async with bank(tmp_path, settle_s=20) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        await send(toolbox, "Stop")
        await send(toolbox, "UserPromptSubmit", prompt="still failing")
        (held,) = await jobs(toolbox)
        assert held.run_after > NOW + timedelta(minutes=30)
        await send(toolbox, "Stop")
        (queued,) = await jobs(toolbox)
        assert queued.run_after == NOW + timedelta(seconds=20)


async def test_a_new_task_sets_the_former_one_free(tmp_path: Path) -> None:
    async with bank(tmp_path, settle_s=1800) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        await send(toolbox, "Stop")
        await send(toolbox, "UserPromptSubmit", prompt="Write a migration with a currency column for the orders table")
        (job,) = await jobs(toolbox)
        assert (job.key, job.run_after) == ("s1:1", NOW)
        assert await current_task(toolbox) == "s1:2"


async def test_a_stop_without_a_task_queues_nothing(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        assert await send(toolbox, "Stop") == {}
        assert await jobs(toolbox) == []


async def test_the_end_of_a_session_makes_all_of_it_due(tmp_path: Path) -> None:
    async with bank(tmp_path, settle_s=3600) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        await send(toolbox, "Stop")
        assert await send(toolbox, "SessionEnd", reason="other") == {}
        assert {(job.key, job.run_after) for job in await jobs(toolbox)} == {("s1:1", NOW), ("s1:all", NOW)}


async def test_tool_calls_become_rows_once_each(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        call = {
            "tool_name": "Bash",
            "tool_use_id": "c1",
            "tool_input": '{"command":"make test"}',
            "duration_ms": "1500",
        }
        assert await send(toolbox, "PostToolUseFailure", **call, error="Exit code 2\nno rule") == {}
        assert await send(toolbox, "PostToolUseFailure", **call, error="Exit code 2\nno rule") == {}
        assert (
            await send(toolbox, "PostToolUse", **(call | {"tool_use_id": "c2"}), tool_response='{"stdout":"ok"}') == {}
        )
        assert tool_calls(tmp_path) == [
            ("Bash", '{"command": "make test"}', "Exit code 2\nno rule", 0, 1.5, "s1:1"),
            ("Bash", '{"command": "make test"}', "ok", 1, 1.5, "s1:1"),
        ]


async def test_a_tool_call_is_kept_without_secrets_and_cut(tmp_path: Path) -> None:
    key = "AKIA" + "IOSFODNN7" + "ABCDEFG"
    async with bank(tmp_path) as toolbox:
        shown = {"stdout": f"aws_access_key_id={key} " + "x" * 100_000, "stderr": ""}
        await send(
            toolbox, "PostToolUse", tool_name="Bash", tool_use_id="c1", tool_response=shown, tool_input={"command": key}
        )
        ((_, told, output, *_),) = tool_calls(tmp_path)
        assert key not in told + output
        assert len(output) <= toolbox.settings.tool_memory.max_call_chars


async def test_our_own_tools_and_interrupted_calls_are_not_noted(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        await send(toolbox, "PostToolUse", tool_name="mcp__swarm-memory__retrieve_memories", tool_use_id="c1")
        await send(toolbox, "PostToolUseFailure", tool_name="Bash", tool_use_id="c2", is_interrupt="true")
        await send(toolbox, "PostToolUse", tool_use_id="c3")
        assert tool_calls(tmp_path) == []


@pytest.mark.parametrize("session_id", ["", "a/b", "x" * 200, "%", "s1\n"])
async def test_an_event_without_a_proper_session_is_ignored(tmp_path: Path, session_id: str) -> None:
    async with bank(tmp_path) as toolbox:
        assert await send(toolbox, "UserPromptSubmit", session_id=session_id, prompt=TASK) == {}


async def test_an_event_that_is_not_ours_is_ignored(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        assert await send(toolbox, "PreCompact") == {}


async def test_spooled_events_become_jobs_and_others_are_dropped(tmp_path: Path, home: Path) -> None:
    spool, transcript = tmp_path / "spool", home / ".claude" / "projects" / "p" / "s1.jsonl"
    transcript.parent.mkdir(parents=True)
    transcript.touch()
    spool.mkdir()
    good = HookEvent(hook_event_name="SessionEnd", session_id="s1", transcript_path=str(transcript)).model_dump_json()
    for name, text, mode in (
        ("1.json", good, 0o600),
        ("2.json", good.replace("s1", "s2", 1), 0o644),
        ("3.json", "[" * 100_000, 0o600),
        ("4.json", good.replace(str(transcript), str(tmp_path / "elsewhere.jsonl")), 0o600),
    ):
        (spool / name).write_text(text, encoding="utf-8")
        (spool / name).chmod(mode)
    async with bank(tmp_path) as toolbox:
        assert await drain_spool(toolbox, spool) == 1
        assert [job.key for job in await jobs(toolbox)] == ["s1:all"]
        assert list(spool.iterdir()) == []
        assert await drain_spool(toolbox, tmp_path / "none") == 0


def tool_calls(folder: Path) -> list[Any]:
    connection = connect(folder / ".swarm" / "memory.db", read_only=True)
    try:
        query = "SELECT tool_name, input, output, success, time_cost_s, task_id FROM tool_calls ORDER BY seq"
        return connection.execute(query).fetchall()
    finally:
        connection.close()
