"""Text becomes rows as BERT's uncased vocabulary asks, whatever is in it."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from swarm_memory.server.embedding.static import MAX_TOKENS, WordPiece

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
    ],
)
def test_words_are_split_as_bert_splits_them(text: str, words: list[str]) -> None:
    assert words_of(text) == words


@pytest.mark.parametrize("text", ["", " \t\r\n", "\x00\x07", "\u200b\ufeff", "\ud800"])
def test_a_text_without_a_visible_character_has_no_rows(text: str) -> None:
    assert tokenizer().rows(text) == []


def test_an_unknown_word_falls_into_the_same_bucket_each_time() -> None:
    first, second, other = tokenizer().rows("🎉 🎉 我")
    assert first == second
    assert all(len(WORDS) <= row < len(WORDS) + BUCKETS for row in (first, second, other))


def test_a_word_over_a_hundred_characters_is_one_unknown_word() -> None:
    assert words_of("fix" + "s" * 97) == ["fix"] + ["##s"] * 97
    assert words_of("fix" + "s" * 98) == ["?"]


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
