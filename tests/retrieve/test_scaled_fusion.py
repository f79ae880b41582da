"""The fusion in which a leg counts for what it found."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.tools.retrieve.rank import query_vector_weight, scaled_fusion

COSINES = st.none() | st.floats(-1, 1)
KEYWORDS = st.none() | st.floats(0, 50)
POOL = st.lists(st.tuples(COSINES, KEYWORDS), max_size=20)


@given(POOL, st.floats(0, 200), st.floats(0, 1))
def test_the_relevance_is_between_0_and_1(
    pool: list[tuple[float | None, float | None]], ideal: float, weight: float
) -> None:
    fused = scaled_fusion([cosine for cosine, _ in pool], [keyword for _, keyword in pool], ideal, weight)
    assert len(fused) == len(pool)
    assert all(-1e-9 <= value <= 1 + 1e-9 for value in fused)


def test_a_candidate_that_is_all_a_query_asks_for_gets_1() -> None:
    assert scaled_fusion([1.0, 0.2], [8.0, None], 8.0, 0.4) == pytest.approx([1.0, 0.0])


def test_where_the_words_of_the_query_stand_nowhere_together_the_vectors_decide() -> None:
    cosines, keywords = [0.7, 0.5], [1.0, 2.0]
    well, poorly = (scaled_fusion(cosines, keywords, ideal, 0.4) for ideal in (2.0, 50.0))
    assert well[1] > well[0]
    assert poorly[0] > poorly[1]


def test_a_leg_that_gave_nothing_has_no_weight() -> None:
    assert scaled_fusion([None, None], [4.0, 1.0], 4.0, 0.9) == pytest.approx([1.0, 0.25])
    assert scaled_fusion([1.0, 0.0], [None, None], 9.0, 0.1) == pytest.approx([1.0, 0.0])
    assert scaled_fusion([], [], 1.0, 0.5) == []


def test_candidates_that_are_equally_near_are_equal() -> None:
    assert scaled_fusion([0.5, 0.5], [None, None], 3.0, 0.5) == [1.0, 1.0]


@given(POOL, st.floats(0, 1))
def test_the_share_of_the_vectors_for_a_query_is_a_share_and_none_and_all_stay(
    pool: list[tuple[float | None, float | None]], share: float
) -> None:
    cosines, keywords = [cosine for cosine, _ in pool], [keyword for _, keyword in pool]
    assert 0 <= query_vector_weight(cosines, keywords, share) <= 1
    assert query_vector_weight(cosines, keywords, 0.0) == 0.0
    assert query_vector_weight(cosines, keywords, 1.0) == 1.0


def test_the_leg_counts_more_whose_best_stands_out_of_the_pool() -> None:
    alike, alone = [8.0, 7.9, 7.8, 0.1, 0.2], [8.0, 1.0, 0.9, 0.8, 0.7]
    cosines: list[float | None] = [0.6, 0.5, 0.4, 0.3, 0.2]
    shared, rare = (query_vector_weight(cosines, keywords, 0.5) for keywords in (alike, alone))
    assert rare < shared
    assert query_vector_weight([0.9, 0.1, 0.1, 0.1, 0.1], alone, 0.5) > rare


def test_words_that_all_share_alike_say_nothing() -> None:
    assert query_vector_weight([0.6, 0.5, 0.4], [3.0, 3.0, 3.0], 0.5) == 1.0
    assert query_vector_weight([0.5, 0.5], [3.0, 3.0], 0.3) == 0.3
