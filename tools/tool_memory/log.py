"""Tool calls as they are kept: read, cleaned, redacted, capped and counted, from a caller or a transcript; and their
arguments: parsed from text, described, compared.

Arguments are untrusted text: what is shown of them is generalised, on one line, in quotes, and never an instruction.
"""

import asyncio
import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from itertools import accumulate, takewhile
from typing import NamedTuple

from pydantic import JsonValue, ValidationError

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.memory import LearnResult, MemoryDraft
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.tool_memory import ReportedCall, ToolCall
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.guard.generalize import generalize, without_places
from swarm_memory.tools.guard.redact import kept_text, redact_secret_fields
from swarm_memory.tools.guard.wording import NOTHING_READ, AgentContext
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.text.cleaning import clean, faults, one_line
from swarm_memory.tools.text.tokens import STOP_WORDS, count_tokens, query_tokens, words_as_written
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.phrasing import show_command, show_symptom
from swarm_memory.tools.trajectory.reading import Reading, read
from swarm_memory.tools.trajectory.tasks import is_own_tool

EVALUATE = "evaluate_tool_calls"
"""The kind of job that evaluates the logged calls, and summarizes the tools that are due."""

MAX_NAMES = 200
MAX_CALLS = 1000
"""At most this many calls may be logged in one request."""

PORTION = 20
"""At most this many calls are redacted in a thread at a time: a thread whose caller is gone ends soon."""

SETTLE_S = 60.0
"""Seconds that a call waits for its evaluation in the background: what follows in its session says much about it."""

MAX_CALL_CHARS = 2000
"""At most this many characters of a call's input, and of its output, are kept; a longer text loses its middle."""

MAX_TASK_CHARS, MAX_SCHEMA_CHARS = 500, 4000
_COUNTED_CHARS = 400_000
"""Only this much of a longer text is tokenized; the rest of the tokens is estimated from its length."""


class LogResult(NamedTuple):
    """What became of logged calls."""

    logged: int
    known: int
    """Calls that had been logged before, by their id."""
    tools: tuple[str, ...]
    notice: str | None = None
    """Says of which tools the oldest calls were not kept."""


async def log_tool_calls(toolbox: Toolbox, logged: Sequence[ReportedCall], *, evaluate_later: bool = True) -> LogResult:
    """Keep calls, redacted and capped, and count them; queue their evaluation unless `evaluate_later` is False.

    A repeated call is a new row. Only a call with the session and call id of an earlier one counts as known, and costs
    next to nothing. Redaction runs in a thread, so that a server keeps answering. Raises `StorageError`.
    """
    store, scope, now = toolbox.store.tool_memory, toolbox.scope, toolbox.clock.now()

    def keep(portion: Sequence[ReportedCall]) -> list[ToolCall]:
        return [kept_call(each, scope, toolbox.settings, now) for each in portion]

    ids = [(session_id or "", call_id) for session_id, call_id in map(_ids, logged)]
    asked = [(session_id, call_id) for session_id, call_id in ids if call_id is not None]
    known = await store.known_calls(scope, asked) if asked else set[tuple[str, str]]()
    new = [each for each, its in zip(logged, ids, strict=True) if its not in known]
    kept: list[ToolCall] = []
    for start in range(0, len(new), PORTION):
        kept += await asyncio.to_thread(keep, new[start : start + PORTION])
    window = toolbox.settings.tool_memory.max_history_tool_call_cnt
    added = await store.add_calls(kept, window) if kept else 0
    schemas = {_tool_name(each): as_text(each.tool_schema).strip() for each in logged if each.tool_schema}
    for name, last in schemas.items():
        if schema := await asyncio.to_thread(kept_text, last, toolbox.settings, MAX_SCHEMA_CHARS):
            await store.put_schema(scope, name, schema)
    if added and evaluate_later:
        await queue_evaluation(toolbox)
    tools = tuple(sorted(set(map(_tool_name, logged))))
    totals = [each.totals for each in await store.memories(scope, tools)]
    full = [each.tool_name for each in totals if each.calls > each.kept >= window]
    notice = f"{', '.join(full)}: only the newest {window} calls per tool are kept, others as totals" if full else None
    return LogResult(logged=added, known=len(logged) - added, tools=tools, notice=notice)


