"""The shipped embedder gives one finite unit vector for any text that says something."""

import math
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import write_table

from swarm_memory.schema.errors import InputError
from swarm_memory.server.embedding.static import MAX_TOKENS, MAX_WEIGHT, StaticEmbedder
from swarm_memory.tools.ports.models import Embedder

EMBEDDER = StaticEmbedder()
STRANGE = ["🎉", "修复失败的测试", "🏳️‍🌈 \ud800 x", "\ud83d", "a\x00b", "ﬁne", "x" * 100_000, "error " * 20_000, "."]


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def assert_unit(vector: "array[float]") -> None:
    assert vector.typecode == "f"
    assert len(vector) == EMBEDDER.dimensions
    assert math.isclose(math.hypot(*vector), 1.0, abs_tol=1e-5)


def test_it_fills_the_port() -> None:
    port: Embedder = EMBEDDER
    assert (port.name, port.dimensions, port.quantization) == (EMBEDDER.name, 256, "int8")
    assert 0 < port.fusion_weight < 1
    assert 0 < port.min_cosine < 1


@pytest.mark.parametrize("text", [text for text in STRANGE if text != "\ud83d"])
def test_strange_texts_get_finite_unit_vectors(text: str) -> None:
    assert_unit(EMBEDDER.embed(text))


@pytest.mark.parametrize("text", ["", "   \n", "\x00", "\u200b", "\ud83d"])
async def test_a_blank_text_is_refused_with_advice(text: str) -> None:
    with pytest.raises(InputError, match="at least one word"):
        await EMBEDDER.embed_query(text)


async def test_a_blank_document_is_named_by_its_place() -> None:
    with pytest.raises(InputError, match="Text 2 "):
        await EMBEDDER.embed_documents(["one", "two", " "])


async def test_query_document_and_plain_call_agree_in_any_length_of_list() -> None:
    texts = [f"open file number {at} and read its lines" for at in range(700)]
    many = await EMBEDDER.embed_documents(texts)
    few = await EMBEDDER.embed_documents(texts[:3])
    assert many[:3] == few
    assert few[0] == await EMBEDDER.embed_query(texts[0]) == EMBEDDER.embed(texts[0])


@given(st.lists(st.text(min_size=1, max_size=20), min_size=32, max_size=34))
@settings(max_examples=10)
def test_a_vector_is_the_same_alone_and_among_others(texts: list[str]) -> None:
    texts = [f"word {text}" for text in texts]
    assert EMBEDDER.embed_many(texts) == [EMBEDDER.embed(text) for text in texts]


@pytest.mark.parametrize(
    ("query", "fitting", "other"),
    [
        ("read a csv file", "parse comma separated values into rows", "the cat slept on the sofa"),
        ("the tests fail with a timeout", "raise the time limit of the test suite", "add sugar to the dough"),
        ("how do I undo my last commit?", "git reset --soft HEAD~1 takes back a commit", "install a web server"),
    ],
)
def test_what_means_the_same_is_nearer_than_what_does_not(query: str, fitting: str, other: str) -> None:
    vector = EMBEDDER.embed(query)
    assert cosine(vector, EMBEDDER.embed(fitting)) > cosine(vector, EMBEDDER.embed(other)) + 0.05


def test_unknown_words_still_match_themselves() -> None:
    vector = EMBEDDER.embed("修复失败的测试")
    assert cosine(vector, EMBEDDER.embed("失败的测试")) > cosine(vector, EMBEDDER.embed("今天天气很好啊")) + 0.2


def test_only_the_first_1024_tokens_count() -> None:
    assert EMBEDDER.embed("error " * MAX_TOKENS + "banana " * 500) == EMBEDDER.embed("error")


def test_the_largest_weights_and_bytes_do_not_overflow(tmp_path: Path) -> None:
    path = tmp_path / "peak.bin"
    write_table(path, weights=[MAX_WEIGHT, 1], rows=bytes([255, 0, 0, 255]), vocabulary=["fix"])
    peak = StaticEmbedder(path)
    length = math.hypot(127, 128)
    for vector in [peak.embed("fix " * MAX_TOKENS), *peak.embed_many(["fix " * MAX_TOKENS] * 40)]:
        assert list(vector) == pytest.approx([127 / length, -128 / length], abs=1e-6)


def test_words_that_cancel_each_other_out_are_refused_and_not_stored_as_zero(tmp_path: Path) -> None:
    path = tmp_path / "zero.bin"
    write_table(path, weights=[5, 5, 1], rows=bytes([129, 127, 127, 129, 128, 140]), vocabulary=["fix", "test"])
    with pytest.raises(InputError, match="other words"):
        StaticEmbedder(path).embed("fix test")
    with pytest.raises(InputError, match="other words"):
        StaticEmbedder(path).embed_many(["fix"] * 40 + ["fix test"])
