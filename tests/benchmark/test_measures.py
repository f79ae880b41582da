"""Measures by hand-made examples and properties; intervals against known ones; times in queries."""

import random
from datetime import UTC, datetime
from statistics import NormalDist, fmean, stdev

import pytest
from hypothesis import given
from hypothesis import strategies as st
from systems.temporal import closeness, mentioned_time

from swarm_memory.tools.benchmark.measures import Resampling, measures, percentile

NOW = datetime(2026, 3, 25, 9, tzinfo=UTC)


def test_measures_of_one_answer_are_those_of_the_definitions() -> None:
    got = measures(["x", "g1", "y", "g2"], {"g1", "g2", "g3"}, (1, 2, 5))
    assert [got[f"recall_any@{k}"] for k in (1, 2, 5)] == [0, 1, 1]
    assert [got[f"recall@{k}"] for k in (1, 2, 5)] == pytest.approx([0, 1 / 3, 2 / 3])
    assert got["mrr@10"] == 0.5
    # (1/log2 3 + 1/log2 5) / (1 + 1/log2 3 + 1/log2 4)
    assert got["ndcg@10"] == pytest.approx((0.63093 + 0.43068) / (1 + 0.63093 + 0.5), abs=1e-4)


@given(st.permutations("abcdefgh"), st.sets(st.sampled_from("abcdefgh"), min_size=1))
def test_measures_stay_in_bounds_and_grow_with_k(found: list[str], gold: set[str]) -> None:
    got = measures(found, gold, (1, 3, 8))
    assert all(0 <= value <= 1 + 1e-12 for value in got.values())
    assert got["recall@1"] <= got["recall@3"] <= got["recall@8"] == 1
    assert got["recall@3"] <= got["recall_any@3"]


def test_a_perfect_order_is_1_and_an_empty_answer_0() -> None:
    assert set(measures(["g", "x"], {"g"}, (1, 5)).values()) == {1.0}
    assert set(measures([], {"g"}, (1, 5)).values()) == {0.0}


def test_a_percentile_is_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    random.Random(1).shuffle(values)
    assert [percentile(values, share) for share in (0.5, 0.95, 1.0)] == [50.0, 95.0, 100.0]
    assert percentile([3.0], 0.5) == 3.0


def test_a_bootstrap_interval_is_near_the_normal_one_where_that_holds() -> None:
    drawn = random.Random(3)
    values = [drawn.gauss(0, 1) for _ in range(400)]
    (got,) = Resampling(400, seed=1).intervals([values])
    half = NormalDist().inv_cdf(0.975) * stdev(values) / 20
    assert got.value == pytest.approx(fmean(values))
    assert (got.high - got.low) / 2 == pytest.approx(half, rel=0.1)


def test_the_same_seed_gives_the_same_interval_and_another_one_does_not() -> None:
    values = [at**1.5 for at in range(50)]
    first, again, other = (Resampling(50, seed).intervals([values]) for seed in (1, 1, 2))
    assert first == again
    assert first != other


def test_a_paired_difference_sees_what_unpaired_noise_would_hide() -> None:
    drawn = random.Random(5)
    base = [drawn.gauss(0, 10) for _ in range(200)]
    better = [value + 0.5 + drawn.gauss(0, 0.1) for value in base]
    gains = [value - other for value, other in zip(better, base, strict=True)]
    paired, alone = Resampling(200, seed=1).intervals([gains, better])
    assert paired.low > 0.4
    assert paired.high < 0.6
    assert alone.low < 0


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("what broke three weeks ago", "2026-03-04"),
        ("what broke a couple of days ago", "2026-03-23"),
        ("what we said yesterday", "2026-03-24"),
        ("the outage last Tuesday", "2026-03-24"),
        ("the outage last Wednesday", "2026-03-18"),
        ("on 8 May 2023 we met", "2023-05-08"),
        ("on May 8th, 2023", "2023-05-08"),
        ("decided on 2024-02-29", "2024-02-29"),
        ("done on 24 December", "2025-12-24"),
        ("uploads in February 2026", "2026-02-14"),
        ("in December", "2025-12-16"),
        ("trips in 2022", "2022-07-02"),
    ],
)
def test_a_time_in_a_query_becomes_a_date(query: str, day: str) -> None:
    target = mentioned_time(query, NOW)
    assert target is not None
    assert f"{target.moment:%Y-%m-%d}" == day
    assert closeness(target, target.moment) == 1.0


@pytest.mark.parametrize("query", ["how do I run the tests", "the march of time", "may I", "on 2024-02-31", "a day"])
def test_a_query_without_a_time_has_none(query: str) -> None:
    assert mentioned_time(query, NOW) is None


def test_what_is_relative_needs_to_know_when_it_was_asked() -> None:
    assert mentioned_time("three weeks ago", None) is None
    assert mentioned_time("in May", None) is None
    assert mentioned_time("in May 2023", None) is not None
