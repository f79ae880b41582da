"""The transcripts of Claude Code: where they are, and their lines as trajectories, one for each task of a session."""

import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from swarm_memory.schema.trajectory import Trajectory, Usage
from swarm_memory.server.hosts.claude_code.host import HOST
from swarm_memory.server.hosts.host import Origin, Transcripts
from swarm_memory.server.hosts.records import JsonDict, all_text, as_list, as_object, files_in
from swarm_memory.server.hosts.session import Session, exit_code_of
from swarm_memory.tools.learn.worth import QUESTION
from swarm_memory.tools.trajectory.tasks import is_own_tool, is_task_prompt, strip_notes, task_text

_INTERRUPTED = "[Request interrupted"
_COMMAND = re.compile(r"\s*(?:<command-(?:name|message)>|/[A-Za-z])")
_REFUSED = "The user doesn't want to proceed with this tool use"
_SILENT_COMMANDS = re.compile(r"<command-name>\s*/(?:compact|clear|model|cost|context|status|mcp|plugin|config|help)\b")
_AGENT_FILE = "agent-"
_HEAD_LINES = 200
_TOOL_ERROR = re.compile(r"</?tool_use_error>")


def is_claude_code(record: JsonDict) -> bool:
    """Whether a record is a line of a Claude Code transcript."""
    return bool(record.text("type")) and (
        "sessionId" in record or "leafUuid" in record or "snapshot" in record or bool(record.object("message"))
    )


def read_session(lines: Iterator[JsonDict], origin: Origin) -> Iterator[Trajectory]:
    """Yield one trajectory for each task, `<session>:1`, `<session>:2` …, as soon as the next one begins.

    The number counts the prompts that began a task (`tools.trajectory.tasks`). A subagent's file, whose lines are
    marked as such, is one task, `<session>:agent-<id>`, whatever is said in it.
    """
    head: list[JsonDict] = []
    for line in lines:
        head.append(line)
        if line.get("type") in ("user", "assistant") or len(head) >= _HEAD_LINES:
            break
    named = next(filter(None, (line.text("sessionId") for line in head)), None)
    agent_id, stem = None, origin.stem
    if stem is None or stem.startswith(_AGENT_FILE):
        agent_id = head[-1].text("agentId") if head[-1].get("isSidechain") is True else ""
        agent_id = agent_id or (stem and stem.removeprefix(_AGENT_FILE))
    session = _Session("claude_code", origin.session_id or named or stem, agent_id, codes_decide=False)
    yield from session.read(itertools.chain(head, lines), origin.records, session.take)


def transcripts_of(root: Path | None) -> list[Path]:
    """Return all transcripts, or those of a project: its folder's name is its path with `-` for special characters."""
    (projects,) = map(Path, HOST.folders())
    names = {re.sub(r"[^A-Za-z0-9]", "-", str(root)), str(root).replace("/", "-")}
    folders = projects.glob("*") if root is None else [projects / name for name in sorted(names)]
    return [path for folder in folders for path in folder.glob("*.jsonl")]


def subagent_files(transcript: Path) -> list[Path]:
    """Return the files of a session's subagents, which are in `<session>/subagents/` next to its transcript."""
    session = transcript.parent / transcript.stem
    return [] if session.is_symlink() else files_in(session / "subagents", f"{_AGENT_FILE}*.jsonl")