async def queue_evaluation(toolbox: Toolbox, after: timedelta = timedelta(seconds=SETTLE_S)) -> None:
    """Queue an evaluation of logged calls, due in `after` (by default, once settled); calls until then are included."""
    await toolbox.queue(EVALUATE, EVALUATE, after=after)


def read_names(tool_names: Sequence[str] | None) -> list[str] | None:
    """Return distinct cleaned names; None for all. Raises `InputError`."""
    if tool_names is None:
        return None
    names = list(dict.fromkeys(clean(name).strip()[:300] for name in tool_names))
    if not names or not all(names):
        raise InputError("tool_names must hold names of tools; omit it for all tools")
    if len(names) > MAX_NAMES:
        raise InputError(f"tool_names has {len(names)} names; at most {MAX_NAMES} are allowed")
    return names


def read_calls(given: Sequence[Mapping[str, JsonValue]]) -> list[ReportedCall]:
    """Return checked calls. Raises `InputError` that names the call and the key to change."""
    if not given:
        raise InputError("calls is empty: give at least one call with tool_name and success")
    if len(given) > MAX_CALLS:
        raise InputError(f"calls has {len(given):,} entries; at most {MAX_CALLS:,} are logged at once")
    calls: list[ReportedCall] = []
    for number, each in enumerate(given):
        try:
            calls.append(ReportedCall.model_validate(each))
        except ValidationError as error:
            raise InputError(faults(error, f"calls[{number}].")) from error
    return calls


def _tool_name(logged: ReportedCall) -> str:
    return clean(logged.tool_name)[:300] or "?"


def _ids(logged: ReportedCall) -> tuple[str | None, str | None]:
    """Return the ids of session and call as they are stored."""
    return clean(logged.session_id) if logged.session_id else None, clean(logged.call_id) if logged.call_id else None


def kept_call(logged: ReportedCall, scope: Scope, settings: Settings, now: datetime) -> ToolCall:
    """Return a call as it is stored."""
    sent, returned = as_text(logged.input), as_text(logged.output)
    with_places = not settings.distill.redact_pii
    given, gave, task = (
        value if with_places else without_places(value) for value in (logged.input, logged.output, logged.task)
    )
    session_id, call_id = _ids(logged)
    return ToolCall(
        scope=scope,
        tool_name=_tool_name(logged),
        input=kept_input(given, settings),
        output=kept_text(as_text(redact_secret_fields(gave)), settings, MAX_CALL_CHARS),
        success=logged.success,
        time_cost_s=logged.time_cost,
        token_cost=_tokens(sent) + _tokens(returned) if logged.token_cost is None else logged.token_cost,
        created_at=logged.create_time or now,
        session_id=session_id,
        task_id=clean(logged.task_id) if logged.task_id else None,
        call_id=call_id,
        task=kept_text(as_text(task), settings, MAX_TASK_CHARS) if task else None,
    )


