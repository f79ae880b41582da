"""What goes to a chat model and what comes back."""

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model


class ChatRequest(Model):
    """One question to a chat model. Untrusted text stands fenced in `user`, never in `system`."""

    purpose: str
    """`judge`, `distill` …: for the usage figures."""
    system: str
    user: str
    answer_schema: dict[str, JsonValue] | None = None
    """JSON schema of the answer; None: plain text."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    max_tokens: int = Field(default=2000, ge=1)
    seed: int | None = None
    timeout_s: float = Field(default=60.0, gt=0)
    """Limit of the whole call, retries and repair included."""


class ChatUsage(Model):
    """What a call cost, over all its tries."""

    input_tokens: int = Field(default=0, ge=0)
    output_tokens: int = Field(default=0, ge=0)
    cost_usd: float | None = Field(default=None, ge=0)
    tries: int = Field(default=1, ge=0)


class ChatAnswer(Model):
    """A checked answer."""

    text: str
    data: dict[str, JsonValue] | None = None
    """The answer as JSON, valid by `answer_schema`; None for plain text."""
    model: str
    """Who answered: `provider:model`."""
    usage: ChatUsage
    latency_ms: float
