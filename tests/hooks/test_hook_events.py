"""What each of the host's events does, on a real database."""

from collections.abc import Awaitable, Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from clock import NOW
from hooked import SOMEWHERE, hooked, set_to

from swarm_memory.schema.errors import StorageError, StoreUntrusted
from swarm_memory.schema.job import Job
from swarm_memory.schema.memory import Note
from swarm_memory.schema.settings import HookSettings
from swarm_memory.server.hooks.events import HookEvent, answer_hook, handle_hook
from swarm_memory.server.location import Location, state_folder
from swarm_memory.server.missed_hooks import missed
from swarm_memory.tools.memories.remember import remember_notes
from swarm_memory.tools.toolbox import Toolbox

TASK = "The checkout tests fail with a SettingsError, please mend them"
PROMPT = "claude UserPromptSubmit 0"

Send = Callable[..., Awaitable[dict[str, Any]]]


@pytest.fixture
async def toolbox(toolbox: Toolbox) -> Toolbox:
    """A bank that contains one strategy, and waits 30 s before it learns from a task."""
    await remember_notes(toolbox, [Note(title="Mend a SettingsError of the checkout tests", note="Copy the example.")])
    return set_to(toolbox, hooks=HookSettings(settle_s=30))


@pytest.fixture
def send(toolbox: Toolbox) -> Send:
    """Return a function that returns the answer to an event of one session."""

    async def sent(name: str, tools: Toolbox = toolbox, **fields: Any) -> dict[str, Any]:
        event = {"session_id": "s1", "transcript_path": "/home/dev/s1.jsonl", **fields, "hook_event_name": name}
        return await hooked(tools, event)

    return sent


async def jobs(toolbox: Toolbox) -> list[Job]:
    return await toolbox.store.list_jobs(toolbox.scope, ("queued",), 50)


async def current_task(toolbox: Toolbox, session_id: str = "s1") -> str | None:
    session = await toolbox.store.get_session(toolbox.scope, session_id)
    return session.task_id if session else None


@pytest.mark.parametrize("prompt", ["/cost", "", "hello", "mend tests now", "<command-name>/clear</command-name>"])
async def test_a_short_prompt_or_a_slash_command_gets_nothing(send: Send, prompt: str) -> None:
    assert await send("UserPromptSubmit", prompt=prompt) == {}


async def test_a_task_that_nothing_fits_or_that_is_to_get_nothing_is_noted(toolbox: Toolbox, send: Send) -> None:
    french = "translate the landing page into French and keep its layout"
    silent = set_to(toolbox, hooks=HookSettings(inject=False))
    assert await send("UserPromptSubmit", prompt=french) == {}
    assert await send("UserPromptSubmit", silent, prompt=TASK, session_id="s2") == {}
    assert (await current_task(toolbox), await current_task(toolbox, "s2")) == ("s1:1", "s2:1")


async def test_a_continued_task_is_shown_nothing_twice(toolbox: Toolbox, send: Send) -> None:
    assert "hookSpecificOutput" in await send("UserPromptSubmit", prompt=TASK)
    again = "the checkout tests still fail with the same SettingsError"
    assert await send("UserPromptSubmit", prompt=again) == {}
    assert await current_task(toolbox) == "s1:1"


async def test_a_task_that_began_with_too_few_words_is_shown_when_it_goes_on(toolbox: Toolbox, send: Send) -> None:
    await send("UserPromptSubmit", prompt="fix tests")
    again = "no, it is the checkout tests that fail with a SettingsError"
    assert "hookSpecificOutput" in await send("UserPromptSubmit", prompt=again)
    assert await current_task(toolbox) == "s1:1"


async def test_a_stop_queues_the_task_and_a_later_one_replaces_it(toolbox: Toolbox, send: Send) -> None:
    assert await send("Stop") == {}
    assert await jobs(toolbox) == [], "there is no task yet"
    await send("UserPromptSubmit", prompt=TASK)
    assert await send("Stop", last_assistant_message="done") == {}
    await send("Stop")
    (job,) = await jobs(toolbox)
    assert (job.kind, job.key, job.run_after) == ("learn", "s1:1", NOW + timedelta(seconds=30))
    assert job.payload == {"transcript_path": "/home/dev/s1.jsonl", "session_id": "s1", "task_id": "s1:1"}


