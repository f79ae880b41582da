"""Fusion, the bank's score, diversity, the floor, and whether anything fits, as functions of numbers."""

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime
from operator import mul
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import RetrieveSettings, Settings
from swarm_memory.tools.ports.memories import Candidate, SearchResult
from swarm_memory.tools.retrieve.rank import (
    FOLLOWS,
    GROWTH,
    NEAR,
    WORDS,
    FitFilter,
    Scored,
    clamp01,
    query_vector_weight,
    scaled_fusion,
    select_diverse,
)
from swarm_memory.tools.toolbox import Toolbox

UNIT = st.floats(0, 1)


def direction(degrees: float) -> list[float]:
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def scored(place: int, score: float, vector: list[float] | None, applies: bool = True) -> Scored:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    candidate = Candidate(
        str(place), "shop", 0.5, 0, now, 0, None, None, frozenset(), True, cast("Any", None), lambda: vector
    )
    return Scored(candidate, 0.0, 0.0, {}, score, applies=applies)


class Everything:
    """All candidates fit."""

    def admits(self, candidate: Candidate) -> bool:
        return True


def chosen(pool: list[Scored], k: int, penalty: float) -> list[tuple[int, float]]:
    return [
        (int(each.candidate.id), each.penalty)
        for each in select_diverse(pool, cast("FitFilter", Everything()), k, penalty)
    ]


def test_a_candidate_without_vector_or_with_an_opposite_one_has_no_penalty() -> None:
    pool = [scored(0, 0.9, direction(0)), scored(1, 0.8, None), scored(2, 0.7, [-3.0, 0.0])]
    assert chosen(pool, 3, 0.5) == [(0, 0.0), (1, 0.0), (2, 0.0)]


@given(
    st.lists(st.tuples(UNIT, st.floats(0, 360), st.booleans()), min_size=1, max_size=40),
    st.integers(1, 8),
    st.sampled_from([0.0, 0.1, 0.5, 1.0]),
)
def test_the_choice_is_that_of_marginal_relevance_among_all_that_apply(
    pool: list[tuple[float, float, bool]], k: int, penalty: float
) -> None:
    vectors, left = [direction(each[1]) for each in pool], {place for place, each in enumerate(pool) if each[2]}
    found = chosen([scored(at, each[0], vectors[at], each[2]) for at, each in enumerate(pool)], k, penalty)
    assert len(found) == min(k, len(left))
    before: list[int] = []

    def value(place: int) -> float:
        return pool[place][0] - penalty * max(
            (clamp01(sum(map(mul, vectors[place], vectors[c]))) for c in before), default=0.0
        )

    for place, subtracted in found:
        assert pool[place][0] - subtracted == pytest.approx(value(place))
        assert value(place) == pytest.approx(max(map(value, left)))
        before.append(place)
        left.remove(place)


COSINES = st.none() | st.floats(-1, 1)
KEYWORDS = st.none() | st.floats(0, 50)
POOL = st.lists(st.tuples(COSINES, KEYWORDS), max_size=20)


@given(POOL, st.floats(0, 200), st.floats(0, 1))
def test_relevance_and_the_share_of_the_vectors_are_between_0_and_1_and_shares_of_none_and_all_stay(
    pool: list[tuple[float | None, float | None]], ideal: float, weight: float
) -> None:
    cosines, keywords = [cosine for cosine, _ in pool], [keyword for _, keyword in pool]
    fused = scaled_fusion(cosines, keywords, ideal, weight)
    assert len(fused) == len(pool)
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in fused)
    assert 0 <= query_vector_weight(cosines, keywords, 0.5, weight) <= 1
    assert [query_vector_weight(cosines, keywords, 0.5, share) for share in (0.0, 1.0)] == [0.0, 1.0]


def test_the_vectors_decide_where_the_words_stand_nowhere_together_and_a_leg_that_gave_nothing_has_no_weight() -> None:
    cosines, keywords = [0.7, 0.5], [1.0, 2.0]
    well, poorly = (scaled_fusion(cosines, keywords, ideal, 0.4) for ideal in (2.0, 50.0))
    assert well[1] > well[0]
    assert poorly[0] > poorly[1]
    assert scaled_fusion([None, None], [4.0, 1.0], 4.0, 0.9) == pytest.approx([1.0, 0.25])
    assert scaled_fusion([1.0, 0.0], [None, None], 9.0, 0.1) == pytest.approx([1.0, 0.0])
    assert scaled_fusion([], [], 1.0, 0.5) == []


