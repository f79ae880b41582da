"""What the retrieval suite can be asked, and the runs that a sweep makes of it."""

from collections.abc import Iterator, Mapping
from itertools import product
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, JsonValue, ValidationError

from swarm_memory.schema.base import Model
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.settings import RetrieveSettings
from swarm_memory.tools.benchmark.conversations import Documents
from swarm_memory.tools.benchmark.datasets import Split
from swarm_memory.tools.benchmark.suite import SuiteOptions, comma_list
from swarm_memory.tools.benchmark.systems.bank import TEMPORAL_BOOST
from swarm_memory.tools.benchmark.systems.context import ContextWeights
from swarm_memory.tools.retrieve.retrieve import MAX_K

DatasetName = Literal["sample", "file", "beir", "longmemeval", "locomo", "locomo-sessions"]
SystemName = Literal[
    "hybrid",
    "hybrid-nofloor",
    "vector",
    "keyword",
    "bm25-okapi",
    "hybrid+context",
    "hybrid+recency",
    "hybrid+temporal",
    "hybrid+rerank",
    "hybrid+context+rerank",
]
SWEPT = ("retrieve.", "context.", "embedding.", "poison", "temporal_boost", "rerank_pool")
"""What can be swept: what leaves questions and gold as they are, so that the runs can be compared in pairs."""


class EmbedderChoice(Model):
    """Another embedder than the settings name. Where its endpoint is and its key stay those of the settings."""

    provider: Literal["static", "openai", "fastembed"] | None = None
    model: str | None = None
    dimensions: int | None = Field(default=None, ge=8, le=4096)
    query_prefix: str | None = None
    document_prefix: str | None = None


class ToolUse(Model):
    """One tool of an outside system; {id}, {content}, {group}, {time}, {query}, {k} in arguments stand for values."""

    tool: str = Field(min_length=1)
    arguments: dict[str, JsonValue]
    results: str = ""
    """Where the hits (of a search) or the id (of storing) stand in the answer: keys and numbers, with dots between."""
    id: str = ""
    """Where the id stands in a hit; it is the one that storing answered with, or the item's own."""
    text: str = ""
    """Where the text stands in a hit, for a system that tells no id; it is matched with the content."""


class OutsideSystem(Model):
    """A memory system that speaks MCP over stdio."""

    name: str = Field(min_length=1, max_length=60)
    command: tuple[str, ...] = Field(min_length=1)
    env: dict[str, str] = Field(default_factory=dict)
    store: ToolUse
    search: ToolUse
    timeout_s: float = Field(default=30.0, gt=0, le=600)


class RetrievalOptions(SuiteOptions):
    """What is asked of the retrieval suite."""

    dataset: DatasetName = Field(default="sample", description="Which data")
    path: str | None = Field(default=None, description="The file or folder of the data")
    documents: Documents = Field(default="full", description="longmemeval: what of a session is its document")
    systems: Annotated[tuple[SystemName, ...], BeforeValidator(comma_list)] = Field(
        default=("hybrid", "hybrid-nofloor", "vector", "keyword", "bm25-okapi", "hybrid+context"),
        description="What is measured",
    )
    k: Annotated[tuple[Annotated[int, Field(ge=1, le=MAX_K)], ...], BeforeValidator(comma_list)] = Field(
        default=(1, 3, 5, 10), min_length=1, description="Cut-offs, all measured in one pass"
    )
    floor: bool = Field(default=True, description="false: take what is nearest though it does not fit")
    retrieve: dict[str, JsonValue] = Field(
        default_factory=dict, description="Settings of `retrieve.` that are other than yours"
    )
    context: ContextWeights = Field(default=ContextWeights(), description="hybrid+context: weights of the neighbours")
    temporal_boost: float = Field(
        default=TEMPORAL_BOOST, ge=0, le=5, description="hybrid+temporal: what an item of the named time gains"
    )
    rerank_pool: int = Field(default=20, ge=1, le=MAX_K, description="So many of the first are reranked")
    embedding: EmbedderChoice = Field(default=EmbedderChoice(), description="Another embedder; command line only")
    split: Split = Field(default="all", description="held: every tenth question; tune: the others")
    limit: int | None = Field(default=None, ge=1, description="Questions at most")
    groups: Annotated[tuple[int, int] | None, BeforeValidator(comma_list)] = Field(
        default=None, description="Only the groups from the first to the last of these numbers"
    )
    poison: int = Field(default=0, ge=0, le=10_000, description="Near-duplicate debris added to each group")
    sweep: dict[str, Annotated[tuple[JsonValue, ...], BeforeValidator(comma_list)]] = Field(
        default_factory=dict, description=f"Values to try, by option: {', '.join(SWEPT)}"
    )
    answers: bool = Field(default=False, description="Also let the chat model answer from what was found")
    outside: tuple[OutsideSystem, ...] = Field(default=(), description="Other memory systems; --config only")

    def retrieve_settings(self, settings: RetrieveSettings) -> RetrieveSettings:
        """Return the settings of retrieval as these options change them. Raises `InputError`."""
        changes = dict(self.retrieve)
        if not self.floor:
            changes["min_cosine"] = 0.0
        try:
            return RetrieveSettings.model_validate({**settings.model_dump(), **changes})
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            raise InputError(f"option retrieve.{'.'.join(map(str, first['loc']))}: {first['msg']}") from error

    def variants(self) -> Iterator[tuple[str, "RetrievalOptions"]]:
        """Yield each combination that a sweep asks for, with what tells it from the others; without one, itself.

        Raises `InputError` for what cannot be swept.
        """
        for name in self.sweep:
            if not name.startswith(SWEPT):
                raise InputError(f"option sweep: {name!r} cannot be swept, only {', '.join(SWEPT)}")
        for values in product(*self.sweep.values()):
            chosen = dict(zip(self.sweep, map(_typed, values), strict=True))
            label = ", ".join(f"{name.rpartition('.')[2]}={value}" for name, value in chosen.items())
            yield label, self._changed(chosen)

    def _changed(self, chosen: Mapping[str, JsonValue]) -> "RetrievalOptions":
        changed: dict[str, Any] = self.model_dump(exclude={"sweep"})
        for name, value in chosen.items():
            group, dot, key = name.partition(".")
            if dot:
                changed[group] = {**changed[group], key: value}
            else:
                changed[name] = value
        try:
            return RetrievalOptions.model_validate(changed)
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            raise InputError(f"option sweep: {'.'.join(map(str, first['loc']))}: {first['msg']}") from error


def _typed(value: JsonValue) -> JsonValue:
    """Take a typed number for one."""
    if not isinstance(value, str):
        return value
    for kind in (int, float):
        try:
            return kind(value)
        except ValueError:
            continue
    return value
