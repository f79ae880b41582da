"""A bank as JSON lines: what goes out comes in again, and what is no memory stays out."""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from laid_bank import laid, opened_bank
from still_bank import Add

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.memory import MemoryItem, Provenance
from swarm_memory.schema.settings import Settings
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.store import open_store
from swarm_memory.server.wiring import SystemClock
from swarm_memory.tools.memories.edit import get_memories, list_memories
from swarm_memory.tools.memories.transfer import export_memories, import_memories
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.retrieve.embed import BACKLOG, EMBED, Embedded, embed_backlog, prepare
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.cleaning import clean
from swarm_memory.tools.toolbox import Toolbox

LOGIN = ("Handle login flows with CSRF tokens", "1. Parse the token.\n2. Attach it to the POST.")
EMBEDDER = StaticEmbedder()


async def lines_of(toolbox: Toolbox) -> list[str]:
    return [line async for line in export_memories(toolbox)]


def memory_line(**fields: Any) -> str:
    values = {
        "id": new_id(MEMORY),
        "scope": {"tenant_id": "default", "project": "elsewhere"},
        "title": LOGIN[0],
        "content": LOGIN[1],
        "confidence": 0.5,
        "created_at": "2026-05-01T12:00:00Z",
    }
    return json.dumps(values | fields)


WORDS = st.text(st.characters(categories=["L", "Nd", "Zs"]), min_size=3, max_size=60).map(
    lambda text: f"Use {clean(text).strip()}"
)
MOMENTS = st.datetimes(datetime(2020, 1, 1), datetime(2030, 1, 1), timezones=st.just(UTC))
ITEMS = st.builds(
    MemoryItem,
    id=st.builds(new_id, st.just(MEMORY)),
    scope=st.sampled_from([Scope(project="shop"), Scope(project="*")]),
    title=WORDS,
    description=st.just("") | WORDS,
    content=WORDS,
    tags=st.lists(st.sampled_from(["a", "b", "c"]), unique=True).map(tuple),
    domain=st.none() | st.just("web"),
    outcome=st.sampled_from(["Success", "Failure"]),
    confidence=st.floats(0, 1),
    usage_count=st.integers(0, 1000),
    created_at=MOMENTS,
    last_used=st.none() | MOMENTS,
    status=st.sampled_from(["active", "quarantined", "archived"]),
    status_reason=st.none() | st.just("by hand"),
    provenance=st.builds(Provenance, task_id=st.none() | st.just("t1"), judge=st.just("evidence")),
)


@settings(max_examples=15)
@given(st.lists(ITEMS, max_size=6, unique_by=(lambda item: item.id, lambda item: item.title.casefold())))
async def test_export_and_import_give_the_same_bank(items: list[MemoryItem]) -> None:
    with TemporaryDirectory() as folder:
        banks: list[Toolbox] = []
        for name in ("first", "second"):
            store = await open_store(laid(Path(folder) / name / "memory.db"), embedder=EMBEDDER)
            banks.append(Toolbox(store, EMBEDDER, SystemClock(), Settings(), Scope(project="shop")))
        first, second = banks
        await first.store.add_memories(await prepare(first, items), EMBEDDER.name)
        exported = await lines_of(first)
        result = await import_memories(second, exported)
        assert (result.added, result.known, result.faulty) == (len(items), 0, 0), result.faults
        assert sorted(await lines_of(second)) == sorted(exported)
        again = await import_memories(second, exported)
        assert (again.added, again.known) == (0, len(items))
        for bank in banks:
            await bank.store.close()


async def test_faulty_lines_are_described_and_the_rest_is_kept(toolbox: Toolbox) -> None:
    lines = [
        memory_line(),
        "not json",
        "",
        memory_line(title="x"),
        memory_line(confidence=7),
        memory_line(confidence=float("nan")),
        memory_line(id="rm_evil"),
        memory_line(colour="red"),
        memory_line(created_at="2026-05-01T12:00:00"),
        "[" * 100_000,
        "{}",
        "\ufeff" + memory_line(title="A byte order mark is no fault of ours"),
        memory_line(content="y" * 4001),
        "z" * 1_000_001,
        memory_line(title="The last one is good"),
    ]
    result = await import_memories(toolbox, lines)
    assert result.added >= 2
    assert result.added + result.faulty == len(lines) - 1
    numbers = [int(fault.split(":")[0].removeprefix("line ")) for fault in result.faults]
    assert set(numbers) >= {2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14}
    assert any("title" in fault for fault in result.faults)
    assert all(len(fault) < 300 for fault in result.faults)
    assert "The last one is good" in {item.title for item in await list_memories(toolbox, MemoryFilter())}


