"""What each event of the host does, on a real database."""

import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hooked import SOMEWHERE, hooked
from laid_bank import BY_TABLE, laid
from patience import HANG_S

from swarm_memory.schema.errors import StorageError, StoreUntrusted
from swarm_memory.schema.job import Job, JobStatus
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.settings import HookSettings, Settings, StorageSettings
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.hooks.events import HookEvent, OpenToolbox, answer_hook, handle_hook
from swarm_memory.server.location import Location
from swarm_memory.server.missed import missed
from swarm_memory.server.wiring import open_toolbox, place_of
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.toolbox import Toolbox

TASK = "The checkout tests fail with a SettingsError, please mend them"
PROMPT = "claude UserPromptSubmit 0"


@asynccontextmanager
async def bank(folder: Path, **hooks: Any) -> AsyncGenerator[Toolbox]:
    """Open a bank that knows one strategy."""
    sqlite = os.environ.get("SWARM_MEMORY_SQLITE") or "auto"  # two libraries in one process drop each other's locks
    storage = StorageSettings.model_validate({"project": "shop", "sqlite": sqlite})
    settings = Settings(embedding=BY_TABLE, storage=storage, hooks=HookSettings(**hooks))
    place = place_of(folder, settings)
    laid(place.database)
    toolbox = await open_toolbox(place, settings)
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
    return await hooked(toolbox, event)


async def jobs(toolbox: Toolbox, *statuses: JobStatus) -> list[Job]:
    return await toolbox.store.list_jobs(toolbox.scope, statuses or ("queued",), 50)


def is_after(job: Job, seconds: float) -> bool:
    """Tell whether a job is due so long after the present, on a machine that may be busy."""
    left = job.run_after - datetime.now(UTC)
    return timedelta(seconds=seconds - HANG_S) < left <= timedelta(seconds=seconds)


async def current_task(toolbox: Toolbox) -> str | None:
    session = await toolbox.store.get_session(toolbox.scope, "s1")
    return session.task_id if session else None


@pytest.mark.parametrize("prompt", ["/cost", "", "hello", "mend tests now", "<command-name>/clear</command-name>"])
async def test_a_short_prompt_or_a_slash_command_gets_nothing(tmp_path: Path, prompt: str) -> None:
    async with bank(tmp_path) as toolbox:
        assert await send(toolbox, "UserPromptSubmit", prompt=prompt) == {}


@pytest.mark.parametrize(
    ("prompt", "hooks"),
    [("translate the landing page into French and keep its layout", {}), (TASK, {"inject": False})],
)
async def test_a_task_that_nothing_fits_or_that_is_to_get_nothing_is_noted(
    tmp_path: Path, prompt: str, hooks: dict[str, Any]
) -> None:
    async with bank(tmp_path, **hooks) as toolbox:
        assert await send(toolbox, "UserPromptSubmit", prompt=prompt) == {}
        assert await current_task(toolbox) == "s1:1"


async def test_a_continued_task_is_shown_nothing_twice(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        again = "the checkout tests still fail with the same SettingsError"
        assert await send(toolbox, "UserPromptSubmit", prompt=again) == {}
        assert await current_task(toolbox) == "s1:1"


async def test_a_task_that_began_with_too_few_words_is_shown_when_it_goes_on(tmp_path: Path) -> None:
    async with bank(tmp_path) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt="fix tests")
        again = "no, it is the checkout tests that fail with a SettingsError"
        assert "hookSpecificOutput" in await send(toolbox, "UserPromptSubmit", prompt=again)
        assert await current_task(toolbox) == "s1:1"


async def test_a_stop_queues_the_task_and_a_later_one_replaces_it(tmp_path: Path) -> None:
    async with bank(tmp_path, settle_s=20) as toolbox:
        assert await send(toolbox, "Stop") == {}
        assert await jobs(toolbox) == [], "there is no task yet"
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        assert await send(toolbox, "Stop", last_assistant_message="done") == {}
        await send(toolbox, "Stop")
        (job,) = await jobs(toolbox)
        assert (job.kind, job.key, is_after(job, 20)) == ("learn", "s1:1", True)
        assert job.payload == {"transcript_path": "/home/dev/s1.jsonl", "session_id": "s1", "task_id": "s1:1"}


