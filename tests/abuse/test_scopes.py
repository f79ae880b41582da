"""A tenant never sees another's data: not by any tool, resource, id or name, and not in scores or counts either."""

import json
import random
import re
import statistics
import time
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hooked import hooked
from laid_bank import laid
from made_items import made_item, put
from patience import FULL
from postgres_server import BOTH_ENGINES, database_url, engine

from swarm_memory.schema.base import Scope, new_id
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.server.wiring import opened_toolbox, place_of
from swarm_memory.tools.retrieve.embed import with_indexes
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox
from tests.abuse.banks import BENCHMARK, CALLS, Abused, abused, settings_of, some, teach
from tests.abuse.tool_arguments import TEXTS, sampled, string_fields, valid

__all__ = ["database_url", "engine"]

pytestmark = [pytest.mark.attack]

SEED = 20261121
SECRET = "quetzalcoatl"
"""A word that only the other tenant's rows contain."""
LABEL = "of-the-other"
"""A text that everybody may know: it is in the ids of the other tenant's task and session."""

_ID = re.compile(r"\b(?:rm|tr|rt|vd|job|run)_[0-9A-HJKMNP-TV-Z]{26}\b")


@pytest.fixture
def shop(tmp_path: Path) -> Path:
    """The folder of a project, in which two tenants share one bank."""
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


async def fill_other(folder: Path) -> list[str]:
    """Create rows of every kind for the other tenant; return all ids that appeared in its answers."""
    async with abused(folder, tenant="other") as server:
        await teach(server, SECRET, LABEL)
        seen: list[str] = [
            await server.call("retrieve_memories", {"query": f"tests of {SECRET} fail", "task_id": f"task-{LABEL}"}),
            await server.call("record_outcome", {"task_id": f"task-{LABEL}", "outcome": "Success"}),
            await server.call("consolidate_memories", {"full": True}),
            await server.call("job", {"action": "list"}),
        ]
        call = {"tool_name": f"tool-{SECRET}", "input": {"q": SECRET}, "output": SECRET, "success": True}
        await server.call("log_tool_call", {"calls": [call | {"session_id": f"s-{LABEL}", "call_id": "t1"}]})
        prompt = f"Mend the failing tests of {SECRET} now please"
        event = {"hook_event_name": "UserPromptSubmit", "session_id": f"s-{LABEL}", "prompt": prompt}
        async with open_bank(folder, "other") as other:
            await hooked(other, event)
        chance = random.Random(SEED)
        for tool in server.tools:
            for name in string_fields(tool.input_schema):
                arguments = valid(tool.input_schema, chance, **{name: SECRET})
                seen.append(await server.call(tool.name, arguments))
        listed = await server.call("manage_memories", {"action": "list"})
        assert SECRET in listed
        return sorted({found for text in (*seen, listed) for found in _ID.findall(text)})


