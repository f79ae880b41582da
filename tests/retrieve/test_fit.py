"""One decision for a query: whether the bank has anything for it, and then what follows the best."""

import math
from collections.abc import Collection
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.settings import RetrieveSettings, Settings
from swarm_memory.tools.ports.memories import Candidate, SearchResult
from swarm_memory.tools.retrieve.rank import FOLLOWS, GROWTH, NEAR, WORDS, Fit
from swarm_memory.tools.toolbox import Toolbox

QUERY = ("kubernet", "deploy", "canari", "rollback")


def candidate(cosine: float | None, words: Collection[str] = ()) -> Candidate:
    def unread() -> MemoryItem:
        raise AssertionError("a strategy need not be read")

    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Candidate("m", "shop", 0.5, now, 0, cosine, None, frozenset(words), True, unread, lambda: None)


def fit_of(toolbox: Toolbox, *candidates: Candidate, documents: int = 100) -> Fit:
    own = replace(toolbox, settings=Settings(retrieve=RetrieveSettings(min_cosine=0.4)))
    return Fit(own, SearchResult(candidates, ("vector", "keyword"), documents, dict.fromkeys(QUERY, 1)), QUERY)


def test_the_best_alone_decides_and_its_near_followers_come_too(toolbox: Toolbox) -> None:
    best, near, far = candidate(0.41), candidate(0.4 * FOLLOWS + 0.01), candidate(0.4 * FOLLOWS - 0.01)
    fit = fit_of(toolbox, far, best, near)
    assert [fit.is_met_by(each) for each in (best, near, far)] == [True, True, False]
    alone = fit_of(toolbox, near, far)
    assert [alone.is_met_by(each) for each in (near, far)] == [False, False]


def test_what_is_not_half_as_near_as_the_best_stays_away(toolbox: Toolbox) -> None:
    best, half, less = candidate(0.9), candidate(0.9 * NEAR + 0.01), candidate(0.9 * NEAR - 0.01)
    fit = fit_of(toolbox, best, half, less)
    assert fit.needed_beside > FOLLOWS * fit.needed
    assert [fit.is_met_by(each) for each in (best, half, less)] == [True, True, False]


def test_coverage_weighs_rare_words_more(toolbox: Toolbox) -> None:
    result = SearchResult((), ("vector", "keyword"), 10_000, {"kubernet": 3, "test": 4_000})
    fit = Fit(toolbox, result, ("kubernet", "test"))
    assert fit.coverage(candidate(None, {"kubernet", "test"})) == pytest.approx(1.0)
    assert fit.coverage(candidate(None, {"deploy", "kubernet", "pod"})) > 0.75
    assert fit.coverage(candidate(None, {"run", "test"})) < 0.25
    assert fit.coverage(candidate(None, {"contest", "kubernetes"})) == 0
    assert Fit(toolbox, result, ()).coverage(candidate(None, {"run", "test"})) == 0


def test_shared_words_add_to_nearness(toolbox: Toolbox) -> None:
    cosine = 0.4 - WORDS / 2 + 0.01
    assert fit_of(toolbox, candidate(cosine, QUERY[:2])).is_met_by(candidate(cosine, QUERY[:2]))
    assert not fit_of(toolbox, candidate(cosine)).is_met_by(candidate(cosine))


@pytest.mark.parametrize(("words", "fits"), [(2, False), (3, True), (4, True)])
def test_most_of_the_words_are_enough_however_far_the_vector_is(toolbox: Toolbox, words: int, fits: bool) -> None:
    far = candidate(-0.2, QUERY[:words])
    assert fit_of(toolbox, far).is_met_by(far) is fits


@pytest.mark.parametrize(("words", "fits"), [(1, False), (2, True)])
def test_without_vectors_half_as_many_words_are_needed(toolbox: Toolbox, words: int, fits: bool) -> None:
    unembedded = candidate(None, QUERY[:words])
    assert fit_of(toolbox, unembedded).is_met_by(unembedded) is fits


def test_the_larger_the_bank_the_nearer_the_best_must_be(toolbox: Toolbox) -> None:
    needed = [fit_of(toolbox, documents=size).needed for size in (1, 10, 100, 1000, 10_000, 10**6)]
    assert needed[2] == pytest.approx(0.4)
    assert needed[3] - needed[2] == pytest.approx(GROWTH * math.log(10))
    assert needed[0] == needed[1]
    assert needed[4] == needed[5]


def test_a_floor_of_0_lets_everything_in(toolbox: Toolbox) -> None:
    own = replace(toolbox, settings=Settings(retrieve=RetrieveSettings(min_cosine=0.0)))
    for each in (candidate(-1.0), candidate(None)):
        fit = Fit(own, SearchResult((each,), ("vector",), 5, {}), ())
        assert fit.is_met_by(each)
