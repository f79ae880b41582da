"""The retrieval suite with other memory systems, over MCP."""

from pydantic import Field

from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.tools.benchmark.retrieval.retrieval import RetrievalOptions
from swarm_memory.tools.benchmark.retrieval.retrieval import measure as measure_ours
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext
from systems.outside import OutsideMemory, OutsideSystem


class ComparedOptions(RetrievalOptions):
    """The options of the product's suite, and other systems to compare with."""

    outside: tuple[OutsideSystem, ...] = Field(default=(), description="Other memory systems; --config only")


async def measure(context: SuiteContext, options: ComparedOptions) -> SuiteResults:
    """Measure the systems on the dataset. Raises `InputError`, `ConfigError`."""
    return await measure_ours(context, options, lambda stack: [OutsideMemory(each, stack) for each in options.outside])


SUITE = Suite(
    "retrieval",
    "retrieval beside other memories",
    "minutes on a sample, hours with a chat model; fewer questions make it less",
    ComparedOptions,
    measure,
)
