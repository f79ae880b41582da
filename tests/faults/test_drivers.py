"""Every SQLite driver returns the same answers: the whole suite on each, and nearest neighbors by brute force."""

import math
import random
from operator import mul
from pathlib import Path

import pytest
from driver_names import POSSIBLE
from patience import FULL

from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.search.vectors import decode, encode
from tests.faults.rig import HERE, fill, opened, sentence

pytestmark = pytest.mark.fault


@pytest.mark.parametrize("driver_name", POSSIBLE)
async def test_the_ten_nearest_are_those_of_brute_force(database: Path, driver_name: str) -> None:
    memories, queries, k = (5000, 100, 10) if FULL else (300, 10, 10)
    embedder, chance = StaticEmbedder(), random.Random(3)
    async with opened(database, sqlite=driver_name) as store:
        items = await fill(store, memories)
        vectors = await embedder.embed_documents([item.embedding_text for item in items])
        kept = {item.id: decode(each, "int8") for item, each in zip(items, encode(vectors, "int8"), strict=True)}
        same = 0
        for _ in range(queries):
            query = (await embedder.embed_queries([sentence(chance)]))[0]
            asked = decode(encode([query], "int8")[0], "int8")
            near = {each: sum(map(mul, own, asked)) / math.hypot(*own) for each, own in kept.items()}
            by_force = sorted(near, key=lambda each: -near[each])[:k]
            found = await store.nearest([HERE], embedder.name, query, k)
            same += len(set(by_force) & {memory_id for memory_id, _ in found})
    assert same == queries * k
