"""Embedders that record what they embed and can refuse some of it, that are slow, or that do not answer."""

from collections.abc import Sequence

from swarm_memory.schema.errors import InputError, ModelUnavailable
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.ports.models import Vector


class CountingEmbedder(StaticEmbedder):
    """Records texts and queries in the order in which they are requested."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.refused = ""
        """Texts that contain this are refused; if it is empty, none are."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        if self.refused and any(self.refused in text for text in texts):
            raise InputError("such a text is refused")
        return await super().embed_documents(texts)

    async def embed_queries(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += texts
        return await super().embed_queries(texts)


class DownEmbedder(StaticEmbedder):
    """Simulates an endpoint that does not answer; its error message contains a key, as some do."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        raise ModelUnavailable("401: key sk-proj-" + "a1B2" * 12 + " refused")

    embed_queries = embed_documents

    async def embed_query(self, text: str) -> Vector:
        return (await self.embed_documents([text]))[0]


class SlowEmbedder(StaticEmbedder):
    """Simulates an embedder that is slow, like MiniLM: a light embedder's vectors are stored in addition to its own."""

    light = StaticEmbedder()

    def __init__(self) -> None:
        super().__init__()
        self.name = "slow-256"
        self.batches: list[int] = []
        """The size of each batch of texts."""

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.batches.append(len(texts))
        return await super().embed_documents(texts)
