"""Answers cut to a limit: what is kept is whole, what is missing is counted, and the way to it is named."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from swarm_memory.server.mcp.tool import capped, is_within
from swarm_memory.tools.text.tokens import count_tokens

OFFSET = 10


def tokens(value: Any) -> int:
    return count_tokens(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def test_a_short_answer_is_left_as_it_is() -> None:
    assert is_within({"hits": [1, 2]}, 500)
    assert is_within({"hits": ["word"] * 100}, 500)
    assert not is_within({"hits": ["word"] * 2000}, 500)


def test_the_last_entries_are_left_out_whole_and_the_next_offset_is_named() -> None:
    answer = {"hits": [{"title": f"hit {n}", "text": "word " * 100} for n in range(20)], "embedder": "static"}
    cut = capped(answer, 1000, OFFSET)
    kept = len(cut["hits"])
    assert cut["hits"] == answer["hits"][:kept]
    assert 5 <= kept < 20
    assert cut["embedder"] == "static"
    assert tokens(cut) <= 1000
    assert cut["cut"]["left_out_tokens"] == tokens(answer) - tokens({key: cut[key] for key in ("hits", "embedder")})
    assert f"offset={OFFSET + kept}" in cut["cut"]["how"]


def test_a_long_text_is_cut_at_a_boundary() -> None:
    text = "\n\n".join(f"Paragraph {n} says something of its own. It has two sentences." for n in range(500))
    cut = capped({"preamble": text, "ids": ["a"]}, 1000)
    assert tokens(cut) <= 1000
    assert cut["preamble"].endswith("two sentences. …")
    assert "ask for less at once" in cut["cut"]["how"]


def test_one_hit_that_is_longer_than_all_is_cut_within() -> None:
    answer = {"hits": [{"title": "one", "text": "word " * 20_000}, {"title": "two", "text": "short"}]}
    cut = capped(answer, 800, OFFSET)
    assert tokens(cut) <= 800
    assert cut["hits"][0]["title"] == "one"
    assert cut["hits"][0]["text"].startswith("word word")


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=400),
    lambda part: st.lists(part, max_size=8) | st.dictionaries(st.text(max_size=10), part, max_size=6),
    max_leaves=40,
)


@given(answer=st.dictionaries(st.text(min_size=1, max_size=8), JSON, max_size=6), limit=st.integers(150, 600))
def test_whatever_is_answered_is_within_the_limit_and_never_silent_about_it(answer: dict[str, Any], limit: int) -> None:
    if not is_within(answer, limit):
        cut = capped(answer, limit, OFFSET)
        assert tokens(cut) <= limit
        assert cut["cut"]["left_out_tokens"] > 0
