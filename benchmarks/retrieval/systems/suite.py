"""The retrieval suite with systems that are not the product: context, times in queries, rerankers, other memories."""

from typing import ClassVar

from pydantic import Field

from swarm_memory.schema.benchmark import Dataset, SuiteResults
from swarm_memory.schema.errors import InputError
from swarm_memory.server.benchmark.outside import OutsideSystem
from swarm_memory.server.benchmark.retrieval import RetrievalOptions, RetrievalRun, Variant, measured
from swarm_memory.tools.benchmark.suite import Suite, SuiteContext
from swarm_memory.tools.benchmark.systems import BankSystem, MemorySystem
from swarm_memory.tools.ports.models import Reranker
from swarm_memory.tools.retrieve.rerank import MEMORIES, ChatReranker
from swarm_memory.tools.retrieve.retrieve import MAX_K
from systems.context import ContextSystem, ContextWeights
from systems.outside import OutsideMemory
from systems.rerank import RerankSystem

_RERANK_TIMEOUT_S = 60.0


class ComparedOptions(RetrievalOptions):
    """What can be asked beside what the product's suite can."""

    SYSTEMS: ClassVar[tuple[str, ...]] = (
        *RetrievalOptions.SYSTEMS, "hybrid+context", "hybrid+temporal", "hybrid+rerank", "hybrid+context+rerank",
    )  # fmt: skip
    SWEPT: ClassVar[tuple[str, ...]] = (*RetrievalOptions.SWEPT, "context.", "rerank_pool")

    context: ContextWeights = Field(default=ContextWeights(), description="hybrid+context: weights of the neighbours")
    rerank_pool: int = Field(default=20, ge=1, le=MAX_K, description="So many of the first are reranked")
    outside: tuple[OutsideSystem, ...] = Field(default=(), description="Other memory systems; --config only")


class ComparedRun(RetrievalRun[ComparedOptions]):
    """A run that measures these systems too."""

    async def measure(self) -> None:
        self.total = len(self.dataset.questions) * len(self.options.outside)
        await super().measure()
        for config in self.options.outside:
            await self.measure_system(OutsideMemory(config, self.stack), self.dataset)

    def begin(self) -> None:
        if any(name.endswith("rerank") for name in self.options.systems) and self._reranker() is None:
            raise InputError(
                "option systems: a rerank system needs an endpoint in the settings, or a chat model (chat.providers)"
            )
        super().begin()
        if "hybrid+temporal" in self.options.systems:
            self.notes.append(
                "hybrid+temporal: items are as if learned at their own times; a time that a query names counts"
            )

    async def system(self, name: str, variant: Variant[ComparedOptions]) -> MemorySystem:
        options = variant.options
        if name.endswith("+rerank"):
            reranker = self._reranker()
            assert reranker is not None, "this was checked before anything was opened"
            base = await self.system(name.removesuffix("+rerank"), variant)
            return RerankSystem(base, reranker, options.rerank_pool)
        match name:
            case "hybrid+context":
                return ContextSystem(variant.embedder, options.context)
            case "hybrid+temporal":
                timed = variant.settings.model_copy(update={"beta": 0.0})
                return BankSystem(name, await variant.bank(dated=True), timed)
            case _:
                return await super().system(name, variant)

    async def measure_system(self, system: MemorySystem, dataset: Dataset, label: str = "") -> None:
        await super().measure_system(system, dataset, label)
        if isinstance(system, RerankSystem) and system.unjudged:
            name = self.asked[-1].system
            self.notes.append(f"{name}: for {system.unjudged} questions the reranker gave nothing usable")

    def _reranker(self) -> Reranker | None:
        toolbox = self.context.toolbox
        if toolbox.reranker is not None:
            return toolbox.reranker
        return None if toolbox.chat is None else ChatReranker(toolbox.chat, MEMORIES, _RERANK_TIMEOUT_S)


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
