"""What an agent did on one task, parsed, and the verdict on it."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model, Timestamp, Unit, digest
from swarm_memory.schema.errors import InputError

StepKind = Literal["message", "thought", "tool_call", "observation"]
Role = Literal["user", "assistant", "tool", "system"]

TrajectorySource = Literal[
    "claude_code", "codex", "copilot_cli", "opencode", "cursor", "gemini_cli", "antigravity",
    "spans", "messages", "steps", "agent",
]  # fmt: skip
"""The host whose transcript it was read from, or the form in which it was given."""
Label = Literal["Success", "Failure", "Undecided"]
Judge = Literal["model", "agent", "evidence", "user"]
MAX_REASONS = 20


class Step(Model):
    """One step. `text` is what was said, thought or observed; for a tool call it may be empty."""

    id: str
    """Unique in the trajectory: `s1`, `s2` … in order."""
    kind: StepKind
    role: Role
    text: str = ""
    tool_name: str | None = None
    tool_input: dict[str, JsonValue] | None = None
    call_id: str | None = None
    """Joins a tool call to its observation."""
    is_error: bool | None = None
    """For an observation: whether the host reported the call as failed; None where it reported nothing."""
    exit_code: int | None = None
    interrupted: bool = False
    at: Timestamp | None = None


class Usage(Model):
    """Tokens as the host counted them, each message once."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cache_read_tokens: int = Field(default=0, ge=0)
    cache_creation_tokens: int = Field(default=0, ge=0)


class Trajectory(Model):
    """What the agent did on one task."""

    task_id: str = Field(min_length=1, max_length=500)
    task: str
    """The task as requested, without injected memories."""
    steps: tuple[Step, ...] = ()
    session_id: str | None = None
    agent_id: str | None = None
    """The agent that acted; for a subagent its id."""
    source: TrajectorySource = "steps"
    started_at: Timestamp | None = None
    ended_at: Timestamp | None = None
    usage: Usage = Field(default_factory=Usage)
    injected_memory_ids: tuple[str, ...] = ()
    """Ids of memories that were injected into the prompt of this task."""
    outcome: Label | None = None
    """The outcome that the agent itself reported through a tool of this server."""
    skipped_lines: int = Field(default=0, ge=0)
    """Lines of the transcript that could not be read."""
    dropped_steps: int = Field(default=0, ge=0)
    """Steps left out of the middle because the trajectory was too long to keep."""

    @property
    def broken_off(self) -> str | None:
        """The host's message when its own connection to the model broke off the task; None where it did not."""
        said = [step for step in self.steps[-3:] if step.role != "user"]
        is_host = bool(said) and said[-1].kind == "message" and said[-1].role == "system" and said[-1].is_error is True
        return said[-1].text if is_host else None

    @property
    def has_acts(self) -> bool:
        """Whether the agent said or did anything."""
        return any(step.role in ("assistant", "tool") for step in self.steps)

    @property
    def content_digest(self) -> str:
        """SHA-256 over what happened (task, steps without times, outcome): the key of idempotent learning."""
        steps: list[Any] = [step.model_dump(mode="json", exclude={"at"}) for step in self.steps]
        return digest([self.task, steps] if self.outcome is None else [self.task, steps, self.outcome])


class Verdict(Model):
    """Whether the task succeeded, how sure that is, and what the verdict rests on."""

    label: Label
    confidence: Unit
    """For a decided label, the estimated probability that it is right; for Undecided, 0."""
    reasons: tuple[str, ...] = Field(default=(), max_length=MAX_REASONS)
    evidence: tuple[str, ...] = ()
    """Ids of the steps that the verdict rests on."""
    judge: Judge
    model: str | None = None
    """The chat model that answered, where one did."""

    @classmethod
    def by_agent(cls, label: Label, confidence: float = 1.0, reasons: Sequence[str] = ()) -> "Verdict":
        """Return the acting agent's own verdict, or what its user said through it. Raises `InputError`."""
        if len(reasons) > MAX_REASONS:
            raise InputError(f"{len(reasons)} reasons were given: give at most {MAX_REASONS}.")
        sure = 0.0 if label == "Undecided" else confidence
        return cls(label=label, confidence=sure, reasons=tuple(reasons), judge="agent")

    @classmethod
    def by_user(cls, label: Label, reasons: Sequence[str] = ()) -> "Verdict":
        """Return the verdict that the user gave by hand: nothing is surer."""
        return cls(label=label, confidence=0.0 if label == "Undecided" else 1.0, reasons=tuple(reasons), judge="user")