async def test_a_text_that_is_known_is_not_added_again(toolbox: Toolbox, add: Add) -> None:
    await add(*LOGIN)
    again = memory_line(title=LOGIN[0].upper(), content=f"  {LOGIN[1]} ")
    result = await import_memories(toolbox, [again, memory_line(title="New here"), memory_line(title="new  here")])
    assert (result.added, result.known) == (1, 2)


async def test_secrets_and_invisible_characters_are_taken_out(toolbox: Toolbox) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"
    await import_memories(toolbox, [memory_line(content=f"1. Use {secret}.\u202e\x1b[31m", tags=[secret])])
    (line,) = await lines_of(toolbox)
    assert secret not in line
    assert "\\u001b" not in line
    assert "\u202e" not in line


async def test_a_foreign_file_can_be_kept_out_of_sight_until_approved(toolbox: Toolbox) -> None:
    line = memory_line()
    result = await import_memories(toolbox, [line], source="team.jsonl", quarantine=True)
    assert result.added == 1
    assert (await retrieve(toolbox, LOGIN[0])).memories == ()
    (item,) = await get_memories(toolbox, [json.loads(line)["id"]])
    assert (item.status, item.provenance.imported_from) == ("quarantined", "team.jsonl")


async def test_without_embedder_an_import_is_kept_for_keywords_and_says_so(toolbox: Toolbox) -> None:
    class Down(StaticEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            raise ModelUnavailable("down")

    result = await import_memories(replace(toolbox, embedder=Down()), [memory_line()])
    assert result.added == 1
    assert result.notices == ["stored without vectors, found by keywords until the embedder answers again: down"]
    assert len((await retrieve(toolbox, LOGIN[0])).memories) == 1


class Slow(StaticEmbedder):
    """As MiniLM: beside its vectors those of a light embedder are kept."""

    def __init__(self) -> None:
        super().__init__()
        self.light = StaticEmbedder()
        self.asked = 0

    @property
    def name(self) -> str:
        return "slow"

    async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
        self.asked += len(texts)
        return await super().embed_documents(texts)


async def test_a_large_import_is_written_first_and_embedded_by_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.tools.memories.transfer._WRITTEN_AT_ONCE", 2)
    monkeypatch.setattr("swarm_memory.tools.memories.transfer._EMBEDDED_AT_ONCE", 4)
    slow = Slow()
    async with opened_bank(tmp_path / "b" / "memory.db", embedder=slow) as toolbox:
        result = await import_memories(toolbox, [memory_line(title=f"Case {number}") for number in range(11)])
        assert (result.added, result.later, slow.asked) == (11, 7, 4)
        assert "7 memories get their vectors of slow in the background" in result.notices[-1]
        assert (await toolbox.store.pending_upkeep(toolbox.scope, slow.name, 0)).not_embedded == 7
        assert await toolbox.store.find_job(toolbox.scope, EMBED, BACKLOG) is not None

        async def progress(_: int) -> None: ...

        assert await embed_backlog(toolbox, progress) == Embedded(7, 0)
        assert (await embed_backlog(toolbox, progress)).embedded == 0
        assert slow.asked == 11


@pytest.mark.parametrize("with_global", [True, False])
async def test_the_global_scope_can_be_left_out(toolbox: Toolbox, add: Add, with_global: bool) -> None:
    await add("Own strategy")
    await add("Shared strategy", project="*")
    await add("Foreign strategy", project="bank")
    found = {json.loads(line)["title"] async for line in export_memories(toolbox, with_global=with_global)}
    assert found == ({"Own strategy", "Shared strategy"} if with_global else {"Own strategy"})
