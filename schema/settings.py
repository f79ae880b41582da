"""Every setting with its default, range and meaning; the viewer shows these too."""

from contextlib import suppress
from typing import Annotated, Literal, Self, TypeAlias, cast
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, SecretStr, field_validator, model_validator
from pydantic_core import from_json

from swarm_memory.schema.base import Model, Unit

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
"""Anthropic's endpoint for chat completions, which accepts no JSON schema and no effort."""

SMALL_CLAUDE = "haiku"
"""Claude Code's name for its small model."""

PersonalData: TypeAlias = bool | Literal["names"]


def _plain_url(url: str | None, holds: str, *, elsewhere: tuple[str, ...] = ("http", "https")) -> str | None:
    """Return a URL without its last slash. `elsewhere`: schemes that may lead off this machine. Raises `ValueError`."""
    if url is None:
        return None
    parts = urlsplit(url)
    is_here = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
    if not parts.hostname or (parts.scheme not in elsewhere and not is_here):
        raise ValueError(f"must begin with {' or '.join(f'{each}://' for each in elsewhere)} and name a host")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ValueError(f"must not contain a user, password or query; {holds}")
    return url.rstrip("/")


def _entries(given: object) -> list[str]:
    """Return the entries of a list, or of a text: JSON where it begins with `[`, else lines, or parts between `;;`."""
    entries = given
    if isinstance(given, str):
        with suppress(ValueError):  # invalid JSON stays a text, which is refused
            entries = from_json(given) if given.lstrip().startswith("[") else given.replace(";;", "\n").splitlines()
    if not isinstance(entries, list | tuple) or not all(isinstance(each, str) for each in cast(list[object], entries)):
        raise ValueError('must be a list of strings, such as ["one", "two"], or one string such as one;;two')
    return [entry for each in cast(list[str], entries) if (entry := each.strip())]


Entries = Annotated[tuple[str, ...], BeforeValidator(_entries)]


class Section(Model, use_attribute_docstrings=True, hide_input_in_errors=True):
    """Settings of one kind; the sentence beneath a setting is its description.

    No error message repeats the value that was given: it may be a key that was written in the wrong place.
    """


