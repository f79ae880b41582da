"""Text is cleaned in one place before it is stored."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.tools.text.cleaning import clean, shorten


@pytest.mark.parametrize(
    ("dirty", "expected"),
    [
        ("plain ünïcode 你好 👍🏽\n\ttab", "plain ünïcode 你好 👍🏽\n\ttab"),
        ("a\x00b\x07c\x7f", "abc"),
        ("one\r\ntwo\rthree", "one\ntwo\nthree"),
        ("\x1b[1;31mred\x1b[0m \x1b]0;title\x07text\x1b(B", "red text"),
        ("\x9b31mred", "red"),
        ("x\ud800y\udfff", "x\ufffdy\ufffd"),
        ("\ud83d\ude00", "😀"),
        ("a\u202eb\u2066c\u200bd\ufeffe\u00adf", "abcdef"),
        ("visible\U000e0041\U000e007f", "visible"),
        ("\ufffe\uffff\ufdd0", ""),
        ("e\u0301", "e\u0301"),
        ("z" + "\u0301" * 1000, "z" + "\u0301" * 8),
    ],
)
def test_what_cannot_be_seen_or_stored_goes(dirty: str, expected: str) -> None:
    assert clean(dirty) == expected


@given(st.text(st.characters(codec=None, exclude_categories=()), max_size=200))
def test_every_text_becomes_valid_and_cleaning_twice_changes_nothing(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode("utf-8")
    assert "\0" not in cleaned
    assert clean(cleaned) == cleaned


@pytest.mark.parametrize("max_chars", [1, 20, 50, 200])
def test_a_text_is_never_longer_than_asked(max_chars: int) -> None:
    text = "begin " + "x" * 500 + " end"
    assert len(shorten(text, max_chars)) <= max_chars
    assert shorten(text[:max_chars], max_chars) == text[:max_chars]


def test_a_shortened_text_says_how_much_is_gone_and_keeps_both_ends() -> None:
    short = clean("begin " + "x" * 500 + " end", 100)
    assert short.startswith("begin")
    assert short.endswith("end")
    assert "characters left out" in short
