"""Every setting with its default, its range and its meaning."""

from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import ConfigDict, Field, SecretStr, field_validator, model_validator

from swarm_memory.schema.base import Model, Unit

OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com/v1"
"""Where Anthropic speaks chat completions; it takes no JSON schema there, and no effort."""

SMALL_CLAUDE = "haiku"
"""What Claude Code calls its small model."""

Structured = Literal["auto", "json_schema", "json_object", "text"]
"""How an answer as JSON is asked for; `auto` sends the JSON schema until the endpoint refuses it, then none."""

MIB = 1024 * 1024


class ChatProviderSettings(Model):
    """One chat model."""

    # A key written here by mistake must not come back in the error text.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    provider: Literal["openai", "anthropic", "claude_cli"]
    """`openai`: any endpoint that speaks chat completions. `anthropic`: Anthropic's own. `claude_cli`: the user's own
    Claude Code, without a key."""
    model: str = Field(default="", max_length=200)
    """Needed but for `claude_cli`, where none means the model that Claude Code uses by itself."""
    base_url: str | None = None
    """Of an endpoint, such as `http://127.0.0.1:11434/v1`; OpenAI's own when not set."""
    api_key_env: str | None = Field(default=None, pattern=r"^[A-Z][A-Z0-9_]{0,99}$")
    """Name of the environment variable that holds the key, never the key; `OPENAI_API_KEY` or `ANTHROPIC_API_KEY` for
    their own URLs."""
    effort: Literal["low", "medium", "high"] | None = None
    """How long a model that reasons may think; not sent when not set, and to no model that does not take it."""
    command: str = "claude"
    """Of `claude_cli`: the program, by name or path."""
    structured: Structured = "auto"
    price_in: float | None = Field(default=None, ge=0)
    """USD for a million input tokens; without both prices no cost is recorded but for `claude_cli`."""
    price_out: float | None = Field(default=None, ge=0)
    """USD for a million output tokens."""

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        if parts.scheme not in {"http", "https"} or not parts.hostname:
            raise ValueError("must begin with http:// or https:// and name a host")
        if parts.username or parts.password or parts.query:
            raise ValueError("must hold no user, password or query; name the key's variable in api_key_env")
        return value.rstrip("/")

    @model_validator(mode="after")
    def _named_model(self) -> Self:
        if self.provider != "claude_cli" and not self.model:
            raise ValueError(f"provider `{self.provider}` needs `model`")
        own = ANTHROPIC_URL.removesuffix("/v1")
        if self.provider == "anthropic" and self.base_url not in {None, own, ANTHROPIC_URL}:
            raise ValueError(
                f"provider `anthropic` is {own} alone; another endpoint is asked for chat completions: write "
                "provider `openai` with its base_url and api_key_env"
            )
        return self

    @property
    def url(self) -> str:
        """Where the endpoint is."""
        return ANTHROPIC_URL if self.provider == "anthropic" else self.base_url or OPENAI_URL

    @property
    def key_variable(self) -> str | None:
        """Name of the variable that the key is read from; None: the endpoint wants none."""
        if self.provider == "claude_cli":
            return None
        own = {OPENAI_URL: "OPENAI_API_KEY", ANTHROPIC_URL: "ANTHROPIC_API_KEY"}
        return self.api_key_env or own.get(self.url)

    @property
    def name(self) -> str:
        """`provider:model`, as answers and figures give it."""
        return f"{self.provider}:{self.model or 'default'}"


