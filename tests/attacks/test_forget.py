"""Forgetting a memory or a person: no byte of it, of its task, of quotes from it or of a name is left anywhere."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from made_items import put
from pydantic import JsonValue
from scripted_runs import Script

from swarm_memory.schema.base import JOB, Scope, new_id
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.job import Job, JobEnd
from swarm_memory.schema.memory import MemoryDraft, MemoryItem
from swarm_memory.schema.rollout import MattsRun, RunSummary
from swarm_memory.schema.tool_memory import ReportedCall
from swarm_memory.server.location import log_line
from swarm_memory.server.mcp.tool import McpInvocation
from swarm_memory.server.operations.memories import manage_memories
from swarm_memory.server.served_bank import ServedBank
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.server.storage.stores.forgetting import Phrases
from swarm_memory.server.storage.stores.team.people import ADDED, FORGOTTEN_PERSON, REVOKED
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.decide import MemoryChange, edit
from swarm_memory.tools.memories.manage import forget_memories, what_stayed
from swarm_memory.tools.ports.records import BankEvent, HostSession, MattsRunEnd
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.team.people import add_person, forget_person
from swarm_memory.tools.tool_memory.evaluate import evaluate_tool_calls
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.tool_memory.summarize import summarize_tool_memory
from swarm_memory.tools.toolbox import Toolbox
from tests.attacks.attacked_bank import HERE, NOW, files_with, item, items_of, opened

pytestmark = pytest.mark.attack

TASK, OUTPUT, ADVICE, FORMER = "zq1xylophone1qz", "zqmarimbaqz", "zqcelestaqz", "zqspinetqz"
MARKS = (TASK, OUTPUT, ADVICE, FORMER, "xylophon")
"""The last one is the stem of a word in the task, as the keyword index stores it."""

TITLE = f"Tune the {ADVICE} first"
DRAFT = MemoryDraft(title=TITLE, content=f"1. Tune the {ADVICE} of the {TASK}\n2. Play")


def played(task_id: str = "t1") -> Script:
    run = Script(f"tune the {TASK}", task_id).shell(f"play {OUTPUT}", f"Error: no {OUTPUT}", 1)
    return run.shell("play again", "3 passed").say(f"the {TASK} sounds")


async def leave_traces(tools: Toolbox, folder: Path, stored: MemoryItem) -> None:
    """Put the memory, its task and quotes of it into every table and file that can hold them."""
    store = tools.store
    await edit(tools, stored.id, MemoryChange(description=f"Once the {FORMER} was tuned here"))
    await edit(tools, stored.id, MemoryChange(description="When it sounds out of tune"))
    await retrieve(tools, f"tune the {TASK}", task_id="t1")
    await retrieve(tools, f"how to do this: {TITLE}")
    await retrieve(tools, f"tune the {TASK}")
    quoting = Script("play a song of another kind", "t2").say(f'The notes say: "{TITLE}", so I do.')
    await learn(tools, quoting.shell("sing", "3 passed").done())
    calls = [
        ReportedCall(tool_name="Bash", input={"command": f"play {OUTPUT}"}, output=f"no {OUTPUT}", success=False),
        ReportedCall(tool_name="Edit", input={"text": f"# {TITLE}\n"}, output="ok", success=True),
    ]
    for number, call in enumerate(calls):
        about = {"task_id": f"t{number + 1}", "session_id": "s", "call_id": f"c{number}", "task": f"tune the {TASK}"}
        own = about if number == 0 else about | {"task": "another"}
        await log_tool_calls(tools, [call.model_copy(update=own)])
    await evaluate_tool_calls(tools)
    await summarize_tool_memory(tools)
    session = HostSession(session_id="s", scope=HERE, task_id="t1", task=f"tune the {TASK}", updated_at=NOW)
    await store.put_session(session)
    other = session.model_copy(update={"session_id": "other", "task_id": "o", "task": f"What is meant by {TITLE}?"})
    await store.put_session(other)
    payload: dict[str, JsonValue] = {"run_id": "run_1", "task_id": "t1", "task": f"tune the {TASK}"}
    job = Job(id=new_id(JOB), scope=HERE, kind="tune", key="k", payload=payload, run_after=NOW, created_at=NOW)
    await store.enqueue(job)
    await store.claim("w", datetime.now(UTC), 60, ["tune"], HERE)
    await store.finish(job.id, "w", JobEnd("completed", {"stored": [{"title": TITLE}]}))
    summary = RunSummary(runner="none", preamble=f"- {TITLE}", notes=(f"the {OUTPUT} failed",))
    run = MattsRun(
        run_id="run_1", scope=HERE, task_id="t1", task=f"tune the {TASK}", mode="parallel", k=1, summary=summary,
        created_at=NOW,
    )  # fmt: skip
    begun = await store.begin_run(run)
    await store.end_run(MattsRunEnd(begun.model_copy(update={"status": "completed"}), tools.embedder.name))
    await store.add_event(HERE, BankEvent("noted", NOW, "elsewhere", {"said": f"again: {TITLE}"}))
    log_line(folder, "server", f"a model refused: {TITLE}")
    assert isinstance(store, SqliteStore)
    await store.back_up()


async def forgotten_by_an_agent(tools: Toolbox, memory_id: str) -> dict[str, Any]:
    """Forget a memory as the server's tool does."""

    async def opened_before() -> Toolbox:
        return tools

    over_stdio = cast(Any, SimpleNamespace(headers=None))
    return await manage_memories(McpInvocation(ServedBank(opened_before), over_stdio), "forget", [memory_id])


