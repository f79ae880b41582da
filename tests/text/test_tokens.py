"""Tokens and the estimate of a model's tokens."""

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st
from patience import grows_by

from swarm_memory.tools.text.tokens import MAX_TOKEN_CHARS, count_tokens, query_tokens, tokenize


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("Running the tests", ("run", "test")),
        ("getUserName", ("getusernam", "get", "user", "name")),
        ("HTTPServer", ("httpserver", "http", "server")),
        ("snake_case_name", ("snake", "case", "name")),
        ("kebab-case", ("kebab", "case")),
        ("URLs and APIs", ("url", "api")),
        ("Python3 3D utf8", ("python3", "3d", "utf8")),
        ("getV2Items", ("getv2items", "get", "v2", "item")),
        ("don't the user's we've", ("user",)),
        ("naïve café", ("naiv", "cafe")),
        ("ﬁle \uff21\uff22\uff23", ("file", "abc")),
        ("中文分词", ("中文", "文分", "分词")),
        ("한국어", ("한국", "국어")),
        ("中", ("中",)),
        ("use中文now", ("use", "中文")),
        ("", ()),
        ("?! … 🙂", ()),
        ("who are you", ()),
    ],
)
def test_text_becomes_the_tokens_that_people_would_search_for(text: str, tokens: tuple[str, ...]) -> None:
    assert tokenize(text) == tokens


def test_words_that_turn_a_strategy_round_are_kept() -> None:
    assert tokenize("not without before after until") == ("not", "without", "befor", "after", "until")


def test_a_product_name_is_found_however_it_is_capitalised() -> None:
    for written, typed in (("GitHub", "github"), ("TypeScript", "typescript"), ("PostgreSQL", "postgresql")):
        assert set(tokenize(typed)) & set(tokenize(written))


def test_voiced_kana_stay_apart_while_accents_fall() -> None:
    assert tokenize("ガス") != tokenize("カス")
    assert tokenize("e\u0301te\u0301") == tokenize("été") == tokenize("ete")


def test_repeats_stay_in_tokens_and_leave_a_query() -> None:
    assert tokenize("test test retry test") == ("test", "test", "retri", "test")
    assert query_tokens("test test retry test") == ("test", "retri")


def test_a_long_token_is_cut_alike_on_both_sides() -> None:
    blob = "0123456789abcdef" * 20
    (token,) = tokenize(blob)
    assert len(token) == MAX_TOKEN_CHARS
    assert tokenize(f"see {blob}.")[-1] == token


@given(st.text(max_size=300))
def test_a_token_has_only_letters_and_digits_and_is_short(text: str) -> None:
    for token in tokenize(text):
        assert token.isalnum()
        assert token == token.lower()
        assert len(token) <= MAX_TOKEN_CHARS


@given(st.text(alphabet=st.characters(categories=["Cs", "Mn", "Lo", "Ll", "Zs"]), max_size=100))
def test_surrogates_and_loose_marks_never_raise(text: str) -> None:
    assert all(token.isalnum() for token in tokenize(text))
    assert count_tokens(text) >= 0


@pytest.mark.parametrize(
    "unit", ["a", "aB", "a\u0301\u0323", "中", "retry_the_request ", "'s", "_", "1", "\u3099\u0323", "[({"]
)
def test_time_grows_with_the_length_and_no_faster(unit: str) -> None:
    small, large = unit * (20_000 // len(unit)), unit * (160_000 // len(unit))
    assert grows_by(lambda text: (tokenize(text), count_tokens(text)), small, large, at_most=20) <= 20


def test_the_english_stemmer_alone_is_loaded() -> None:
    code = (
        "import sys; from swarm_memory.tools.text.tokens import tokenize; assert tokenize('running') == ('run',);"
        "print([name for name in sys.modules if 'stemmer' in name and not name.startswith('swarm_memory')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize(
    ("text", "at_least", "at_most"),
    [
        ("Load the page and parse the token.", 8, 14),
        ("def f(x):\n    return {x[0]: y}\n", 12, 24),
        ("中文分词很难", 6, 12),
        ("", 0, 0),
        ("🙂🙂", 4, 8),
        ("3f9a8b7c6d5e", 6, 16),
    ],
)
def test_the_estimate_of_model_tokens_is_near_and_rather_high(text: str, at_least: int, at_most: int) -> None:
    assert at_least <= count_tokens(text) <= at_most
