"""What an agent's command printed as a trajectory: a transcript where it is one, else its words; it runs nothing."""

import io
import json
from collections.abc import Iterator
from dataclasses import dataclass

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.rollout import RolloutRequest
from swarm_memory.schema.settings import LearnSettings
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.child_process import Finished
from swarm_memory.server.hosts.messages import read_list
from swarm_memory.server.hosts.records import JsonObject, as_object, as_text
from swarm_memory.server.hosts.transcript import read_trajectories

_SHELL = "Bash"
_MAX_TEXT = 2_000_000


@dataclass(frozen=True, slots=True)
class CheckResult:
    """What a check of a rollout's work gave."""

    command: str
    text: str
    code: int | None
    """None: it did not end within its time limit."""


def read_output(
    request: RolloutRequest,
    command: str,
    printed: bytes,
    finished: Finished | None,
    check: CheckResult | None,
    limits: LearnSettings,
) -> Trajectory:
    """Return the trajectory of one rollout.

    The output may be any transcript that `server.transcript` reads, Claude Code's `stream-json`, or plain text (also
    in the ReAct form), which are the agent's words and prove nothing. A bad end (`finished` is None where the time
    limit came) and the check's result stand at the end as calls of a shell.
    """
    text = printed.decode("utf-8", "replace")
    messages = list(_messages(text, printed, request, limits))
    if finished is None:
        messages += _shell("end", command, "the command was ended by its time limit", 124)
    elif finished.code != 0:
        said = finished.error.decode("utf-8", "replace")[-4_000:]
        messages += _shell("end", command, f"{said}\n".lstrip("\n"), finished.code)
    if check is not None:
        messages += _shell("check", check.command, check.text, 124 if check.code is None else check.code)
    draft = read_list(messages, limits, task_id=request.task_id, task=request.task, source="agent")
    return draft.finished(0)


def _messages(text: str, printed: bytes, request: RolloutRequest, limits: LearnSettings) -> Iterator[JsonObject]:
    """Yield the output as messages or steps of ours."""
    if not text.strip():
        return
    if text.lstrip()[:1] not in "{[":
        yield _words(text)
        return
    streamed = list(_stream_json(text))
    if streamed:
        yield from streamed
        return
    try:
        found = list(read_trajectories(io.BytesIO(printed), session_id=request.run_id, limits=limits))
    except InputError:
        found = []
    steps = [step for trajectory in found for step in trajectory.steps]
    if not steps:
        yield _words(text)
    for step in steps:
        yield step.model_dump(mode="json", exclude={"id"}, exclude_none=True)


def _words(text: str) -> JsonObject:
    """A message without a role is read as ReAct text, or as the agent's words where it has no labels."""
    return {"role": "agent", "content": text[:_MAX_TEXT]}


def _stream_json(text: str) -> Iterator[JsonObject]:
    """Yield the messages of Claude Code's `--output-format stream-json`; its last line, the result, repeats one.

    `--output-format json` gives that line alone.
    """
    lines = [line for line in text.splitlines() if line.lstrip().startswith("{")]
    objects = [each for each in map(_object, lines) if each]
    if not any(each.get("type") in ("result", "system") and "session_id" in each for each in objects):
        return
    said = False
    for each in objects:
        message = as_object(each.get("message"))
        if each.get("type") in ("user", "assistant") and message:
            said = True
            yield message
        elif each.get("type") == "result" and not said and as_text(each.get("result")):
            yield {"role": "assistant", "content": as_text(each.get("result"))}


def _object(line: str) -> JsonObject:
    try:
        return as_object(json.loads(line))
    except (ValueError, RecursionError):
        return {}


def _shell(call_id: str, command: str, text: str, code: int) -> list[JsonObject]:
    """Return a command and its result as two steps."""
    given: JsonObject = {"kind": "tool_call", "role": "assistant", "tool_name": _SHELL, "call_id": call_id}
    given["tool_input"] = {"command": command}
    shown = f"Exit code {code}\n{text}" if code else text
    result: JsonObject = {"kind": "observation", "role": "tool", "tool_name": _SHELL, "call_id": call_id}
    return [given, result | {"text": shown, "exit_code": code, "is_error": code != 0}]
