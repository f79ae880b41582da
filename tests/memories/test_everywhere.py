"""What held in several projects is told in all of them, with what it did in each, and is taken back exactly."""

from collections.abc import Awaitable, Callable

import pytest

from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.trajectory import Verdict
from swarm_memory.tools.credit.outcome import record_outcome
from swarm_memory.tools.memories.edit import get_memories
from swarm_memory.tools.memories.everywhere import held_in_several, lift, take_back
from swarm_memory.tools.ports.memories import RetrievalRecord
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

Add = Callable[..., Awaitable[str]]

TOKEN = ("Send the CSRF token when you log in", "1. Read the token\n2. Send it with the form")
COPY = ("Send the CSRF token when you log in", "1. Read the token first\n2. Send it with the form")
STRINGS = ("Quote strings of YAML", "1. Quote each string")


async def ended(toolbox: Toolbox, memory_id: str, label: str, task_id: str) -> None:
    record = RetrievalRecord(f"rt_{task_id}", toolbox.scope, "q", {memory_id: 0.7}, 1.0, toolbox.clock.now(), task_id)
    await toolbox.store.record_retrieval(record)
    verdict = Verdict.model_validate({"label": label, "confidence": 0.9, "judge": "user", "reasons": ("so",)})
    await record_outcome(toolbox, task_id, verdict)


async def test_what_held_in_two_projects_is_lifted_with_the_evidence_of_each_and_taken_back(
    toolbox: Toolbox, add: Add
) -> None:
    bank = toolbox.in_project("bank")
    own, copy = await add(*TOKEN), await add(*COPY, project="bank")
    await add(*STRINGS)
    failing, failed = (
        await add("Restart the cache", "1. Restart it"),
        await add("Restart the cache", "1. Restart it", "bank"),
    )
    await ended(bank, copy, "Success", "t1")
    await ended(bank, failed, "Failure", "t2")
    (candidate,) = await held_in_several(toolbox)
    assert [each.says for each in candidate.held] == ["shop: told 0 times", "bank: told 1 time, 1 of 1 task succeeded"]
    assert [len(each.held) for each in await held_in_several(toolbox, [failing])] == [2], "what is named is shown"

    before = await get_memories(toolbox, [own]), await get_memories(bank, [copy])
    await lift(toolbox, candidate)
    for project in ("shop", "bank", "elsewhere"):
        (told,) = (await retrieve(toolbox.in_project(project), TOKEN[0], k=1)).memories
        assert told.item.id == own
    assert (await get_memories(bank, [copy]))[0].status == "archived"
    (_, event) = (await toolbox.store.memory_history(toolbox.scope.readable(), own))[:2]
    assert event.data["projects"] == {"shop": "shop: told 0 times", "bank": "bank: told 1 time, 1 of 1 task succeeded"}

    assert await take_back(toolbox, own) == [copy]
    after = await get_memories(toolbox, [own]), await get_memories(bank, [copy])
    for (one,), (other,) in zip(before, after, strict=True):
        now = {"usage_count": one.usage_count, "last_used": one.last_used}
        assert other.model_copy(update=now) == one
    with pytest.raises(NotFoundError):
        await take_back(toolbox, own)
    assert await held_in_several(toolbox.in_project("elsewhere")) == []