async def test_no_byte_of_a_memory_of_its_task_or_of_a_quote_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as tools:
        learned = await learn(tools, played().done(), agent_drafts=[DRAFT])
        await leave_traces(tools, tmp_path, learned.stored[0])
        for mark in MARKS:
            assert files_with(tmp_path, mark) > 1, mark
        answer = await forgotten_by_an_agent(tools, learned.stored[0].id)
        assert (answer["changed"], answer.get("left")) == (1, None)
        open_after = files_with(tmp_path, *MARKS)
        assert isinstance(tools.store, SqliteStore)
        assert (await tools.store.inspect()).sound
        again = await learn(tools, played().done(), agent_drafts=[DRAFT])
        assert (again.status, [each for each in await items_of(tools) if each.title == TITLE]) == (
            "already_learned",
            [],
        )
    closed_after = files_with(tmp_path, *MARKS)
    assert (open_after, closed_after) == (0, 0)


async def test_a_record_that_another_memory_rests_on_stays_and_that_is_said(tools: Toolbox, tmp_path: Path) -> None:
    other = MemoryDraft(title="Sing before you play the song", content="1. Sing the song\n2. Play it")
    learned = await learn(tools, played().done(), agent_drafts=[DRAFT, other])
    first, second = (each.id for each in learned.stored)
    answer = await forgotten_by_an_agent(tools, first)
    (said,) = answer.get("left", [""])
    assert said == f"the record of their task stays, because {second} came from it too: forget these too and it goes"
    assert (files_with(tmp_path, ADVICE), files_with(tmp_path, OUTPUT)) == (0, 1)
    kept = await tools.store.get_trajectory(HERE, learned.trajectory_id)
    assert kept is not None
    assert kept[0].task == f"tune the {TASK}"
    answer = await forgotten_by_an_agent(tools, second)
    assert (answer.get("left"), files_with(tmp_path, *MARKS)) == (None, 0)


async def test_on_request_the_record_goes_though_another_memory_rests_on_it(tools: Toolbox, tmp_path: Path) -> None:
    other = MemoryDraft(title="Sing before you play the song", content="1. Sing the song\n2. Play it")
    learned = await learn(tools, played().done(), agent_drafts=[DRAFT, other])
    done = await forget_memories(tools, [learned.stored[0].id], with_trajectories=True)
    assert (done.records, done.resting, files_with(tmp_path, *MARKS)) == (1, (), 0)
    assert [each.title for each in await items_of(tools)] == [other.title]


async def test_memories_that_say_the_same_are_named(tools: Toolbox) -> None:
    copy = item(f"As is known: {TITLE}", task_id="t9", status="archived")
    learned = await learn(tools, played().done(), agent_drafts=[DRAFT])
    await put(tools, copy)
    done = await forget_memories(tools, [learned.stored[0].id])
    assert done.alike == (copy.id,)
    assert [copy.id in said for said in what_stayed(done, "", {})] == [True]


