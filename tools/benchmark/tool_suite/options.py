"""What the tool memory benchmark can be asked."""

from typing import Literal

from pydantic import Field

from swarm_memory.tools.benchmark.suite import SuiteOptions


class ToolSuiteOptions(SuiteOptions):
    """What is asked of the tool memory benchmark."""

    epochs: int = Field(
        default=3, ge=1, le=100, description="Each draws its calls anew; what was trained stays unless `fresh`"
    )
    fresh: bool = Field(default=False, description="true: every epoch begins with an empty memory")
    queries: str | None = Field(default=None, description="A file {train, test}{simple, moderate, complex}[…]")
    per_level: int | None = Field(default=None, ge=1, description="Questions of each level at most; default: all")
    chooser: Literal["auto", "model", "reader"] = Field(
        default="auto",
        description="model: the chat model; reader: a reader of the guidance's text; auto: the model if there is one",
    )
    workers: int = Field(default=4, ge=1, le=64, description="Calls at the same time")
    delay_s: float | None = Field(
        default=None, ge=0, le=60, description="Between two submissions; default: 1 with a remote model, else 0"
    )
    timeout_s: float = Field(default=120.0, gt=0, le=600, description="Limit of one choice and call")
