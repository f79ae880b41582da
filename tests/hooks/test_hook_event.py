"""What the event model makes of what a host sends."""

import pytest
from pydantic import ValidationError

from swarm_memory.server.hooks.events import HookEvent


def test_an_event_is_read_as_it_is_and_what_it_lacks_is_none() -> None:
    event = HookEvent.model_validate({"hook_event_name": "PreToolUse", "tool_input": {"a": [1]}})
    assert (event.tool_input, event.prompt, event.session_id) == ({"a": [1]}, None, None)


def test_unknown_keys_are_ignored() -> None:
    assert HookEvent.model_validate({"hook_event_name": "Stop", "effort": {"level": "high"}}).hook_event_name == "Stop"


def test_text_that_looks_like_json_stays_text() -> None:
    event = HookEvent.model_validate({"hook_event_name": "UserPromptSubmit", "prompt": '{"a": 1}', "tool_input": "[1]"})
    assert (event.prompt, event.tool_input) == ('{"a": 1}', "[1]")


@pytest.mark.parametrize("event", [{}, {"hook_event_name": 3}, {"hook_event_name": "Stop", "session_id": ["s"]}])
def test_what_is_no_event_is_refused(event: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        HookEvent.model_validate(event)
