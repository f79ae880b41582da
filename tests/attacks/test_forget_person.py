"""Forgetting somebody: nothing that they brought is left anywhere, nor their name, and what others brought stays."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from pydantic import JsonValue
from scripted_runs import Script

from swarm_memory.schema.base import JOB, new_id
from swarm_memory.schema.errors import NotFoundError
from swarm_memory.schema.job import Job
from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.tool_memory import LoggedCall
from swarm_memory.server.storage.store import SqliteStore
from swarm_memory.server.storage.stores.team.people import ADDED, FORGOTTEN_PERSON, REVOKED
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.decide import MemoryChange, edit
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.team.people import add_person, audit_trail, forget_person, list_people
from swarm_memory.tools.tool_memory.log import log_tool_calls
from tests.attacks.attacked_bank import HERE, files_with, items_of, opened

pytestmark = pytest.mark.attack

NAME, TASK, ALONE, CALLED, ASKED, QUEUED = (
    "zqadaqz", "zqxylophoneqz", "zqmarimbaqz", "zqcelestaqz", "zqspinetqz", "zqtriangleqz",
)  # fmt: skip
MARKS = (NAME, TASK, ALONE, CALLED, ASKED, QUEUED)


def done(what: str, task_id: str) -> Script:
    return Script(f"tune the {what}", task_id).shell("play", "it sounds").say(f"the {what} sounds")


async def test_no_byte_of_what_somebody_brought_or_of_their_name_is_left(tmp_path: Path) -> None:
    async with opened(tmp_path) as tools:
        ada = (await add_person(tools, NAME, "write")).person
        theirs = tools.by(ada)
        draft = MemoryDraft(title=f"Tune the {TASK} first", content=f"1. Tune the {TASK}\n2. Play")
        brought = (await learn(theirs, done(TASK, "t1").done(), agent_drafts=[draft])).stored
        await edit(theirs, brought[0].id, MemoryChange(description=f"When the {TASK} is out of tune"))
        await learn(theirs, done(ALONE, "t2").done())  # a record without a memory
        kept = MemoryDraft(title="Close the lid of the piano", content="1. Close the lid\n2. Go home")
        ours = (await learn(tools, done("piano", "t3").done(), agent_drafts=[kept])).stored
        call = LoggedCall(tool_name="Bash", input={"command": f"play {CALLED}"}, output="ok", success=True, call_id="c")
        await log_tool_calls(theirs, [call])
        await retrieve(theirs, f"how is the {ASKED} tuned")
        now = datetime.now(UTC)
        payload: dict[str, JsonValue] = {"task": f"tune the {QUEUED}"}
        job = Job(id=new_id(JOB), scope=HERE, kind="tune", key="k", payload=payload, run_after=now, created_at=now)
        await theirs.store.enqueue(job)
        assert isinstance(tools.store, SqliteStore)
        await tools.store.recorder.settle()
        await tools.store.back_up()
        for mark in MARKS:
            assert files_with(tmp_path, mark) >= 1, mark
        gone = await forget_person(tools, NAME)
        assert (gone.ids, gone.records) == ((brought[0].id,), 2)
        assert files_with(tmp_path, *MARKS) == 0
        assert [each.id for each in await items_of(tools)] == [ours[0].id]
        assert (await tools.store.inspect()).sound
        trail = await audit_trail(tools)
        about = {each.action: (each.subject, each.subject_id) for each in trail if each.subject_id == ada.id}
        assert about == dict.fromkeys((ADDED, REVOKED, FORGOTTEN_PERSON), (None, ada.id))
        assert await list_people(tools) == []
        with pytest.raises(NotFoundError):
            await forget_person(tools, NAME)
    assert files_with(tmp_path, *MARKS) == 0


async def test_a_backup_that_knows_only_the_name_goes_too(tmp_path: Path) -> None:
    async with opened(tmp_path) as tools:
        await add_person(tools, NAME, "read")
        assert isinstance(tools.store, SqliteStore)
        await tools.store.back_up()
        await forget_person(tools, NAME)
        assert files_with(tmp_path, NAME) == 0
