"""An embedder that notes what it is asked to embed, and can refuse some of it."""

from collections.abc import Sequence

from swarm_memory.schema.errors import InputError
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
