"""The rollouts of Codex CLI: where they are, and their lines as trajectories, one for each task of a session."""

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.server.hosts.codex.host import HOST, PATCHED_FILE, SHELL, strip_editor_context
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import JsonDict, as_list, as_object, as_text, first_record, parsed, text_or_json
from swarm_memory.server.hosts.session import Session

_TYPES = frozenset({"session_meta", "turn_context", "response_item", "event_msg", "compacted", "world_state"})
_SHELLS = frozenset({"exec_command", "shell", "shell_command"})
_POLL = "write_stdin"
"""The tool that waits for a running command, or types into it."""

_CODE = "exec"
"""The tool that runs a program written by the agent; what that runs with other tools is in events."""

_SILENT = frozenset({
    "turn_context", "compacted", "world_state", "inter_agent_communication_metadata", "token_usage_record",
    "ghost_snapshot", "compaction", "compaction_summary", "context_compaction", "other", "image_generation_call",
    "tool_search_output",
})  # fmt: skip
"""Records and items that add nothing to the others. The same is true of all events that are not read."""

_EVENTS = {
    "AgentMessage": "agent_message", "UserMessage": "user_message", "CommandExecution": "exec_command_end",
    "FileChange": "patch_apply_end", "McpToolCall": "mcp_tool_call_end",
}  # fmt: skip
"""The types of items in `item_completed`, with the events that earlier versions wrote instead."""

_HEAD = re.compile(
    r"(?:(?:Chunk ID|Wall time|Process exited with code|Process running with session ID|Original token count|Exit code"
    r"|Total output lines|Script (?:completed|failed))[^\n]{0,200}\n){1,8}Output:\n?"
)
"""The header before the output of a command."""

_EXITED = re.compile(r"^(?:Process exited with code|Exit code:) (-?\d{1,10})\b", re.MULTILINE)
_RUNNING = re.compile(r"^Process running with session ID (\d{1,12})\b", re.MULTILINE)
_REFUSED = re.compile(
    r"(?i)(?:exec_command|patch|command) (?:was )?(?:rejected|denied) by (?:the )?user|rejected by user"
)
_FAILED = re.compile(
    r"(?i)(?:unsupported (?:custom tool )?call|failed to parse|apply_patch verification failed|write_stdin failed"
    r"|exec_command failed|tool call (?:error|failed))"
)
_NEW_TASK = re.compile(r"Message Type: NEW_TASK\b[\s\S]*?^Task name: (?P<name>\S+)$[\s\S]*?^Payload:\n?", re.MULTILINE)


def is_codex(record: JsonDict) -> bool:
    """Whether a record is a line of a rollout."""
    return record.text("type") in _TYPES and isinstance(record.get("payload"), dict) and "timestamp" in record


def read_session(lines: Iterator[JsonDict], origin: Origin) -> Iterator[Trajectory]:
    """Yield one trajectory for each task. The file of a subagent is one task of the session that started it."""
    session = _Session("codex", origin.session_id, fallback_id=origin.stem)
    yield from session.read(session.to_the_end(lines), origin.records, session.take)


def rollouts_of(root: Path | None) -> list[Path]:
    """Return the rollouts of all sessions, or of those that were held in a project."""
    found = [path for folder in map(Path, HOST.folders()) for path in folder.rglob("rollout-*.jsonl")]
    if root is None:
        return found
    folders = [(path, first_record(path).object("payload").text("cwd")) for path in found]
    return [path for path, cwd in folders if cwd and root in (Path(cwd), *Path(cwd).parents)]


