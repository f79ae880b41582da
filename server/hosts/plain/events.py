"""Records of an agent's events, each an action or an observation and no message, as messages."""

from collections.abc import Iterator

from swarm_memory.server.hosts.plain.words import EVENT_TALK
from swarm_memory.server.hosts.records import JsonObject, as_object, as_text


def is_event(record: JsonObject) -> bool:
    """Tell whether a record is no message but an action, an observation, or both."""
    return not record.get("role") and any(isinstance(record.get(key), str) for key in ("action", "observation"))


def as_messages(record: JsonObject) -> Iterator[JsonObject]:
    """Yield the messages that a record stands for: itself where it is a message."""
    if not is_event(record):
        yield record
    elif isinstance(record.get("args"), dict) or "source" in record:
        yield _of_event(record)
    else:
        thought = as_text(record.get("thought"))
        yield {
            "role": "assistant",
            "reasoning_content": thought,
            "content": f"```\n{as_text(record.get('action'))}\n```",
        }
        if isinstance(record.get("observation"), str):
            yield {"role": "tool", "content": record["observation"]}


def _of_event(event: JsonObject) -> JsonObject:
    """Return an event of a source: what it says, what it calls with `args`, or the result of the call in `cause`."""
    at: JsonObject = {"timestamp": event.get("timestamp")}
    said = as_text(event.get("content")) or as_text(event.get("message"))
    if isinstance(event.get("observation"), str):
        extras = as_object(event.get("extras"))
        code = as_object(extras.get("metadata")).get("exit_code", extras.get("exit_code"))
        told: JsonObject = {"exit_code": code} if isinstance(code, int) else {}
        failed = True if event["observation"] == "error" else None
        cause = _id(event.get("cause"))
        return {**at, **told, "role": "tool", "tool_call_id": cause, "content": said, "is_error": failed}
    given = as_object(event.get("args"))
    name = as_text(event.get("action"))
    if name in EVENT_TALK or not given:
        role = EVENT_TALK.get(name, "") or (
            "assistant" if event.get("source") == "agent" else as_text(event.get("source"))
        )
        return {**at, "role": role or "system", "content": as_text(given.get("content")) or said}
    rest = {key: value for key, value in given.items() if key != "thought"}
    call = {"id": _id(event.get("id")), "function": {"name": name, "arguments": rest}}
    thought = as_text(given.get("thought"))
    return {**at, "role": "assistant", "reasoning_content": thought, "content": "", "tool_calls": [call]}


def _id(value: object) -> str:
    return f"event-{value}" if isinstance(value, int | str) and str(value) else ""
