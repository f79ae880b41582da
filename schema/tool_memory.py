"""Tool memory: calls as they were logged, how each was evaluated, and what is known of a tool from them."""

from typing import Annotated, Literal

from pydantic import AliasChoices, Field, JsonValue

from swarm_memory.schema.base import LocalTimestamp, Model, Scope, Timestamp, Unit

ToolName = Annotated[str, Field(min_length=1, max_length=300)]


class ReportedCall(Model, populate_by_name=True):
    """One use of a tool as a caller reports it. Inputs of any form are accepted; unknown keys are refused."""

    tool_name: ToolName
    input: JsonValue = None
    """The arguments: an object, or any JSON, or text."""
    output: JsonValue = None
    """What came back; empty is valid."""
    success: bool
    time_cost: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Seconds."""
    token_cost: int | None = Field(default=None, ge=0, lt=2**53)
    """Tokens; counted from input and output when not given."""
    create_time: LocalTimestamp | None = None
    """ISO 8601; without a zone it is this machine's time; now when not given."""
    task_id: str | None = Field(default=None, max_length=500)
    session_id: str | None = Field(default=None, max_length=200)
    call_id: str | None = Field(
        default=None, max_length=200, validation_alias=AliasChoices("call_id", "tool_call_id", "tool_use_id")
    )
    """The host's id of the call: the same call logged twice is one row."""
    task: str | None = None
    """What the call was for, in words; makes it easier to find for a similar task."""
    tool_schema: JsonValue = None
    """Description and parameters of the tool; kept once for each tool, for the model that evaluates."""


class ToolCall(Model):
    """One call of a tool; input and output are redacted and capped before they get here."""

    scope: Scope
    tool_name: ToolName
    input: str = ""
    """The arguments as JSON text."""
    output: str = ""
    success: bool
    time_cost_s: float | None = Field(default=None, ge=0)
    token_cost: int | None = Field(default=None, ge=0)
    created_at: Timestamp
    session_id: str | None = None
    task_id: str | None = None
    call_id: str | None = None
    """The host's id of the call: the same call logged twice is one row."""
    task: str | None = None
    """What it was for, where the caller said so."""


class Evaluation(Model):
    """How good one call was, and how that was determined."""

    score: Unit
    """0.0: failed, or was of no use; 1.0: did what it was meant to do."""
    summary: str
    evaluation: str
    method: Literal["model", "evidence"]
    model: str | None = None


class KeptCall(Model):
    """A call that the window still holds, with its evaluation; None: not evaluated, and never counted as evaluated."""

    seq: int
    call: ToolCall
    evaluation: Evaluation | None = None
    summarized: bool = False

    @property
    def is_good(self) -> bool:
        """Whether it was evaluated, and did what it was meant to do."""
        return self.evaluation is not None and self.evaluation.score >= 1.0


class ToolTotals(Model):
    """The counts of a tool over all time, whatever the window still holds."""

    tool_name: ToolName
    calls: int = Field(default=0, ge=0)
    succeeded: int = Field(default=0, ge=0)
    timed: int = Field(default=0, ge=0)
    """Calls whose time is known."""
    time_cost_us: int = Field(default=0, ge=0)
    """Microseconds of those calls in total: a whole number, so that sums stay exact."""
    counted: int = Field(default=0, ge=0)
    """Calls whose tokens are known."""
    token_cost: int = Field(default=0, ge=0)
    kept: int = Field(default=0, ge=0)
    """Calls in the window."""
    evaluated: int = Field(default=0, ge=0)
    """Calls that were evaluated, over all time; each counts once."""
    good: int = Field(default=0, ge=0)
    """How many of those have the score 1."""
    first_at: Timestamp | None = None
    last_at: Timestamp | None = None


class Measure(Model):
    """A figure with its 95 % interval and the number of calls that it rests on."""

    n: int
    value: float
    low: float | None = None
    high: float | None = None
    """None: a mean, which has no interval."""


class Guidelines(Model):
    """What to know of a tool, one short sentence each."""

    best_for: tuple[str, ...] = ()
    worst_for: tuple[str, ...] = ()
    parameters: tuple[str, ...] = ()
    """Parameters that work, and that do not."""
    errors: tuple[str, ...] = ()
    """Common errors and what resolved them."""
    recommendations: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """Whether the calls taught nothing that can be put into words; used by the viewer's pages."""
        return not any(self.model_dump().values())


class ToolSummary(Model):
    """What the newest calls of a tool show."""

    recent: int
    """How many calls the summary was made from."""
    evaluated: int
    """How many of those calls were evaluated; only these have a score."""
    success_rate: Measure
    score: Measure | None = None
    time_cost_s: Measure | None = None
    token_cost: Measure | None = None
    guidelines: Guidelines
    method: Literal["model", "extractive"]
    model: str | None = None
    note: str | None = None
    """Why it was not made as requested."""


class ToolMemory(Model):
    """All that is known of one tool."""

    totals: ToolTotals
    summary: ToolSummary | None = None
    summarized_at: Timestamp | None = None
    new_calls: int = 0
    """How many of the newest calls are evaluated and in no summary yet; counted only for guidance on named tools."""
    tool_schema: str | None = None
