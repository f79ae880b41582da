"""What operations need from the outside world, as Protocols: models, runners that carry out a task, the time."""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, Protocol, TypeAlias

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
    """One question to a chat model. Untrusted text is put, fenced, into `user`, never into `system`."""

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
    """Whether the caller has a shorter version, for a model whose context window is too small for this one."""


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
    """Valid according to `answer_schema`."""
    model: str
    """The model that answered: `provider:model`."""
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
        """Calibrated cosine that a query sharing no word with any of a hundred memories must reach to get anything."""
        ...

    @property
    def duplicate_cosine(self) -> float:
        """Calibrated cosine from which two memories may say the same, unless their words speak against it."""
        ...

    @property
    def light(self) -> "StaticEmbedder | None":
        """Its light companion: vectors of both are kept, for callers that cannot wait for this one."""
        ...

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        """Embed queries together, in order.

        Raises `ModelError` when an endpoint fails, `InputError` for text without content.
        """
        ...

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        """Embed texts, in order. Raises as `embed_queries`."""
        ...


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
        `ModelAnswerInvalid` (its answer cannot be used).
        """
        ...


class RerankCandidate(NamedTuple):
    """What a reranker is shown of one hit."""

    name: str
    """Unique among the candidates of one question."""
    text: str


class Ranked(NamedTuple):
    """One entry of the reranker's order: a candidate, by its place in the question."""

    place: int
    score: float
    """0…1 from a chat model; from a cross-encoder whatever it returns, higher is better."""
    justification: str | None = None


class Reranker(Protocol):
    """Puts candidates in order by reading them together with the query."""

    @property
    def name(self) -> str: ...

    async def rerank(self, query: str, candidates: Sequence[RerankCandidate]) -> tuple[list[Ranked], list[str]]:
        """Return the candidates it judged, best first, and notices. Raises `ModelError` when nothing usable came."""
        ...


class AgentRunner(Protocol):
    """Does a task once, in whatever way; many rollouts may run at the same time."""

    @property
    def name(self) -> str:
        """Its kind, and what distinguishes it from others of that kind: `command:claude -p`."""
        ...

    @property
    def takes_notes(self) -> bool:
        """Whether memories in the prompt can have an effect: they cannot where the work was done before the run."""
        ...

    async def run(self, request: "RolloutRequest") -> "RunnerAnswer":
        """Do the task within `request.timeout_s`; a failed rollout is returned as an answer, not raised as an error.

        However this ends, even by cancellation, nothing of the rollout runs on afterwards. Raises `ConfigError` or
        `InputError` for a fault that would end every other rollout in the same way.
        """
        ...

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Clean up after the rollouts of a run, and return the folder with the best one's files, if it has any."""
        ...


class Clock(Protocol):
    """The time, as a Protocol so that a test can set it."""

    def now(self) -> "datetime":
        """Return the current moment, aware, in UTC."""
        ...
