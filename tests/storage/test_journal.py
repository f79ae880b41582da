"""Sessions, tool calls and events in a real bank, on every rung."""

from datetime import UTC, datetime
from typing import Any

from swarm_memory.schema.base import Scope
from swarm_memory.schema.hook import HostSession
from swarm_memory.schema.tool_memory import ToolCall
from swarm_memory.tools.ports.journal import Event

AT = datetime(2026, 5, 1, tzinfo=UTC)


async def test_a_session_is_kept_as_it_was_last_written(open_bank: Any, here: Scope) -> None:
    begun = HostSession(
        session_id="s", scope=here, transcript_path="/t.jsonl", task="Fix it", task_number=1, updated_at=AT
    )
    later = begun.model_copy(update={"task_id": "s:2", "task": "Test it", "task_number": 2})
    async with open_bank() as store:
        assert await store.get_session(here, "s") is None
        await store.put_session(begun)
        await store.put_session(later)
        assert await store.get_session(here, "s") == later
        assert await store.get_session(Scope(project="there"), "s") is None


async def test_a_call_that_is_logged_twice_is_one_row(open_bank: Any, here: Scope) -> None:
    call = ToolCall(
        scope=here,
        tool_name="Bash",
        input="{}",
        success=True,
        time_cost_s=0.5,
        created_at=AT,
        session_id="s",
        call_id="c",
    )
    without_id = call.model_copy(update={"call_id": None})
    async with open_bank() as store:
        tools = store.tool_memory
        assert await tools.add_calls([call, call, without_id, without_id], 100) == 3
        assert await tools.add_calls([call, call.model_copy(update={"session_id": "s2"})], 100) == 1
        assert await tools.add_calls([call.model_copy(update={"session_id": None})], 100) == 1
        assert await tools.add_calls([call.model_copy(update={"session_id": None})], 100) == 0


async def test_events_come_back_in_order_within_their_scope(open_bank: Any, here: Scope) -> None:
    events = [Event(kind, AT, "x", {"n": number, "text": "ü\x00"}) for number, kind in enumerate(("a", "b"))]
    async with open_bank() as store:
        for event in events:
            await store.add_event(here, event)
        await store.add_event(Scope(project="there"), events[0])
        assert await store.memory_history([here], "x") == events
        assert await store.memory_history([Scope(project="nowhere")], "x") == []
