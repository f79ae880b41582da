"""Keyword scores: BM25 of whole tokens, and which of a query's tokens an item holds."""

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.server.storage.search.words import SIDE_BY_SIDE, keyword_scores
from swarm_memory.tools.retrieve.rank import ideal_keyword_score


def bm25(documents: int, frequency: Mapping[str, int], items: Sequence[str]) -> list[float | None]:
    return [score for score, _ in keyword_scores(documents, frequency, items)]


def test_bm25_is_that_of_the_formula() -> None:
    scores = bm25(10, {"lock": 2, "retri": 5}, ["retri lock lock x", "retri", "none of it"])
    mean = (4 + 1 + 3) / 3
    idf = {"lock": math.log(1 + 8.5 / 2.5), "retri": math.log(1 + 5.5 / 5.5)}

    def part(token: str, times: int, length: int) -> float:
        return idf[token] * times * 1.9 / (times + 0.9 * (0.4 + 0.6 * length / mean))

    assert scores == pytest.approx([part("lock", 2, 4) + part("retri", 1, 4), part("retri", 1, 1), None])


def test_bm25_tells_whole_tokens_and_repeats_apart() -> None:
    scores = bm25(10, {"test": 3}, ["test test test", "contest x x", "test x x"])
    assert scores[1] is None
    assert scores[0] is not None
    assert scores[2] is not None
    assert scores[0] > scores[2]


def test_bm25_ranks_in_a_bank_where_every_item_holds_the_word() -> None:
    (both, one) = bm25(2, {"lock": 2, "file": 1}, ["lock file", "lock dir"])
    assert both is not None
    assert one is not None
    assert both > one > 0
    assert bm25(0, {}, []) == []


def test_words_that_stand_side_by_side_in_the_query_and_in_an_item_count_more() -> None:
    frequency = {"lock": 2, "file": 3, "retri": 3}
    side_by_side, apart, of_two_fields = bm25(9, frequency, ["x lock file y", "file lock x y", "x lock\nfile y"])
    assert side_by_side is not None
    assert side_by_side > (apart or 0.0)
    assert apart == of_two_fields


def test_the_words_of_an_item_are_the_tokens_of_the_query_that_it_holds() -> None:
    ((_, first), (_, other)) = keyword_scores(3, {"lock": 2, "file": 0, "retri": 1}, ["lock file lock", "contest"])
    assert (first, other) == ({"lock", "file"}, set())


@given(st.lists(st.lists(st.sampled_from("abcde"), max_size=12), min_size=1, max_size=12))
def test_no_text_exceeds_the_ideal_by_more_than_words_side_by_side_can_add(texts: list[list[str]]) -> None:
    frequency = {token: sum(token in text for text in texts) for token in "abcdef"}
    found = bm25(len(texts), frequency, [" ".join(text) for text in texts])
    best = max((score for score in found if score is not None), default=0.0)
    assert best <= (1 + 2 * SIDE_BY_SIDE) * ideal_keyword_score(len(texts), frequency)