async def test_a_continued_task_is_not_learned_from_before_its_next_stop(tmp_path: Path) -> None:
    async with bank(tmp_path, settle_s=20) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        await send(toolbox, "Stop")
        await send(toolbox, "UserPromptSubmit", prompt="still failing")
        (held,) = await jobs(toolbox)
        assert is_after(held, 3600)
        await send(toolbox, "Stop")
        (queued,) = await jobs(toolbox)
        assert is_after(queued, 20)


async def test_a_new_task_sets_the_former_one_free(tmp_path: Path) -> None:
    async with bank(tmp_path, settle_s=1800) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        await send(toolbox, "Stop")
        await send(toolbox, "UserPromptSubmit", prompt="Write a migration with a currency column for the orders table")
        (job,) = await jobs(toolbox)
        assert (job.key, is_after(job, 0)) == ("s1:1", True)
        assert await current_task(toolbox) == "s1:2"


async def test_the_end_of_a_session_makes_all_of_it_due(tmp_path: Path) -> None:
    async with bank(tmp_path, settle_s=3600) as toolbox:
        await send(toolbox, "UserPromptSubmit", prompt=TASK)
        await send(toolbox, "Stop")
        assert await send(toolbox, "SessionEnd", reason="other") == {}
        assert {(job.key, is_after(job, 0)) for job in await jobs(toolbox)} == {("s1:1", True), ("s1:all", True)}


@pytest.mark.parametrize("session_id", ["", "a/b", "x" * 200, "%", "s1\n"])
async def test_an_event_without_a_proper_session_is_ignored(tmp_path: Path, session_id: str) -> None:
    async with bank(tmp_path) as toolbox:
        assert await send(toolbox, "UserPromptSubmit", session_id=session_id, prompt=TASK) == {}


async def test_the_bank_is_not_opened_where_there_is_nothing_to_do() -> None:
    async def opened() -> Toolbox:
        raise AssertionError("it is opened")

    for fields in (
        {"hook_event_name": "UserPromptSubmit", "prompt": "/help"},
        {"hook_event_name": "PreToolUse", "tool_name": "mcp__swarm-memory__retrieve_memories"},
        *({"hook_event_name": name} for name in ("PreToolUse", "PreCompact", "PostToolUse", "PostToolUseFailure")),
        {"hook_event_name": "PostToolUseFailure", "tool_name": "Bash", "tool_input": {"command": "make"}},
    ):
        event = HookEvent.model_validate({"session_id": "s1", **fields})
        assert await handle_hook(opened, event, "hook", SOMEWHERE) == {}


@pytest.mark.parametrize("event", [{"prompt": 3}, {"session_id": [1]}])
async def test_what_is_no_event_is_answered_to_go_on_and_noted(tmp_path: Path, event: dict[str, Any]) -> None:
    async with bank(tmp_path) as toolbox:
        assert await answer_hook(opener(toolbox), event, "hook", Location(tmp_path, tmp_path), PROMPT) == {}
    (noted,) = missed(tmp_path)
    assert noted.reason.startswith("not a hook event: ")


@pytest.mark.parametrize(
    "error", [StorageError("the bank is busy"), StoreUntrusted("no bank of ours"), ValueError("x")]
)
async def test_a_fault_is_answered_to_go_on_and_noted(tmp_path: Path, error: Exception) -> None:
    async def opened() -> Toolbox:
        raise error

    event = {"session_id": "s1", "prompt": TASK}
    assert await answer_hook(opened, event, "hook", Location(tmp_path, tmp_path), PROMPT) == {}
    (noted,) = missed(tmp_path)
    assert noted.event == "UserPromptSubmit"
    assert str(error) in noted.reason


def opener(toolbox: Toolbox) -> OpenToolbox:
    async def opened() -> Toolbox:
        return toolbox

    return opened
