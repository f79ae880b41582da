"""A bank of schema 5, which kept tokens as texts and vectors by id, goes on in the compact tables as it was."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item

from swarm_memory.schema.errors import StoreDamaged
from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.sqlite.statements import code_table, migrations, vector_table
from swarm_memory.server.storage.care.repair import repair
from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.search import index, vectors
from swarm_memory.server.storage.search.vectors import code_bits, codes, encode
from swarm_memory.server.storage.search.words import pack, scoped, unpack
from swarm_memory.server.storage.stores.rows import pattern_row, to_text
from swarm_memory.tools.ports.memories import SearchFilter, SearchQuery, StoredMemory

if TYPE_CHECKING:
    from swarm_memory.server.storage.driver import Connection

FORMER = 5
MANY = 90


def write_former(connection: "Connection", memories: list[StoredMemory], model: str, dims: int) -> None:
    """Make a bank of schema 5 and write items as it did, without their vector index, which is stale."""
    for migration in migrations()[:FORMER]:
        for statement in migration.statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {FORMER}")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("BEGIN")
    scope = memories[0].item.scope
    connection.execute("INSERT INTO scopes VALUES (1, ?, ?, ?, 0)", (scope.tenant_id, scope.project, len(memories)))
    connection.execute("INSERT INTO vector_spaces VALUES (1, ?, ?, 'int8', 0)", (model, dims))
    connection.execute("INSERT INTO space_members VALUES (1, 1, ?)", (len(memories),))
    for seq, memory in enumerate(memories, start=1):
        now = to_text(memory.item.created_at)
        row = {"seq": seq, "type": "reasoning_memory", **pattern_row(memory.item, 1, now)}
        del row["standing"], row["agent_id"], row["person_id"]  # of schemas 10, 12 and 14
        names = ", ".join(row)
        connection.execute(f"INSERT INTO patterns ({names}) VALUES ({', '.join('?' * len(row))})", list(row.values()))
        fields = (memory.title_tokens, memory.description_tokens, memory.content_tokens)
        connection.execute("INSERT INTO pattern_tokens VALUES (?, ?, ?, ?)", (seq, *map(" ".join, fields)))
        entered = (
            "INSERT INTO pattern_fts (rowid, title, description, content) SELECT * FROM scoped_tokens WHERE seq = ?"
        )
        connection.execute(entered, (seq,))
        assert memory.vector is not None
        values = (memory.item.id, model, dims, encode(memory.vector, "int8"), now)
        connection.execute("INSERT INTO pattern_embeddings VALUES (?, ?, ?, ?, ?)", values)
    connection.execute("COMMIT")


@pytest.mark.parametrize("large", [60, 1000], ids=["coded", "exact"])
async def test_a_bank_of_schema_5_is_searched_and_changed_as_before(
    open_bank: Any, driver_name: str, database: Path, large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(index, "LARGE", large)
    monkeypatch.setattr(vectors, "MIN_RESCORED", 2 * MANY)
    own = {7: Provenance(agent_id="coder")}
    memories = [
        stored(made_item(f"Strategy {number} word{number}", provenance=own.get(number, Provenance())), NUMBERS)
        for number in range(MANY)
    ]
    driver = choose(driver_name)
    database.parent.mkdir()
    connection = driver.module.connect(database, isolation_level=None)
    write_former(connection, memories, NUMBERS.name, NUMBERS.dimensions)
    if driver.vec_version is not None:
        driver.prepare(connection)
        connection.execute(vector_table("vec_", "1", "int8", str(NUMBERS.dimensions)))
        rows = connection.execute("SELECT p.seq, e.vector FROM patterns AS p JOIN pattern_embeddings AS e USING (id)")
        entered = "INSERT INTO vec_1 (rowid, scope_id, embedding) VALUES (?, 1, vec_int8(?))"
        connection.executemany(entered, rows.fetchall())
        if large < MANY:
            connection.execute(code_table("vec_1", code_bits(NUMBERS.dimensions)))
            connection.execute("INSERT INTO coded_partitions VALUES ('vec_1', 1)")
            entered = "INSERT INTO codes_vec_1 (rowid, part, bucket, embedding) VALUES (?, 1, ?, vec_bit(?))"
            for seq, vector in connection.execute("SELECT rowid, embedding FROM vec_1").fetchall():
                (made,) = codes([vector], "int8", NUMBERS.dimensions)
                connection.execute(entered, (seq, seq % vectors.BUCKETS, made))
            connection.execute("DELETE FROM vec_1")
    connection.close()
    registry.begin(database)
    async with open_bank() as store:
        found = await store.inspect()
        assert found.sound, found
        wanted = memories[7]
        query = SearchQuery(scopes=(HERE,), embedder=NUMBERS.name, vector=wanted.vector, tokens=("word7",), pool=5)
        best = (await store.search(query)).candidates[0]
        assert best.id == wanted.item.id
        assert best.cosine == pytest.approx(1.0, abs=0.01)
        assert best.words == {"word7"}
        assert best.read_item() == wanted.item
        narrowed = await store.search(query._replace(only=SearchFilter(agent_id="coder")))
        assert [each.id for each in narrowed.candidates] == [wanted.item.id]
        assert await store.set_status([HERE], [wanted.item.id], "archived", "a test") == 1
        assert len((await store.forget([HERE], [memories[8].item.id])).ids) == 1
        assert wanted.item.id not in [each.id for each in (await store.search(query)).candidates]
        found = await store.inspect()
        assert found.sound, found
        before = (await store.search(query)).candidates
        await store.reindex()
        assert (await store.search(query)).candidates[0].keyword == before[0].keyword
        assert (await store.inspect()).sound


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