class ChatProviderSettings(Section):
    """One chat model."""

    provider: Literal["openai", "anthropic", "claude_cli"]
    """`openai`: any endpoint of chat completions; `anthropic`: its own; `claude_cli`: Claude Code, without a key."""
    model: str = Field(default="", max_length=200)
    """Required, except for `claude_cli`, where empty means the model that Claude Code uses by itself."""
    base_url: str | None = None
    """Address of an endpoint, such as `http://127.0.0.1:11434/v1`; OpenAI's own when not set."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Z][A-Z0-9_]{0,99}$")
    """Name of the variable that holds the key, never the key; OpenAI's and Anthropic's own URLs have a default name."""
    effort: Literal["low", "medium", "high"] | None = None
    """How long a reasoning model may think; not sent when not set, nor to a model that does not accept it."""
    command: str = "claude"
    """For `claude_cli`: the program, by name or path."""
    price_in: float | None = Field(default=None, ge=0)
    """USD for a million input tokens; without both prices no cost is recorded, except for `claude_cli`."""
    price_out: float | None = Field(default=None, ge=0)
    """USD for a million output tokens."""

    @field_validator("base_url")
    @classmethod
    def _endpoint(cls, value: str | None) -> str | None:
        return _plain_url(value, "name the key's variable in api_key_env")

    @model_validator(mode="after")
    def _named_model(self) -> Self:
        if self.provider != "claude_cli" and not self.model:
            raise ValueError(f"provider `{self.provider}` needs `model`")
        own = ANTHROPIC_URL.removesuffix("/v1")
        if self.provider == "anthropic" and self.base_url not in {None, own, ANTHROPIC_URL}:
            raise ValueError(
                f"provider `anthropic` works only with {own}; for chat completions from another endpoint, use "
                "provider `openai` with its base_url and api_key_env"
            )
        return self

    @property
    def url(self) -> str:
        """The address of the endpoint."""
        return ANTHROPIC_URL if self.provider == "anthropic" else self.base_url or OPENAI_URL

    @property
    def key_variable(self) -> str | None:
        """Name of the variable that the key is read from; None: the endpoint needs no key."""
        if self.provider == "claude_cli":
            return None
        own = {OPENAI_URL: "OPENAI_API_KEY", ANTHROPIC_URL: "ANTHROPIC_API_KEY"}
        return self.api_key_env or own.get(self.url)

    @property
    def name(self) -> str:
        """`provider:model`, as it appears in answers and figures."""
        return f"{self.provider}:{self.model or 'default'}"


class ChatSettings(Section):
    """The chat models, in the order in which they are asked; to have none is normal. A project's file sets no model."""

    learn_with: Literal["rules", "claude", "endpoint", "agent"] | None = None
    """Who judges and distills finished tasks: Claude Code, the `providers` (endpoint), the agent at its turn's end, or
    rules alone. None: nobody was asked yet, and `providers` do where some are named."""
    providers: tuple[ChatProviderSettings, ...] = ()
    """Models available to everything that can use one."""
    timeout_s: float = Field(default=45.0, gt=0, le=600)
    """Longest time for one model while others of the list are left to try; the last has all that remains of a call."""
    daily_token_budget: int | None = Field(default=500_000, ge=0)
    """Tokens for one day (UTC) of all processes on one database; 0 sends nothing, None sets no limit."""

    @property
    def learning(self) -> tuple[ChatProviderSettings, ...]:
        """The models that may be asked in the background about finished tasks."""
        if self.learn_with == "claude":
            own = tuple(provider for provider in self.providers if provider.provider == "claude_cli")
            return own or (ChatProviderSettings(provider="claude_cli", model=SMALL_CLAUDE),)
        return self.providers if self.learn_with in {None, "endpoint"} else ()

    def named(self, chosen: str | None) -> tuple[ChatProviderSettings, ...]:
        """Return the models that `model` or `provider:model` names."""
        return tuple(provider for provider in self.providers if chosen in {provider.model, provider.name})

    def judging(self, chosen: str | None) -> tuple[ChatProviderSettings, ...]:
        """Return the models in the order in which they are asked to judge: those that `judge.model` names first."""
        return tuple(dict.fromkeys((*self.named(chosen), *self.providers)))


class SourceSettings(Section):
    """How tools, documents, code and API descriptions are indexed and searched."""

    reranker: Literal["auto", "endpoint", "chat", "experience", "none"] = "auto"
    """What puts the best into their final order. auto: the endpoint, or else, for tools and APIs, a chat model, where
    one is set. `experience`, from earlier versions, means `none`."""
    rerank_url: str | None = None
    """Address of a cross-encoder, such as http://127.0.0.1:8080: it is asked at `/rerank` below it."""
    rerank_model: str | None = None
    """The model to request from the cross-encoder, where it serves several."""
    rerank_api_key: SecretStr | None = None
    """Its bearer token."""
    refresh: bool = True
    """Whether indexed sources are checked for changes as a server starts, if the bank is a file (docs/SOURCES.md)."""
    allowed_folders: Entries = ()
    """Folders outside the project that may be indexed over MCP."""
    allow_mcp_servers: Entries = ()
    """Folders of projects whose `.mcp.json` names servers that may be started to list their tools. Starting what a
    cloned repository names means running its code: without this, none is started."""


class OutputSettings(Section):
    """What a tool may answer."""

    max_tokens: int = Field(default=12_000, ge=200, le=1_000_000)
    """A longer answer is cut at a boundary, and says how much was left out and how to get it."""


