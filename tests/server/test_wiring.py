"""Which adapters the settings select, and what they are given; numpy without threads of its own."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest
from indexed_items import Numbers
from postgres_server import lent_database

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import EmbeddingSettings, Settings, StorageSettings
from swarm_memory.server.embedding.endpoint import OpenAIEmbedder
from swarm_memory.server.embedding.minilm import MiniLMEmbedder
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.hooks.alone import answer_alone
from swarm_memory.server.jobs.reembed import reembed
from swarm_memory.server.storage.store import Store
from swarm_memory.server.wiring import (
    api_key_of,
    empty_toolbox,
    make_care,
    make_embedder,
    open_toolbox,
    opened_toolbox,
    place_of,
    scope_of,
)
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.retrieve.retrieve import retrieve

ENDPOINT = EmbeddingSettings(provider="openai", model="m", dimensions=64, base_url="http://127.0.0.1:9")


def test_the_shipped_embedder_is_used_unless_another_is_named() -> None:
    assert isinstance(make_embedder(EmbeddingSettings()), MiniLMEmbedder)
    assert isinstance(make_embedder(EmbeddingSettings(), in_haste=True), StaticEmbedder)
    assert isinstance(make_embedder(EmbeddingSettings(provider="static")), StaticEmbedder)
    assert isinstance(embedder := make_embedder(ENDPOINT), OpenAIEmbedder)
    assert embedder.dimensions == 64
    with pytest.raises(ConfigError, match=r"embedding\.model"):
        make_embedder(EmbeddingSettings(provider="openai"))


async def test_what_was_opened_is_closed_after_a_fault_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.model_validate({"embedding": ENDPOINT, "team": {"url": "https://hub.example"}})
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text('[remote "origin"]\nurl = https://[::1/no-address.git\n')
    place = place_of(tmp_path, settings)
    with patch.object(OpenAIEmbedder, "aclose") as closed:
        async with opened_toolbox(place, settings):
            closed.assert_not_awaited()
    closed.assert_awaited_once()
    monkeypatch.setattr("swarm_memory.server.wiring.make_reranker", lambda _: 1 / 0)  # pyright: ignore
    with patch.object(Store, "close", autospec=True, side_effect=Store.close) as shut, pytest.raises(ZeroDivisionError):
        await open_toolbox(place, settings)
    shut.assert_awaited_once()


async def test_without_onnxruntime_the_static_table_embeds_and_the_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.server.wiring.find_spec", lambda name: None)  # pyright: ignore
    settings = Settings(storage=StorageSettings(db=str(tmp_path / "deep" / "bank.db")))
    async with opened_toolbox(place_of(tmp_path, settings), settings) as toolbox:
        status = await memory_status(toolbox)
    assert status.storage.path == str(tmp_path / "deep" / "bank.db")
    assert status.embedder == StaticEmbedder().name
    assert any("onnxruntime is not installed" in notice for notice in status.notices)


async def test_a_bank_of_an_embedder_that_is_gone_opens_finds_by_words_and_says_what_to_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, said = place_of(tmp_path, Settings()), "Always use pnpm in this repository"
    former = Numbers("fastembed-BAAI/bge-small-en-v1.5-384", 384, "float32")
    with monkeypatch.context() as before:
        before.setattr("swarm_memory.server.wiring.make_embedder", lambda *_, **__: former)  # pyright: ignore
        async with opened_toolbox(place, Settings()) as toolbox:
            await remember(toolbox, said, "convention", by_hand=True)
            await reembed(toolbox)
    async with opened_toolbox(place, Settings()) as toolbox:
        (found,) = (await retrieve(toolbox, said)).memories
        assert (found.parts.cosine, said in found.item.content) == (None, True)
        assert any("swarm-memory bank reembed" in each for each in (await memory_status(toolbox)).notices)
        assert (await reembed(toolbox)).embedded == 1
        assert (await retrieve(toolbox, said)).memories[0].parts.cosine is not None
        assert (await memory_status(toolbox)).notices == ()


@pytest.fixture
def served() -> Iterator[Settings]:
    """Settings that name a database server."""
    with lent_database() as url:
        yield Settings.model_validate({"storage": {"url": url}, "embedding": {"provider": "static"}})


async def test_a_bank_on_a_database_server_is_used_as_one_in_a_file_and_leaves_no_file(
    tmp_path: Path, served: Settings
) -> None:
    place = place_of(tmp_path, served)
    async with opened_toolbox(place, served) as toolbox:
        await remember(toolbox, "Always use pnpm in this repository", "convention", by_hand=True)
    async with opened_toolbox(place, served) as toolbox, empty_toolbox(place, served) as empty:
        assert (await memory_status(toolbox)).statistics.memories["active"] == 1
        assert (await empty.store.health()).driver != "postgresql"
    assert place.has_bank
    assert not place.database.exists()
    with pytest.raises(ConfigError, match="pg_dump"):
        make_care(place, served)


def test_a_hook_that_no_server_answers_asks_the_file_and_no_network(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SWARM_MEMORY_STORAGE__URL", "postgresql://nobody:secret@192.0.2.1/memory")
    monkeypatch.chdir(tmp_path)
    event = {"hook_event_name": "UserPromptSubmit", "session_id": "s", "prompt": "Mend the failing tests of orders now"}
    assert answer_alone(str(tmp_path), json.dumps(event).encode(), "claude UserPromptSubmit 0") == b"{}\n"
    assert (tmp_path / ".swarm" / "memory.db").is_file()


def test_the_environments_key_goes_to_openai_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-environment")
    assert api_key_of(EmbeddingSettings(provider="openai")) == "sk-environment"
    assert api_key_of(EmbeddingSettings(provider="openai", base_url="https://elsewhere.example")) is None
    own = EmbeddingSettings.model_validate({"base_url": "https://elsewhere.example", "api_key": "sk-own"})
    assert api_key_of(own) == "sk-own"


def test_a_project_is_named_by_its_root_folder_or_by_its_setting(tmp_path: Path) -> None:
    (tmp_path / "shop" / ".git").mkdir(parents=True)
    (tmp_path / "shop" / "src").mkdir()
    place = place_of(tmp_path / "shop" / "src", Settings())
    assert scope_of(place, Settings()).project == "shop"
    assert scope_of(place, Settings(storage=StorageSettings(project="other"))).project == "other"


PROGRAM = """
import json, os, sys
from pathlib import Path
import anyio
from swarm_memory.server.numpy_threads import start_no_threads
from swarm_memory.server.child_process import run
start_no_threads()
import numpy
threads = len(os.listdir("/proc/self/task"))
show = "import json, os; print(json.dumps({name: os.environ[name] for name in os.environ if 'THREADS' in name}))"

async def child():
    return await run(
        [sys.executable, "-c", show], stdin=b"", cwd=Path.cwd(), environment=os.environ, max_output_bytes=1000
    )

print(json.dumps([threads, json.loads(anyio.run(child).output)]))
"""


def loaded(**added: str) -> tuple[int, dict[str, str]]:
    """Return how many threads a process that loaded numpy has, and its child's environment variables about threads."""
    environ = {name: value for name, value in os.environ.items() if not name.endswith("_NUM_THREADS")}
    done = subprocess.run([sys.executable, "-c", PROGRAM], env=environ | added, capture_output=True, check=True)
    threads, heard = json.loads(done.stdout)
    return threads, heard


@pytest.mark.skipif(sys.platform != "linux", reason="threads as Linux lists them")
def test_loading_numpy_starts_no_thread_unless_the_user_says_so_and_children_hear_nothing_of_ours() -> None:
    assert loaded() == (1, {})
    assert loaded(OPENBLAS_NUM_THREADS="2")[1] == {"OPENBLAS_NUM_THREADS": "2"}
