"""The one place that picks adapters: which store, which embedder and which chat models; the settings alone decide."""

import logging
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import EmbeddingSettings, Settings
from swarm_memory.server.location import Location, locate
from swarm_memory.server.switch import switched_off
from swarm_memory.tools.ports.care import Care
from swarm_memory.tools.ports.jobs import LEARN
from swarm_memory.tools.ports.journal import Journal
from swarm_memory.tools.ports.models import ChatModel, Embedder, Reranker
from swarm_memory.tools.ports.store import Clock
from swarm_memory.tools.toolbox import Reorder, Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.jobs.worker import Worker

_log = logging.getLogger(__name__)


class SystemClock:
    """The machine's time."""

    def now(self) -> datetime:
        """Return the present, aware, in UTC."""
        return datetime.now(UTC)


def place_of(folder: Path | None, settings: Settings) -> Location:
    """Return where the bank of the project is that `folder` (default: the process's) lies in."""
    return locate(folder, settings.storage.db)


async def open_toolbox(place: Location, settings: Settings, *, in_haste: bool = False) -> Toolbox:
    """Open the bank of a project; `in_haste` without what takes long to load. Raises `ConfigError`, `StorageError`."""
    from swarm_memory.server.storage.store import open_store

    embedder = make_embedder(settings.embedding, in_haste=in_haste)
    store = await open_store(
        place.database,
        sqlite=settings.storage.sqlite,
        busy_timeout_s=settings.storage.busy_timeout_s,
        embedder=embedder,
        consolidate_every=settings.consolidate.run_every_new_items,
    )
    clock, scope = SystemClock(), scope_of(place, settings)
    chat = make_chat_model(settings, store, scope, clock)
    reranker = make_reranker(settings)
    missing = without_minilm(settings.embedding)
    reorder: Reorder | None = None
    if settings.retrieve.rerank != "off":
        from swarm_memory.tools.retrieve.rerank import reorder_memories as reorder
    return Toolbox(
        store=store,
        embedder=embedder,
        clock=clock,
        settings=settings,
        scope=scope,
        chat=chat,
        reorder=reorder,
        reranker=reranker,
        notices=() if missing is None else (missing,),
    )


@asynccontextmanager
async def opened_toolbox(place: Location, settings: Settings) -> AsyncGenerator[Toolbox]:
    """Hold the bank of a project open for a block."""
    toolbox = await open_toolbox(place, settings)
    try:
        yield toolbox
    finally:
        await toolbox.store.close()


@asynccontextmanager
async def empty_toolbox(place: Location, settings: Settings) -> AsyncGenerator[Toolbox]:
    """Hold an empty bank open that is thrown away after a block: for what reads where there is none."""
    with TemporaryDirectory(prefix="swarm-memory-") as folder:
        async with opened_toolbox(place._replace(database=Path(folder, place.database.name)), settings) as toolbox:
            yield toolbox


def make_reranker(settings: Settings) -> Reranker | None:
    """Return the cross-encoder that the settings name; None without one."""
    if settings.sources.rerank_url is None:
        return None
    from swarm_memory.server.rerank.endpoint import EndpointReranker

    key = settings.sources.rerank_api_key
    return EndpointReranker(
        settings.sources.rerank_url,
        settings.sources.rerank_model,
        None if key is None else key.get_secret_value(),
        settings.sources.rerank_timeout_s,
    )


def make_chat_model(settings: Settings, store: Journal, scope: Scope, clock: Clock) -> ChatModel | None:
    """Return the chat models that the settings name, metered in the store; None, a normal state, without any."""
    if not settings.chat.providers:
        return None
    from swarm_memory.server.chat.build import build_chat_model
    from swarm_memory.server.chat.metering import ChatMeter

    meter = ChatMeter(store, scope, clock)
    return build_chat_model(
        settings.chat,
        environ=os.environ,
        meter=meter,
        judge=settings.judge.model,
        reranker=settings.sources.rerank_chat,
    )


def make_care(place: Location, settings: Settings) -> Care:
    """Return who looks after the file of a project's bank; nothing is opened yet."""
    from swarm_memory.server.storage.care.care import SqliteCare

    return SqliteCare(place.database, settings, scope_of(place, settings), partial(make_embedder, settings.embedding))


def scope_of(place: Location, settings: Settings) -> Scope:
    """Return the scope of what is done in a project."""
    return Scope(tenant_id=settings.storage.tenant_id, project=settings.storage.project or place.project)


def make_embedder(settings: EmbeddingSettings, *, in_haste: bool = False) -> Embedder:
    """Return the embedder that the settings name; of the shipped ones `in_haste` that which needs no loading.

    Raises `ConfigError` when one of its settings, or what it needs, is missing.
    """
    match settings.provider:
        case "auto" | "minilm" if not in_haste and (settings.provider == "minilm" or without_minilm(settings) is None):
            from swarm_memory.server.embedding.minilm import MiniLMEmbedder

            return MiniLMEmbedder(settings.threads)
        case "auto" | "minilm" | "static":
            from swarm_memory.server.embedding.static import StaticEmbedder

            return StaticEmbedder()
        case "openai":
            from swarm_memory.server.embedding.openai import OpenAIEmbedder

            return OpenAIEmbedder(settings, api_key_of(settings))
        case "fastembed":
            from swarm_memory.server.embedding.fastembed import FastEmbedEmbedder

            return FastEmbedEmbedder(settings)


def without_minilm(settings: EmbeddingSettings) -> str | None:
    """Return why the static table stands in for MiniLM, which the settings ask for; None where it does not."""
    if settings.provider != "auto" or find_spec("onnxruntime") is not None:
        return None
    return "the static table stands in for MiniLM: onnxruntime is not installed, which not every system has"


def api_key_of(settings: EmbeddingSettings) -> str | None:
    """Return the key for an endpoint. The environment's is OpenAI's own: it never goes to another one."""
    if settings.api_key is not None:
        return settings.api_key.get_secret_value()
    return os.environ.get("OPENAI_API_KEY") if settings.base_url is None else None


def learning_model(toolbox: Toolbox, read: Callable[[], Settings]) -> Callable[[], ChatModel | None]:
    """Return what gives the model that may be asked in the background about finished tasks; None: nobody may be.

    `read` gives the settings as they stand then: leave that was taken back counts at once, and where they cannot be
    read none is left.
    """
    chat, asked = toolbox.settings.chat, toolbox.chat

    def model() -> ChatModel | None:
        nonlocal chat, asked
        try:
            settings = read()
        except ConfigError as error:
            _log.warning("no model is asked: %s", error)
            return None
        wanted = settings.chat.model_copy(update={"providers": settings.chat.learning})
        if wanted != chat:
            allowed = settings.model_copy(update={"chat": wanted})
            chat, asked = wanted, make_chat_model(allowed, toolbox.store, toolbox.scope, toolbox.clock)
        return asked

    return model


def make_worker(toolbox: Toolbox, place: Location, read: Callable[[], Settings] | None = None) -> "Worker":
    """Return a worker for the jobs of the bank; `read` gives the settings anew, where they may change meanwhile."""
    from swarm_memory.server.jobs.handlers import long_handlers
    from swarm_memory.server.jobs.transcripts import learn_from_job
    from swarm_memory.server.jobs.worker import Worker

    model = learning_model(toolbox, read or (lambda: toolbox.settings))
    handlers = {LEARN: partial(learn_from_job, root=place.root, model=model)}
    return Worker(
        toolbox.for_agents(),
        handlers,
        long_handlers(place.root),
        lambda: not toolbox.settings.enabled or switched_off(place.root) is not None,
    )
