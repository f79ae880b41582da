"""A guardrail gives way when a way out of its error is found: of the same program and symptom, archived, undoable."""

from pathlib import Path

import pytest
from scripted_runs import Script, opened

from swarm_memory.schema.memory import LearnResult, MemoryItem
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.tools.consolidate.consolidate import consolidate, undo_consolidation
from swarm_memory.tools.consolidate.duplicates import is_superseded
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.toolbox import Toolbox

EMBEDDER = StaticEmbedder()
MISSING = 'error: namespaces "web" not found'
TASK = "put the shop on the cluster with `kubectl apply -f shop.yaml`"


def stuck(error: str = MISSING, command: str = "kubectl apply -f shop.yaml", task_id: str = "t1") -> Script:
    """A task that ends in an error, with what was tried in vain."""
    script = Script(TASK, task_id=task_id).shell(command, error, 1).shell("docker build -t shop .", "built")
    return script.shell(command, error, 1).shell(command, error, 1).say("I could not.")


def mended(error: str = MISSING, command: str = "kubectl apply -f shop.yaml", task_id: str = "t2") -> Script:
    script = Script(TASK, task_id=task_id).shell(command, error, 1).shell("kubectl create namespace web", "created")
    return script.shell(command, "deployment.apps/shop created").say("It is up.")


async def learned(tools: Toolbox, script: Script) -> LearnResult:
    return await learn(tools, script.done())


async def status_of(tools: Toolbox, item: MemoryItem) -> tuple[str, str | None]:
    (now,) = await tools.store.get_memories((tools.scope,), [item.id])
    return now.status, now.status_reason


async def test_a_later_way_out_archives_the_guardrail_and_says_why(tmp_path: Path) -> None:
    async with opened(tmp_path, EMBEDDER) as (tools, bank):
        (guardrail,) = (await learned(tools, stuck())).stored
        assert "no way past it" in guardrail.content
        result = await learned(tools, mended())
        assert result.superseded == (guardrail.id,)
        (repair,) = result.stored
        assert await status_of(tools, guardrail) == ("archived", f"superseded by {repair.id}: a way out was found")
        (link,) = await tools.store.memory_links(tools.scope, [guardrail.id])
        assert (link.src_id, link.dst_id, link.relation) == (repair.id, guardrail.id, "refines")
        assert [item.id for item in await bank.items()] == [repair.id]


async def test_taking_the_run_back_restores_the_guardrail(tmp_path: Path) -> None:
    async with opened(tmp_path, EMBEDDER) as (tools, _):
        (guardrail,) = (await learned(tools, stuck())).stored
        result = await learned(tools, mended())
        assert result.run_id is not None
        undone = await undo_consolidation(tools, result.run_id)
        assert (undone.restored, undone.links_removed, undone.skipped) == (1, 1, ())
        assert (await status_of(tools, guardrail))[0] == "active"


@pytest.mark.parametrize(
    "other",
    [
        mended(error='Error from server (Forbidden): deployments.apps "shop" is forbidden'),
        mended(command="helm upgrade shop ."),
    ],
    ids=["another symptom", "another program"],
)
async def test_a_way_out_of_something_else_leaves_it_alone(other: Script, tmp_path: Path) -> None:
    async with opened(tmp_path, EMBEDDER) as (tools, _):
        (guardrail,) = (await learned(tools, stuck())).stored
        assert (await learned(tools, other)).superseded == ()
        assert (await status_of(tools, guardrail))[0] == "active"


async def test_a_guardrail_that_is_learned_later_stays(tmp_path: Path) -> None:
    async with opened(tmp_path, EMBEDDER) as (tools, bank):
        await learned(tools, mended())
        (guardrail,) = (await learned(tools, stuck())).stored
        assert guardrail.id in {item.id for item in await bank.items()}


async def test_what_an_agent_or_another_bank_says_is_no_proof(tmp_path: Path) -> None:
    async with opened(tmp_path, EMBEDDER) as (tools, _):
        (guardrail,) = (await learned(tools, stuck())).stored
        (repair,) = (await learned(tools, mended())).stored
        assert is_superseded(guardrail, repair)
        for told in ({"distiller": "agent"}, {"distiller": "model"}, {"imported_from": "elsewhere"}):
            source = repair.provenance.model_copy(update=told)
            assert not is_superseded(guardrail, repair.model_copy(update={"provenance": source}))
            assert not is_superseded(guardrail.model_copy(update={"provenance": source}), repair)


async def test_consolidation_does_the_same_for_a_bank_that_holds_both(tmp_path: Path) -> None:
    async with opened(tmp_path, EMBEDDER) as (tools, _):
        (guardrail,) = (await learned(tools, stuck())).stored
        result = await learned(tools, mended())
        assert result.run_id is not None
        await undo_consolidation(tools, result.run_id)
        shown = await consolidate(tools, full=True, dry_run=True)
        assert (await status_of(tools, guardrail))[0] == "active"
        done = await consolidate(tools, full=True)
        assert done.superseded == shown.superseded
        assert [(each.id, each.by) for each in done.superseded] == [(guardrail.id, result.stored[0].id)]
        assert (await status_of(tools, guardrail))[0] == "archived"
        await undo_consolidation(tools, done.run_id)
        assert (await status_of(tools, guardrail))[0] == "active"
