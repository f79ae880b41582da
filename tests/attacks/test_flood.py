"""A flood of memories: what agents and hooks add per day stops at the quota, and retrieval stays good."""

import asyncio
import random
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from made_items import put
from patience import FULL
from scripted_runs import Script

from swarm_memory.schema.base import MEMORY, new_id
from swarm_memory.schema.errors import InputError, QuotaReached
from swarm_memory.schema.memory import LearnResult, MemoryDraft
from swarm_memory.schema.settings import LearnSettings, Settings
from swarm_memory.schema.team.sharing import Evidence, Proposed
from swarm_memory.server.config import resolve_settings
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.storage.sqlite import open_store
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.transfer import import_memories
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.team import bank
from swarm_memory.tools.toolbox import Toolbox
from tests.attacks.attacked_bank import EMBEDDER, HERE, NOW, item, items_of

STORES = 100_000 if FULL else 120
QUOTA = LearnSettings().max_new_per_day if FULL else 40

_TEXT = (
    "retry migrate database schema token cache lock queue timeout parse branch deploy vector socket thread build lint "
    "format review merge rebase config secret header cookie session worker anchor barrel candle desert engine falcon "
    "garden hammer island jungle kettle ladder marble needle orchard pencil quarry ribbon saddle temple umbrella valley"
)
_WORDS = _TEXT.split()
"""Words to sample: memories that say the same would be stored once and would not be a flood."""

pytestmark = pytest.mark.attack


def limited(tools: Toolbox, quota: int) -> Toolbox:
    """Return the toolbox as a server uses it, with a quota set by the user."""
    settings = Settings(learn=LearnSettings(max_new_per_day=quota))
    return replace(tools, settings=settings).for_agents()


async def flood(tools: Toolbox, number: int) -> LearnResult | None:
    """Store one more memory; return None if that was refused."""
    run = Script(f"prepare batch {number:06d}", f"s:{number}", "s").shell(f"make batch-{number}", "ok")
    words = random.Random(number).sample(_WORDS, 9)
    draft = MemoryDraft(
        title=f"{words[0]} the {words[1]} of {words[2]} {number}".capitalize(),
        content=f"1. {words[3]} the {words[4]} by {words[5]}\n2. {words[6]} {words[7]} with {words[8]} {number}",
    )
    try:
        return await learn(tools, run.done(), agent_drafts=[draft])
    except QuotaReached:
        return None


async def test_a_flood_of_one_session_ends_at_the_quota(tools: Toolbox, tmp_path: Path) -> None:
    await put(tools, *[item(f"Check the quota of region {each} first", f"1. Ask for {each}") for each in range(50)])
    other = await open_store(tmp_path / "memory.db", embedder=EMBEDDER)
    try:
        both = [limited(tools, QUOTA), limited(replace(tools, store=other), QUOTA)]
        stored = refused = 0
        for number in range(0, STORES, 2):
            for done in await asyncio.gather(*(flood(each, number + at) for at, each in enumerate(both))):
                stored += 0 if done is None else max(1, len(done.stored))
                refused += done is None
        found = await retrieve(tools, "check the quota of region 7")
    finally:
        await other.close()
    in_bank = (await tools.store.statistics(HERE, EMBEDDER.name)).memories["active"] - 50
    assert 0.8 * QUOTA <= in_bank <= stored == QUOTA
    assert refused == STORES - QUOTA
    assert found.memories[0].item.title == "Check the quota of region 7 first"


async def test_nobody_fills_the_review_of_a_team(tools: Toolbox, monkeypatch: pytest.MonkeyPatch) -> None:
    assert bank.MAX_WAITING == 200
    monkeypatch.setattr(bank, "MAX_WAITING", 2)
    titles = ("Retry the upload of a parcel", "Migrate the schema first", "Quote the shell's words")
    given = [
        Proposed(
            draft=MemoryDraft(title=title, content=f"1. {title}"), confidence=0.6, distiller="agent",
            evidence=Evidence(), origin_id=new_id(MEMORY), project="github.com/acme/shop",
        ) for title in titles
    ]  # fmt: skip
    with pytest.raises(InputError, match="wait"):
        await bank.TeamBank(tools).propose("bank", given)
    assert len(await bank.TeamBank(tools).proposals("waiting")) == 2


async def test_the_error_says_what_to_change_and_the_task_can_be_learned_later(tools: Toolbox) -> None:
    agents = limited(tools, 1)
    assert await flood(agents, 1) is not None
    run = Script("prepare another", "t").shell("make it", "ok").done()
    with pytest.raises(QuotaReached, match=r"learn\.max_new_per_day.*swarm-memory learn"):
        await learn(agents, run)
    tomorrow = NOW + timedelta(days=1)
    assert await tools.store.added_on(HERE, tomorrow) == 0
    assert (await learn(tools, run)).status != "already_learned"


async def test_what_the_user_imports_is_not_limited_and_what_an_agent_imports_is(tools: Toolbox) -> None:
    lines = [item(f"Check the quota of region {each} first").model_dump_json() for each in range(30)]
    with pytest.raises(QuotaReached):
        await import_memories(limited(tools, 20), lines)
    assert await items_of(tools) == []
    assert (await import_memories(tools, lines)).added == 30
    assert await tools.store.added_on(HERE, NOW) == 0


async def test_the_server_and_its_worker_are_limited_and_a_cloned_project_cannot_lift_that(
    tools: Toolbox, tmp_path: Path
) -> None:

    async def given() -> Toolbox:
        return tools

    assert tools.new_per_day is None
    assert (await ServedBank(given).toolbox()).new_per_day == LearnSettings().max_new_per_day
    (tmp_path / ".swarm").mkdir()
    (tmp_path / ".swarm" / "config.yaml").write_text("learn:\n  max_new_per_day: 1000000\n")
    resolved = resolve_settings(tmp_path, environ={})
    assert "max_new_per_day" in resolved.notices[0]
    assert resolved.settings.learn == LearnSettings()
