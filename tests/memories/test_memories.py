"""What can be done to single memories, on a real bank."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from still_bank import Add

from swarm_memory.schema.errors import InputError, ModelUnavailable, NotFoundError
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.memories.decide import MemoryChange, edit, set_memory_status
from swarm_memory.tools.memories.edit import forget_memories, get_memories, list_memories, memory_history
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.ports.models import Vector
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

LOGIN = ("Handle login flows with CSRF tokens", "1. Parse the token.\n2. Attach it to the POST.")
ABSENT = "rm_01JXYZ00000000000000000000"


async def titles(toolbox: Toolbox, **which: Any) -> list[str]:
    return [item.title for item in await list_memories(toolbox, MemoryFilter(**which))]


async def test_a_list_is_of_the_project_and_the_global_scope(toolbox: Toolbox, add: Add) -> None:
    for title, project in (("Own strategy", "shop"), ("Shared strategy", "*"), ("Foreign strategy", "bank")):
        await add(title, project=project)
    assert sorted(await titles(toolbox)) == ["Own strategy", "Shared strategy"]


async def test_a_list_is_narrowed_and_paged(toolbox: Toolbox, add: Add) -> None:
    for at in range(5):
        await add(f"Strategy {at}", domain="web" if at % 2 else None, tags=("odd",) if at % 2 else ())
    assert sorted(await titles(toolbox, domain="web")) == ["Strategy 1", "Strategy 3"]
    assert sorted(await titles(toolbox, tags=("odd",))) == ["Strategy 1", "Strategy 3"]
    assert await titles(toolbox, text="strategy 4") == ["Strategy 4"]
    assert await titles(toolbox, text="100%_") == []
    pages = [await titles(toolbox, limit=2, offset=offset) for offset in (0, 2, 4)]
    assert sorted(title for page in pages for title in page) == [f"Strategy {at}" for at in range(5)]


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
    (edited,) = (
        await edit(toolbox, memory_id, MemoryChange(title="Rotate kubernetes certificates"), "was wrong")
    ).items
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


async def test_a_secret_in_an_edit_is_not_stored(toolbox: Toolbox, add: Add) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 3 + "a1B2c3"
    memory_id = await add(*LOGIN)
    (edited,) = (await edit(toolbox, memory_id, MemoryChange(content=f"1. Use {secret}."), f"because {secret}")).items
    assert secret not in edited.content
    assert secret not in str(await memory_history(toolbox, memory_id))


async def test_an_edit_while_the_embedder_is_down_changes_nothing(toolbox: Toolbox, add: Add) -> None:
    class Down(StaticEmbedder):
        async def embed_documents(self, texts: Sequence[str]) -> list[Vector]:
            raise ModelUnavailable("down")

    memory_id = await add(*LOGIN)
    with pytest.raises(ModelUnavailable):
        await edit(replace(toolbox, embedder=Down()), memory_id, MemoryChange(title="Another title"))
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
