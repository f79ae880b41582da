"""Measures, checked on hand-made examples; reports: untrusted text stays text (for pages see `abuse/test_pages.py`)."""

import random
import re
from datetime import UTC, datetime
from statistics import NormalDist, fmean, stdev
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.schema.benchmark import BenchmarkRun, DatasetInfo, SuiteResults, Table
from swarm_memory.tools.benchmark.figures import bootstrap, measures, percentile
from swarm_memory.tools.benchmark.report import escaped, markdown

HOSTILE = '<img src=x onerror=alert(1)>|[click](http://x)`"&'
INFO = DatasetInfo(name="d", hash="h" * 64, items=3, questions=200)


def _run(results: SuiteResults, **changes: Any) -> BenchmarkRun:
    named: dict[str, Any] = {"run_id": "bench_1", "suite": "retrieval", "status": "completed", "options": {}, "seed": 7}
    where = {"settings": {"embedder": "static"}, "versions": {"python": "3.11"}, "machine": {"system": "Linux"}}
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return BenchmarkRun.model_validate({**named, **where, "started_at": at, "results": results, **changes})


HOSTILE_RESULTS = SuiteResults(
    dataset=INFO,
    tables=(Table(title=HOSTILE, headings=("system", HOSTILE), rows=((HOSTILE, "1"),), note=HOSTILE),),
    notes=(HOSTILE,),
)


def test_no_text_of_a_run_ends_a_cell_or_becomes_a_link_in_markdown() -> None:
    text = markdown(_run(HOSTILE_RESULTS))
    assert "\\<img" in text
    assert "](http" not in text.replace("\\[click](http", "")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert escaped("two\nlines | here") == "two lines \\| here"
    assert escaped("recall_any@5") == "recall_any@5"


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
    assert set(measures(sorted(gold), gold, (8,)).values()) == {1.0}, "a perfect order"
    assert set(measures([], gold, (1, 8)).values()) == {0.0}


def test_a_percentile_is_the_nearest_rank() -> None:
    values = [float(value) for value in range(1, 101)]
    random.Random(1).shuffle(values)
    assert [percentile(values, share) for share in (0.5, 0.95, 1.0)] == [50.0, 95.0, 100.0]
    assert percentile([3.0], 0.5) == 3.0


def test_a_bootstrap_interval_is_near_the_normal_one_where_that_holds() -> None:
    chance = random.Random(3)
    values = [chance.gauss(0, 1) for _ in range(400)]
    (got,) = bootstrap([values], seed=1)
    half = NormalDist().inv_cdf(0.975) * stdev(values) / 20
    assert got.value == pytest.approx(fmean(values))
    assert (got.high - got.low) / 2 == pytest.approx(half, rel=0.1)


def test_the_same_seed_gives_the_same_interval_and_another_one_does_not() -> None:
    values = [at**1.5 for at in range(50)]
    first, again, other = (bootstrap([values], seed) for seed in (1, 1, 2))
    assert first == again
    assert first != other
