"""Which chat models are asked, in which order and within which limits; of a secret only its variable's name."""

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, field_validator, model_validator

from swarm_memory.schema.base import Model

OPENAI_URL = "https://api.openai.com/v1"

Structured = Literal["auto", "json_schema", "json_object", "text"]
"""How an answer as JSON is asked for; `auto` begins with the strictest and remembers what the endpoint takes."""


class ChatProviderSettings(Model):
    """One chat model."""

    # A key written here by mistake must not come back in the error text.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    provider: Literal["openai", "claude_cli"]
    """`openai`: any endpoint that speaks chat completions. `claude_cli`: the user's own Claude Code, without a key."""
    model: str = Field(default="", max_length=200)
    """Needed for `openai`; empty for `claude_cli`: the model that Claude Code uses by itself."""
    base_url: str = OPENAI_URL
    """Of `openai`, such as `http://127.0.0.1:11434/v1`."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Z][A-Z0-9_]{0,99}$")
    """Name of the environment variable that holds the key, never the key; `OPENAI_API_KEY` for OpenAI's own URL."""
    command: str = "claude"
    """Of `claude_cli`: the program, by name or path."""
    structured: Structured = "auto"
    price_in: float | None = Field(default=None, ge=0)
    """USD for a million input tokens; without both prices no cost is recorded for `openai`."""
    price_out: float | None = Field(default=None, ge=0)
    """USD for a million output tokens."""

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, value: str) -> str:
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and name a host")
        if parts.username or parts.password or parts.query:
            raise ValueError("must hold no user, password or query; name the key's variable in api_key_env")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _named_model(self) -> Self:
        if self.provider == "openai" and not self.model:
            raise ValueError("provider `openai` needs `model`")
        return self

    @property
    def key_variable(self) -> str | None:
        """Name of the variable that the key is read from; None: the endpoint wants none."""
        if self.api_key_env is None and self.base_url == OPENAI_URL:
            return "OPENAI_API_KEY"
        return self.api_key_env

    @property
    def name(self) -> str:
        """`provider:model`, as answers and figures give it."""
        return f"{self.provider}:{self.model or 'default'}"


class ChatSettings(Model):
    """The chat models, in the order in which they are asked. None is a normal state: evidence judges alone."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    providers: tuple[ChatProviderSettings, ...] = ()
    retries: int = Field(default=2, ge=0, le=10)
    """Further tries of one model after an answer such as 429 or 503, or a lost connection."""
    timeout_s: float = Field(default=45.0, gt=0, le=600)
    """Longest time for one model while another one of the list is left; the last has all that remains of the call."""
    max_concurrency: int = Field(default=4, ge=1, le=64)
    """Calls at the same time, in one process."""
    daily_token_budget: int | None = Field(default=None, ge=0)
    """Tokens (input and output) for one day in UTC, of all processes on one database; 0 sends nothing, None sets no
    limit."""
    max_failures: int = Field(default=3, ge=1)
    """So many failures one after the other, and a model is passed over for `cool_down_s`."""
    cool_down_s: float = Field(default=60.0, gt=0)

    def judging(self, chosen: str | None) -> tuple[ChatProviderSettings, ...]:
        """Return the models in the order in which they are asked to judge: those that `judge.model` names first."""
        return tuple(sorted(self.providers, key=lambda provider: chosen not in {provider.model, provider.name}))