class ChatSettings(Model):
    """The chat models, in the order in which they are asked. None is a normal state: evidence judges alone.

    A project's file sets none of this: who may be asked, and for how much, is the user's to say.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    learn_with: Literal["rules", "claude", "endpoint", "agent"] | None = None
    """Who judges and distills finished tasks, as `install` asks it. In the background: `claude`, the user's own Claude
    Code; `endpoint`, the `providers`; `rules`, nobody. `agent`: the agent itself is asked at the end of a task's turn.
    None: nobody has answered yet; `providers`, where some are named."""
    providers: tuple[ChatProviderSettings, ...] = ()
    """Models that everything may ask which can use one."""
    retries: int = Field(default=2, ge=0, le=10)
    """Further tries of one model after an answer such as 429 or 503, or a lost connection."""
    timeout_s: float = Field(default=45.0, gt=0, le=600)
    """Longest time for one model while another one of the list is left; the last has all that remains of the call."""
    max_concurrency: int = Field(default=4, ge=1, le=64)
    """Calls at the same time, in one process."""
    daily_token_budget: int | None = Field(default=500_000, ge=0)
    """Tokens (input and output) for one day in UTC, of all processes on one database; 0 sends nothing, None sets no
    limit."""
    max_failures: int = Field(default=3, ge=1)
    """So many failures one after the other, and a model is passed over for `cool_down_s`."""
    cool_down_s: float = Field(default=60.0, gt=0)

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


class SourceSettings(Model):
    """How tools, documents, code and API descriptions are indexed and searched."""

    k: int = Field(default=5, ge=1, le=50)
    title_weight: float = Field(default=2.0, ge=0, le=10)
    """How often a word of the title counts in the keyword leg, where one of the content counts once."""
    description_weight: float = Field(default=1.2, ge=0, le=10)
    context_weight: Unit = 0.4
    """What the neighbours of a passage and the name of its file or server add to its score, beside its own text."""
    vector_weight: Unit | None = None
    """Share of the vector leg; the embedder's own when not set: 0.7 of it for documents, 1.3 for code, tools, APIs."""
    reranker: Literal["auto", "endpoint", "chat", "experience", "none"] = "auto"
    """Who puts the best of the index into their final order. auto: the endpoint if one is set, else for tools and APIs
    a chat model if one is set. `experience`, of earlier versions, is `none`."""
    rerank_chat: str | None = None
    """Which of `chat.providers` puts tools in order, by `model` or `provider:model`: a small, quick one will do, and no
    other is then asked. When not set, or none of them, all in their order."""
    rerank_top: int = Field(default=20, ge=2, le=100)
    """So many of the index's best are given to the reranker."""
    rerank_url: str | None = None
    """Address of a cross-encoder, such as http://127.0.0.1:8080: it is asked at `/rerank` below it."""
    rerank_model: str | None = None
    rerank_api_key: SecretStr | None = None
    rerank_timeout_s: float = Field(default=20.0, gt=0, le=120)
    allowed_folders: str = ""
    """Folders outside the project that may be indexed over MCP, one a line (or divided by `;;`)."""
    allow_mcp_servers: str = ""
    """Folders of projects whose `.mcp.json` names servers that may be started or reached to list their tools, one a
    line (or divided by `;;`). Starting what a cloned repository names is running its code: none without this."""
    github_url: str = "https://api.github.com"
    """The API of GitHub; of GitHub Enterprise https://HOST/api/v3. The token of the environment goes there."""
    allow_github: str = ""
    """Repositories that may be read over MCP, one a line (or divided by `;;`): OWNER/REPO, OWNER/* or *."""
    server_timeout_s: float = Field(default=30.0, gt=0, le=600)
    """So long an MCP server may take to start and list its tools."""


class OutputSettings(Model):
    """What a tool may answer."""

    max_tokens: int = Field(default=12_000, ge=200, le=1_000_000)
    """A longer answer is cut at a boundary, and says how much was left out and how to get it."""


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


class HttpSettings(Model):
    """A server that is reached over HTTP: what clients may take of it, and who besides its own people comes in."""

    max_body_bytes: int = Field(default=4 * MIB, ge=1024, le=64 * MIB)
    """A larger request is refused with 413 before it is parsed."""
    max_connections: int = Field(default=256, ge=2)
    """Open connections; above it 503."""
    public_url: str | None = Field(default=None, pattern=r"^https?://[^/\s]+$")
    """How the address begins at which clients reach the server, such as https://memory.example.org: what an issuer's
    tokens are for. Where it listens, when not set."""
    oauth_issuer: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """The issuer of OAuth access tokens (JWT) that let people in besides tokens of our own; its keys check them."""
    oauth_audience: str | None = Field(default=None, min_length=1)
    """Whom its tokens must be for (`aud`); this server's own address at `/mcp` when not set."""
    oauth_keys_url: str | None = Field(default=None, pattern=r"^https?://\S+$")
    """Where its keys are (JWKS): the `jwks_uri` of its metadata."""
    oauth_algorithm: Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"] = "RS256"
    """How it signs; a token that is signed otherwise is none."""
    oauth_role_claim: str | None = Field(default=None, min_length=1)
    """The claim that names the role (read, write, review, admin), one or a list: whoever has one need not be added.
    When not set, people are added before, with their role."""


