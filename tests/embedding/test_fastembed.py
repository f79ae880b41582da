"""The fastembed embedder: what it says without the library, and the real library on an ONNX model made here."""

import importlib
import importlib.util
import json
import math
from pathlib import Path
from typing import Any

import pytest

from swarm_memory.schema.errors import ConfigError, InputError, ModelUnavailable
from swarm_memory.schema.settings import EmbeddingSettings
from swarm_memory.server.embedding.fastembed import FastEmbedEmbedder
from swarm_memory.tools.ports.models import Embedder

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "read", "write", "file", "table"]
DIMENSIONS = 4
needs_fastembed = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("fastembed", "onnx")),
    reason="needs the packages fastembed and onnx",
)


def write_tokenizer(folder: Path) -> None:
    vocabulary = {word: at for at, word in enumerate(WORDS)}
    flags = ("single_word", "lstrip", "rstrip", "normalized")
    special = [
        {"id": at, "content": word, "special": True, **dict.fromkeys(flags, False)} for at, word in enumerate(WORDS[:4])
    ]
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": special,
        "normalizer": {"type": "Lowercase"},
        "pre_tokenizer": {"type": "Whitespace"},
        "post_processor": None,
        "decoder": None,
        "model": {"type": "WordLevel", "vocab": vocabulary, "unk_token": "[UNK]"},
    }
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"model_max_length": 16, "pad_token": "[PAD]"}))
    (folder / "special_tokens_map.json").write_text(json.dumps({"pad_token": "[PAD]", "unk_token": "[UNK]"}))
    (folder / "config.json").write_text(json.dumps({"hidden_size": DIMENSIONS, "pad_token_id": 0}))


def write_model(folder: Path, row: list[float]) -> None:
    """Write a model that looks each token up in a table: token t gives ``row`` with t added to its first number."""
    onnx: Any = importlib.import_module("onnx")
    helper, kinds = onnx.helper, onnx.TensorProto
    rows = [row[0] + at if column == 0 else row[column] for at in range(len(WORDS)) for column in range(DIMENSIONS)]
    inputs = [
        helper.make_tensor_value_info(name, kinds.INT64, ["batch", "tokens"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("last_hidden_state", kinds.FLOAT, ["batch", "tokens", DIMENSIONS])
    table = helper.make_tensor("table", kinds.FLOAT, [len(WORDS), DIMENSIONS], rows)
    node = helper.make_node("Gather", ["table", "input_ids"], ["last_hidden_state"])
    graph = helper.make_graph([node], "lookup", inputs, [output], [table])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8)
    (folder / "model.onnx").write_bytes(model.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path)
    return tmp_path


def options(folder: Path | None = None, model: str | None = None, query_prefix: str = "") -> EmbeddingSettings:
    given = None if folder is None else str(folder)
    return EmbeddingSettings(provider="fastembed", model=model, model_dir=given, query_prefix=query_prefix)


@pytest.mark.skipif(importlib.util.find_spec("fastembed") is not None, reason="fastembed is installed")
async def test_a_missing_extra_is_told_with_the_command_that_installs_it() -> None:
    embedder = FastEmbedEmbedder(options())
    with pytest.raises(ConfigError, match=r"pip install 'swarm-memory\[fastembed\]'"):
        await embedder.embed_query("read a file")
    with pytest.raises(ConfigError, match="pip install"):
        _ = embedder.dimensions


async def test_a_blank_text_is_refused_before_a_model_is_loaded() -> None:
    with pytest.raises(InputError, match="Text 1 "):
        await FastEmbedEmbedder(options()).embed_documents(["read", "\n"])


@needs_fastembed
async def test_a_model_in_a_folder_is_loaded_and_gives_unit_vectors(folder: Path) -> None:
    write_model(folder, [1.0, 2.0, 0.0, -1.0])
    embedder = FastEmbedEmbedder(options(folder, "tiny/a"))
    port: Embedder = embedder
    assert (port.name, port.dimensions, port.quantization) == ("fastembed-tiny/a-4", DIMENSIONS, "float32")
    query = await embedder.embed_query("read file")
    documents = await embedder.embed_documents(["read file", "table"])
    length = math.hypot(6.0, 2.0, 1.0)
    assert list(query) == pytest.approx([6 / length, 2 / length, 0, -1 / length], abs=1e-6)
    assert list(documents[0]) == pytest.approx(list(query), abs=1e-6)
    other = math.hypot(8.0, 2.0, 1.0)
    assert list(documents[1]) == pytest.approx([8 / other, 2 / other, 0, -1 / other], abs=1e-6)


@needs_fastembed
async def test_prefixes_change_vectors_and_name(folder: Path) -> None:
    write_model(folder, [1.0, 2.0, 0.0, -1.0])
    plain = FastEmbedEmbedder(options(folder, "tiny/b"))
    prefixed = FastEmbedEmbedder(options(folder, "tiny/b", query_prefix="table "))
    assert await plain.embed_query("read") != await prefixed.embed_query("read")
    assert plain.name != prefixed.name


@needs_fastembed
async def test_a_folder_without_a_model_is_told_with_the_names_looked_for(folder: Path) -> None:
    with pytest.raises(ConfigError, match=r"model\.onnx"):
        await FastEmbedEmbedder(options(folder, "tiny/c")).embed_query("read")


@needs_fastembed
async def test_a_file_that_is_no_model_is_unavailable_and_says_where_to_put_one(folder: Path) -> None:
    (folder / "model.onnx").write_bytes(b"not a model")
    with pytest.raises(ModelUnavailable, match=r"embedding\.model_dir"):
        await FastEmbedEmbedder(options(folder, "tiny/d")).embed_query("read")


@needs_fastembed
def test_a_folder_that_does_not_tell_its_dimensions_is_refused(folder: Path) -> None:
    (folder / "config.json").write_text("{}")
    with pytest.raises(ConfigError, match="hidden_size"):
        _ = FastEmbedEmbedder(options(folder, "tiny/e")).dimensions


@needs_fastembed
def test_an_unknown_model_without_a_folder_is_told_both_ways_out() -> None:
    with pytest.raises(ConfigError, match=r"embedding\.model_dir"):
        _ = FastEmbedEmbedder(options(model="nobody/knows")).dimensions


@needs_fastembed
def test_the_dimensions_of_a_known_model_are_known_without_loading_it() -> None:
    assert FastEmbedEmbedder(options()).dimensions == 384