@dataclass(slots=True)
class _Session(Session):
    asked: bool = False
    """Whether the agent was asked what the task taught: what it says then is not part of the task."""
    seen: set[int] = field(default_factory=set[int])
    """Hashes of the uuids of the lines read: a resumed session repeats lines."""

    def take(self, record: JsonDict) -> bool:
        """Take one line and return True: lines that are not words or actions are recognized too."""
        kind, uuid, self.at = record.get("type"), record.text("uuid"), record.time("timestamp")
        if kind == "attachment":
            self._attachment(record.object("attachment"))
        if kind not in ("user", "assistant") or (uuid and hash(uuid) in self.seen):
            return True
        self.seen.add(hash(uuid))
        if bool(record.get("isSidechain")) is not (self.agent_id is not None):
            return True
        if record.get("isMeta") is True or record.get("isCompactSummary") is True:
            text = all_text(record.object("message").get("content"))
            self.note(text)
            self.asked = self.asked or QUESTION in text
            return True
        self.session_id = self.session_id or record.text("sessionId") or None
        if kind == "user":
            self._user(record)
        else:
            self._assistant(record)
        return True

    def _attachment(self, attachment: JsonDict) -> None:
        """Take what the host added by itself: our notes, for their ids, and prompts typed while the agent worked."""
        if attachment.get("type") == "queued_command" and attachment.get("commandMode", "prompt") == "prompt":
            text = task_text(all_text(attachment.get("prompt")))
            if is_task_prompt(text):
                self.add("message", "user", text)
            return
        text = all_text(attachment.get("content"))
        self.asked = self.asked or QUESTION in text
        if attachment.get("hookEvent") == "SessionStart":
            self.noted.update(dict.fromkeys(strip_notes(text)[1]))
        else:
            self.note(text)

    def _user(self, record: JsonDict) -> None:
        content = record.object("message").get("content")
        for block in map(as_object, as_list(content)):
            if block.text("type").endswith("tool_result"):
                self._tool_result(block, record.object("toolUseResult"))
        raw = all_text(content)
        text = task_text(raw)
        if text.startswith(_INTERRUPTED):
            self.stop(text)
        elif self.prompt(raw):
            self.asked = False
        else:
            self.detour = self.detour or bool(_COMMAND.match(text) and not _SILENT_COMMANDS.search(text))

    def _assistant(self, record: JsonDict) -> None:
        message = record.object("message")
        content = message.get("content")
        if message.get("model") == "<synthetic>":
            if is_api_error(record):
                self.stop(all_text(content), failed=True)
            return
        if self.running is not None and (usage := message.object("usage")):
            self.running.usage[message.text("id") or str(record.get("uuid"))] = Usage(
                input_tokens=usage.count("input_tokens"),
                output_tokens=usage.count("output_tokens"),
                cache_read_tokens=usage.count("cache_read_input_tokens"),
                cache_creation_tokens=usage.count("cache_creation_input_tokens"),
            )
        if isinstance(content, str):
            self.say(content)
        for block in map(as_object, as_list(content)):
            match block.text("type"):
                case "text" | "thinking" as kind if not self.asked:
                    self.say(block.text(kind), thought=kind == "thinking")
                case kind if kind.endswith("tool_use"):
                    name = block.text("name")
                    self.asked = self.asked and is_own_tool(name)  # else it went on with the task
                    self.call(name, block.get("input"), block.text("id"))
                case kind if kind.endswith("tool_result"):
                    self._tool_result(block, JsonDict())
                case _:
                    pass

    def _tool_result(self, block: JsonDict, result: JsonDict) -> None:
        """Take the result of a call. `result` is the host's own structured form of it, where there is one."""
        call_id, is_error = block.text("tool_use_id"), block.flag("is_error")
        streams = (result.text(name) for name in ("stdout", "stderr"))
        text = all_text(block.get("content")) or "\n".join(filter(None, streams))
        stopped = result.get("interrupted") is True
        code = exit_code_of(text) if is_error else None
        # A command reported as done, and not as an error, ended with exit code 0.
        if not is_error and self.tools.get(call_id) == "Bash" and "stdout" in result and not stopped:
            code = None if result.get("backgroundTaskId") or result.get("returnCodeInterpretation") else 0
        refused = text.startswith(_REFUSED)
        text = _TOOL_ERROR.sub("", text)
        self.result(call_id, text, is_error=is_error, exit_code=code, interrupted=stopped or refused)


def is_api_error(record: JsonDict) -> bool:
    """Whether a line of a transcript, or of `stream-json`, is the host's own report that its API failed."""
    return True in (record.get("isApiErrorMessage"), record.get("is_api_error_message"))


TRANSCRIPTS = Transcripts(is_claude_code, read_session, transcripts_of, subagent_files)