def as_text(value: JsonValue) -> str:
    """Return text as it is and anything else as JSON; nothing for None."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def kept_input(value: JsonValue, settings: Settings) -> str:
    """Return arguments as they are stored; in JSON that is too long, long texts are shortened before the whole is."""
    value = redact_secret_fields(value)
    if not isinstance(value, str) and len(as_text(value)) > MAX_CALL_CHARS:
        value = _shortened(value, settings)
    return kept_text(as_text(value), settings, MAX_CALL_CHARS)


def _shortened(value: JsonValue, settings: Settings) -> JsonValue:
    """Redact and shorten every text in a value."""
    if isinstance(value, str):
        return kept_text(value, settings, MAX_CALL_CHARS // 8)
    if isinstance(value, dict):
        return {name: _shortened(part, settings) for name, part in value.items()}
    if isinstance(value, list):
        return [_shortened(part, settings) for part in value[:50]]
    return value


def _tokens(text: str) -> int:
    counted = count_tokens(text[:_COUNTED_CHARS])
    return counted if len(text) <= _COUNTED_CHARS else counted * len(text) // _COUNTED_CHARS


async def learn_and_log(
    toolbox: Toolbox,
    given: Trajectory | Reading,
    *,
    agent_verdict: Verdict | None = None,
    agent_drafts: Sequence[MemoryDraft] | None = None,
    had_read: AgentContext = NOTHING_READ,
) -> LearnResult:
    """Learn from a trajectory and log its tool calls: whatever takes in a trajectory calls this. Raises as `learn`."""
    reading = read(given)
    learned = await learn(
        toolbox, reading.trajectory, agent_verdict=agent_verdict, agent_drafts=agent_drafts, had_read=had_read
    )
    is_copy = learned.task_id != reading.trajectory.task_id  # in a forked session, its calls are the original's
    if is_copy or (len(toolbox.speakers) > 1 and reading.trajectory.session_id is None):
        return learned  # where the agent has hooks, these log its calls
    return learned.model_copy(update={"calls": await log_calls_of(toolbox, reading)})


async def log_calls_of(toolbox: Toolbox, given: Trajectory | Reading) -> int:
    """Log the calls that have ended, with their own times; return how many were new. Raises `StorageError`.

    A call is identified by the host's ids of session and call, so that what a hook logged is never counted twice; where
    a trajectory names no session, its task id is used instead.
    """
    reading = read(given)
    trajectory = reading.trajectory
    logged = [
        ReportedCall(
            tool_name=call.step.tool_name[:300],
            input=dict(call.input),
            output=call.output,
            success=call.observation.is_error is not True,
            create_time=call.step.at,
            session_id=trajectory.session_id or trajectory.task_id[:500],
            task_id=trajectory.task_id[:500],
            call_id=call.step.call_id,
            task=trajectory.task,
        )
        for call in reading.calls
        if call.step.tool_name and call.step.call_id and not is_own_tool(call.step.tool_name)
        # A call that a person interrupted, or that never ended, says nothing about its tool.
        if call.observation is not None and not call.observation.interrupted
    ]
    return (await log_tool_calls(toolbox, logged)).logged if logged else 0


MAX_VALUE = 60
"""At most this many characters of a value are shown."""

_ASKING = frozenset({
    "query", "q", "question", "search", "search_query", "keywords", "keyword", "term", "terms", "topic", "prompt",
    "text", "pattern",
})  # fmt: skip
COMMANDS = frozenset({"command", "cmd", "script", "shell"})
_WORD = re.compile(r"[^\W\d_]{3,30}")
_LETTERS = re.compile(r"[^\W\d_]+(?:['\u2019-][^\W\d_]+)*")
_MAX_OPENING = 20

OPENING = "beginswith"
"""Put before each word of a token that says how a request begins; no word of a request begins with it."""
_NO_ARGUMENT = "input"


def parse_arguments(text: str) -> dict[str, JsonValue]:
    """Return the arguments of a call's input: a JSON object, or anything else under the name `input`."""
    if not text.strip():
        return {}
    try:
        value: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return {_NO_ARGUMENT: text}
    return value if isinstance(value, dict) else {_NO_ARGUMENT: value}


def asked_of(arguments: Mapping[str, JsonValue]) -> str:
    """Return what a call asked for in words: the values of `query`, `question` …; empty where it asks for nothing."""
    asked = (value for name, value in arguments.items() if name.lower() in _ASKING and isinstance(value, str))
    return " ".join(asked).strip()


def input_tokens(text: str, *, with_prose: bool = True) -> tuple[str, ...]:
    """Return the distinct tokens of the values in a call's input, with or without free text besides what it asks for.
    The names of arguments are left out: they say nothing about the task.
    """
    given = parse_arguments(text).items()
    values = [each for name, each in given if with_prose or name.lower() in _ASKING or not is_prose(name, each)]
    return query_tokens(" ".join(_strings(values)))