class ToolMemorySettings(Section):
    """What is known about tools from earlier calls."""

    max_history_tool_call_cnt: int = Field(default=100, ge=1, le=10_000)
    """How many calls of each tool are kept; the oldest go first. The totals over all time stay exact."""
    evaluator: Literal["auto", "evidence"] = "auto"
    """`auto`: the chat model where one is set; `evidence`: never a model, so that calls cost no tokens."""


class HttpSettings(Section):
    """A server that is reached over HTTP."""

    max_body_bytes: int = Field(default=4 * 1024**2, ge=1024, le=64 * 1024**2)
    """A larger request is refused with 413 before it is parsed."""


class RetrieveSettings(Section):
    """How the bank is searched and scored."""

    k: int = Field(default=3, ge=1, le=50)
    """At most this many memories are returned by a search, unless it asks for another number."""
    alpha: Unit = 0.65
    """Weight of relevance."""
    beta: Unit = 0.05
    """Weight of recency. It decides between equally good fits; more of it costs right answers (docs/BENCHMARKS.md)."""
    gamma: Unit = 0.10
    """Weight of reliability, likewise."""
    reliability: Literal["confidence", "usage"] = "confidence"
    """Reliability is the memory's confidence, or sigmoid(log(1 + usage)) of how often it was shown."""
    delta: Unit = 0.10
    """Weight of the diversity penalty (MMR): subtracted, times the greatest cosine to a chosen item."""
    duplicate_threshold: Unit | None = None
    """The cosine from which two memories may say the same; the embedder's calibrated value when not set."""
    vector_weight: Unit | None = None
    """Usual share of the vector leg in the fusion; the embedder's calibrated value when not set."""
    pool: int = Field(default=50, ge=1, le=2000)
    """Candidates of each leg, however many memories are wanted."""
    min_cosine: Unit | None = None
    """What a query must reach in a bank of a hundred memories to get anything: the greatest cosine plus 0.15 times the
    greatest share of its words. The embedder's calibrated value when not set; 0: everything fits."""
    rerank: Literal["off", "auto", "endpoint", "chat"] = "off"
    """What puts the best into their final order: the cross-encoder of `sources.rerank_url`, the chat model, or `auto`,
    the first of these that is available. A project's file cannot set it."""
    token_budget: int = Field(default=600, ge=50, le=8000)
    """At most this many tokens in the preamble; it never has more than 9,000 characters."""


class JudgeSettings(Section):
    """How a trajectory is judged."""

    model: str | None = None
    """Which of `chat.providers` judges first, by `model` or `provider:model`; the status names a wrong one."""
    min_confidence: Unit = 0.6
    """A verdict less sure than this is Undecided."""
    max_trajectory_tokens: int = Field(default=8_000, ge=500, le=1_000_000)
    """A chat model is shown at most this many tokens of a trajectory. A project's file cannot set it."""
    timeout_s: float | None = Field(default=None, gt=0, le=600)
    """Longest time for one answer about a trajectory; 45 s to judge, 60 to distill, 90 to compare when not set."""


class DistillSettings(Section):
    """What is distilled from a trajectory."""

    max_items_per_traj: int = Field(default=3, ge=1, le=10)
    """At most this many memories are distilled from one trajectory."""
    redact_pii: PersonalData = True
    """Whether personal data (addresses, card, account and phone numbers) is replaced too, as secrets always are;
    `names`: names of people and places too, by presidio-analyzer."""
    screen_with_model: bool = True
    """Whether what a model distilled is shown to the chat model again, to be held back when it looks like an attack."""


class ConsolidateSettings(Section):
    """When the bank is tidied."""

    run_every_new_items: int = Field(default=20, ge=1)
    """After how many new memories."""


class PromoteSettings(Section):
    """How much of the bank is written into skills that agents read by themselves."""

    max_skills: int = Field(default=8, ge=1, le=50)
    """The title and the first lines of each skill are in every session's context."""