async def test_another_tenant_keeps_what_it_says_itself(tools: Toolbox) -> None:
    foreign = replace(tools, scope=Scope(tenant_id="other", project="shop"))
    learned = await learn(tools, played().done(), agent_drafts=[DRAFT])
    theirs = await learn(foreign, played().done(), agent_drafts=[DRAFT])
    await forget_memories(tools, [learned.stored[0].id])
    assert await foreign.store.get_memories(foreign.scope.readable(), [theirs.stored[0].id]) == list(theirs.stored)
    kept = await foreign.store.get_trajectory(foreign.scope, theirs.trajectory_id)
    assert kept is not None
    assert ADVICE not in kept[0].task
    assert kept[0].task == f"tune the {TASK}"


@pytest.mark.parametrize("count", [3, 300])
def test_phrases_are_found_and_taken_out_however_many_there_are(count: int) -> None:
    lines = [f'{number}. Say "hello {number} times" to word{number}' for number in range(count)]
    phrases = Phrases(lines)
    text = json.dumps({"text": f"first {lines[2][3:]}, then"})
    assert phrases.stand_in([None, "nothing", text])
    assert json.loads(str(phrases.taken_from(text, "(gone)"))) == {"text": "first (gone), then"}
    assert not phrases.stand_in(["Say hello to word1"])


NAME, WORK, ALONE, CALLED, ASKED, QUEUED = (
    "zqadaqz", "zqxylophoneqz", "zqmarimbaqz", "zqcelestaqz", "zqspinetqz", "zqtriangleqz",
)  # fmt: skip
MARKS_OF_A_PERSON = (NAME, WORK, ALONE, CALLED, ASKED, QUEUED)


def done(what: str, task_id: str) -> Script:
    return Script(f"tune the {what}", task_id).shell("play", "it sounds").say(f"the {what} sounds")


async def test_no_byte_of_what_somebody_brought_or_of_their_name_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as tools:
        ada = (await add_person(tools, NAME, "write")).person
        theirs = tools.by(ada)
        draft = MemoryDraft(title=f"Tune the {WORK} first", content=f"1. Tune the {WORK}\n2. Play")
        brought = (await learn(theirs, done(WORK, "t1").done(), agent_drafts=[draft])).stored
        await edit(theirs, brought[0].id, MemoryChange(description=f"When the {WORK} is out of tune"))
        await learn(theirs, done(ALONE, "t2").done())  # a record without a memory
        kept = MemoryDraft(title="Close the lid of the piano", content="1. Close the lid\n2. Go home")
        ours = (await learn(tools, done("piano", "t3").done(), agent_drafts=[kept])).stored
        call = ReportedCall(
            tool_name="Bash", input={"command": f"play {CALLED}"}, output="ok", success=True, call_id="c"
        )
        await log_tool_calls(theirs, [call])
        await retrieve(theirs, f"how is the {ASKED} tuned")
        now = datetime.now(UTC)
        payload: dict[str, JsonValue] = {"task": f"tune the {QUEUED}"}
        job = Job(id=new_id(JOB), scope=HERE, kind="tune", key="k", payload=payload, run_after=now, created_at=now)
        await theirs.store.enqueue(job)
        assert isinstance(tools.store, SqliteStore)
        await tools.store.recorder.settle()
        await tools.store.back_up()
        for mark in MARKS_OF_A_PERSON:
            assert files_with(tmp_path, mark) >= 1, mark
        gone = await forget_person(tools, NAME)
        assert (gone.ids, gone.records) == ((brought[0].id,), 2)
        assert files_with(tmp_path, *MARKS_OF_A_PERSON) == 0
        assert [each.id for each in await items_of(tools)] == [ours[0].id]
        assert (await tools.store.inspect()).sound
        trail = await tools.store.people.audit(tools.scope.tenant_id, 50)
        about = {each.action: (each.subject, each.subject_id) for each in trail if each.subject_id == ada.id}
        assert about == dict.fromkeys((ADDED, REVOKED, FORGOTTEN_PERSON), (None, ada.id))
        assert await tools.store.people.list(tools.scope.tenant_id) == []
        with pytest.raises(NotFoundError):
            await forget_person(tools, NAME)
    assert files_with(tmp_path, *MARKS_OF_A_PERSON) == 0


async def test_a_backup_that_knows_only_the_name_goes_too(tools: Toolbox, tmp_path: Path) -> None:
    await add_person(tools, NAME, "read")
    assert isinstance(tools.store, SqliteStore)
    await tools.store.back_up()
    await forget_person(tools, NAME)
    assert files_with(tmp_path, NAME) == 0