class RetrieveSettings(Model):
    """How the bank is searched and scored."""

    k: int = Field(default=3, ge=1, le=50)
    alpha: Unit = 0.65
    """Weight of relevance."""
    beta: Unit = 0.05
    """Weight of recency. It decides between what fits alike: more of it costs right answers (docs/BENCHMARKS.md)."""
    gamma: Unit = 0.10
    """Weight of confidence, likewise."""
    delta: Unit = 0.10
    """Weight of the diversity penalty (MMR): subtracted, times the greatest cosine to a chosen item."""
    recency_half_life_days: float = Field(default=45.0, gt=0)
    duplicate_threshold: Unit | None = None
    """The cosine from which two memories may say the same; the embedder's calibrated value when not set."""
    vector_weight: Unit | None = None
    """Share of the vector leg in the fusion where both legs' best stand out of the pool as they usually do; the
    embedder's calibrated value when not set."""
    pool_factor: int = Field(default=3, ge=1, le=100)
    pool_floor: int = Field(default=30, ge=1, le=2000)
    """Each leg gives max(pool_factor · k, pool_floor) candidates."""
    min_cosine: Unit | None = None
    """What a query must find in a bank of a hundred memories to get anything: the greatest cosine plus 0.15 times the
    greatest share of its words; among e times as many 0.05 more. Those that follow the best need 0.7 of it. The
    embedder's calibrated value when not set; 0: everything fits."""
    min_keyword_coverage: Unit = 0.6
    """The idf-weighted share of the query's words that is enough however far the vector is."""
    project_preference: Unit = 0.05
    """Taken off the score of a global item, so that the project's own comes first."""
    user_preference: Unit = 0.3
    """Added to the score of what the user said, and taken off that of what is of suspect wording. Of those that are
    given the user's come first whatever their score, and the suspect last."""
    gone_penalty: Unit = 0.2
    """Taken off the score of a memory when all is gone of what it names and was in the project (files, scripts,
    packages); its share for a part. When all is gone it is not told, unless the user said it."""
    time_boost: Unit = 0.4
    """Added to the score of what was stored at a time that the query names ("last week", "on 3 May"); 0: no time is
    read."""
    rerank: Literal["off", "auto", "endpoint", "chat"] = "off"
    """Who puts the best into their final order by reading them with the query: the cross-encoder of
    `sources.rerank_url`, the chat model, or `auto`, the first of these there is. A project's file cannot set it."""
    rerank_top: int = Field(default=10, ge=2, le=50)
    rerank_timeout_s: float = Field(default=5.0, gt=0, le=60)
    """After that the order stays as it was, and the answer says so."""
    token_budget: int = Field(default=600, ge=50, le=8000)
    """Tokens of the preamble at most; it never has more than 9,000 characters."""


class JudgeSettings(Model):
    """How a trajectory is judged."""

    model: str | None = None
    """Which of `chat.providers` is asked first to judge, by `model` or `provider:model`. It only chooses among those
    that the user has set; one that is none of them changes nothing, and the status says so."""
    temperature: float = Field(default=0.0, ge=0, le=2)
    min_confidence: Unit = 0.6
    """A verdict less sure than this is Undecided."""
    max_trajectory_tokens: int = Field(default=8_000, ge=500, le=1_000_000)
    """A chat model, judge or distiller, is shown at most so much of a trajectory. A project's file cannot set it."""
    timeout_s: float | None = Field(default=None, gt=0, le=600)
    """Longest time for one answer about a trajectory; 45 s to judge, 60 to distill and 90 to compare attempts when not
    set. A model that reasons, or one on this machine, may want more; `jobs.timeout_s` holds for all of a task."""


class DistillSettings(Model):
    """What is drawn from a trajectory."""

    max_items_per_traj: int = Field(default=3, ge=1, le=10)
    redact_pii: bool = True
    """Whether personal data (e-mail addresses, card, account and phone numbers) is replaced too; secrets always are.

    In trajectories and tool calls that are stored, addresses, paths in somebody's folders and UUIDs go with it.
    """
    screen_with_model: bool = True
    """Whether what a model drew is shown to the chat model once more, to be held back when it looks like an attack."""
    success_prior: Unit = 0.7
    failure_prior: Unit = 0.6


class GuardSettings(Model):
    """What redaction and screening look for."""

    disabled_rules: tuple[str, ...] = ()
    """Names of rules that are left out, in a list or divided by commas, as they stand in `tools/guard/data` and as
    `benchmarks/rules.py` prints them. A project's file cannot set it."""


class ConsolidateSettings(Model):
    """When the bank is tidied."""

    run_every_new_items: int = Field(default=20, ge=1)
    contradiction_threshold: Unit = 0.60
    prune_age_days: float = Field(default=180, gt=0)
    min_confidence_keep: Unit = 0.30
    confidence_half_life_days: float = Field(default=90, gt=0)


