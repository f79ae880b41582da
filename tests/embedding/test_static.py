"""The built-in embedder: a finite unit vector for any text, words by BERT's vocabulary, a table that is verified."""

import math
import subprocess
import sys
from array import array
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tables import write_table

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.embedding.static import (
    MAGIC,
    MAX_TOKENS,
    MAX_WEIGHT,
    SHIPPED_TABLE,
    StaticEmbedder,
    Table,
    WordPiece,
    verify,
)

EMBEDDER = StaticEmbedder()
STRANGE = ["🎉", "修复失败的测试", "🏳️‍🌈 \ud800 x", "\ud83d", "a\x00b", "ﬁne", "x" * 100_000, "error " * 20_000, "."]


def cosine(left: Sequence[float], right: Sequence[float]) -> float:
    return sum(a * b for a, b in zip(left, right, strict=True))


def assert_unit(vector: "array[float]") -> None:
    assert vector.typecode == "f"
    assert len(vector) == EMBEDDER.dimensions
    assert math.isclose(math.hypot(*vector), 1.0, abs_tol=1e-5)


@pytest.mark.parametrize("text", [text for text in STRANGE if text != "\ud83d"])
def test_strange_texts_get_finite_unit_vectors(text: str) -> None:
    assert_unit(EMBEDDER.embed(text))


@pytest.mark.parametrize("text", ["", "   \n", "\x00", "\u200b", "\ud83d"])
async def test_a_blank_text_is_refused_with_advice(text: str) -> None:
    with pytest.raises(InputError, match="at least one word"):
        await EMBEDDER.embed_queries([text])
    with pytest.raises(InputError, match="Text 2 "):
        await EMBEDDER.embed_documents(["one", "two", text])


async def test_query_document_and_plain_call_agree_in_any_length_of_list() -> None:
    texts = [f"open file number {at} and read its lines" for at in range(700)]
    many = await EMBEDDER.embed_documents(texts)
    few = await EMBEDDER.embed_documents(texts[:3])
    assert many[:3] == few
    assert few[0] == (await EMBEDDER.embed_queries([texts[0]]))[0] == EMBEDDER.embed(texts[0])


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


MAX_SHIPPED_BYTES = 8_000_000


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "small.bin"
    write_table(path, weights=[10, 20, 30], rows=bytes([129, 127, 130, 128, 128, 140]), vocabulary=["fix", "test"])
    return path


@pytest.mark.parametrize("kept", [0, 3, 19, 22, 30])
def test_a_table_cut_short_is_refused_with_its_path(table: Path, kept: int) -> None:
    table.write_bytes(table.read_bytes()[:kept])
    with pytest.raises(ConfigError, match=r"small\.bin.*reinstall"):
        Table(table)


@pytest.mark.parametrize(
    ("part", "instead", "reason"),
    [
        (MAGIC, b"SQLite f", "does not begin"),
        (b"fix", b"\xff\xff\xff", "UTF-8"),
        (b"fix", b"\nx\n", "4 words for 3 rows"),
        (b"fix", b"fox", "SHA-256"),
    ],
)
def test_a_table_that_is_damaged_is_refused(table: Path, part: bytes, instead: bytes, reason: str) -> None:
    table.write_bytes(table.read_bytes().replace(part, instead))

    def read() -> None:
        assert Table(table).vocabulary
        verify(table)

    with pytest.raises(ConfigError, match=reason):
        read()


def test_a_missing_table_and_a_missing_checksum_are_named(table: Path) -> None:
    table.with_suffix(".sha256").unlink()
    with pytest.raises(ConfigError, match=r"small\.sha256"):
        verify(table)
    table.unlink()
    with pytest.raises(ConfigError, match=r"small\.bin.*reinstall"):
        Table(table)


def test_the_shipped_table_is_whole_and_small_and_licensed() -> None:
    StaticEmbedder().verify()
    assert SHIPPED_TABLE.stat().st_size <= MAX_SHIPPED_BYTES
    assert "Apache License" in (SHIPPED_TABLE.parent / "LICENSE-all-MiniLM-L6-v2").read_text("utf-8")


def test_a_prompt_is_embedded_and_modules_are_imported_without_heavy_libraries() -> None:
    script = """
import sys
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.text.tokens import tokenize
StaticEmbedder().embed("fix the failing test")
assert tokenize("running") == ("run",)
print({"mcp", "openai", "pydantic", "anyio", "snowballstemmer"} & {*sys.modules})
import swarm_memory.server.chat.chain, swarm_memory.server.sources.code, swarm_memory.server.sources.documents
print({"openai", "jsonschema", "httpx2", "pypdf", "tree_sitter", "pathspec", "mcp"} & {*sys.modules})
"""
    source = Path(__file__).parents[2] / "src"
    run = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(source)}
    )
    assert run.stdout.split() == ["set()", "set()"]


WORDS = ["fix", "test", "##s", "##ing", "get", "##user", "_", "(", ")", ".", "cafe", "un", "##believ", "##able", "中"]
BUCKETS = 16
ROW = {word: row for row, word in enumerate(WORDS)}


def tokenizer() -> WordPiece:
    return WordPiece(ROW, range(len(WORDS), len(WORDS) + BUCKETS))


def words_of(text: str) -> list[str]:
    return [WORDS[row] if row < len(WORDS) else "?" for row in tokenizer().rows(text)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Fix TESTS", ["fix", "test", "##s"]),
        ("unbelievable", ["un", "##believ", "##able"]),
        ("café cafe\u0301 CAFÉ", ["cafe", "cafe", "cafe"]),
        ("get_user", ["get", "_", "?"]),
        ("getUser()", ["get", "##user", "(", ")"]),
        ("fix中test", ["fix", "中", "test"]),
        ("te\x00st\u200b fi\ufffdx", ["test", "fix"]),
        ("fix\u00a0test\u2003fix", ["fix", "test", "fix"]),
        ("fix.test", ["fix", ".", "test"]),
        pytest.param("fix" + "s" * 97, ["fix"] + ["##s"] * 97, id="a hundred characters"),
        pytest.param("fix" + "s" * 98, ["?"], id="more, which are one unknown word"),
    ],
)
def test_words_are_split_as_bert_splits_them(text: str, words: list[str]) -> None:
    assert words_of(text) == words


def test_a_long_text_counts_to_its_1024th_token() -> None:
    assert len(tokenizer().rows("fix " * 5_000)) == MAX_TOKENS
    assert len(tokenizer().rows("fix" + "s" * 90 + " " + "fix " * 5_000)) == MAX_TOKENS


@given(st.text(st.characters(), max_size=40))
@settings(max_examples=50)
def test_every_text_has_rows_of_the_table_only(text: str) -> None:
    assert all(0 <= row < len(WORDS) + BUCKETS for row in tokenizer().rows(text))


@given(st.text(st.characters(exclude_categories=["C", "Z", "Mn"]), min_size=1, max_size=40))
@settings(max_examples=50)
def test_every_text_with_a_visible_character_has_a_row(text: str) -> None:
    assert tokenizer().rows(text)