class MattsSettings(Section):
    """Memory-aware test-time scaling."""

    enabled: bool = True
    """False: no task is attempted several times."""
    parallel_k: int = Field(default=6, ge=1, le=32)
    """Attempts at a task, each from its start, unless a call asks for another number."""
    sequential_r: int = Field(default=3, ge=1, le=16)
    """Attempts at a task, each correcting the last, likewise."""
    max_concurrency: int = Field(default=3, ge=1, le=32)
    """How many rollouts run at the same time."""
    rollout_timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    """A rollout that takes longer is ended; what it had done until then counts."""
    allowed_commands: Entries = ()
    """Command lines that may be run as an agent or as a check, each exactly as it is called, such as `claude -p`. A
    project's file cannot set it."""


class EmbeddingSettings(Section):
    """Which embedder fills the vector leg."""

    provider: Literal["auto", "minilm", "static", "openai"] = "auto"
    """`auto`: the shipped MiniLM where onnxruntime is installed, else the shipped static table."""
    model: str | None = None
    """Model name for `openai`."""
    base_url: str | None = None
    """Address of the endpoint for `openai`."""
    api_key: SecretStr | None = None
    """Its bearer token."""
    dimensions: int | None = Field(default=None, ge=8, le=4096)
    """Length of its vectors; needed for models that are not OpenAI's."""
    query_prefix: str = ""
    """Prefix for queries, as some models require."""
    document_prefix: str = ""
    """Prefix for memories, likewise."""


class StorageSettings(Section):
    """The database."""

    db: str | None = None
    """Path of the file; `.swarm/memory.db` in the project's root when not set."""
    url: SecretStr | None = None
    """A PostgreSQL database in the file's place, as `postgresql://USER:PASSWORD@HOST/DATABASE`; see docs/TEAM.md."""
    pool_size: int = Field(default=8, ge=1, le=100)
    """At most this many connections to it from one server."""
    sqlite: Literal["auto", "pysqlite3", "stdlib", "scan"] = "auto"
    """Driver for a file; `scan` searches vectors without sqlite-vec, `auto` takes the best one available."""
    tenant_id: str = "default"
    """Whose memories these are, where several share a database."""
    project: str | None = None
    """Name of the project; the name of its root folder when not set."""
    busy_timeout_s: float = Field(default=10.0, gt=0, le=60)
    """Seconds that a write waits for writes of other processes."""
    daily_backups: int = Field(default=7, ge=0, le=7)
    """Copies, one a day and at most 64 MB together, that are kept in your own state folder."""


class HookSettings(Section):
    """What the hooks of the coding agent do."""

    briefing_items: int = Field(default=10, ge=0, le=20)
    """At most this many of the user's lasting instructions are shown as a session starts; 0 switches that off."""
    inject: bool = True
    """Whether the agent is shown anything: as a session starts, at prompts, beside calls and failures."""
    settle_s: float = Field(default=20.0, ge=0, le=3600)
    """How long after a turn's end its task may still be continued before it is learned from."""
    at_calls: bool = True
    """Whether what is tied to a command, file or tool is shown beside its call."""


class JobSettings(Section):
    """How queued jobs are run."""

    lease_s: float = Field(default=60.0, gt=0)
    """Seconds without a sign of life after which a running job is claimed by another worker."""
    max_attempts: int = Field(default=3, ge=1)
    """How many times a job is started before it counts as failed."""
    retry_s: float = Field(default=15.0, ge=0)
    """Seconds until a failed job is tried again; the wait doubles each time, up to an hour."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Time limit of one job; a model that judges and distills a task has to answer within it."""


class LearnSettings(Section):
    """How much is learned."""

    max_new_per_day: int = Field(default=2000, ge=1)
    """Memories that agents and hooks may add to a project in a day (UTC). A project's file cannot set it."""


