"""OpenTelemetry's spans of generative AI as trajectories."""

import json
from pathlib import Path
from typing import Any, cast

import pytest
from agent_records import FAILED, FILE, FIRST, ITEM, NOTES, PASSED, SECOND, SESSION, Record, write_lines

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.spans import transcripts
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.tools.trajectory.reading import read as read_calls

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
_BEGAN = 1_777_629_600_000_000_000


def attribute(key: str, value: Any) -> Record:
    kind = "intValue" if isinstance(value, int) else "stringValue" if isinstance(value, str) else ""
    return {"key": key, "value": {kind: value} if kind else structured(value)}


def structured(value: Any) -> Record:
    """Return a value as OTLP writes it that is no text."""
    if isinstance(value, dict):
        pairs = cast(Record, value).items()
        return {"kvlistValue": {"values": [{"key": key, "value": structured(each)} for key, each in pairs]}}
    if isinstance(value, list):
        return {"arrayValue": {"values": [structured(each) for each in cast(list[Any], value)]}}
    return {"stringValue": value}


def span(operation: str, at: int, took: int = 1, *, parent: str = "", code: int = 0, **given: Any) -> Record:
    """Make a span; in `given` a name stands with `_` for each dot, without `gen_ai`."""
    named = {"gen_ai.operation.name": operation, "gen_ai.conversation.id": SESSION}
    named |= {f"gen_ai.{key.replace('__', '.')}": value for key, value in given.items()}
    return {
        "traceId": TRACE, "spanId": f"{operation}-{at}", "parentSpanId": parent, "name": operation,
        "startTimeUnixNano": str(_BEGAN + at * 10**9), "endTimeUnixNano": str(_BEGAN + (at + took) * 10**9),
        "attributes": [attribute(key, value) for key, value in named.items()], "status": {"code": code},
    }  # fmt: skip


def text(role: str, content: str) -> Record:
    return {"role": role, "parts": [{"type": "text", "content": content}]}


def called(call_id: str, name: str, **arguments: Any) -> Record:
    part = {"type": "tool_call", "id": call_id, "name": name, "arguments": arguments}
    return {"role": "assistant", "parts": [part]}


def came(call_id: str, response: str) -> Record:
    return {"role": "tool", "parts": [{"type": "tool_call_response", "id": call_id, "response": response}]}


def chat(at: int, given: list[Record], said: Record, *, as_text: bool = True) -> Record:
    told: dict[str, Any] = {"input__messages": given, "output__messages": [said]}
    told = {key: json.dumps(value) if as_text else value for key, value in told.items()}
    return span("chat", at, parent="invoke_agent-0", usage__input_tokens=10, usage__output_tokens=7, **told)


def story(*, as_text: bool = True) -> list[Record]:
    """Return the spans of the story: a model is given the whole conversation again and again."""
    thought = {"type": "reasoning", "content": "Look first."}
    run = called("c1", "Bash", command="pytest")
    run = {**run, "parts": [thought, {"type": "text", "content": "I run it."}, *run["parts"]]}
    edit, again = called("c2", "edit", file_path=FILE), called("c3", "Bash", command="pytest")
    asked = [text("system", NOTES), text("user", FIRST)]
    after = [*asked, run, came("c1", f"Exit code 1\n{FAILED}")]
    then = [*after, edit, came("c2", "updated"), again]
    told = [*then, came("c3", PASSED), text("assistant", "Fixed.")]
    return [
        span("invoke_agent", 0, 8, input__messages=json.dumps(asked),
             output__messages=json.dumps([text("assistant", "Fixed.")])),
        chat(1, asked, run, as_text=as_text),
        span("execute_tool", 2, parent="invoke_agent-0", code=2, tool__name="Bash", tool__call__id="c1",
             tool__call__arguments='{"command": "pytest"}', tool__call__result=f"Exit code 1\n{FAILED}"),
        chat(3, after, edit, as_text=as_text),
        span("execute_tool", 4, parent="invoke_agent-0", tool__name="edit", tool__call__id="c2",
             tool__call__result="updated"),
        chat(5, then[:-1], again, as_text=as_text),
        span("execute_tool", 6, parent="invoke_agent-0", tool__name="Bash", tool__call__id="c3",
             tool__call__result=json.dumps({"output": PASSED, "exit_code": 0})),
        chat(7, told[:-1], told[-1], as_text=as_text),
        span("embeddings", 9),
        chat(10, [*told, text("user", SECOND)], text("assistant", "Done.")),
    ]  # fmt: skip


def export(*spans: Record) -> Record:
    return {"resourceSpans": [{"resource": {}, "scopeSpans": [{"scope": {"name": "x"}, "spans": list(spans)}]}]}


def read(path: Path, *records: Record) -> list[Trajectory]:
    return list(read_trajectories(write_lines(path / "traces.jsonl", list(records))))


@pytest.mark.parametrize("as_text", [True, False])
def test_a_conversation_is_read_once_however_often_a_model_was_given_it(as_text: bool, tmp_path: Path) -> None:
    first, second = read(tmp_path, *(export(each) for each in reversed(story(as_text=as_text))))
    assert (first.source, first.task, second.task) == ("spans", FIRST, SECOND)
    assert (first.task_id, second.task_id) == (f"{SESSION}:1", f"{SESSION}:2")
    assert [step.kind for step in first.steps] == ["thought", "message", *3 * ("tool_call", "observation"), "message"]
    assert first.injected_memory_ids == (ITEM,)
    failed, edited, passed = read_calls(first).calls
    assert (failed.failed, failed.exit_code, failed.name) == (True, 1, "pytest")
    assert (edited.failed, edited.writes, edited.file) == (False, True, FILE)
    assert (passed.failed, passed.exit_code, passed.output) == (False, 0, PASSED)
    assert (first.usage.input_tokens, first.usage.output_tokens, first.skipped_lines) == (40, 28, 0)


def test_what_an_agent_did_that_another_one_called_is_left_out(tmp_path: Path) -> None:
    inner = span("invoke_agent", 2, parent="execute_tool-2", input__messages=json.dumps([text("user", "Look it up")]))
    words = json.dumps([text("assistant", "I am a subagent.")])
    deeper = span("chat", 3, parent="invoke_agent-2", output__messages=words)
    (first, _) = read(tmp_path, export(*story(), inner, deeper))
    assert "subagent" not in str(first.steps)
    assert "Look it up" not in str(first.steps)


def test_a_model_call_that_failed_and_strange_records_are_told(tmp_path: Path) -> None:
    lost = span("chat", 20, code=2, error__type="x")
    lost["attributes"].append(attribute("error.type", "timeout"))
    found = read(
        tmp_path, export(*story(), lost), {"resourceMetrics": []}, {"resourceSpans": [None, {"scopeSpans": 1}]}
    )
    assert found[-1].broken_off == "timeout"
    assert [each.skipped_lines for each in found] == [1, 0]
    assert read(tmp_path, export({"attributes": "x", "startTimeUnixNano": []})) == []


def test_spans_that_do_not_fit_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transcripts, "MAX_DOCUMENT_CHARS", 1000)
    with pytest.raises(InputError, match="split them by trace"):
        read(tmp_path, *(export(each) for each in story()))
