"""The one place that picks adapters: which store, which embedder and which chat models; the settings alone decide."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.job import LEARN
from swarm_memory.server.hosts.files.promoted import skill_paths_by_memory
from swarm_memory.server.location import Location, locate
from swarm_memory.server.switch import switched_off
from swarm_memory.tools.guard.person_names import check_detector
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.schema.settings import EmbeddingSettings, Settings
    from swarm_memory.server.jobs.worker import Worker
    from swarm_memory.server.storage.care.care import SqliteCare
    from swarm_memory.server.storage.postgres.store import PostgresStore
    from swarm_memory.server.storage.sqlite import SqliteStore
    from swarm_memory.server.storage.store import Store
    from swarm_memory.tools.ports.models import ChatModel, Clock, Embedder, Reranker

_log = logging.getLogger(__name__)


class SystemClock:
    """The machine's time."""

    def now(self) -> datetime:
        """Return the current time as an aware datetime in UTC."""
        return datetime.now(UTC)


def place_of(folder: Path | None, settings: Settings) -> Location:
    """Return the location of the bank of the project that contains `folder` (default: the process's working folder)."""
    return locate(folder, settings.storage.db)._replace(is_remote=settings.storage.url is not None)


def without_server(settings: Settings) -> Settings:
    """Return the settings without their database server, so that the bank is the one in a file."""
    return settings.model_copy(update={"storage": settings.storage.model_copy(update={"url": None})})


async def open_toolbox(place: Location, settings: Settings, *, in_haste: bool = False) -> Toolbox:
    """Open a project's bank; `in_haste` loads nothing that takes long. Raises `ConfigError`, `StorageError`."""
    from swarm_memory.server.project.folder import ProjectFolder

    check_detector(settings.distill.redact_pii)
    embedder = make_embedder(settings.embedding, in_haste=in_haste)
    store = await _open_store(place, settings, embedder)
    scope, clock, missing = scope_of(place, settings), SystemClock(), embedder_fallback_reason(settings.embedding)
    team: tuple[Scope, ...] = ()
    try:
        if settings.team.url is not None:
            from swarm_memory.schema.team.sharing import team_scopes
            from swarm_memory.server.team.project import team_project

            named = team_project(place.root, settings.team, await store.team_cache.caches(scope))
            team = team_scopes(settings.storage.tenant_id, named)
        return Toolbox(
            store=store,
            embedder=embedder,
            clock=clock,
            settings=settings,
            scope=scope,
            project=ProjectFolder(place.root),
            promoted=partial(skill_paths_by_memory, place.root),
            team=team,
            chat=make_chat_model(settings, store, scope, clock),
            reranker=make_reranker(settings),
            notices=() if missing is None else (missing,),
        )
    except BaseException:  # whoever tries again would open one more each time
        await store.close()
        raise


async def _open_store(place: Location, settings: Settings, embedder: Embedder) -> SqliteStore | PostgresStore:
    storage = settings.storage
    if storage.url is not None:
        if find_spec("psycopg") is None:
            raise ConfigError("PostgreSQL's driver is not installed: pip install 'swarm-memory[postgres]'")
        from swarm_memory.server.storage.postgres.connection import Place
        from swarm_memory.server.storage.postgres.store import open_postgres

        database = Place(storage.url.get_secret_value(), busy_timeout_s=storage.busy_timeout_s)
        return await open_postgres(database, pool_size=storage.pool_size, embedder=embedder)
    from swarm_memory.server.storage.sqlite import open_store

    return await open_store(
        place.database, sqlite=storage.sqlite, busy_timeout_s=storage.busy_timeout_s, embedder=embedder
    )


@asynccontextmanager
async def opened_toolbox(place: Location, settings: Settings, *, in_haste: bool = False) -> AsyncGenerator[Toolbox]:
    """Hold the bank of a project open for a block. Raises as `open_toolbox`."""
    toolbox = await open_toolbox(place, settings, in_haste=in_haste)
    try:
        yield toolbox
    finally:
        await toolbox.close()


@asynccontextmanager
async def empty_toolbox(place: Location, settings: Settings) -> AsyncGenerator[Toolbox]:
    """Hold an empty bank open for a block, and leave no trace of it."""
    from tempfile import TemporaryDirectory

    from swarm_memory.server.storage.engine import registry

    with TemporaryDirectory(prefix="swarm-memory-") as folder:
        thrown_away = place._replace(database=Path(folder, place.database.name), is_remote=False)
        try:
            async with opened_toolbox(thrown_away, without_server(settings)) as toolbox:
                yield toolbox
        finally:
            registry.forget_temporary(thrown_away.database)