async def test_a_continued_task_is_not_learned_from_before_its_next_stop(toolbox: Toolbox, send: Send) -> None:
    await send("UserPromptSubmit", prompt=TASK)
    await send("Stop")
    await send("UserPromptSubmit", prompt="still failing")
    assert [job.run_after for job in await jobs(toolbox)] == [NOW + timedelta(hours=1)]
    await send("Stop")
    assert [job.run_after for job in await jobs(toolbox)] == [NOW + timedelta(seconds=30)]


async def test_a_new_task_sets_the_former_one_free(toolbox: Toolbox, send: Send) -> None:
    await send("UserPromptSubmit", prompt=TASK)
    await send("Stop")
    await send("UserPromptSubmit", prompt="Write a migration with a currency column for the orders table")
    assert [(job.key, job.run_after) for job in await jobs(toolbox)] == [("s1:1", NOW)]
    assert await current_task(toolbox) == "s1:2"


async def test_the_end_of_a_session_makes_all_of_it_due(toolbox: Toolbox, send: Send) -> None:
    await send("UserPromptSubmit", prompt=TASK)
    await send("Stop")
    assert await send("SessionEnd", reason="other") == {}
    assert {(job.key, job.run_after) for job in await jobs(toolbox)} == {("s1:1", NOW), ("s1:all", NOW)}


@pytest.mark.parametrize("session_id", ["", "a/b", "x" * 200, "%", "s1\n"])
async def test_an_event_without_a_proper_session_is_ignored(send: Send, session_id: str) -> None:
    assert await send("UserPromptSubmit", session_id=session_id, prompt=TASK) == {}


async def test_the_bank_is_not_opened_where_there_is_nothing_to_do() -> None:
    for fields in (
        {"hook_event_name": "UserPromptSubmit", "prompt": "/help"},
        {"hook_event_name": "PreToolUse", "tool_name": "mcp__swarm-memory__retrieve_memories"},
        *({"hook_event_name": name} for name in ("PreToolUse", "PreCompact", "PostToolUse", "PostToolUseFailure")),
        {"hook_event_name": "PostToolUseFailure", "tool_name": "Bash", "tool_input": {"command": "make"}},
    ):
        event = HookEvent.model_validate({"session_id": "s1", **fields})
        assert await handle_hook(failing(AssertionError("it is opened")), event, "hook", SOMEWHERE) == {}


@pytest.mark.parametrize(
    ("event", "error", "reason"),
    [
        ({"prompt": 3}, AssertionError("it is opened"), "not a hook event: prompt: "),
        ({"session_id": [1]}, AssertionError("it is opened"), "not a hook event: session_id: "),
        ({}, StorageError("the bank is busy"), "the bank is busy"),
        ({}, StoreUntrusted("no bank of ours"), "no bank of ours"),
        ({}, ValueError("x"), "ValueError: x"),
    ],
)
async def test_a_fault_and_what_is_no_event_are_answered_to_go_on_and_noted(
    tmp_path: Path, event: dict[str, Any], error: Exception, reason: str
) -> None:
    given = {"session_id": "s1", "prompt": TASK, **event}
    assert await answer_hook(failing(error), given, "hook", Location(tmp_path, tmp_path), PROMPT) == {}
    (noted,) = missed(tmp_path)
    assert noted.event == "UserPromptSubmit"
    assert noted.reason.startswith(reason)


async def test_where_what_was_missed_cannot_be_noted_it_is_answered_to_go_on_too(tmp_path: Path) -> None:
    (state_folder() / "missed").mkdir(parents=True)
    answer = answer_hook(
        failing(ValueError("x")), {"session_id": "s1", "prompt": TASK}, "server", Location(tmp_path, tmp_path), PROMPT
    )
    assert await answer == {}


def failing(error: Exception) -> Callable[[], Awaitable[Toolbox]]:
    """Return a function that fails instead of opening a bank."""

    async def opened() -> Toolbox:
        raise error

    return opened
