"""OpenTelemetry's spans of generative AI as trajectories: files of OTLP JSON, by the conventions from 1.37 on.

https://opentelemetry.io/docs/specs/semconv/gen-ai/: what was said stands in `gen_ai.input.messages` and
`gen_ai.output.messages` of a span, where its program records contents at all; calls of tools in those and in
`execute_tool` spans. Events and earlier attributes (`gen_ai.prompt.0.content`) are not read.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.base import digest
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Trajectory, Usage
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import (
    MAX_DOCUMENT_CHARS,
    JsonObject,
    as_count,
    as_list,
    as_object,
    as_text,
    parsed,
)
from swarm_memory.server.hosts.session import Session
from swarm_memory.server.hosts.steps import exit_code_of

_MODEL_CALLS = frozenset({"chat", "text_completion", "generate_content", "invoke_agent", "invoke_workflow"})
_TOOL, _AGENT = "execute_tool", "invoke_agent"
_WHOLES = (_AGENT, "invoke_workflow")
"""What they were given and said is that of the model calls in them once more."""

_FAILED = 2
"""The code of a span's status."""

_MAX_ANCESTORS = 100
_MAX_NS = 1 << 62


class Span(NamedTuple):
    """One operation."""

    trace: str
    id: str
    parent: str
    operation: str
    began: int
    """Nanoseconds since 1970, as `ended`."""
    ended: int
    given: JsonObject
    """Its attributes."""
    failed: bool


def is_spans(record: JsonObject) -> bool:
    """Tell whether a record holds spans as OTLP writes them."""
    return isinstance(record.get("resourceSpans"), list)


def read_spans(records: Iterator[JsonObject], origin: Origin) -> Iterator[Trajectory]:
    """Yield the tasks of each conversation, or of each trace where none is named, in the order of their beginning.

    What a subagent did is left out: what it found is the result of its call. Raises `InputError` for more than fits.
    """
    traces: dict[str, list[Span]] = defaultdict(list)
    for record in records:
        if origin.records.chars > MAX_DOCUMENT_CHARS:
            raise InputError(f"more than {MAX_DOCUMENT_CHARS // 1_000_000} MB of spans: split them by trace")
        if not is_spans(record):
            origin.records.skipped += 1
            continue
        for span in _spans_of(record):
            traces[as_text(span.given.get("gen_ai.conversation.id")) or span.trace].append(span)
    _join(traces)
    skipped = origin.records.skipped
    for name, spans in sorted(traces.items(), key=lambda each: min(span.began for span in each[1])):
        session = Session("spans", origin.limits, origin.session_id or name or None, fallback_id=origin.stem)
        reader = _Reader(session)
        for told in session.read(reader.lines(_of_main_agent(spans)), origin.records, reader.take):
            yield told.model_copy(update={"skipped_lines": skipped})
            skipped = 0


def _join(traces: dict[str, list[Span]]) -> None:
    """Put spans that name no conversation to those of their trace that do."""
    of_trace = {span.trace: name for name, spans in traces.items() for span in spans if name != span.trace}
    for trace, name in of_trace.items():
        traces[name].extend(traces.pop(trace, []))


def _spans_of(record: JsonObject) -> Iterator[Span]:
    for resource in map(as_object, as_list(record["resourceSpans"])):
        for scope in map(as_object, as_list(resource.get("scopeSpans"))):
            for span in map(as_object, as_list(scope.get("spans"))):
                given = _attributes(span.get("attributes"))
                operation = as_text(given.get("gen_ai.operation.name"))
                failed = as_object(span.get("status")).get("code") in (_FAILED, "STATUS_CODE_ERROR")
                yield Span(
                    trace=as_text(span.get("traceId")),
                    id=as_text(span.get("spanId")),
                    parent=as_text(span.get("parentSpanId")),
                    operation=operation,
                    began=_nanoseconds(span.get("startTimeUnixNano")),
                    ended=_nanoseconds(span.get("endTimeUnixNano")),
                    given=given,
                    failed=failed or "error.type" in given,
                )


def _of_main_agent(spans: list[Span]) -> list[Span]:
    """Return the spans of generative AI in the order of their beginning, without those of an agent that one called."""
    by_id = {span.id: span for span in spans}

    def agents_above(span: Span) -> int:
        count, seen = 0, 0
        above: Span | None = span
        while above is not None and seen < _MAX_ANCESTORS:
            count += above.operation == _AGENT
            above, seen = by_id.get(above.parent), seen + 1
        return count

    own = (span for span in spans if span.operation in _MODEL_CALLS or span.operation == _TOOL)
    return sorted((span for span in own if agents_above(span) <= 1), key=lambda span: span.began)


