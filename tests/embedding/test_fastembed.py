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
from swarm_memory.server.embedding.neural import FastEmbedEmbedder
from swarm_memory.tools.ports.models import Embedder

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "read", "write", "file", "table"]
DIMENSIONS = 384
"""Of fastembed's default model, in whose place the files made here are loaded."""

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
    """Write a model that looks each token up: token t gives ``row``, then zeros, with t added to its first number."""
    row = [*row, *[0.0] * (DIMENSIONS - len(row))]
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
    (folder / "model_optimized.onnx").write_bytes(model.SerializeToString())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_tokenizer(tmp_path)
    return tmp_path


def options(folder: Path | None = None, **given: str) -> EmbeddingSettings:
    where = None if folder is None else str(folder)
    return EmbeddingSettings.model_validate({"provider": "fastembed", "model_dir": where, **given})


@pytest.mark.skipif(importlib.util.find_spec("fastembed") is not None, reason="fastembed is installed")
async def test_a_missing_extra_is_reported_with_the_command_that_installs_it() -> None:
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
    embedder = FastEmbedEmbedder(options(folder))
    port: Embedder = embedder
    name = "fastembed-BAAI/bge-small-en-v1.5-384"
    assert (port.name, port.dimensions, port.quantization) == (name, DIMENSIONS, "float32")
    query = await embedder.embed_query("read file")
    documents = await embedder.embed_documents(["read file", "table"])
    length, other = math.hypot(5.0, 2.0, 1.0), math.hypot(8.0, 2.0, 1.0)
    assert list(query[:4]) == pytest.approx([5 / length, 2 / length, 0, -1 / length], abs=1e-6)
    assert list(documents[0]) == pytest.approx(list(query), abs=1e-6)
    assert list(documents[1][:4]) == pytest.approx([8 / other, 2 / other, 0, -1 / other], abs=1e-6)


@needs_fastembed
async def test_prefixes_change_vectors_and_name(folder: Path) -> None:
    write_model(folder, [1.0, 2.0, 0.0, -1.0])
    plain = FastEmbedEmbedder(options(folder))
    prefixed = FastEmbedEmbedder(options(folder, query_prefix="table "))
    assert await plain.embed_query("read") != await prefixed.embed_query("read")
    assert plain.name != prefixed.name


@needs_fastembed
@pytest.mark.parametrize("content", [None, b"not a model"])
async def test_a_folder_without_a_model_is_unavailable_and_says_where_to_put_one(
    folder: Path, content: bytes | None
) -> None:
    if content is not None:
        (folder / "model_optimized.onnx").write_bytes(content)
    with pytest.raises(ModelUnavailable, match=r"embedding\.model_dir"):
        await FastEmbedEmbedder(options(folder)).embed_query("read")


@needs_fastembed
def test_a_model_that_fastembed_does_not_know_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"embedding\.model"):
        _ = FastEmbedEmbedder(options(model="nobody/knows")).dimensions
