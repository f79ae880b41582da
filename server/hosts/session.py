"""What the readers of all hosts' transcripts do alike: prompts become tasks; calls and their results, steps."""

from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from swarm_memory.schema.trajectory import Trajectory, TrajectorySource
from swarm_memory.server.hosts.records import Record, Records, as_object
from swarm_memory.server.hosts.steps import Draft
from swarm_memory.tools.promote.marks import ids_in
from swarm_memory.tools.text.cleaning import NOTES_OPEN
from swarm_memory.tools.trajectory.tasks import (
    continues,
    is_own_tool,
    is_task_prompt,
    noted_ids,
    session_task_id,
    strip_notes,
    task_text,
)

_ARGUMENTS: Mapping[str, str] = {
    "filePath": "file_path", "absolute_path": "file_path", "AbsolutePath": "file_path", "TargetFile": "file_path",
    "oldString": "old_string", "newString": "new_string", "TargetContent": "old_string",
    "ReplacementContent": "new_string", "CodeContent": "content", "CommandLine": "command",
}  # fmt: skip
"""What some hosts call an argument, and what it is called in our trajectories."""


@dataclass(slots=True)
class Session:
    """Where the reading of a session stands. A host's reader hands it what was said and done, in order.

    What stands before the first prompt belongs to no task and is left out. With `agent_id` it is a subagent's part:
    one task, whatever is said in it.
    """

    source: TrajectorySource
    session_id: str | None = None
    agent_id: str | None = None
    fallback_id: str | None = None
    """The session's id where its records name none."""
    draft: Draft | None = None
    ended: Draft | None = None
    """The task that the last prompt ended, until it is taken."""
    number: int = 0
    detour: bool = False
    """A command of the host's own is running: what the agent does for it belongs to no task."""
    noted: dict[str, None] = field(default_factory=dict[str, None])
    """Ids of memories that were put into the context before a task began."""
    tools: dict[str, str] = field(default_factory=dict[str, str])
    """Tool names by call id, of the running task."""
    counted: int = 0
    """Records skipped so far that a task counts."""
    codes_decide: bool = True
    """Whether a command is said to have failed, or not, by its exit code; Claude Code says so by itself."""
    answered: set[str] = field(default_factory=set[str])
    """Ids of its calls that have an observation: a session that was resumed has some twice."""

    @property
    def running(self) -> Draft | None:
        """The task that what is done now belongs to."""
        return None if self.detour else self.draft

    def note(self, text: str) -> None:
        """Take what the host put into the context: the ids of the memories in our notes and skills."""
        ids = [*(strip_notes(text)[1] if NOTES_OPEN in text else ()), *ids_in(text)]
        (self.noted if self.draft is None else self.draft.injected).update(dict.fromkeys(ids))

    def prompt(self, raw: str, at: datetime | None = None) -> bool:
        """Take what the user typed; return whether it asks for something. It continues the task or begins one."""
        if not is_task_prompt(raw):
            return False
        text, self.detour = task_text(raw), False
        if self.draft is not None and (self.agent_id is not None or continues(text, self.draft.task)):
            self.note(raw)
            self.draft.add("message", "user", text, at=at)
        else:
            self._begin(text, raw, at)
        return True

    def _begin(self, text: str, raw: str, at: datetime | None) -> None:
        self.ended, self.number = self.draft, self.number + 1
        self.session_id = self.session_id or self.fallback_id
        session = self.session_id or "session"
        self.draft = Draft(
            task_id=f"{session}:agent-{self.agent_id}" if self.agent_id else session_task_id(session, self.number),
            task=text,
            source=self.source,
            session_id=self.session_id,
            agent_id=self.agent_id,
            started_at=at,
            ended_at=at,
            injected=self.noted,
        )
        self.noted, self.tools, self.answered = {}, {}, set()
        self.note(raw)

    def say(self, text: str, at: datetime | None = None, *, thought: bool = False) -> None:
        """Take what the agent said or thought."""
        if self.running is not None:
            self.running.add("thought" if thought else "message", "assistant", text, at=at)

    def stop(self, text: str, at: datetime | None = None, *, failed: bool = False) -> None:
        """Take that the user broke the work off, or with `failed` that the host's connection to the model did."""
        if self.running is not None and failed:
            self.running.add("message", "system", text, at=at, is_error=True)
        elif self.running is not None:
            self.running.add("message", "user", text, at=at, interrupted=True)

    def call(self, name: str, given: object, call_id: str, at: datetime | None = None) -> str:
        """Take a call and return its id; one without an id gets one, and one that comes again is left out."""
        call_id = call_id or f"call-{len(self.tools) + 1}"
        if self.running is not None and call_id not in self.tools:
            self.tools[call_id] = name or "tool"
            if is_own_tool(name):
                self.running.own_call(name, given)
            else:
                given = {_ARGUMENTS.get(key, key): each for key, each in as_object(given).items()} or given
                self.running.add(
                    "tool_call", "assistant", at=at, tool_name=name or "tool", tool_input=given, call_id=call_id
                )
        return call_id

    def open_call(self, waiting: Container[str] = ()) -> str:
        """Return the id of the oldest call without a result, which one that names no call answers; empty for none."""
        return next((each for each in self.tools if each not in self.answered and each not in waiting), "")

    def result(
        self,
        call_id: str,
        text: str,
        at: datetime | None = None,
        *,
        is_error: bool | None = None,
        exit_code: int | None = None,
        interrupted: bool = False,
    ) -> None:
        """Take what came of a call, once. A command that ended with another code than 0 failed, whatever is said."""
        if exit_code is not None and not is_error and self.codes_decide:
            is_error = exit_code != 0
        if self.running is None or call_id in self.answered:
            return
        self.answered.add(call_id)
        name = self.tools.get(call_id, "")
        if is_own_tool(name):
            if name.endswith("retrieve_memories"):
                self.running.injected.update(dict.fromkeys(noted_ids(text)))
            return
        self.note(text)
        self.running.add(
            "observation",
            "tool",
            task_text(text),
            at=at,
            tool_name=name,
            call_id=call_id,
            is_error=is_error,
            exit_code=exit_code,
            interrupted=interrupted,
        )

    def read(self, records: Iterable[Record], source: Records, take: Callable[[Record], bool]) -> Iterator[Trajectory]:
        """Yield each task as soon as the next one begins. `take` returns whether it knows a record.

        One that it does not know is counted as skipped, with the lines of `source` that could not be read.
        """
        for record in records:
            is_known = take(record)  # it may count parts of the record by itself
            source.skipped += not is_known
            if self.ended is not None:
                yield self.ended.finished(source.skipped - self.counted)
                self.ended, self.counted = None, source.skipped
        if self.draft is not None:
            yield self.draft.finished(source.skipped - self.counted)
            self.counted = source.skipped
