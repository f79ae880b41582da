"""Embedders that note what they are asked to embed and can refuse some of it, take long, or do not answer."""

from collections.abc import Sequence

from swarm_memory.schema.errors import InputError, ModelUnavailable
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.ports.models import Vector


class CountingEmbedder(StaticEmbedder):
    """Notes texts and queries in the order in which they are asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.refused = ""
        """What makes a text one that is refused; empty: nothing does."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        if self.refused and any(self.refused in text for text in texts):
            raise InputError("such a text is refused")
        return await super().embed_documents(texts)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        return await super().embed_queries(texts)


class DownEmbedder(StaticEmbedder):
    """Stands for an endpoint that does not answer; its message holds a key, as some do."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        raise ModelUnavailable("401: key sk-proj-" + "a1B2" * 12 + " refused")

    embed_queries = embed_documents

    async def embed_query(self, text: str) -> Vector:
        return (await self.embed_documents([text]))[0]


class SlowEmbedder(StaticEmbedder):
    """Stands for one that takes long for a text, as MiniLM: beside its vectors those of a light one are kept."""

    light = StaticEmbedder()

    def __init__(self) -> None:
        super().__init__()
        self.name = "slow-256"
        self.batches: list[int] = []
        """How many texts were given at a time."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.batches.append(len(texts))
        return await super().embed_documents(texts)
