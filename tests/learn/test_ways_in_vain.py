"""A way past an error that was tried in vain is no longer shown, and what ended the error instead replaces it."""

from dataclasses import replace
from pathlib import Path

import pytest
from hooked import after_failure
from scripted_runs import Script, learn_fix

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.outcome import Credit
from swarm_memory.schema.trajectory import Label, Verdict
from swarm_memory.server.project.folder import ProjectFolder
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.retrieve.retrieve import Unasked, retrieve
from swarm_memory.tools.toolbox import Toolbox

CLOSED = "feedctl: error: the ledger feed is closed for writers"
WIPED = "feedctl: error: every row of it was lost"
OLD, NEW = "sh writers.sh add", "sh house.sh open"


def pushed(number: int, *actions: str) -> Script:
    """Return a task in which `feedctl push` failed before each action."""
    script = Script(f"push feed number {number} to the ledger", task_id=f"t{number}")
    for action in actions:
        script.shell("feedctl push", CLOSED, 4).shell(action, "ok")
    return script


async def shown(tools: Toolbox, session: str) -> str:
    return await after_failure(tools, session, "feedctl push", CLOSED)


async def test_a_way_that_was_in_vain_is_not_shown_until_another_stands_before_it_and_then_replaces_it(
    tools: Toolbox,
) -> None:
    (old,) = await learn_fix(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())
    assert OLD in await shown(tools, "one")
    for number in (2, 22):
        await learn(tools, pushed(number, OLD).shell("feedctl push", CLOSED, 4).done())
    assert await shown(tools, "two") == ""
    asked = "feedctl push must bring the feed to the ledger"
    assert old.id not in [each.item.id for each in (await retrieve(tools, asked, unasked=Unasked())).memories]

    (new,) = await learn_fix(tools, pushed(3, NEW).shell("feedctl push", "pushed").done())
    both = await shown(tools, "three")
    assert both.index(NEW) < both.index(f"`{OLD}` before feedctl (worked 2 of 4 times)")

    result = await learn(tools, pushed(4, OLD, NEW).shell("feedctl push", "pushed").done())
    assert result.superseded == (old.id,)
    assert OLD not in await shown(tools, "four")
    (item,) = await tools.store.get_memories((tools.scope,), [old.id])
    assert item.status_reason is not None
    assert item.status_reason.startswith(f"superseded by {new.id}")
    links = await tools.store.memory_links((tools.scope,), [old.id])
    assert (new.id, old.id, "refines") in [(each.src_id, each.dst_id, each.relation) for each in links]


async def test_a_way_is_credited_with_what_it_did_against_its_error_however_the_task_ended(tools: Toolbox) -> None:
    (way,) = await learn_fix(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())

    async def credit(number: int, *actions: str, label: Label) -> Credit:
        found = await retrieve(tools, f"push feed number {number} to the ledger", task_id=f"t{number}")
        assert way.id in [each.item.id for each in found.memories]
        run = pushed(number, *actions).shell("feedctl push", "pushed").done()
        await learn(tools, run)
        said = Verdict(label=label, confidence=1.0, judge="user")
        (credited,) = (await record_outcome(tools, run.task_id, said, run, given=True)).credits
        return credited

    worked = await credit(2, OLD, label="Failure")
    assert (worked.worked, worked.change > 0) == (True, True)
    in_vain = await credit(3, OLD, NEW, label="Success")
    assert (in_vain.worked, in_vain.method, in_vain.change < 0) == (False, "overlap", True)


@pytest.mark.parametrize(
    "calls",
    [
        [("feedctl push", CLOSED, 4), (OLD, "sh: 0: cannot open writers.sh", 2), ("feedctl push", CLOSED, 4)],
        [("feedctl push", CLOSED, 4), (OLD, "ok", 0), ("feedctl push", WIPED, 5)],
    ],
    ids=["it fails itself", "the call fails otherwise after it and never goes through"],
)
async def test_what_was_shown_and_did_not_help_counts_against_it(
    tools: Toolbox, calls: list[tuple[str, str, int]]
) -> None:
    await learn_fix(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())
    for number in (2, 22):
        script = pushed(number)
        for command, output, code in calls:
            script.shell(command, output, code)
        await learn(tools, script.done())
    assert await shown(tools, "two") == ""


async def test_an_error_that_comes_after_another_and_ends_too_speaks_for_what_ended_the_first(tools: Toolbox) -> None:
    await learn_fix(tools, pushed(1, OLD).shell("feedctl push", "pushed").done())
    chain = pushed(2, OLD).shell("feedctl push", WIPED, 5).shell("sh rows.sh restore", "ok")
    await learn(tools, chain.shell("feedctl push", "pushed").done())
    assert f"`{OLD}` before feedctl (worked 3 of 3 times)" in await shown(tools, "two")


async def test_a_way_whose_script_is_gone_is_not_shown_though_what_failed_is_there(
    tools: Toolbox, tmp_path: Path
) -> None:
    root = tmp_path / "shop"
    root.mkdir()
    for name in ("writers.sh", "feed.sh", "log.sh"):
        (root / name).write_text("exit 0\n")
    tools = replace(tools, project=ProjectFolder(root))
    script = Script("push the feed", task_id="t1").shell("sh feed.sh push", CLOSED, 4).shell("sh log.sh", "ok")
    script.shell("sh feed.sh push", CLOSED, 4).shell("sh log.sh", "ok").shell("sh feed.sh push", CLOSED, 4)
    (item,) = await learn_fix(tools, script.shell(OLD, "ok").shell("sh feed.sh push", "pushed").done())
    assert "What did not help: `sh log.sh`" in item.content
    assert item.provenance.anchors == ("file:writers.sh",)
    assert OLD in await after_failure(tools, "one", "sh feed.sh push", CLOSED)
    (root / "writers.sh").unlink()
    assert await after_failure(tools, "two", "sh feed.sh push", CLOSED) == ""


async def test_beside_an_agents_own_words_what_its_calls_show_is_kept_for_when_the_error_comes_again(
    tools: Toolbox,
) -> None:
    note = MemoryDraft(title="Push a feed", content="1. The feed wants writers before it is pushed.")
    trajectory = pushed(1, OLD).shell("feedctl push", "pushed").done()
    result = await learn(tools, trajectory, agent_verdict=Verdict.by_agent("Success"), agent_drafts=[note])
    assert {item.provenance.distiller for item in result.stored} == {"agent", "extractive"}
    assert await shown(tools, "one") == ""
    await learn(tools, pushed(2, OLD).shell("feedctl push", "pushed").done())
    assert OLD in await shown(tools, "one")
