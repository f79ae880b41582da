"""MiniLM returns the vectors of the published weights, whatever else is embedded; hooks and other embedders get along.

`minilm_reference.json` holds the tokens of the reference tokenizer and the vectors in 32-bit floats, computed without
ONNX by `scripts/embedder/onnx_model.py`.
"""

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from laid_bank import opened_bank

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.embedding.minilm import MAX_TOKENS, SHIPPED_MODEL, MiniLMEmbedder
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.jobs.handlers import long_handlers
from swarm_memory.server.jobs.reembed import queue_reembedding
from swarm_memory.server.jobs.worker import Worker
from swarm_memory.tools.memories.decide import MemoryChange, edit
from swarm_memory.tools.memories.remember import remember
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.retrieve.retrieve import retrieve

EMBEDDER = MiniLMEmbedder()
REFERENCE: list[dict[str, Any]] = json.loads(Path(__file__).with_name("minilm_reference.json").read_text("utf-8"))
MAX_SHIPPED_BYTES = 24_000_000
LEAST_COSINE = 0.985


def cosine(one: Any, other: Any) -> float:
    return sum(a * b for a, b in zip(one, other, strict=True))


async def test_tokens_and_vectors_are_those_of_the_reference_and_the_published_weights() -> None:
    vectors = await EMBEDDER.embed_documents([each["text"] for each in REFERENCE])
    for vector, each in zip(vectors, REFERENCE, strict=True):
        assert math.hypot(*vector) == pytest.approx(1.0, abs=1e-5)
        assert cosine(vector, each["vector"]) > LEAST_COSINE
    assert [EMBEDDER.tokens(each["text"]) for each in REFERENCE] == [each["tokens"] for each in REFERENCE]


async def test_a_text_has_the_same_vector_alone_and_beside_others() -> None:
    texts = ["fix the lock", *("word " * count for count in (1, 40, 300, 7)), "fix the lock"]
    together = await EMBEDDER.embed_documents(texts)
    for text, vector in zip(texts, together, strict=True):
        (alone,) = await EMBEDDER.embed_documents([text])
        assert list(vector) == pytest.approx(list(alone), abs=1e-6)


async def test_a_long_document_is_read_in_windows_and_stays_of_unit_length() -> None:
    beginning, end = "fix the lock. " * 80, "bake the bread. " * 80
    first, last, both = await EMBEDDER.embed_documents([beginning, end, beginning + end])
    assert cosine(first, last) < 0.4
    assert cosine(both, first) > 0.6
    assert cosine(both, last) > 0.6
    assert math.hypot(*both) == pytest.approx(1.0, abs=1e-5)


async def test_a_long_query_counts_to_its_256th_token() -> None:
    assert len(EMBEDDER.tokens("fix " * 5_000)) == MAX_TOKENS
    first, other = await EMBEDDER.embed_queries(["fix " * 254 + "the lock", "fix " * 5_000])
    assert first == other


async def test_a_blank_text_is_refused_by_its_number() -> None:
    with pytest.raises(InputError, match="Text 1 contains nothing"):
        await EMBEDDER.embed_documents(["read", "\n\u200b"])
    with pytest.raises(InputError, match="The text contains nothing"):
        await EMBEDDER.embed_queries([" "])
    assert await EMBEDDER.embed_documents([]) == []


async def test_a_damaged_model_is_refused_with_advice(tmp_path: Path) -> None:
    model = tmp_path / SHIPPED_MODEL.name
    shutil.copyfile(SHIPPED_MODEL.with_suffix(".sha256"), model.with_suffix(".sha256"))
    with pytest.raises(ConfigError, match=r"minilm-384-v1\.onnx.*reinstall"):
        await MiniLMEmbedder(model=model).embed_queries(["read"])
    model.write_bytes(SHIPPED_MODEL.read_bytes()[:-1] + b"?")
    with pytest.raises(ConfigError, match="SHA-256"):
        await MiniLMEmbedder(model=model).embed_queries(["read"])


def test_the_shipped_model_is_whole_and_small() -> None:
    EMBEDDER.verify()
    assert SHIPPED_MODEL.stat().st_size <= MAX_SHIPPED_BYTES


def test_the_model_is_loaded_for_the_first_text_writes_nothing_into_the_users_home_and_reports_to_nobody(
    tmp_path: Path,
) -> None:
    script = (
        "import asyncio, os, sys\n"
        "from swarm_memory.server.embedding.minilm import MiniLMEmbedder\n"
        "embedder = MiniLMEmbedder()\n"
        "print(embedder.name, embedder.dimensions, 'onnxruntime' in sys.modules)\n"
        "asyncio.run(embedder.embed_queries(['run the tests']))\n"
        "print('onnxruntime' in sys.modules, os.environ['ORT_DISABLE_TELEMETRY'])\n"
    )
    environment = {"PYTHONPATH": str(Path(__file__).parents[2] / "src"), "HOME": str(tmp_path)}
    run = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=environment)
    assert run.stdout.split() == ["minilm-384-v1", "384", "False", "True", "1"]
    assert list(tmp_path.rglob("*")) == []


LOCK = "Another worker may hold the lock of the migration: wait for it, then try again."


async def test_a_memory_is_found_by_both_vectors_and_the_answer_says_by_which(tmp_path: Path) -> None:
    async with opened_bank(tmp_path / "memory.db", embedder=EMBEDDER) as toolbox:
        await remember(toolbox, LOCK, by_hand=True)
        found = await retrieve(toolbox, "the migration stops because of a lock")
    assert (found.embedder, len(found.memories)) == (EMBEDDER.name, 1)
    async with opened_bank(tmp_path / "memory.db") as in_haste:
        found = await retrieve(in_haste, "the migration stops because of a lock")
        assert (await memory_status(in_haste)).statistics.not_embedded == 0
    assert (found.embedder, len(found.memories)) == (StaticEmbedder().name, 1)


async def test_a_bank_of_another_embedder_is_embedded_in_the_background(tmp_path: Path) -> None:
    async with opened_bank(tmp_path / "memory.db") as former:
        await remember(former, LOCK, by_hand=True)
    async with opened_bank(tmp_path / "memory.db", embedder=EMBEDDER) as toolbox:
        assert (await memory_status(toolbox)).statistics.not_embedded == 1
        await queue_reembedding(toolbox)
        worker = Worker(toolbox, {}, long_handlers(tmp_path))
        assert await worker.work_off_due() == 1
        assert (await memory_status(toolbox)).statistics.not_embedded == 0
        await queue_reembedding(toolbox)
        assert await worker.work_off_due() == 0


async def test_a_memory_that_is_edited_meanwhile_keeps_the_vector_of_its_new_text(tmp_path: Path) -> None:
    async with opened_bank(tmp_path / "memory.db") as former:
        memory_id = (await remember(former, LOCK, by_hand=True)).item.id
    async with opened_bank(tmp_path / "memory.db", embedder=EMBEDDER) as toolbox:
        store = toolbox.store
        ((seq, text),) = await store.vectors.without_vector(EMBEDDER.name, EMBEDDER.dimensions, 9, 0)
        await edit(toolbox, memory_id, MemoryChange(title="Bread", content="Bake the bread at 220 degrees."))
        assert await store.vectors.put_vectors(EMBEDDER.name, {seq: (await EMBEDDER.embed_queries([text]))[0]}) == 0
        bread = (await EMBEDDER.embed_queries(["bake the bread at 220 degrees"]))[0]
        ((_, likeness),) = await store.nearest((toolbox.scope,), EMBEDDER.name, bread, 1)
    assert likeness > 0.5
