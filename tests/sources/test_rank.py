"""The order of passages: how far their context reaches, and how soon a word that is repeated says nothing new."""

from collections.abc import Sequence

import pytest

from swarm_memory.schema.source import SourceKind
from swarm_memory.tools.ports.sources import PassageCandidate, SourceResult
from swarm_memory.tools.sources.sources import ScoredPassage, score_passages, vector_weight


def scored(kind: SourceKind, contents: Sequence[str], **frequency: int) -> dict[int, ScoredPassage]:
    """Score passages of one group by their words alone."""
    candidates = tuple(
        PassageCandidate(seq, kind, 1, seq, f"part{seq}", "", content, "", None) for seq, content in enumerate(contents)
    )
    result = SourceResult(candidates, ("keyword",), len(contents), frequency)
    return {each.candidate.seq: each for each in score_passages(result, 0.0)}


@pytest.mark.parametrize(("kind", "reach"), [("document", 2), ("code", 1), ("tool", 0), ("api", 0)])
def test_a_passage_is_found_by_its_neighbours_as_far_as_their_order_means_something(
    kind: SourceKind, reach: int
) -> None:
    found = scored(kind, ["", "", "", "zeppelin", "", "", ""], zeppelin=1)
    assert [seq for seq in range(7) if found[seq].keyword is not None] == list(range(3 - reach, 4 + reach))
    assert max(found.values(), key=lambda each: each.score).candidate.seq == 3


def test_a_passage_with_the_word_outweighs_one_that_stands_between_two_with_it() -> None:
    found = scored("document", ["gas valve", "helium", "gas valve", *(["sky"] * 5), "gas valve"], gas=3)
    assert found[8].score > found[1].score > 0


def test_a_word_that_a_tool_repeats_counts_on_longer_than_one_of_prose() -> None:
    def gain(kind: SourceKind) -> float:
        texts = [" ".join(["mail", *["other"] * 7]), "", "", " ".join(["mail"] * 4 + ["other"] * 4)]
        once, often = (scored(kind, texts, mail=2)[seq].keyword or 0.0 for seq in (0, 3))
        return often / once

    assert gain("tool") > gain("document") > 1


def test_vectors_weigh_more_where_other_words_are_asked_than_stand_there() -> None:
    shares = [vector_weight(0.5, kind) for kind in ("document", None, "code")]
    assert shares == pytest.approx([0.35, 0.5, 0.65])
    assert vector_weight(0.9, "tool") == 1.0