def test_the_leg_counts_more_whose_best_stands_out_of_the_pool() -> None:
    alike, alone = [8.0, 7.9, 7.8, 0.1, 0.2], [8.0, 1.0, 0.9, 0.8, 0.7]
    cosines: list[float | None] = [0.6, 0.5, 0.4, 0.3, 0.2]
    shared, rare = (query_vector_weight(cosines, keywords, 0.5, 0.5) for keywords in (alike, alone))
    assert rare < shared
    assert query_vector_weight([0.9, 0.1, 0.1, 0.1, 0.1], alone, 0.5, 0.5) > rare
    assert query_vector_weight(cosines, alone, 0.1, 0.5) > rare, "it is asked in other words than the texts have"


QUERY = ("kubernet", "deploy", "canari", "rollback")


def candidate(cosine: float | None, words: Collection[str] = ()) -> Candidate:
    def unread() -> MemoryItem:
        raise AssertionError("a strategy need not be read")

    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Candidate("m", "shop", 0.5, 0, now, 0, cosine, None, frozenset(words), True, unread, lambda: None)


def fit_of(toolbox: Toolbox, *candidates: Candidate, documents: int = 100) -> FitFilter:
    own = replace(toolbox, settings=Settings(retrieve=RetrieveSettings(min_cosine=0.4)))
    return FitFilter(own, SearchResult(candidates, ("vector", "keyword"), documents, dict.fromkeys(QUERY, 1)), QUERY)


def test_the_best_alone_decides_and_its_near_followers_come_too(toolbox: Toolbox) -> None:
    best, near, far = candidate(0.41), candidate(0.4 * FOLLOWS + 0.01), candidate(0.4 * FOLLOWS - 0.01)
    fit = fit_of(toolbox, far, best, near)
    assert [fit.admits(each) for each in (best, near, far)] == [True, True, False]
    alone = fit_of(toolbox, near, far)
    assert [alone.admits(each) for each in (near, far)] == [False, False]


def test_what_is_not_half_as_near_as_the_best_stays_away(toolbox: Toolbox) -> None:
    best, half, less = candidate(0.9), candidate(0.9 * NEAR + 0.01), candidate(0.9 * NEAR - 0.01)
    fit = fit_of(toolbox, best, half, less)
    assert fit.min_strength_of_rest > FOLLOWS * fit.needed
    assert [fit.admits(each) for each in (best, half, less)] == [True, True, False]


def test_coverage_weighs_rare_words_more(toolbox: Toolbox) -> None:
    result = SearchResult((), ("vector", "keyword"), 10_000, {"kubernet": 3, "test": 4_000})
    fit = FitFilter(toolbox, result, ("kubernet", "test"))
    assert fit.coverage(candidate(None, {"kubernet", "test"})) == pytest.approx(1.0)
    assert fit.coverage(candidate(None, {"deploy", "kubernet", "pod"})) > 0.75
    assert fit.coverage(candidate(None, {"run", "test"})) < 0.25
    assert fit.coverage(candidate(None, {"contest", "kubernetes"})) == 0
    assert FitFilter(toolbox, result, ()).coverage(candidate(None, {"run", "test"})) == 0


def test_shared_words_add_to_nearness(toolbox: Toolbox) -> None:
    cosine = 0.4 - WORDS / 2 + 0.01
    assert fit_of(toolbox, candidate(cosine, QUERY[:2])).admits(candidate(cosine, QUERY[:2]))
    assert not fit_of(toolbox, candidate(cosine)).admits(candidate(cosine))


@pytest.mark.parametrize(
    ("cosine", "words", "fits"), [(-0.2, 2, False), (-0.2, 3, True), (-0.2, 4, True), (None, 1, False), (None, 2, True)]
)
def test_most_of_the_words_are_enough_however_far_the_vector_is_and_half_where_there_is_none(
    toolbox: Toolbox, cosine: float | None, words: int, fits: bool
) -> None:
    its = candidate(cosine, QUERY[:words])
    assert fit_of(toolbox, its).admits(its) is fits


def test_the_larger_the_bank_the_nearer_the_best_must_be(toolbox: Toolbox) -> None:
    needed = [fit_of(toolbox, documents=size).needed for size in (1, 10, 100, 1000, 10_000, 10**6)]
    assert needed[2] == pytest.approx(0.4)
    assert needed[3] - needed[2] == pytest.approx(GROWTH * math.log(10))
    assert needed[0] == needed[1]
    assert needed[4] == needed[5]


def test_a_floor_of_0_lets_everything_in(toolbox: Toolbox) -> None:
    own = replace(toolbox, settings=Settings(retrieve=RetrieveSettings(min_cosine=0.0)))
    for each in (candidate(-1.0), candidate(None)):
        fit = FitFilter(own, SearchResult((each,), ("vector",), 5, {}), ())
        assert fit.admits(each)
