"""A runner whose agent is one of the user's commands, such as `claude -p`, and whose output is read as a trajectory.

Each rollout has a fresh copy of the working folder and a process group of its own, which ends with it. The agent is not
sandboxed: it is a program of the user's that may do what the user may.
"""

import io
import shlex
from collections.abc import Iterator
from contextlib import suppress

import anyio.to_thread

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.rollout import RolloutRequest, RolloutStatus, RunnerAnswer
from swarm_memory.schema.trajectory import Role, Trajectory
from swarm_memory.server.child_process import Finished
from swarm_memory.server.hosts.claude_code.transcripts import is_api_error
from swarm_memory.server.hosts.messages import read_list
from swarm_memory.server.hosts.records import JsonObject, all_text, as_object
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.runners.workplace import MAX_OUTPUT_BYTES, TIMED_OUT, RolloutWorkspaces, parse_allowed
from swarm_memory.tools.guard.redact import redact, redact_end
from swarm_memory.tools.model.parse import json_or_none
from swarm_memory.tools.text.cleaning import one_line

PROMPT_WORD = "{prompt}"
"""The prompt's placeholder in a command; without it the prompt goes to standard input, which takes any length."""

_SHELL = "Bash"
_CHECK_S, _MAX_TEXT = 120.0, 2_000_000


class CommandRunner:
    """Runs `command` for each rollout in a copy of the workplace, and then `check`, whose result is evidence.

    Both must be allowed by its settings. No shell is involved. The command finds `MATTS_ROLLOUT`, `MATTS_SEED`,
    `MATTS_TEMPERATURE` and `MATTS_TASK_ID` in its environment. The copy of the best rollout is kept.
    """

    takes_notes = True

    def __init__(self, command: str, workplace: RolloutWorkspaces, check: str | None = None) -> None:
        self._words = parse_allowed(command, workplace.settings)
        self._check = parse_allowed(check, workplace.settings) if check else None
        self._workplace = workplace
        self.name = f"command:{one_line(redact(command).text, 100)}"

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Copy, run, check, read. Raises `InputError` when the folder cannot be copied."""
        await anyio.to_thread.run_sync(self._workplace.make, request)
        prompt = request.prompt.replace("\0", "")
        words = [prompt if word == PROMPT_WORD else word for word in self._words]
        stdin = b"" if PROMPT_WORD in self._words else request.prompt.encode("utf-8", "replace")
        try:
            finished = await self._workplace.run(words, request, limit_s=request.timeout_s, stdin=stdin)
        except OSError as error:
            return RunnerAnswer(status="failed", error=f"{self._words[0]} could not be started: {error.strerror}")
        check = await self._checked(request)
        trajectory = await anyio.to_thread.run_sync(self._read, request, finished, check)
        is_timed_out, fault = finished.code == TIMED_OUT, _fault(finished, request)
        status: RolloutStatus = "timed_out" if is_timed_out else "finished" if trajectory.steps else "failed"
        if not trajectory.steps:
            return RunnerAnswer(status=status, error=fault or "it printed nothing")
        return RunnerAnswer(status=status, trajectory=trajectory, error=fault)

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Delete the copies of all rollouts but the best one's, and return the path of that copy."""
        return await anyio.to_thread.run_sync(self._workplace.settle, run_id, best)

    async def _checked(self, request: RolloutRequest) -> list[JsonObject]:
        """Run the check in the rollout's folder; return it as two of the user's steps."""
        if self._check is None:
            return []
        limit_s = min(_CHECK_S, request.timeout_s)
        try:
            finished = await self._workplace.run(self._check, request, limit_s=limit_s)
        except OSError as error:
            raise InputError(f"the check {self._check[0]} could not be started: {error.strerror}") from error
        text = (finished.output + finished.error).decode("utf-8", "replace")
        ended = f"\nended after {limit_s:g} s" if finished.code == TIMED_OUT else ""
        return _shell("check", shlex.join(self._check), text + ended, finished.code, role="user")

    def _read(self, request: RolloutRequest, finished: Finished, check: list[JsonObject]) -> Trajectory:
        """Return a rollout's trajectory: from a transcript, `stream-json`, or plain text, which proves nothing."""
        messages = list(_messages(finished.output, request))
        # A failed connection, which the host itself reports last, says nothing about the agent.
        if not (messages and messages[-1].get("role") == "system" and messages[-1].get("is_error") is True):
            if finished.code != 0:
                last = redact_end(finished.error.decode("utf-8", "replace"), 4_000) + "\n"
                if finished.code == TIMED_OUT:
                    last = "the command was stopped at its time limit"
                messages += _shell("end", shlex.join(self._words), last.lstrip("\n"), finished.code)
            messages += check
        draft = read_list(map(as_object, messages), task_id=request.task_id, task=request.task, source="agent")
        return draft.finished(0)


def _fault(finished: Finished, request: RolloutRequest) -> str | None:
    if finished.code == TIMED_OUT:
        return f"stopped at its time limit of {request.timeout_s:g} s"
    if finished.is_cut:
        return f"stopped because it printed more than {MAX_OUTPUT_BYTES:,} bytes"
    if finished.code == 0:
        return None
    last = one_line(redact_end(finished.error.decode("utf-8", "replace"), 2_000), 200)
    return f"ended with exit code {finished.code}" + (f": {last}" if last else "")


def _messages(printed: bytes, request: RolloutRequest) -> Iterator[JsonObject]:
    """Yield the output as messages, or as steps in our own format."""
    text = printed.decode("utf-8", "replace")
    found: list[JsonObject] = []
    if text.lstrip()[:1] in ("{", "["):
        found = list(_stream_json(text))
        if not found:
            with suppress(InputError):
                for trajectory in read_trajectories(io.BytesIO(printed), session_id=request.run_id):
                    found += [
                        step.model_dump(mode="json", exclude={"id"}, exclude_none=True) for step in trajectory.steps
                    ]
    if not found and text.strip():
        found = [{"role": "assistant", "content": text[:_MAX_TEXT]}]
    yield from found


def _stream_json(text: str) -> Iterator[JsonObject]:
    """Yield the messages of Claude Code's `--output-format stream-json`; its last line, the result, repeats one."""
    objects = [
        each for line in text.splitlines() if (each := as_object(json_or_none(line) if line[:1] == "{" else None))
    ]
    if not any(each.get("type") in ("result", "system") and "session_id" in each for each in objects):
        return
    has_any = False
    for each in objects:
        message = each.object("message")
        if is_api_error(each):
            yield {"kind": "message", "role": "system", "text": all_text(message.get("content")), "is_error": True}
        elif each.get("type") in ("user", "assistant") and message:
            yield message
        elif each.get("type") == "result" and not has_any and each.text("result"):  # the only line of `json`
            yield {"role": "assistant", "content": each.text("result")}
        else:
            continue
        has_any = True


def _shell(call_id: str, command: str, text: str, code: int, *, role: Role = "assistant") -> list[JsonObject]:
    """Return a command, run by the agent or its user, and its result as two steps."""
    given: JsonObject = {"kind": "tool_call", "role": role, "tool_name": _SHELL, "call_id": call_id}
    given["tool_input"] = {"command": command}
    shown = f"Exit code {code}\n{text}" if code else text
    result: JsonObject = {"kind": "observation", "role": "tool", "tool_name": _SHELL, "call_id": call_id}
    return [given, result | {"text": shown, "exit_code": code, "is_error": code != 0}]