@dataclass(slots=True)
class _Session(Session):
    began: bool = False
    """Whether its own `session_meta` was read; a second one belongs to the session that it was forked from."""
    said: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    """How often the agent said the same words in items and in events: each mirrors the other, but may be missing."""
    processes: dict[str, tuple[str, str]] = field(default_factory=dict[str, tuple[str, str]])
    """Commands still running after their calls were answered, by process id: the call's id and the output so far."""
    codes: dict[str, int] = field(default_factory=dict[str, int])
    """Exit codes, by call id, that came before the call's own output."""
    failed: set[str] = field(default_factory=set[str])
    """Ids of failed calls of MCP servers' tools: their output says so only in words."""
    polls: dict[str, str] = field(default_factory=dict[str, str])
    """Ids of processes, by the call id of the poll."""

    def to_the_end(self, lines: Iterator[JsonDict]) -> Iterator[JsonDict]:
        """Yield the lines; then end the commands still running, since no line says how they ended.

        Raises `InputError` if the agent speaks but no line says what was typed.
        """
        yield from lines
        if self.said and not self.number:
            raise InputError("the rollout has no `user_message` event, so no task: its version of Codex is unsupported")
        self.at = None
        for process in list(self.processes):
            self._end(process, None)

    def take(self, record: JsonDict) -> bool:
        """Take a line; return whether it is recognized."""
        kind, payload, self.at = record.text("type"), record.object("payload"), record.time("timestamp")
        if kind == "session_meta" and not self.began:
            own, source = payload.text("id"), payload.object("source").object("subagent")
            parent = source.object("thread_spawn").text("parent_thread_id")
            self.began, self.session_id = True, self.session_id or parent or own or None
            if source:
                self.agent_id = own or "agent"
        elif kind == "response_item":
            return self._item(payload)
        elif kind == "event_msg":
            self._event(payload)
        return kind in _TYPES or kind in _SILENT

    def _item(self, item: JsonDict) -> bool:
        kind = item.text("type")
        text = text_or_json(item.get("content"))
        if kind == "message" and item.get("role") == "assistant":
            self._say("item", text)
        elif kind == "message":
            self.note(text)  # what the user typed is in an event; nothing else in their name was typed
        elif kind == "agent_message":
            found = None if self.agent_id is None else _NEW_TASK.search(text)
            if found is not None:
                self.draft = None  # what came before is a copy of the work of the agent that assigns the task
                self.prompt(text[found.end() :].strip() or found["name"].rpartition("/")[2].replace("_", " "))
        elif kind == "reasoning":
            summary = "\n".join(text_or_json([each]) for each in item.array("summary"))
            self.say(summary or text, thought=True)
        elif kind in ("function_call", "custom_tool_call", "tool_search_call", "web_search_call"):
            self._call(kind, item)
        elif kind in ("function_call_output", "custom_tool_call_output"):
            self._output(item.text("call_id"), item.get("output"))
        else:
            return kind in _SILENT
        return True

    def _event(self, event: JsonDict) -> None:
        kind = event.text("type")
        if kind == "item_completed":
            event = event.object("item")
            kind = _EVENTS.get(event.text("type"), "")
        call_id, said = event.text("call_id", "id"), event.text("message") or text_or_json(event.get("content"))
        match kind:
            case "agent_message":
                self._say("event", said)
            case "user_message":
                self.prompt(strip_editor_context(said))
            case "exec_command_end":
                self._ran(call_id, event)
            case "patch_apply_end" if call_id not in self.tools:  # run by a program: it has no call of its own
                changed = event.get("changes")
                files = list(as_object(changed)) or [as_object(each).text("path") for each in as_list(changed)]
                failed = event.get("success") is False or event.text("status") in ("failed", "declined")
                self.call("apply_patch", {"file_path": files[0]} if files else {}, call_id)
                self.result(call_id, event.text("stdout") + event.text("stderr"), is_error=failed)
            case "mcp_tool_call_end":
                result = event.object("result")
                answer = result.object("Ok") or result
                if "Err" in result or answer.get("isError") is True or event.get("status") == "failed":
                    self.failed.add(call_id)
            case "turn_aborted":
                self.stop(f"[stopped: {event.text('reason') or 'by the user'}]")
            case "error":
                self.stop(said, failed=True)
            case _:
                pass

    def _say(self, source: str, text: str) -> None:
        words = text.strip()
        self.said[source, words] += 1
        if self.said[source, words] > self.said["event" if source == "item" else "item", words]:
            self.say(text)

    def _call(self, kind: str, item: JsonDict) -> None:
        call_id, name = item.text("call_id", "id"), item.text("name")
        given = parsed(item.get("arguments")) if "arguments" in item else item.get("input", item.get("action"))
        arguments = as_object(given)
        if name == _POLL:
            self.polls[call_id] = str(arguments.get("session_id") or "")
            if not arguments.text("chars").strip("\x03\x04\r\n"):
                return  # only waits
        if name in _SHELLS:
            name, given = SHELL, _shell_input(arguments)
        elif kind == "custom_tool_call" and name == _CODE:
            name, given = "code", {"code": given}
        elif kind == "custom_tool_call":
            patch = as_text(given)
            file = PATCHED_FILE.search(patch)
            given = {**({"file_path": file[1].strip()} if file else {}), "input": patch}
        elif kind in ("web_search_call", "tool_search_call"):
            name = kind.removesuffix("_call")
        if (space := item.text("namespace")).startswith("mcp__"):
            name = f"{space.removesuffix('__')}__{name}"
        self.call(name, given, call_id)

    def _output(self, call_id: str, output: object) -> None:
        whole = as_object(output)
        if as_text(output).startswith('{"output":'):  # as a patch's does, with how it ended
            whole = as_object(parsed(output))
        code = whole.object("metadata").get("exit_code")
        text = text_or_json(whole.get("output", whole.get("content"))) if whole else text_or_json(output)
        head = _HEAD.match(text)
        framed, said = (text[: head.end()], text[head.end() :]) if head else ("", text)
        exited, runs = _EXITED.search(framed), _RUNNING.search(framed)
        code = int(exited[1]) if exited else code if isinstance(code, int) else self.codes.pop(call_id, None)
        process = self.polls.pop(call_id, None)
        if process is not None and process in self.processes:
            started_by, before = self.processes[process]
            self.processes[process] = started_by, before + said
            if code is not None or runs is None:
                self._end(process, code if head else None)
        elif runs is not None and code is None and call_id in self.tools:
            self.processes[runs[1]] = call_id, said
            return
        if call_id in self.tools:
            refused = bool(_REFUSED.search(said[:400]))
            failed = True if _FAILED.match(said) or refused or call_id in self.failed else whole.flag("success")
            self.result(call_id, said, is_error=failed, exit_code=code, interrupted=refused)

    def _end(self, process: str, code: int | None) -> None:
        call_id, text = self.processes.pop(process)
        self.result(call_id, text, exit_code=code)

    def _ran(self, call_id: str, event: JsonDict) -> None:
        """Take how a command ended: one being polled, one whose output is yet to come, or one that a program ran."""
        given = event.get("exit_code")
        code = given if isinstance(given, int) and given >= 0 else None
        output = event.text("aggregated_output")
        process = next((key for key, (each, _) in self.processes.items() if each == call_id), None)
        if process is not None:
            _, said = self.processes.pop(process)
            self.result(call_id, output or said, exit_code=code)
        elif call_id in self.tools and code is not None:
            self.codes[call_id] = code
        elif call_id not in self.tools and self.running is not None:
            self.call(SHELL, _shell_input(event), call_id)
            self.result(call_id, output, exit_code=code)


def _shell_input(arguments: JsonDict) -> JsonDict:
    """Return a shell call's arguments, with its command as one text."""
    words = arguments.get("command", arguments.get("cmd"))
    command = as_text(words)
    if listed := [str(word) for word in as_list(words)]:
        is_shell = len(listed) >= 3 and listed[-2] in ("-lc", "-c", "-Command")
        command = listed[-1] if is_shell else shlex.join(listed)
    workdir = arguments.text("workdir")
    return JsonDict({"command": command, **({"workdir": workdir} if workdir else {})})


TRANSCRIPTS = Transcripts(is_codex, read_session, rollouts_of)
