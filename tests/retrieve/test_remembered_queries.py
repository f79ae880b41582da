"""A query that was asked before is not embedded again."""

from collections.abc import AsyncIterator, Sequence
from pathlib import Path

import pytest
from laid_bank import opened_bank

from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.retrieve.query import REMEMBERED_CHARS, REMEMBERED_QUERIES, embed_query
from swarm_memory.tools.toolbox import Toolbox


class Counting(StaticEmbedder):
    """Notes what it is asked to embed."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        return await super().embed_queries(texts)


@pytest.fixture
def embedder() -> Counting:
    return Counting()


@pytest.fixture
async def toolbox(tmp_path: Path, embedder: Counting) -> AsyncIterator[Toolbox]:
    async with opened_bank(tmp_path / ".swarm" / "memory.db", embedder=embedder) as opened:
        yield opened


async def test_a_query_is_embedded_once_for_all_projects(toolbox: Toolbox, embedder: Counting) -> None:
    first = await embed_query(toolbox, "retry the upload", [])
    again = await embed_query(toolbox.in_project("other"), "retry the upload", [])
    assert first == again
    assert embedder.asked == ["retry the upload"]


async def test_the_queries_that_were_not_asked_for_longest_are_forgotten(toolbox: Toolbox, embedder: Counting) -> None:
    for number in range(REMEMBERED_QUERIES):
        await embed_query(toolbox, f"case {number}", [])
    await embed_query(toolbox, "case 0", [])
    await embed_query(toolbox, "one more", [])
    embedder.asked.clear()
    await embed_query(toolbox, "case 0", [])
    await embed_query(toolbox, "case 1", [])
    assert embedder.asked == ["case 1"]
    assert len(toolbox.embedded) == REMEMBERED_QUERIES


async def test_a_very_long_query_is_not_remembered(toolbox: Toolbox) -> None:
    await embed_query(toolbox, "upload " * REMEMBERED_CHARS, [])
    assert not toolbox.embedded