class CreditSettings(Section):
    """What a task's outcome does to the memories that it was given. A project's file cannot set it."""

    holdout_rate: Unit = 0.0
    """The share of tasks that get no memories, chosen by a hash of the task's id, to measure what the others gain."""


class TeamSettings(Section):
    """A team's server, through which people learn from each other. Only the user sets it, never a project's file."""

    url: str | None = Field(default=None, max_length=500)
    """Its address, such as `https://memory.acme.example`; none: nothing is sent anywhere."""
    project: str | None = Field(default=None, min_length=1, max_length=400)
    """The team's name for every project; when not set, the one agreed at joining, else host and path of `origin`."""
    token: SecretStr | None = None
    """Your token, as `swarm-memory team join` writes it."""
    token_env: str = Field(default="SWARM_MEMORY_TEAM_TOKEN", pattern=r"^[A-Z][A-Z0-9_]{0,99}$")
    """Name of the environment variable that holds your token; it takes precedence over `token`."""
    every_minutes: float = Field(default=15.0, ge=1, le=10_080)
    """How often the team's server is checked for news while your server runs; also at the end of a session."""

    @field_validator("url")
    @classmethod
    def _server(cls, value: str | None) -> str | None:
        """The token is sent there: only over https, or to this machine."""
        return _plain_url(value, "the token has its own setting", elsewhere=("https",))


class MirrorSettings(Section):
    """Memories as Markdown files. Only the user sets it, never a project's file."""

    folder: str = Field(default="", max_length=200)
    """The folder within each project that holds a file for each of its memories, such as `.swarm/memories`; none: no
    files. `swarm-memory mirror FOLDER` sets it for one project."""


class RetentionSettings(Section):
    """After how many days data other than memories is removed; 0: never. Memories stay until somebody forgets them."""

    trajectories_days: int = Field(default=365, ge=0, le=36_500)
    """What was done in a task. Its verdict stays, and its memories then point to a note that the rest was removed."""
    events_days: int = Field(default=365, ge=0, le=36_500)
    """What was retrieved, learned and consolidated, and jobs that ended; what happened to a memory stays with it."""
    metrics_days: int = Field(default=365, ge=0, le=36_500)
    """Figures of tasks and of calls to models: the effect of memory is then measured over the days that are kept."""
    tool_calls_days: int = Field(default=365, ge=0, le=36_500)
    """Single calls of tools. The totals and the guidelines of each tool stay."""


class Settings(Section):
    """All settings of a server or a command."""

    enabled: bool = True
    """False: hooks say nothing, tools answer that it is off, and nothing is learned in the background."""
    # The defaults of a section are not validated here: that would take a tenth of a hook's time. A test does it.
    retrieve: RetrieveSettings = RetrieveSettings.model_construct()
    judge: JudgeSettings = JudgeSettings.model_construct()
    distill: DistillSettings = DistillSettings.model_construct()
    consolidate: ConsolidateSettings = ConsolidateSettings.model_construct()
    matts: MattsSettings = MattsSettings.model_construct()
    promote: PromoteSettings = PromoteSettings.model_construct()
    embedding: EmbeddingSettings = EmbeddingSettings.model_construct()
    storage: StorageSettings = StorageSettings.model_construct()
    hooks: HookSettings = HookSettings.model_construct()
    jobs: JobSettings = JobSettings.model_construct()
    learn: LearnSettings = LearnSettings.model_construct()
    credit: CreditSettings = CreditSettings.model_construct()
    chat: ChatSettings = ChatSettings.model_construct()
    sources: SourceSettings = SourceSettings.model_construct()
    output: OutputSettings = OutputSettings.model_construct()
    tool_memory: ToolMemorySettings = ToolMemorySettings.model_construct()
    http: HttpSettings = HttpSettings.model_construct()
    retention: RetentionSettings = RetentionSettings.model_construct()
    team: TeamSettings = TeamSettings.model_construct()
    mirror: MirrorSettings = MirrorSettings.model_construct()