def similarity(text: str, other: str) -> float:
    """Return how alike two inputs are: shared tokens over all tokens (Jaccard), without those of descriptions and other
    free text; 1 for inputs that have the same `normalized_input`.
    """
    if normalized_input(text) == normalized_input(other):
        return 1.0
    own, others = (set(input_tokens(each, with_prose=False)) for each in (text, other))
    return len(own & others) / len(own | others) if own | others else 0.0


def normalized_input(text: str) -> str:
    """Return an input without what differs from call to call: ids, times, machine-specific paths, white space."""
    return " ".join(generalize(json.dumps(parse_arguments(text), sort_keys=True, ensure_ascii=False)).split())


def leading_ngrams(text: str) -> tuple[str, ...]:
    """Return what a request begins with: its first word, then its first two, in lower case; in a script without spaces
    the first two characters, then the first four.

    Openings say best what kind of thing is wanted: "how many" wants a number, "how does" an explanation. Empty where
    there is no word, or where the first one is no plain word.
    """
    words = words_as_written(text[: _MAX_OPENING * 4])
    is_unspaced = len(words) > 1 and len(words[0]) == len(words[1]) == 1 and not words[0].isascii()
    step, between = (2, "") if is_unspaced else (1, " ")
    parts = ("".join(words[at : at + step]) for at in (0, step))
    plain = takewhile(lambda part: len(part) <= _MAX_OPENING and _LETTERS.fullmatch(part), parts)
    return tuple(accumulate(plain, lambda first, second: f"{first}{between}{second}"))


def leading_ngram_tokens(text: str) -> tuple[str, ...]:
    """Return the tokens by which calls that begin as a request does are found, the shorter opening first."""
    return tuple(OPENING + opening.replace(" ", OPENING) for opening in leading_ngrams(text))


def topics_of(request: str) -> set[str]:
    """Return the words that a request is about, except the one it begins with, as written but in lower case."""
    return {word for word in _WORD.findall(request.lower()) if word not in STOP_WORDS} - {*leading_ngrams(request)[:1]}


def show_value(name: str, value: JsonValue) -> str:
    """Return a value as it may be shown; empty when it reads like an instruction."""
    if isinstance(value, str):
        return show_command(value) if name.lower() in COMMANDS else show_symptom(value, limit=MAX_VALUE)
    return show_symptom(json.dumps(value, ensure_ascii=False), limit=MAX_VALUE)


def is_prose(name: str, value: JsonValue) -> bool:
    """Whether an argument holds free text, from which no other call can learn: two words or more, and no command."""
    return name.lower() not in COMMANDS and any(len(each.split()) > 1 for each in _strings(value))


def difference(before: str, after: str, without: Collection[str] = ()) -> str:
    """Return in words how the arguments of a call, except those named in `without`, differ from those of an earlier
    call; empty where they do not.
    """
    old, new = parse_arguments(before), parse_arguments(after)
    parts: list[str] = []
    for name in sorted((new.keys() | old.keys()).difference(without)):
        shown = f"`{safe_name(name) or '?'}`"
        if name not in new:
            parts.append(f"without {shown}")
        elif name not in old:
            parts.append(f"with {shown} = {_quoted(name, new[name])}")
        elif old[name] != new[name]:
            parts.append(f"with {shown} = {_quoted(name, new[name])} instead of {_quoted(name, old[name])}")
    return one_line(", ".join(parts), 300)


def _quoted(name: str, value: JsonValue) -> str:
    shown = show_value(name, value)
    if not shown:
        return "another value"
    return f'"{shown}"' if isinstance(value, str) else shown


def safe_name(name: str) -> str:
    """Return the name of an argument, tool or program in a form that is safe between backticks."""
    return "".join(char for char in name if char.isalnum() or char in "_-.+/")[:60]


def _strings(value: JsonValue, depth: int = 0) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, bool) or value is None:
        return
    elif isinstance(value, int | float):
        yield str(value)
    elif depth < 6:
        for part in value.values() if isinstance(value, dict) else value:
            yield from _strings(part, depth + 1)
