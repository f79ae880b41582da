"""The settings of the tool memory: how many calls are kept, how they are evaluated and summarized."""

from typing import Literal

from pydantic import Field

from swarm_memory.schema.base import Model


class ToolMemorySettings(Model):
    """What is known of tools from the calls that were made."""

    max_history_tool_call_cnt: int = Field(default=100, ge=1, le=10_000)
    """Calls of each tool that are kept, the oldest out first; the totals over all time stay exact."""
    recent_call_count: int = Field(default=30, ge=1, le=1000)
    """The newest calls of a tool that a summary is made of."""
    evaluation_sleep_interval: float | None = Field(default=None, ge=0, le=60)
    """Seconds between the starts of two evaluations by a chat model; 1.0 for a remote one, 0 for a local one."""
    summary_sleep_interval: float | None = Field(default=None, ge=0, le=60)
    """The same between two summaries."""
    evaluator: Literal["auto", "evidence"] = "auto"
    """`auto`: the chat model where one is set; `evidence`: never a model, so that calls cost no tokens."""
    settle_s: float = Field(default=60.0, ge=0, le=3600)
    """So long a call waits for its evaluation in the background: what follows it in its session tells much of it."""
    retry_after_s: float = Field(default=300.0, ge=0, le=86_400)
    """An evaluation that failed is tried again after so long, twice as long each time, at most a day."""
    summarize_after: int = Field(default=10, ge=1, le=1000)
    """New evaluated calls of a tool after which it is summarized in the background; on request one is enough."""
    max_call_chars: int = Field(default=2000, ge=100, le=20_000)
    """Of the input and of the output of a call that is kept; the middle of a longer one is left out."""
    guidance_tokens: int = Field(default=1500, ge=100, le=12_000)
    """Tokens of the guidance that is retrieved at once."""