def make_reranker(settings: Settings) -> Reranker | None:
    """Return the cross-encoder that the settings name; None without one."""
    if settings.sources.rerank_url is None:
        return None
    from swarm_memory.server.rerank.endpoint import EndpointReranker
    from swarm_memory.tools.sources.sources import RERANK_TIMEOUT_S

    key = settings.sources.rerank_api_key
    return EndpointReranker(
        settings.sources.rerank_url,
        settings.sources.rerank_model,
        None if key is None else key.get_secret_value(),
        RERANK_TIMEOUT_S,
    )


def make_chat_model(settings: Settings, store: Store, scope: Scope, clock: Clock) -> ChatModel | None:
    """Return the chat models that the settings name, metered in the store; None, a normal state, without any."""
    if not settings.chat.providers:
        return None
    from swarm_memory.server.chat.chain import build_chat_model
    from swarm_memory.server.chat.metering import ChatMeter

    return build_chat_model(
        settings.chat, environ=os.environ, meter=ChatMeter(store, scope, clock), judge=settings.judge.model
    )


def make_care(place: Location, settings: Settings) -> SqliteCare:
    """Return the maintenance object for the file of a project's bank; nothing is opened yet.

    Raises `ConfigError` where a database server holds the bank, which is maintained with that server's own tools.
    """
    if place.is_remote:
        raise ConfigError(
            "this bank is on a PostgreSQL server, which is backed up, restored and repaired by its own tools (pg_dump, "
            "pg_restore, pg_amcheck)"
        )
    from swarm_memory.server.storage.care.care import SqliteCare

    return SqliteCare(place.database, settings, scope_of(place, settings), partial(make_embedder, settings.embedding))


def scope_of(place: Location, settings: Settings) -> Scope:
    """Return the scope of a project: its tenant and its name."""
    return Scope(tenant_id=settings.storage.tenant_id, project=settings.storage.project or place.project)


def make_embedder(settings: EmbeddingSettings, *, in_haste: bool = False) -> Embedder:
    """Return the embedder that the settings name; `in_haste` replaces MiniLM with the one that needs no loading.

    Raises `ConfigError` when one of its settings, or what it needs, is missing.
    """
    match settings.provider:
        case "auto" | "minilm" if not in_haste and embedder_fallback_reason(settings) is None:
            from swarm_memory.server.embedding.minilm import MiniLMEmbedder

            return MiniLMEmbedder()
        case "auto" | "minilm" | "static":
            from swarm_memory.server.embedding.static import StaticEmbedder

            return StaticEmbedder()
        case "openai":
            from swarm_memory.server.embedding.endpoint import OpenAIEmbedder

            return OpenAIEmbedder(settings, api_key_of(settings))


def embedder_fallback_reason(settings: EmbeddingSettings) -> str | None:
    """Return why the static table replaces the MiniLM that the settings ask for; None where it does not."""
    if settings.provider != "auto" or find_spec("onnxruntime") is not None:
        return None
    return "the static table is used instead of MiniLM: onnxruntime is not installed; not every system has it"


def api_key_of(settings: EmbeddingSettings) -> str | None:
    """Return the key for an endpoint. The environment's key is OpenAI's own: it is never sent to another endpoint."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    return os.environ.get("OPENAI_API_KEY") if settings.base_url is None else None


def learning_model_getter(toolbox: Toolbox, read: Callable[[], Settings]) -> Callable[[], ChatModel | None]:
    """Return a function that returns the model for learning from finished tasks in the background, or None.

    `read` returns the current settings: permission that was withdrawn, or cannot be read, ends immediately.
    """
    chat, asked = toolbox.settings.chat, toolbox.chat

    def model() -> ChatModel | None:
        nonlocal chat, asked
        try:
            settings = read()
        except ConfigError as error:
            _log.warning("no model is called: %s", error)
            return None
        wanted = settings.chat.model_copy(update={"providers": settings.chat.learning})
        if wanted != chat:
            allowed = settings.model_copy(update={"chat": wanted})
            chat, asked = wanted, make_chat_model(allowed, toolbox.store, toolbox.scope, toolbox.clock)
        return asked

    return model


def make_worker(toolbox: Toolbox, place: Location, read: Callable[[], Settings] | None = None) -> Worker:
    """Return a worker for the jobs of the bank; `read` returns the current settings, where they may change."""
    from swarm_memory.server.jobs.handlers import PROJECT_INDEPENDENT, long_handlers
    from swarm_memory.server.jobs.transcripts import learn_from_job
    from swarm_memory.server.jobs.worker import Worker

    model = learning_model_getter(toolbox, read or (lambda: toolbox.settings))
    handlers = {LEARN: partial(learn_from_job, root=place.root, model=model)}
    return Worker(
        toolbox.for_agents(),
        handlers,
        long_handlers(place.root),
        lambda: not toolbox.settings.enabled or switched_off(place.root) is not None,
        PROJECT_INDEPENDENT,
    )
