"""A query: as a whole and by sentence, with the time that it names, embedded once."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from counting import CountingEmbedder
from laid_bank import opened_bank
from still_bank import Add

from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.ports.memories import SearchQuery, View
from swarm_memory.tools.retrieve.query import (
    LIGHT,
    MAX_PARTS,
    REMEMBERED_CHARS,
    REMEMBERED_QUERIES,
    Vectors,
    embed_queries,
    mentioned_time,
    sentences,
    vectors_of,
)
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.tokens import query_tokens
from swarm_memory.tools.toolbox import Toolbox

LOGIN = ("Handle login flows with CSRF tokens", "1. Load the page and parse the token.\n2. Attach it to the POST.")
ASKED = (
    "Rename the colours of the theme file and bring the icons up to date. The login form answers 403, its CSRF token "
    "is missing. Then write the release notes for the marketing people and shorten the welcome text."
)


def test_a_text_of_several_sentences_is_looked_at_by_those_that_say_most() -> None:
    assert sentences("the login form answers 403") == []
    assert sentences("ok. the login form answers 403") == []
    assert sentences("Fix the form.\nDeploy it to the staging server!") == [
        "Deploy it to the staging server!",
        "Fix the form.",
    ]
    assert sentences("\u767b\u5f55\u8868\u5355\u3002\u5408\u5e76\u6570\u636e") == [
        "\u767b\u5f55\u8868\u5355\u3002",
        "\u5408\u5e76\u6570\u636e",
    ]
    assert len(sentences(" ".join(f"Check page {number} twice." for number in range(9)))) == MAX_PARTS
    assert sentences("Fix the form. " * 9) == []


async def test_what_one_sentence_of_many_asks_for_is_found(toolbox: Toolbox, add: Add) -> None:
    wanted = await add(*LOGIN)
    found = await retrieve(toolbox, ASKED)
    assert [each.item.id for each in found.memories] == [wanted]
    by_the_whole = SearchQuery(
        toolbox.scope.readable(),
        toolbox.embedder.name,
        (await embed_queries(toolbox, [ASKED], []))[0],
        query_tokens(ASKED),
        10,
    )
    (candidate,) = (await toolbox.store.search(by_the_whole)).candidates
    assert found.memories[0].parts.cosine is not None
    assert candidate.cosine is not None
    assert found.memories[0].parts.cosine > candidate.cosine + 0.03


async def test_candidates_have_a_cosine_to_each_view_they_have_a_vector_for(toolbox: Toolbox, add: Add) -> None:
    await add(*LOGIN)
    embedder = StaticEmbedder()
    own, other = embedder.embed("login with a token"), embedder.embed("bake the bread")
    views = tuple(
        View(name, vector) for name, vector in ((embedder.name, own), ("unknown", own), (embedder.name, other))
    )
    asked = SearchQuery(toolbox.scope.readable(), embedder.name, own, query_tokens("login"), 10, views=views)
    (candidate,) = (await toolbox.store.search(asked)).candidates
    same, unknown, foreign = candidate.views
    assert same == pytest.approx(candidate.cosine, abs=1e-3)
    assert unknown is None
    assert foreign is not None
    assert foreign < 0.3 < (same or 0)


class Accompanied(StaticEmbedder):
    """A table embedder in addition to which the vectors of another one are stored."""

    light = StaticEmbedder()

    def __init__(self) -> None:
        super().__init__()
        self.name = "heavy"


async def test_the_light_embedder_has_its_share_in_the_order_and_none_in_what_fits(toolbox: Toolbox, add: Add) -> None:
    await add(*LOGIN)
    heavy = replace(toolbox, embedder=Accompanied())
    vectors = await vectors_of(heavy, "login with a token", [])
    assert [view.embedder for view in vectors.views] == [StaticEmbedder().name]
    (candidate,) = (await toolbox.store.search(_asked(toolbox, vectors))).candidates
    known: dict[str, Any] = {"cosine": 0.5, "views": (0.9,)}
    result = (await toolbox.store.search(_asked(toolbox, vectors)))._replace(candidates=(candidate._replace(**known),))
    compared, (weighed,) = vectors.compared(result)
    assert compared.candidates[0].cosine == 0.5
    assert weighed == pytest.approx(0.5 * (1 - LIGHT) + 0.9 * LIGHT)
    without = result._replace(candidates=(candidate._replace(cosine=None, views=(0.9,)),))
    assert vectors.compared(without)[1] == [None]


def _asked(toolbox: Toolbox, vectors: Vectors) -> SearchQuery:
    scopes = toolbox.scope.readable()
    return SearchQuery(scopes, toolbox.embedder.name, vectors.whole, query_tokens("login"), 10, views=vectors.views)


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
async def toolbox(tmp_path: Path, embedder: CountingEmbedder) -> AsyncIterator[Toolbox]:
    async with opened_bank(tmp_path / ".swarm" / "memory.db", embedder=embedder) as opened:
        yield opened


async def test_a_query_is_embedded_once_for_all_projects(toolbox: Toolbox, embedder: CountingEmbedder) -> None:
    first = await embed_queries(toolbox, ["retry the upload"], [])
    again = await embed_queries(toolbox.in_project("other"), ["retry the upload"], [])
    assert first == again
    assert embedder.asked == ["retry the upload"]


async def test_the_queries_that_were_not_asked_for_longest_are_forgotten(
    toolbox: Toolbox, embedder: CountingEmbedder
) -> None:
    for number in range(REMEMBERED_QUERIES):
        await embed_queries(toolbox, [f"case {number}"], [])
    await embed_queries(toolbox, ["case 0"], [])
    await embed_queries(toolbox, ["one more"], [])
    embedder.asked.clear()
    await embed_queries(toolbox, ["case 0"], [])
    await embed_queries(toolbox, ["case 1"], [])
    assert embedder.asked == ["case 1"]
    assert len(toolbox.embedded) == REMEMBERED_QUERIES


async def test_a_very_long_query_is_not_remembered(toolbox: Toolbox) -> None:
    await embed_queries(toolbox, ["upload " * REMEMBERED_CHARS], [])
    assert not toolbox.embedded


NOW = datetime(2026, 3, 25, 9, tzinfo=UTC)


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
    assert target.closeness(target.moment) == 1.0


@pytest.mark.parametrize(
    "query", ["how do I run the tests", "the march of time", "may I", "on 2024-02-31", "a day", "it fails today"]
)
def test_a_query_without_a_time_has_none(query: str) -> None:
    assert mentioned_time(query, NOW) is None


async def test_a_time_in_the_query_lifts_what_is_of_that_time_and_without_one_nothing_changes(
    toolbox: Toolbox, add: Callable[..., Awaitable[str]]
) -> None:
    now = toolbox.clock.now()
    ids = {
        days: await add(f"Restart the deploy that failed, attempt {days}", created_at=now - timedelta(days=days))
        for days in (2, 21, 60)
    }
    named = await retrieve(toolbox, "the deploy that failed three weeks ago")
    assert named.memories[0].item.id == ids[21]
    assert any("ranked higher" in notice for notice in named.notices)
    silent = await retrieve(toolbox, "the deploy that failed")
    assert silent.memories[0].item.id == ids[2]
    assert not any("ranked higher" in notice for notice in silent.notices)
