"""The retrieval suite with systems that are not the product: rerankers, and other memories over MCP."""

from typing import ClassVar

from pydantic import Field

from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import InputError
from swarm_memory.tools.benchmark.retrieval.retrieval import RetrievalOptions, RetrievalRun, measured
from swarm_memory.tools.benchmark.retrieval.systems import MemorySystem
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext
from swarm_memory.tools.ports.models import Reranker
from swarm_memory.tools.retrieve.rerank import MEMORIES, ChatReranker
from swarm_memory.tools.retrieve.retrieve import MAX_K
from systems.outside import OutsideMemory, OutsideSystem
from systems.rerank import RerankSystem

_RERANK_TIMEOUT_S = 60.0


class ComparedOptions(RetrievalOptions):
    """What can be asked beside what the product's suite can."""

    SYSTEMS: ClassVar[tuple[str, ...]] = (*RetrievalOptions.SYSTEMS, "hybrid+rerank")

    rerank_pool: int = Field(default=20, ge=1, le=MAX_K, description="So many of the first are reranked")
    outside: tuple[OutsideSystem, ...] = Field(default=(), description="Other memory systems; --config only")


class ComparedRun(RetrievalRun[ComparedOptions]):
    """A run that measures these systems too."""

    @property
    def total(self) -> int:
        return super().total + len(self.dataset.questions) * len(self.options.outside)

    async def measure(self) -> None:
        await super().measure()
        for config in self.options.outside:
            await self.measure_system(OutsideMemory(config, self.stack))

    async def system(self, name: str) -> MemorySystem:
        if name == "hybrid+rerank":
            return RerankSystem(await super().system("hybrid"), self._reranker(), self.options.rerank_pool)
        return await super().system(name)

    async def measure_system(self, system: MemorySystem) -> None:
        await super().measure_system(system)
        if isinstance(system, RerankSystem) and system.unjudged:
            self.notes.append(f"{system.name}: for {system.unjudged} questions the reranker gave nothing usable")

    def _reranker(self) -> Reranker:
        toolbox = self.context.toolbox
        if toolbox.reranker is not None:
            return toolbox.reranker
        if toolbox.chat is None:
            raise InputError(
                "option systems: a rerank system needs an endpoint in the settings, or a chat model (chat.providers)"
            )
        return ChatReranker(toolbox.chat, MEMORIES, _RERANK_TIMEOUT_S)


async def measure(context: SuiteContext, options: ComparedOptions) -> SuiteResults:
    """Measure the systems on the dataset. Raises `InputError`, `ConfigError`."""
    return await measured(context, options, ComparedRun)


SUITE = Suite(
    "retrieval",
    "retrieval beside systems that are not the product",
    "minutes on a sample, hours with a chat model; fewer questions make it less",
    ComparedOptions,
    measure,
)
