"""What the operations ask of the world, as Protocols: models, who carries out a task, the time."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from pydantic import Field, JsonValue

from swarm_memory.schema.base import Model

if TYPE_CHECKING:
    from datetime import datetime

    from swarm_memory.schema.rollout import RolloutRequest, RunnerAnswer
    from swarm_memory.server.embedding.static import StaticEmbedder

    Vector: TypeAlias = array[float]
else:
    Vector = array  # takes no parameter at run time before Python 3.12
"""An `array('f')` of the embedder's dimensions, of unit length, every number finite."""


class ChatRequest(Model):
    """One question to a chat model. Untrusted text stands fenced in `user`, never in `system`."""

    purpose: str
    """`judge`, `distill` …: for the usage figures."""
    system: str
    user: str
    answer_schema: dict[str, JsonValue]
    """JSON schema of the answer."""
    max_tokens: int = Field(default=2000, ge=1)
    seed: int | None = None
    timeout_s: float = Field(default=60.0, gt=0)
    """Limit of the whole call, retries included."""
    can_shorten: bool = False
    """Whether the caller has a shorter version for a model whose context window this one does not fit into."""


@dataclass(slots=True)
class ChatUsage:
    """What a call cost, over all its tries."""

    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float | None = None
    tries: int = 0


class ChatAnswer(Model):
    """A checked answer."""

    data: dict[str, JsonValue]
    """Valid by `answer_schema`."""
    model: str
    """Who answered: `provider:model`."""
    usage: ChatUsage
    latency_ms: float


class Embedder(Protocol):
    """Turns text into vectors of one space."""

    @property
    def name(self) -> str:
        """Stable id of the space: it changes whenever the vectors would."""
        ...

    @property
    def dimensions(self) -> int: ...

    @property
    def quantization(self) -> Literal["int8", "float32"]:
        """How the store keeps the vectors."""
        ...

    @property
    def fusion_weight(self) -> float:
        """Calibrated share of the vector leg in the convex fusion, 0…1."""
        ...

    @property
    def min_cosine(self) -> float:
        """Calibrated: what a query that shares no word must be near to, to get anything among a hundred memories."""
        ...

    @property
    def duplicate_cosine(self) -> float:
        """Calibrated cosine from which two memories may say the same, if their words do not speak against it."""
        ...

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Embed queries, in order, at once.

        Raises `ModelError` when an endpoint fails, `InputError` for text without content.
        """
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts, in order. Raises as `embed_queries`."""
        ...


@runtime_checkable
class Accompanied(Protocol):
    """An embedder beside whose vectors those of a light one are kept, for who cannot wait for it."""

    @property
    def light(self) -> "StaticEmbedder": ...


class ChatModel(Protocol):
    """A model that answers one question at a time."""

    @property
    def name(self) -> str:
        """`provider:model`, or the names of a chain in their order."""
        ...

    @property
    def is_local(self) -> bool:
        """Whether it costs nothing and has no rate limit to be careful of."""
        ...

    async def complete(self, request: ChatRequest) -> ChatAnswer:
        """Answer within `request.timeout_s`.

        Raises `ModelUnavailable` (not reached, budget spent; `ModelWindowTooSmall` for a request that is too long) or
        `ModelAnswerInvalid` (it cannot be used).
        """
        ...


class RerankCandidate(NamedTuple):
    """What a reranker is shown of one hit."""

    name: str
    """Unique among those of one question."""
    text: str


class Ranked(NamedTuple):
    """A candidate, by its place in the question, in the reranker's order."""

    place: int
    score: float
    """0…1 of a chat model; of a cross-encoder whatever it gives, higher is better."""
    justification: str | None = None


class Reranker(Protocol):
    """Puts candidates in order by reading them together with the query."""

    @property
    def name(self) -> str: ...

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        """Return those it judged, best first, and notices. Raises `ModelError` when nothing usable came."""
        ...


class AgentRunner(Protocol):
    """Does a task once, in whatever way; many rollouts may run at the same time."""

    @property
    def name(self) -> str:
        """What it is, with what distinguishes it from others of its kind: `command:claude -p`."""
        ...

    @property
    def takes_notes(self) -> bool:
        """Whether memories in the prompt can have an effect: not where the work was done before."""
        ...

    async def run(self, request: "RolloutRequest") -> "RunnerAnswer":
        """Do the task within `request.timeout_s`; a rollout that fails is an answer, not an error.

        However this ends, also by cancellation, nothing of the rollout goes on afterwards. Raises `ConfigError` or
        `InputError` for what would end every other rollout in the same way.
        """
        ...

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Clear away what the rollouts of a run left, and return the folder of the best one's files, if it has any."""
        ...


class Clock(Protocol):
    """Time, so that a test can say what it is."""

    def now(self) -> "datetime":
        """Return the present, aware, in UTC."""
        ...