class PromoteSettings(Model):
    """How much of the bank stands in files that agents read by themselves."""

    max_skills: int = Field(default=8, ge=1, le=50)
    """The title and the first lines of each skill are in every session's context."""
    max_per_skill: int = Field(default=12, ge=1, le=50)
    """Memories that one skill tells."""
    block_tokens: int = Field(default=800, ge=100, le=8000)
    """Of a block in AGENTS.md or CLAUDE.md: all of it is in every session's context."""


class MattsSettings(Model):
    """Memory-aware test-time scaling."""

    enabled: bool = True
    parallel_k: int = Field(default=6, ge=1, le=32)
    sequential_r: int = Field(default=3, ge=1, le=16)
    max_concurrency: int = Field(default=3, ge=1, le=32)
    """Rollouts at the same time."""
    rollout_timeout_s: float = Field(default=600.0, gt=0, le=86_400)
    """A rollout that takes longer is ended; what it had done until then counts."""
    temperature_min: float = Field(default=0.2, ge=0, le=2)
    temperature_max: float = Field(default=1.0, ge=0, le=2)
    """Parallel rollouts are spread evenly between both."""
    model_steps: int = Field(default=20, ge=1, le=200)
    """Steps of a rollout that the chat model does itself."""
    allowed_commands: str = ""
    """Command lines that may be run as an agent or as a check, one a line (or divided by `;;`), each exactly as it will
    be called, such as `claude -p`. None: no command is ever run. A project's file cannot set it."""


class EmbeddingSettings(Model):
    """Which embedder fills the vector leg."""

    provider: Literal["auto", "minilm", "static", "openai", "fastembed"] = "auto"
    """`auto`: the shipped MiniLM where onnxruntime is installed, else the shipped static table."""
    threads: int = Field(default=1, ge=1, le=64)
    """Of `minilm`."""
    model: str | None = None
    """Model name for `openai` and `fastembed`."""
    base_url: str | None = None
    api_key: SecretStr | None = None
    dimensions: int | None = Field(default=None, ge=8, le=4096)
    query_prefix: str = ""
    document_prefix: str = ""
    timeout_s: float = Field(default=20.0, gt=0, le=120)
    model_dir: str | None = None
    """Folder of a local ONNX model for `fastembed`."""


class StorageSettings(Model):
    """The database."""

    db: str | None = None
    """Path of the file; `.swarm/memory.db` in the project's root when not set."""
    url: SecretStr | None = None
    """A PostgreSQL database in the file's place, as `postgresql://USER:PASSWORD@HOST/DATABASE`; see docs/TEAM.md."""
    pool_size: int = Field(default=8, ge=1, le=100)
    """Connections to it, at most, of one server."""
    connect_timeout_s: float = Field(default=3.0, gt=0, le=60)
    """How long a database that does not answer is tried."""
    statement_timeout_s: float = Field(default=30.0, gt=0, le=600)
    """How long one statement may take there."""
    sqlite: Literal["auto", "pysqlite3", "stdlib", "ctypes", "scan"] = "auto"
    tenant_id: str = "default"
    project: str | None = None
    """Name of the project; the name of its root folder when not set."""
    busy_timeout_s: float = Field(default=10.0, gt=0, le=60)


class HookSettings(Model):
    """What the hooks of the coding agent do."""

    briefing_items: int = Field(default=10, ge=0, le=20)
    """Of the user's lasting words at most so many are shown as a session starts; 0 switches that off."""
    inject: bool = True
    """Whether strategies are put into the prompt."""
    min_prompt_words: int = Field(default=4, ge=0)
    """A shorter prompt injects nothing."""
    settle_s: float = Field(default=20.0, ge=0, le=3600)
    """How long after a turn's end its task may still be continued before it is learned from."""
    at_calls: bool = True
    """Whether what is tied to a command, file or tool is shown beside its call; `install` again after a change."""


class JobSettings(Model):
    """How queued work is worked off."""

    lease_s: float = Field(default=60.0, gt=0)
    """A running job that has not been heard of for so long is taken up by another worker."""
    max_attempts: int = Field(default=3, ge=1)
    retry_s: float = Field(default=15.0, ge=0)
    """A job that failed is tried again after so long, then after twice as long, and so on; an hour at most."""
    timeout_s: float = Field(default=300.0, gt=0)
    """Time limit of one job; a model that judges and distills a task has to answer within it."""
    long_timeout_s: float = Field(default=21_600.0, gt=0)
    """Time limit of one that runs beside the others: scaling, consolidation, imports, benchmarks."""


