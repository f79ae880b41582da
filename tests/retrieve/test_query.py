"""A query: whole and by its sentences, embedded once."""

from collections.abc import AsyncIterator
from dataclasses import replace
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
    """A table beside which another one is kept."""

    light = StaticEmbedder()

    @property
    def name(self) -> str:
        return "heavy"


async def test_the_light_embedder_has_its_share_in_the_order_and_none_in_what_fits(toolbox: Toolbox, add: Add) -> None:
    await add(*LOGIN)
    heavy = replace(toolbox, embedder=Accompanied())
    vectors = await vectors_of(heavy, "login with a token", [])
    assert [view.embedder for view in vectors.views] == [Accompanied.light.name]
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
