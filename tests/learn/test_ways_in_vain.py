"""A way past an error that is done in vain is told no more, and what ended the error instead takes its place."""

from dataclasses import replace
from pathlib import Path

from scripted_runs import Bank, Script, opened

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.outcome import Credit
from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.project.facts import Facts
from swarm_memory.server.project.folder import ProjectFolder
from swarm_memory.server.storage.hook_reader import open_for_hook
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.retrieve.at_failure import failure_context
from swarm_memory.tools.retrieve.retrieve import retrieve

CLOSED = "feedctl: error: the ledger feed is closed for writers"
WIPED = "feedctl: error: every row of it was lost"
OLD, NEW = "sh writers.sh add", "sh house.sh open"


def pushed(number: int, *deeds: str) -> Script:
    """A task in which `feedctl push` failed before each deed."""
    script = Script(f"push feed number {number} to the ledger", task_id=f"t{number}")
    for deed in deeds:
        script.shell("feedctl push", CLOSED, 4).shell(deed, "ok")
    return script


def told(bank: Bank, session: str, root: Path | None = None) -> str:
    event = {"tool_name": "Bash", "tool_input": {"command": "feedctl push"}, "session_id": session, "error": CLOSED}
    has = Facts(root).has if root else None
    scope = (bank.scope.tenant_id, bank.scope.project)
    with open_for_hook(bank.folder / "memory.db", scope, 0.3, has) as reader:
        return failure_context(reader, event)


async def test_a_way_that_was_in_vain_is_not_told_until_another_stands_before_it_and_then_replaces_it(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        (old,) = (await learn(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())).stored
        assert OLD in told(bank, "one")
        await learn(tools, pushed(2, OLD).shell("feedctl push", CLOSED, 4).done())
        assert told(bank, "two") == ""
        asked = "feedctl push must bring the feed to the ledger"
        assert old.id not in [each.item.id for each in (await retrieve(tools, asked, task_id="next")).memories]

        (new,) = (await learn(tools, pushed(3, NEW).shell("feedctl push", "pushed").done())).stored
        both = told(bank, "three")
        assert both.index(NEW) < both.index(f"`{OLD}` before `feedctl` (worked 1 of 2 times)")

        result = await learn(tools, pushed(4, OLD, NEW).shell("feedctl push", "pushed").done())
        assert result.superseded == (old.id,)
        assert OLD not in told(bank, "four")
        (item,) = await tools.store.get_memories((tools.scope,), [old.id])
        assert item.status_reason is not None
        assert item.status_reason.startswith(f"superseded by {new.id}")
        links = await tools.store.memory_links(tools.scope, [old.id])
        assert (new.id, old.id, "refines") in [(each.src_id, each.dst_id, each.relation) for each in links]


async def test_a_way_is_credited_with_what_it_did_against_its_error_however_the_task_ended(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, _):
        (way,) = (await learn(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())).stored

        async def credit(number: int, *deeds: str, label: Label) -> Credit:
            found = await retrieve(tools, f"push feed number {number} to the ledger", task_id=f"t{number}")
            assert way.id in [each.item.id for each in found.memories]
            run = pushed(number, *deeds).shell("feedctl push", "pushed").done()
            await learn(tools, run)
            said = Verdict(label=label, confidence=1.0, judge="user")
            (credited,) = (await record_outcome(tools, run.task_id, said, run, given=True)).credits
            return credited

        worked = await credit(2, OLD, label="Failure")
        assert (worked.worked, worked.change > 0) == (True, True)
        in_vain = await credit(3, OLD, NEW, label="Success")
        assert (in_vain.worked, in_vain.method, in_vain.change < 0) == (False, "overlap", True)


async def test_what_was_told_and_fails_itself_counts_against_it(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learn(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())
        gone = pushed(2).shell("feedctl push", CLOSED, 4).shell(OLD, "sh: 0: cannot open writers.sh", 2)
        await learn(tools, gone.shell("feedctl push", CLOSED, 4).done())
        assert told(bank, "two") == ""


async def test_a_call_that_fails_otherwise_and_never_goes_through_speaks_against_what_was_done_before_it(
    tmp_path: Path,
) -> None:
    """Also where it was done before the error came."""
    for number, begun in enumerate((pushed(2, OLD), Script("push feed number 2", task_id="t2").shell(OLD, "ok"))):
        async with opened(tmp_path / str(number), StaticEmbedder()) as (tools, bank):
            await learn(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())
            await learn(tools, begun.shell("feedctl push", WIPED, 5).done())
            assert told(bank, "two") == ""


async def test_an_error_that_comes_after_another_and_is_ended_too_speaks_for_what_ended_the_first(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learn(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())
        chain = pushed(2, OLD).shell("feedctl push", WIPED, 5).shell("sh rows.sh restore", "ok")
        await learn(tools, chain.shell("feedctl push", "pushed").done())
        assert f"`{OLD}` before `feedctl` (worked 2 of 2 times)" in told(bank, "two")


async def test_a_way_whose_script_is_gone_is_not_told_though_what_failed_is_there(tmp_path: Path) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    for name in ("writers.sh", "feed.sh", "log.sh"):
        (root / name).write_text("exit 0\n")
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        tools = replace(tools, project=ProjectFolder(root))
        script = Script("push the feed", task_id="t1").shell("sh feed.sh push", CLOSED, 4).shell("sh log.sh", "ok")
        script.shell("sh feed.sh push", CLOSED, 4).shell("sh log.sh", "ok").shell("sh feed.sh push", CLOSED, 4)
        (item,) = (await learn(tools, script.shell(OLD, "ok").shell("sh feed.sh push", "pushed").done())).stored
        assert "What did not help: `sh log.sh`" in item.content
        assert item.provenance.anchors == ("file:writers.sh",)
        event = {"tool_name": "Bash", "tool_input": {"command": "sh feed.sh push"}, "error": CLOSED}
        with open_for_hook(
            tmp_path / "memory.db", (bank.scope.tenant_id, bank.scope.project), 0.3, Facts(root).has
        ) as hook:
            assert OLD in failure_context(hook, event | {"session_id": "one"})
            (root / "writers.sh").unlink()
            assert failure_context(hook, event | {"session_id": "two"}) == ""


async def test_beside_an_agents_own_words_what_its_calls_show_is_kept_for_when_the_error_comes_again(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        note = MemoryDraft(title="Push a feed", content="1. The feed wants writers before it is pushed.")
        trajectory = pushed(1, OLD).shell("feedctl push", "pushed").done()
        result = await learn(tools, trajectory, agent_verdict=Verdict.by_agent("Success"), agent_drafts=[note])
        assert {item.provenance.distiller for item in result.stored} == {"agent", "extractive"}
        assert OLD in told(bank, "one")
