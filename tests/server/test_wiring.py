"""Which adapters the settings pick, and what they are given."""

from pathlib import Path

import pytest

from swarm_memory.schema.errors import ConfigError
from swarm_memory.schema.settings import EmbeddingSettings, Settings, StorageSettings
from swarm_memory.server.embedding.fastembed import FastEmbedEmbedder
from swarm_memory.server.embedding.minilm import MiniLMEmbedder
from swarm_memory.server.embedding.openai import OpenAIEmbedder
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.wiring import api_key_of, make_embedder, open_toolbox, opened_toolbox, place_of, scope_of
from swarm_memory.tools.memories.status import memory_status


def test_the_shipped_embedder_is_used_unless_another_is_named() -> None:
    assert isinstance(make_embedder(EmbeddingSettings()), MiniLMEmbedder)
    assert isinstance(make_embedder(EmbeddingSettings(), in_haste=True), StaticEmbedder)
    assert isinstance(make_embedder(EmbeddingSettings(provider="static")), StaticEmbedder)
    assert isinstance(make_embedder(EmbeddingSettings(provider="fastembed")), FastEmbedEmbedder)
    endpoint = EmbeddingSettings(provider="openai", model="m", dimensions=64, base_url="http://127.0.0.1:9")
    embedder = make_embedder(endpoint)
    assert isinstance(embedder, OpenAIEmbedder)
    assert embedder.dimensions == 64


async def test_without_onnxruntime_the_static_table_stands_in_and_the_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.server.wiring.find_spec", lambda name: None)  # pyright: ignore
    settings = Settings(storage=StorageSettings(db=str(tmp_path / "bank.db")))
    async with opened_toolbox(place_of(tmp_path, settings), settings) as toolbox:
        status = await memory_status(toolbox)
    assert status.embedder == StaticEmbedder().name
    assert any("onnxruntime is not installed" in notice for notice in status.notices)


def test_an_endpoint_without_a_model_is_a_fault_of_the_settings() -> None:
    with pytest.raises(ConfigError, match=r"embedding\.model"):
        make_embedder(EmbeddingSettings(provider="openai"))


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
    assert place.database == tmp_path / "shop" / ".swarm" / "memory.db"
    assert scope_of(place, Settings()).project == "shop"
    assert scope_of(place, Settings(storage=StorageSettings(project="other"))).project == "other"


async def test_the_database_of_the_settings_is_opened(tmp_path: Path) -> None:
    settings = Settings(storage=StorageSettings(db=str(tmp_path / "deep" / "bank.db")))
    toolbox = await open_toolbox(place_of(tmp_path, settings), settings)
    try:
        assert (await toolbox.store.health()).path == str(tmp_path / "deep" / "bank.db")
    finally:
        await toolbox.store.close()
