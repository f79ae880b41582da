"""What the event model makes of what a host sends."""

import pytest

from swarm_memory.server.hooks.event import HookEvent


def test_a_template_of_a_field_that_the_event_lacks_is_none() -> None:
    event = HookEvent.model_validate({"hook_event_name": "Stop", "prompt": "", "tool_input": "", "duration_ms": ""})
    assert (event.prompt, event.tool_input, event.duration_ms, event.is_interrupt) == (None, None, None, False)


def test_templates_give_strings_and_they_are_read_as_what_they_were() -> None:
    event = HookEvent.model_validate(
        {
            "hook_event_name": "PostToolUse",
            "tool_input": '{"command":"ls"}',
            "tool_response": '["a"]',
            "duration_ms": "34.5",
            "is_interrupt": "true",
        }
    )
    assert event.tool_input == {"command": "ls"}
    assert event.tool_response == ["a"]
    assert event.duration_ms == 34.5
    assert event.is_interrupt


def test_the_event_of_a_command_hook_is_read_as_it_is() -> None:
    event = HookEvent.model_validate({"hook_event_name": "PostToolUse", "tool_input": {"a": [1]}, "duration_ms": 3})
    assert (event.tool_input, event.duration_ms) == ({"a": [1]}, 3.0)


def test_unknown_keys_are_ignored() -> None:
    assert HookEvent.model_validate({"hook_event_name": "Stop", "effort": {"level": "high"}}).hook_event_name == "Stop"


@pytest.mark.parametrize("text", ["{not json", "[" * 100_000, "plain words"])
def test_text_that_is_no_json_stays_text(text: str) -> None:
    assert HookEvent.model_validate({"hook_event_name": "PostToolUse", "tool_response": text}).tool_response == text


def test_a_prompt_that_looks_like_json_stays_a_prompt() -> None:
    event = HookEvent.model_validate({"hook_event_name": "UserPromptSubmit", "prompt": '{"a": 1}'})
    assert event.prompt == '{"a": 1}'


@pytest.mark.parametrize("value", ["soon", None, [], "nan", "inf"])
def test_a_duration_that_is_no_number_is_not_known(value: object) -> None:
    event = HookEvent.model_validate({"hook_event_name": "PostToolUse", "duration_ms": value})
    assert event.duration_ms is None