class LearnSettings(Model):
    """How trajectories are kept."""

    max_steps: int = Field(default=2000, ge=10)
    max_step_chars: int = Field(default=20_000, ge=200)
    max_new_per_day: int = Field(default=2000, ge=1)
    """Memories that agents and hooks of all processes together may add to a project in a day (UTC); a task that taught
    nothing new counts as one. The command line is not limited. A project's file cannot set it."""


class CreditSettings(Model):
    """What the outcome of a task does to the memories that it was given, and how their effect is measured."""

    eta: Unit = 0.05
    """Added to the confidence of a memory that a task used and succeeded; half of it is taken off when it failed."""
    injected_weight: Unit = 0.25
    """The share of that for a memory that was injected and not seen to be used."""
    min_overlap: Unit = 0.5
    """The share of what a memory names (commands, files, identifiers) that a task must have taken from it to count as
    use where the agent did not name the memory."""
    holdout_rate: Unit = 0.0
    """The share of tasks that get no memories, chosen by a hash of the task's id: what the others gain by them."""
    holdout_seed: int = 0
    price_in: float | None = Field(default=None, ge=0)
    """USD for a million input tokens of the agent's model; without both prices the cost of a task is not known."""
    price_out: float | None = Field(default=None, ge=0)
    """USD for a million output tokens."""
    price_cached: float | None = Field(default=None, ge=0)
    """USD for a million input tokens read from the cache; a tenth of `price_in` when not set."""


class TeamSettings(Model):
    """A team's server, for what people learn from each other. Only the user sets it, never a project's file."""

    url: str | None = Field(default=None, max_length=500)
    """Where it is, such as `https://memory.acme.example`; none: nothing is sent anywhere."""
    token_env: str = Field(default="SWARM_MEMORY_TEAM_TOKEN", pattern=r"^[A-Z][A-Z0-9_]{0,99}$")
    """Name of the environment variable that holds your token, never the token."""
    project: str | None = Field(default=None, min_length=1, max_length=400)
    """The team's name of the project; host and path of the git remote `origin` when not set, else the folder's name."""
    propose: Literal["asked", "proven"] = "asked"
    """`asked`: only what you propose is sent. `proven`: what worked in two sessions and never failed, too."""
    every_minutes: float = Field(default=15.0, ge=1, le=10_080)
    """How often it is asked what is new while a server runs; at the end of a session too."""
    timeout_s: float = Field(default=10.0, gt=0, le=120)
    """Of one request."""

    @field_validator("url")
    @classmethod
    def _safe_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        parts = urlsplit(value)
        is_here = parts.scheme == "http" and parts.hostname in ("127.0.0.1", "::1", "localhost")
        if not (parts.scheme == "https" and parts.hostname) and not is_here:
            raise ValueError("must begin with https://, or http:// for this machine: your token goes there")
        if parts.username or parts.password or parts.query or parts.fragment:
            raise ValueError("must hold no user, password or query; name the token's variable in token_env")
        return value.rstrip("/")


class RetentionSettings(Model):
    """After how many days what is no memory is removed; 0: never. Memories stay until somebody forgets them."""

    trajectories_days: int = Field(default=365, ge=0, le=36_500)
    """What was done in a task. Its verdict stays, and where its memories point stands that it was removed."""
    events_days: int = Field(default=365, ge=0, le=36_500)
    """What was retrieved, learned and consolidated, and jobs that ended; what happened to a memory stays with it."""
    metrics_days: int = Field(default=365, ge=0, le=36_500)
    """Figures of tasks and of calls to models: the effect of memory is then that of the days that are kept."""
    tool_calls_days: int = Field(default=365, ge=0, le=36_500)
    """Single calls of tools. The totals and the guidelines of each tool stay."""


class Settings(Model):
    """All settings of a server or a command."""

    # A key that was written in the wrong place must not come back in an error's text.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, defer_build=True)

    enabled: bool = True
    """False: hooks say nothing, tools answer that it is off, and nothing is learned in the background."""
    # The defaults of a section are not validated: it would take a tenth of a hook's time. A test does it.
    retrieve: RetrieveSettings = RetrieveSettings.model_construct()
    judge: JudgeSettings = JudgeSettings.model_construct()
    distill: DistillSettings = DistillSettings.model_construct()
    guard: GuardSettings = GuardSettings.model_construct()
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
