"""Tokens as a bank keeps them: packed, found damaged, and made again."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item

from swarm_memory.schema.errors import StoreDamaged
from swarm_memory.server.storage.care.repair import repair
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.search.words import pack, scoped, unpack
from swarm_memory.tools.ports.memories import SearchQuery

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection


def damage(connection: "Connection") -> None:
    connection.execute("UPDATE pattern_tokens SET tokens = x'0011' WHERE seq = 2")


async def test_damaged_tokens_are_found_and_made_again(open_bank: Any, driver_name: str, database: Path) -> None:
    memories = [stored(made_item(f"Strategy {number}"), NUMBERS) for number in range(3)]
    async with open_bank() as store:
        await store.add_memories(memories, NUMBERS.name)
        await store.write(damage)
        assert [fault for fault in (await store.inspect()).indexes if "tokens" in fault]
        query = SearchQuery(scopes=(HERE,), embedder=NUMBERS.name, vector=None, tokens=("strategi",), pool=5)
        with pytest.raises(StoreDamaged, match="doctor --repair"):
            await store.search(query)
    repair(database, choose(driver_name), 5.0)
    async with open_bank() as store:
        assert (await store.inspect()).sound
        assert len((await store.search(query)).candidates) == 3


def test_tokens_are_packed_and_unpacked_field_by_field() -> None:
    packed = pack(("a", "b"), (), ("c",))
    assert unpack(packed) == unpack("a b\n\nc") == "a b\n\nc"
    assert [scoped(packed, field, 4) for field in range(3)] == ["s4xa s4xb", "", "s4xc"]
    words = [f"word{number}" for number in range(200)]
    assert len(pack(words, words, words)) < len(json.dumps(words))