class _Reader:
    """Where the reading of a conversation stands."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.told: Counter[str] = Counter()
        """How often each message was told: a model is given the whole conversation again and again."""

    def lines(self, spans: list[Span]) -> Iterator[JsonObject]:
        """Yield what was said and done in the order of time: what a model was given, and in the end what it said."""
        begins = [(span.began, True, span.began, number) for number, span in enumerate(spans)]
        ends = [(max(span.ended, span.began + 1), False, -span.began, number) for number, span in enumerate(spans)]
        for _, is_begin, _, number in sorted(
            [*begins, *ends]
        ):  # an end before a beginning, an inner one before its whole
            yield {"span": spans[number], "key": f"gen_ai.{'input' if is_begin else 'output'}.messages"}

    def take(self, moment: JsonObject) -> bool:
        """Take the beginning or the end of a span."""
        span, key = moment["span"], as_text(moment["key"])
        assert isinstance(span, Span)
        is_end = key == "gen_ai.output.messages"
        at = _time(span.ended if is_end else span.began)
        if span.operation == _TOOL:
            self._tool(span, is_end, at)
            return True
        messages = [*map(as_object, as_list(_content(span.given.get(key))))]
        counted, is_new = Counter[str](), is_end and span.operation not in _WHOLES
        for message in messages:
            name = digest([message.get("role"), message.get("parts")])
            counted[name] += 1
            if is_new or counted[name] > self.told[name]:
                self._message(message, at)
        self.told = self.told + counted if is_new else self.told | counted
        if is_new and self.session.running is not None:
            self.session.running.usage[span.id] = Usage(
                input_tokens=as_count(span.given.get("gen_ai.usage.input_tokens")),
                output_tokens=as_count(span.given.get("gen_ai.usage.output_tokens")),
            )
        if is_new and span.failed and not messages:
            self.session.stop(as_text(span.given.get("error.type")) or "the model call failed", at, failed=True)
        return True

    def _message(self, message: JsonObject, at: datetime | None) -> None:
        role = as_text(message.get("role"))
        parts = [*map(as_object, as_list(message.get("parts")))]
        text = "\n".join(as_text(part.get("content")) for part in parts if part.get("type") == "text")
        if role == "user":
            self.session.prompt(text, at)
        elif role == "system":
            self.session.note(text)
        for part in parts if role != "system" else ():
            kind = as_text(part.get("type"))
            if kind == "reasoning" or (kind == "text" and role == "assistant"):
                self.session.say(as_text(part.get("content")), at, thought=kind == "reasoning")
            elif kind == "tool_call":
                self._call(as_text(part.get("name")), part.get("arguments"), as_text(part.get("id")), at)
            elif kind == "tool_call_response":
                self._result(as_text(part.get("id")), part.get("response", part.get("result")), None, at)

    def _tool(self, span: Span, is_end: bool, at: datetime | None) -> None:
        call_id = as_text(span.given.get("gen_ai.tool.call.id")) or span.id
        if not is_end:
            arguments = span.given.get("gen_ai.tool.call.arguments")
            self._call(as_text(span.given.get("gen_ai.tool.name")), arguments, call_id, at)
        elif "gen_ai.tool.call.result" in span.given or span.failed:
            told = span.given.get("gen_ai.tool.call.result", span.given.get("error.type"))
            self._result(call_id, told, span.failed, at)

    def _call(self, name: str, arguments: object, call_id: str, at: datetime | None) -> None:
        given = _content(arguments)
        self.session.call(name, given if as_object(given) or given in (None, {}) else {"input": given}, call_id, at)

    def _result(self, call_id: str, told: object, failed: bool | None, at: datetime | None) -> None:
        whole = as_object(_content(told))
        code = whole.get("exit_code")
        text = next((as_text(whole[key]) for key in ("output", "stdout", "content", "text") if whole.get(key)), "")
        text = text or (told if isinstance(told, str) else "" if told is None else str(told))
        self.session.result(
            call_id, text, at, is_error=failed, exit_code=code if isinstance(code, int) else exit_code_of(text)
        )


def _attributes(listed: object) -> JsonObject:
    return {as_text(each.get("key")): _value(each.get("value")) for each in map(as_object, as_list(listed))}


def _value(given: object, depth: int = 0) -> object:
    """Return an attribute's value as JSON has it."""
    wrapped = as_object(given)
    if depth > 20 or not wrapped:
        return None
    ((kind, value), *_) = wrapped.items()
    if kind == "intValue":
        return int(str(value)) if str(value).lstrip("-").isdecimal() and len(str(value)) < 20 else None
    if kind == "arrayValue":
        return [_value(each, depth + 1) for each in as_list(as_object(value).get("values"))]
    if kind == "kvlistValue":
        listed = map(as_object, as_list(as_object(value).get("values")))
        return {as_text(each.get("key")): _value(each.get("value"), depth + 1) for each in listed}
    return value


def _content(value: object) -> object:
    """Return what an attribute holds: structured, or as JSON in a text."""
    found = parsed(value) if isinstance(value, str) and value.lstrip()[:1] in ("[", "{") else None
    return value if found is None else found


def _nanoseconds(value: object) -> int:
    text = str(value)
    return min(int(text), _MAX_NS) if text.isdecimal() and len(text) < 30 else 0


def _time(nanoseconds: int) -> datetime | None:
    return datetime.fromtimestamp(nanoseconds / 1e9, UTC) if 0 < nanoseconds < _MAX_NS else None


def _nowhere(root: Path | None) -> list[Path]:
    return []


TRANSCRIPTS = Transcripts(is_spans, read_spans, _nowhere)
