"""What can be done with single memories on a real bank, and all of them as lines: what is exported can be imported."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from counting import DownEmbedder, SlowEmbedder
from laid_bank import opened_bank
from still_bank import Add

from swarm_memory.schema.base import MEMORY, new_id
from swarm_memory.schema.errors import InputError, ModelUnavailable, NotFoundError
from swarm_memory.schema.memory import Provenance
from swarm_memory.tools.memories.decide import MemoryChange, edit, set_memory_status
from swarm_memory.tools.memories.manage import forget_memories, get_memories, ids_of_run, list_memories, memory_history
from swarm_memory.tools.memories.transfer import export_memories, import_memories
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.retrieve.embed import BACKLOG, EMBED, embed_backlog
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

LOGIN = ("Handle login flows with CSRF tokens", "1. Parse the token.\n2. Attach it to the POST.")
ABSENT = "rm_01JXYZ00000000000000000000"


@pytest.mark.parametrize(
    ("which", "named"),
    [(MemoryFilter(limit=0), "limit"), (MemoryFilter(limit=501), "limit"), (MemoryFilter(offset=-1), "offset")],
)
async def test_a_page_out_of_range_is_refused(toolbox: Toolbox, which: MemoryFilter, named: str) -> None:
    with pytest.raises(InputError, match=named):
        await list_memories(toolbox, which)


async def test_a_memory_of_another_project_is_not_there(toolbox: Toolbox, add: Add) -> None:
    foreign = await add(*LOGIN, project="bank")
    for operation in (
        get_memories(toolbox, [foreign]),
        forget_memories(toolbox, [foreign]),
        set_memory_status(toolbox, [foreign], "archived"),
        edit(toolbox, foreign, MemoryChange(title="Mine now")),
        memory_history(toolbox, foreign),
    ):
        with pytest.raises(NotFoundError):
            await operation
    (item,) = await get_memories(toolbox.in_project("bank"), [foreign])
    assert (item.title, item.status) == (LOGIN[0], "active")


@pytest.mark.parametrize("ids", [[], ["7"], ["rm_short"], ["rm_' OR 1=1 --"], [f"rm_{at:026d}" for at in range(201)]])
async def test_ids_that_cannot_be_are_refused(toolbox: Toolbox, ids: list[str]) -> None:
    with pytest.raises(InputError):
        await get_memories(toolbox, ids)


async def test_an_edit_is_found_by_its_new_words_and_keeps_the_former_text(toolbox: Toolbox, add: Add) -> None:
    memory_id = await add(*LOGIN)
    change = MemoryChange(title="Rotate kubernetes certificates")
    (edited,) = (await edit(toolbox, memory_id, change, "was wrong")).items
    assert (edited.title, edited.content) == ("Rotate kubernetes certificates", LOGIN[1])
    assert [each.item for each in (await retrieve(toolbox, "kubernetes certificates")).memories] == [edited]
    (event, *_) = [each for each in await memory_history(toolbox, memory_id) if LOGIN[0] in str(each.data)]
    assert "was wrong" in str(event.data)


async def test_an_edit_changes_tags_and_domain_and_takes_them_away(toolbox: Toolbox, add: Add) -> None:
    memory_id = await add(*LOGIN, domain="web", tags=("a",))
    assert (await edit(toolbox, memory_id, MemoryChange(tags=["b", "b", " "], domain="auth"))).items[0].tags == ("b",)
    (bare,) = (await edit(toolbox, memory_id, MemoryChange(tags=[], domain=""))).items
    assert (bare.tags, bare.domain) == ((), None)
    assert await get_memories(toolbox, [memory_id]) == [bare]


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({}, "nothing to change"),
        ({"title": "x"}, "title"),
        ({"title": "  \n "}, "title"),
        ({"title": "x" * 201}, "title"),
        ({"content": "x" * 4001}, "content"),
        ({"description": "x" * 501}, "description"),
        ({"tags": [f"t{at}" for at in range(21)]}, "tags"),
    ],
)
async def test_an_edit_unfit_for_a_memory_changes_nothing(
    toolbox: Toolbox, add: Add, changes: dict[str, Any], named: str
) -> None:
    memory_id = await add(*LOGIN)
    with pytest.raises(InputError, match=named):
        await edit(toolbox, memory_id, MemoryChange(**changes))
    assert (await get_memories(toolbox, [memory_id]))[0].title == LOGIN[0]


async def test_an_edit_while_the_embedder_is_down_changes_nothing(toolbox: Toolbox, add: Add) -> None:
    memory_id = await add(*LOGIN)
    with pytest.raises(ModelUnavailable):
        await edit(replace(toolbox, embedder=DownEmbedder()), memory_id, MemoryChange(title="Another title"))
    assert (await get_memories(toolbox, [memory_id]))[0].title == LOGIN[0]


async def test_one_absent_id_leaves_all_others_untouched(toolbox: Toolbox, add: Add) -> None:
    memory_id = await add(*LOGIN)
    for operation in (
        get_memories(toolbox, [memory_id, ABSENT]),
        forget_memories(toolbox, [memory_id, ABSENT]),
        set_memory_status(toolbox, [memory_id, ABSENT], "archived"),
    ):
        with pytest.raises(NotFoundError, match=f"{ABSENT} in project 'shop' or the global scope"):
            await operation
    assert (await get_memories(toolbox, [memory_id]))[0].status == "active"


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
        memory_line(usage_count=10**30),
        memory_line(created_at="0001-01-01T00:00:00+14:00"),
    ]
    result = await import_memories(toolbox, lines)
    assert result.added >= 2
    assert result.added + result.faulty == len(lines) - 1
    numbers = [int(fault.split(":")[0].removeprefix("line ")) for fault in result.faults]
    assert set(numbers) >= {2, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14, 16, 17}
    assert result.faults[-1] == "line 17: created_at: Input should be greater than or equal to 0001-01-01T00:00:00Z"
    assert any("title" in fault for fault in result.faults)
    assert all(len(fault) < 300 for fault in result.faults)
    assert "The last one is good" in {item.title for item in await list_memories(toolbox, MemoryFilter())}


async def test_a_text_that_is_known_is_not_added_again(toolbox: Toolbox, add: Add) -> None:
    await add(*LOGIN)
    again = memory_line(title=LOGIN[0].upper(), content=f"  {LOGIN[1]} ")
    result = await import_memories(toolbox, [again, memory_line(title="New here"), memory_line(title="new  here")])
    assert (result.added, result.known) == (1, 2)


async def test_without_embedder_an_import_is_kept_for_keywords_and_says_so(toolbox: Toolbox) -> None:
    result = await import_memories(replace(toolbox, embedder=DownEmbedder()), [memory_line()])
    assert result.added == 1
    (notice,) = result.notices
    assert notice.startswith("stored without vectors, found by keywords until the embedder answers again: 401")
    assert len((await retrieve(toolbox, LOGIN[0])).memories) == 1


async def test_a_large_import_is_written_first_and_embedded_by_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("swarm_memory.tools.memories.transfer._WRITTEN_AT_ONCE", 2)
    monkeypatch.setattr("swarm_memory.tools.memories.transfer._EMBEDDED_AT_ONCE", 4)
    slow = SlowEmbedder()
    async with opened_bank(tmp_path / "b" / "memory.db", embedder=slow) as toolbox:
        result = await import_memories(toolbox, [memory_line(title=f"Case {number}") for number in range(11)])
        assert (result.added, result.later, sum(slow.batches)) == (11, 7, 4)
        assert "7 memories: vectors from slow-256 follow in the background" in result.notices[-1]
        assert (await toolbox.store.pending_upkeep(toolbox.scope, slow.name, 0)).not_embedded == 7
        assert await toolbox.store.find_job(toolbox.scope, EMBED, BACKLOG) is not None
        assert sum([len(vectors) async for vectors in embed_backlog(toolbox)]) == 7
        assert [vectors async for vectors in embed_backlog(toolbox)] == []
        assert sum(slow.batches) == 11


async def test_what_waits_for_another_session_is_exported_and_forgotten_by_run(toolbox: Toolbox, add: Add) -> None:
    memory_id = await add(*LOGIN, status="candidate", provenance=Provenance(run_id="run_1"))
    (line,) = [line async for line in export_memories(toolbox)]
    assert await ids_of_run(toolbox, "run_1") == [memory_id]
    brought = await import_memories(toolbox.in_project("bank"), [line.replace(memory_id, ABSENT)], quarantine=True)
    (item,) = await get_memories(toolbox.in_project("bank"), [ABSENT])
    assert (brought.added, item.status) == (1, "quarantined")


@pytest.mark.parametrize("with_global", [True, False])
async def test_the_global_scope_can_be_left_out(toolbox: Toolbox, add: Add, with_global: bool) -> None:
    await add("Own strategy")
    await add("Shared strategy", project="*")
    await add("Foreign strategy", project="bank")
    found = {json.loads(line)["title"] async for line in export_memories(toolbox, with_global=with_global)}
    assert found == ({"Own strategy", "Shared strategy"} if with_global else {"Own strategy"})