@pytest.fixture
def shared_bank(database_url: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The bank that both tenants' servers use; no database role separates them here."""
    if database_url is not None:
        monkeypatch.setenv("SWARM_MEMORY_STORAGE__URL", database_url)


@BOTH_ENGINES
@pytest.mark.usefixtures("shared_bank")
async def test_no_tool_or_id_shows_or_changes_a_row_of_another_tenant(shop: Path) -> None:
    ids = await fill_other(shop)
    assert len(ids) >= 4
    before = await _memories_of_other(shop)
    assert SECRET in before
    chance = random.Random(SEED)
    named = (f"task-{LABEL}", f"s-{LABEL}:1", "other", "shop", "*", "%", "default' OR 'a'='a", "../other")
    wanted = [*ids, *named, *TEXTS]
    leaks: list[str] = []
    async with abused(shop) as server:
        await teach(server, "orders")
        places = [(tool, name) for tool in server.tools for name in string_fields(tool.input_schema)]
        calls = [(tool, valid(tool.input_schema, chance, **{name: each})) for tool, name in places for each in wanted]
        calls = [(tool, arguments) for tool, arguments in calls if tool.name != BENCHMARK or chance.random() < 0.02]
        calls = some(calls, chance)
        while len(calls) < CALLS:
            tool = chance.choice(server.tools)
            if tool.name != BENCHMARK:
                calls.append((tool, sampled(tool.input_schema, chance)))
        for name, arguments in [*((tool.name, arguments) for tool, arguments in calls), *_changes(ids)]:
            answer = await server.call(name, arguments)
            if SECRET in answer and SECRET not in json.dumps(arguments):
                leaks.append(f"{name} {json.dumps(arguments)[:300]} → {answer[:600]}")
        for each in ids:
            if SECRET in await server.call("manage_memories", {"action": "get", "ids": [each]}):
                leaks.append(each)
    assert leaks == []
    assert server.tally.internal == []
    assert await _memories_of_other(shop) == before


def _changes(ids: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield calls that would change the rows with these ids."""
    for each in ids:
        for action in ("edit", "forget", "restore", "quarantine", "archive"):
            change = {"title": "Owned by another"} if action == "edit" else {}
            yield "manage_memories", {"action": action, "ids": [each], **change}
        yield "consolidate_memories", {"undo": each}
        yield "job", {"action": "cancel", "job_id": each}
    yield "record_outcome", {"task_id": f"task-{LABEL}", "outcome": "Failure", "used": ids}


async def _memories_of_other(folder: Path) -> str:
    """Return what the other tenant sees of its own memories."""
    async with abused(folder, tenant="other") as server:
        return await server.call("manage_memories", {"action": "list"})


async def test_scores_and_counts_are_the_same_whether_or_not_others_share_the_file(tmp_path: Path) -> None:
    """The rarity of a word, and all counts, are computed from the tenant's own rows alone."""
    answers: list[tuple[str, str]] = []
    for name, shared in (("alone", False), ("shared", True)):
        folder = tmp_path / name / "shop"
        folder.mkdir(parents=True)
        if shared:
            async with abused(folder, tenant="other") as other:
                for number in range(12):
                    await teach(other, f"orders{number} orders migrate tests table")
        async with abused(folder) as server:
            for word in ("orders", "invoices", "carts"):
                await teach(server, word)
            found: Any = await server.client.call_tool(
                "retrieve_memories", {"query": "tests of orders: missing table", "k": 5}
            )
            counted = await _counts(server)
        assert found.structured_content["memories"]
        answers.append((_rounded(found.structured_content["memories"]), re.sub(r"\d{4}-\d\d-\d\dT[^\"]*", "", counted)))
    alone, beside_others = answers
    assert alone == beside_others


async def _counts(server: Abused) -> str:
    """Return the status once its counts include the retrieval, which is recorded after its answer."""
    while True:
        answered: Any = await server.client.call_tool("memory_status", {})
        if (counted := answered.structured_content)["retrievals"]:
            return json.dumps(counted | {"database": "the file lies elsewhere"})


def _rounded(memories: list[dict[str, Any]]) -> str:
    """Return the answers as text without ids; recency differs by the milliseconds between the two."""
    memories = [{key: value for key, value in memory.items() if not key.endswith("id")} for memory in memories]
    return re.sub(r"(\d\.\d{3})\d+", r"\1", json.dumps(memories, sort_keys=True))


@pytest.mark.skipif(not FULL, reason="make faults runs it: 20,000 memories are written first")
async def test_how_long_a_search_takes_does_not_say_what_words_another_tenant_has(shop: Path) -> None:
    """Both words are unknown to this tenant; every memory of the other tenant contains the first one."""
    async with open_bank(shop, "other") as other:
        for _ in range(100):
            items = [_made(other.scope, SECRET) for _ in range(200)]
            await other.store.add_memories([with_indexes(item, None) for item in items], other.embedder.name)
    async with open_bank(shop, "default") as own:
        await put(own, *(_made(own.scope, "orders") for _ in range(50)))
        times: dict[str, list[float]] = {SECRET: [], "mergansers": []}
        for turn in range(400):
            for word in sorted(times, reverse=turn % 2 == 0):
                began = time.perf_counter()
                await retrieve(own, f"the {word} fail")
                times[word].append((time.perf_counter() - began) * 1000)
    assert all(len(each) == 400 for each in times.values())
    known, unknown = (statistics.median(each) for each in times.values())
    assert known < 1.5 * unknown < 2.25 * known


def _made(scope: Scope, word: str) -> MemoryItem:
    return made_item(f"Mend the {word} {new_id('rm')[-6:]}", scope=scope, content="1. Look")


@asynccontextmanager
async def open_bank(folder: Path, tenant: str) -> AsyncGenerator[Toolbox]:
    """Open the bank of a project as a tenant, without a server."""
    settings = settings_of(tenant)
    place = place_of(folder, settings)
    if not place.is_remote:
        laid(place.database)
    async with opened_toolbox(place, settings) as toolbox:
        yield toolbox
