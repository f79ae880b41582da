"""What failed tasks teach, over MCP: the agent's notes become a guardrail, calls alone only a candidate."""

from collections.abc import Callable
from typing import Any

import pytest
from served import ran
from still_bank import Add

from swarm_memory.tools.memories.decide import keep, to_review
from swarm_memory.tools.toolbox import Toolbox

REFUSED = "Exit code 3\npublish: error: the lease is out of order"
QUERY = "publish the monthly report with publish.sh, the lease is out of order"


def failed(task_id: str, *commands: tuple[str, str]) -> dict[str, Any]:
    """Return a task whose agent says that it failed."""
    calls = [step for at, (command, output) in enumerate(commands) for step in ran(f"c{at}", command, output)]
    said = {"role": "assistant", "content": "I could not publish it."}
    return {"task_id": task_id, "task": "Publish the stock report.", "steps": [*calls, said], "verdict": "Failure"}


def met_thrice(task_id: str) -> dict[str, Any]:
    publish, index, cache = ("publish.sh stock", REFUSED), ("sh index.sh rebuild", "rebuilt"), ("sh cache.sh clear", "")
    return failed(task_id, publish, index, publish, cache, publish)


async def test_by_calls_alone_what_a_failed_task_did_in_vain_is_a_candidate_until_a_person_keeps_it(
    connected: Callable[[], Any], toolbox: Toolbox
) -> None:
    async with connected() as caller:
        (once,) = (await caller.call("learn_from_trajectory", **failed("t1", ("publish.sh a", REFUSED))))["tasks"]
        assert once["status"] == "nothing_new", "one failed call shows nothing that did not help"
        (learned,) = (await caller.call("learn_from_trajectory", **met_thrice("t2")))["tasks"]
        assert learned["status"] == "learned"
        assert learned["notice"].startswith(f"{learned['stored'][0]}: shown to no agent until another session")
        listed = await caller.call("manage_memories", action="list", status="candidate")
        assert [each["id"] for each in listed["memories"]] == learned["stored"]
        assert "1 candidate, not retrieved until" in str((await caller.call("memory_status"))["notices"])
        assert (await caller.call("retrieve_memories", query=QUERY))["memories"] == []
        (again,) = (await caller.call("learn_from_trajectory", **met_thrice("t3")))["tasks"]
        assert again["status"] == "nothing_new", "one candidate of one error"
    counts, kind, (card,) = await to_review(toolbox)
    assert (counts["quarantined"], card.item.status, card.item.outcome) == (1, "candidate", "Failure")
    assert "nobody has confirmed it" in card.reason
    await keep(toolbox, card.item.id, kind)
    async with connected() as caller:
        found = await caller.call("retrieve_memories", query=QUERY)
    assert 'Guardrail: What did not help against "publish: error: the lease is out of order"' in found["preamble"]
    assert "What did not help: `sh index.sh rebuild`, `sh cache.sh clear`" in found["preamble"]


async def test_an_agents_note_on_a_failed_task_is_shown_as_a_guardrail(connected: Callable[[], Any]) -> None:
    note = {
        "title": "The index is not what the lease waits for",
        "when": "When `publish.sh` says that the lease is out of order",
        "note": "`sh index.sh rebuild` did not help.",
    }
    async with connected() as caller:
        await caller.call("remember", notes=[note], outcome="Failure")
        found = await caller.call("retrieve_memories", query=QUERY)
        item = {"title": "Do not clear the cache for the lease", "content": "`sh cache.sh clear` did not help there."}
        taught = await caller.call("distill_memories", items=[item], **met_thrice("t1"))
    assert f"Guardrail: {note['title']}" in found["preamble"]
    assert [each["title"] for each in taught["items"]] == [item["title"]], "with the agent's words, no rule's beside"


async def test_the_same_words_from_a_success_and_a_failure_are_one_memory_that_says_both(
    connected: Callable[[], Any], toolbox: Toolbox
) -> None:
    item = {
        "title": "Renew the lease before publishing",
        "content": "1. Run `sh lease.sh renew`.\n2. Then `publish.sh`.",
    }
    async with connected() as caller:
        ids: list[str] = []
        for task_id, verdict in (("t1", "Success"), ("t2", "Failure")):
            task = {**failed(task_id, ("publish.sh a", REFUSED)), "verdict": verdict}
            ids += (await caller.call("distill_memories", items=[item], **task))["stored"]
        found = await caller.call("retrieve_memories", query=QUERY)
    assert [each["id"] for each in found["memories"]] == ids[:1]
    assert "(It was noted after a failed task and after a successful one)" in found["preamble"]
    (link,) = await toolbox.store.memory_links((toolbox.scope,), ids[:1])
    assert (link.src_id, link.dst_id, link.relation) == (ids[1], ids[0], "duplicate_of")


async def test_what_contradicts_a_memory_that_was_used_ten_times_starts_with_half_its_confidence(
    connected: Callable[[], Any], add: Add
) -> None:
    old = "Always run the migrations before the tests"
    await add(old, "1. Run the migrations before the tests of the shop.", usage_count=10)
    item = {
        "title": "Never run the migrations before the tests",
        "content": "1. Do not run the migrations before the tests of the shop.",
    }
    async with connected() as caller:
        task = {**failed("t1", ("publish.sh a", "published")), "verdict": "Success"}
        (stored,) = (await caller.call("distill_memories", items=[item], **task))["stored"]
        (kept,) = (await caller.call("manage_memories", action="get", ids=[stored]))["memories"]
    assert (kept["status"], kept["confidence"]) == ("active", pytest.approx(0.28, abs=0.001))
