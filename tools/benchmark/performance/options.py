"""What the performance suite can be asked."""

from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from swarm_memory.tools.benchmark.performance.published import DIMENSIONS, ITEMS
from swarm_memory.tools.benchmark.suite import SuiteOptions, comma_list

PerformancePart = Literal["operations", "growth", "http"]


class PerformanceOptions(SuiteOptions):
    """What is asked of the performance suite."""

    parts: Annotated[tuple[PerformancePart, ...], BeforeValidator(comma_list)] = Field(
        default=("operations", "growth", "http"), min_length=1, description="What is measured"
    )
    items: int = Field(default=ITEMS, ge=100, le=100_000, description="operations: items in the bank")
    dimensions: int = Field(default=DIMENSIONS, ge=8, le=4096, description="operations: of the made vectors")
    repeats: int = Field(default=100, ge=3, le=10_000, description="operations, growth: how often each is timed")
    inserts: int = Field(default=1000, ge=1, le=100_000, description="operations: insertions of the twelfth")
    max_items: int = Field(default=10_000, ge=1000, le=1_000_000, description="growth: where it ends")
    clients: Annotated[tuple[Annotated[int, Field(ge=1, le=256)], ...], BeforeValidator(comma_list)] = Field(
        default=(1, 4, 16), description="http: clients at the same time"
    )
    requests: int = Field(default=20, ge=1, le=1000, description="http: calls of each client")
