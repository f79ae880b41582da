"""What is remembered with a worker: durable and found by its words immediately, and soon as without one."""

from collections.abc import AsyncGenerator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from counting import CountingEmbedder
from laid_bank import opened_bank
from made_items import rewrite
from patience import HANG_S
from pydantic import JsonValue

from swarm_memory.schema.errors import ModelUnavailable
from swarm_memory.schema.job import Job
from swarm_memory.schema.memory import Note
from swarm_memory.server.jobs.handlers import long_handlers
from swarm_memory.server.jobs.worker import Worker
from swarm_memory.tools.consolidate.upkeep import CONSOLIDATE
from swarm_memory.tools.memories.manage import forget_memories
from swarm_memory.tools.memories.remember import WordSource, remember, remember_notes
from swarm_memory.tools.memories.status import memory_status
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.retrieve.embed import BACKLOG, EMBED, with_indexes
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

PROMPT = WordSource("prompt")
FIRST = "Run the migrations of the shop before its tests."
SAID = (FIRST, "Never run the migrations of the shop before its tests.", "The export writes metres.")
NOTES = (
    Note(title="Lease the lane", note="`lanectl lease` has to come before `lanectl push`, or the push hangs."),
    Note(title="Metres in exports", note="An export without --si has feet in it, which the importer rejects."),
)
EVERY = MemoryFilter(("active", "quarantined", "archived"))


@pytest.fixture
def embedder() -> CountingEmbedder:
    return CountingEmbedder()


@pytest.fixture
async def beside(tmp_path: Path, embedder: CountingEmbedder) -> AsyncGenerator[Toolbox]:
    """A bank for which a worker is said to be running."""
    async with opened_bank(tmp_path / "beside" / "memory.db", embedder=embedder) as toolbox:
        yield replace(toolbox, wake=lambda: None)


async def work(toolbox: Toolbox, folder: Path) -> int:
    return await Worker(toolbox, {}, long_handlers(folder)).work_off_due()


async def teach(toolbox: Toolbox) -> None:
    for said in SAID:
        await remember(toolbox, said, attribution=PROMPT)
    for note in NOTES:
        await remember_notes(toolbox, [note])
    await remember(toolbox, "Answer in German.", "preference", everywhere=True, attribution=PROMPT)


async def state(toolbox: Toolbox) -> tuple[Any, ...]:
    """Return a bank's contents by title: the memories, what contradicts what, and how near each is to a text."""
    store, scopes = toolbox.store, toolbox.scope.readable()
    items = {item.id: item for item in await store.list_memories(scopes, EVERY)}
    links = await store.memory_links(scopes, list(items))
    near = await store.nearest(scopes, toolbox.embedder.name, (await toolbox.embedder.embed_queries([FIRST]))[0], 99)
    return (
        sorted((item.title, item.content, item.status) for item in items.values()),
        sorted((items[link.src_id].title, items[link.dst_id].title, link.relation) for link in links),
        [(items[memory_id].title, cosine) for memory_id, cosine in near],
    )


async def test_once_the_job_is_done_the_bank_is_as_without_a_worker(
    toolbox: Toolbox, beside: Toolbox, tmp_path: Path
) -> None:
    await teach(toolbox)
    await teach(beside)
    assert (await state(beside))[1:] == ([], [])
    assert await work(beside, tmp_path) == 1
    alone = await state(toolbox)
    assert await state(beside) == alone
    assert [link[2] for link in alone[1]] == ["contradicts"]
    assert len(alone[2]) == 6


async def test_it_is_found_by_its_words_at_once_and_nothing_is_said_of_the_missing_vector(beside: Toolbox) -> None:
    done = await remember(beside, FIRST, attribution=PROMPT)
    found = await retrieve(beside, "run the migrations of the shop")
    status = await memory_status(beside)
    assert (done.notices, found.notices, status.notices) == ((), (), ())
    assert [memory.item.id for memory in found.memories] == [done.item.id]
    assert status.statistics.not_embedded == 1


async def test_a_vector_that_could_not_be_made_is_said(beside: Toolbox) -> None:
    await remember(beside, FIRST, attribution=PROMPT)
    job = await beside.store.claim("w", beside.clock.now(), 60, (EMBED,), beside.scope)
    assert job is not None
    assert await beside.store.cancel_job(beside.scope, job.id)
    (notice,) = (await memory_status(beside)).notices
    assert "1 memory without a vector" in notice


async def test_many_wait_for_one_job_which_leaves_nothing(beside: Toolbox, tmp_path: Path) -> None:
    for number in range(30):
        await remember(beside, f"Case {number}: ask before the upload replaces a file.", attribution=PROMPT)
    assert [job.kind for job in await beside.store.list_jobs(beside.scope, ("queued",), 99)] == [EMBED]
    await work(beside, tmp_path)
    assert (await _job(beside)).result == {"embedded": 30, "left": 0, "seen": 30, "refused": []}


async def test_a_text_that_is_refused_is_not_asked_for_again(
    beside: Toolbox, embedder: CountingEmbedder, tmp_path: Path
) -> None:
    embedder.refused = "refused"
    await remember(beside, "Such a text is refused by the endpoint.", attribution=PROMPT)
    await remember(beside, "So is this refused one, of all projects.", everywhere=True, attribution=PROMPT)
    for said in SAID:
        await remember(beside, said, attribution=PROMPT)
        await work(beside, tmp_path)
        assert any(said in text for text in embedder.asked)
    assert max(sum(text in each for each in embedder.asked) for text in ("Such a text", "So is this")) <= 2
    assert ((await _job(beside)).result or {})["left"] == 2


@pytest.mark.parametrize("is_forgotten", [False, True])
async def test_an_older_one_that_lost_its_vector_is_embedded_beside_one_that_is_refused(
    beside: Toolbox, embedder: CountingEmbedder, tmp_path: Path, is_forgotten: bool
) -> None:
    embedder.refused = "refused"
    older = (await remember(beside, FIRST, attribution=PROMPT)).item
    refused = (await remember(beside, "Such a text is refused by the endpoint.", attribution=PROMPT)).item
    await work(beside, tmp_path)
    if is_forgotten:
        await forget_memories(beside, [refused.id])
    await rewrite(beside.store, with_indexes(older.model_copy(update={"title": "Migrate"}), None), embedder.name)
    await remember(beside, SAID[2], attribution=PROMPT)
    await work(beside, tmp_path)
    pending = await beside.store.pending_upkeep(beside.scope, embedder.name, 0)
    assert pending.not_embedded == (0 if is_forgotten else 1)
    assert any(text.startswith("Migrate") for text in embedder.asked)


async def test_a_text_that_was_refused_is_asked_for_again_once_it_was_edited(
    beside: Toolbox, embedder: CountingEmbedder, tmp_path: Path
) -> None:
    embedder.refused = "refused"
    item = (await remember(beside, "Such a text is refused by the endpoint.", attribution=PROMPT)).item
    await work(beside, tmp_path)
    texts = {"title": "Such a text", "content": "Such a text is taken by the endpoint."}
    await rewrite(beside.store, with_indexes(item.model_copy(update=texts), None), embedder.name)
    await remember(beside, SAID[2], attribution=PROMPT)
    await work(beside, tmp_path)
    assert ((await _job(beside)).result or {})["left"] == 0


async def test_what_is_stored_while_the_job_runs_has_a_job_of_its_own(beside: Toolbox) -> None:
    await remember(beside, FIRST, attribution=PROMPT)
    running = await beside.store.claim("w", beside.clock.now(), 60, (EMBED,), beside.scope)
    await remember(beside, SAID[2], attribution=PROMPT)
    waiting = await _job(beside)
    assert running is not None
    assert (waiting.id != running.id, waiting.status) == (True, "queued")


async def test_a_job_that_waits_for_its_next_try_is_not_hurried(beside: Toolbox) -> None:
    later = beside.clock.now() + timedelta(hours=1)
    queued = await beside.store.enqueue(beside.job(EMBED, BACKLOG, after=timedelta(hours=1)))
    await remember(beside, FIRST, attribution=PROMPT)
    waiting = await _job(beside)
    assert waiting.id == queued
    assert abs(waiting.run_after - later) < timedelta(minutes=1)


async def test_what_is_stored_while_the_job_fails_waits_as_the_job_would(
    beside: Toolbox, embedder: CountingEmbedder, tmp_path: Path
) -> None:
    async def fails(toolbox: Toolbox, *_: object) -> dict[str, JsonValue]:
        await remember(toolbox, SAID[2], attribution=PROMPT)
        raise ModelUnavailable("nobody answers")

    await remember(beside, FIRST, attribution=PROMPT)
    assert await Worker(beside, {}, {EMBED: fails}).work_off_due() == 1
    waiting = await _job(beside)
    assert (waiting.status, waiting.attempts, waiting.error) == ("queued", 1, "nobody answers")
    assert waiting.run_after > beside.clock.now()
    assert embedder.asked == []


async def test_a_consolidation_compares_also_what_waits_for_its_vector(beside: Toolbox, tmp_path: Path) -> None:
    await remember(beside, FIRST, attribution=PROMPT)
    await beside.queue(CONSOLIDATE, "asked", {})
    store = beside.store
    assert await Worker(beside, {}, {CONSOLIDATE: long_handlers(tmp_path)[CONSOLIDATE]}).work_off_due() == 1
    ended = await store.find_job(beside.scope, CONSOLIDATE, "asked")
    assert ended is not None
    assert (ended.result or {}).get("notices") is None
    assert (await store.pending_upkeep(beside.scope, beside.embedder.name, 0)).not_embedded == 0


async def test_a_note_is_embedded_before_the_answer_only_where_the_bank_may_know_it(
    beside: Toolbox, embedder: CountingEmbedder
) -> None:
    await remember_notes(beside, [NOTES[0]])
    await remember_notes(beside, [NOTES[1]])
    (same,) = await remember_notes(beside, [NOTES[0]])
    assert (same.is_new, embedder.asked) == (False, [])
    other = NOTES[0].model_copy(update={"title": "Lease a lane", "note": f"{NOTES[0].note} So lease it first."})
    await remember_notes(beside, [other])
    assert len(embedder.asked) == 2, "it, and the one that it may be the same as"


async def test_a_note_is_compared_with_one_that_waits_for_its_vector(beside: Toolbox) -> None:
    (first,) = await remember_notes(beside, NOTES[:1])
    turned = Note(title="Lease the lane", note="Or the push hangs: `lanectl lease` has to come before `lanectl push`.")
    (again,) = await remember_notes(beside, [turned])
    assert (again.is_new, again.item.id) == (False, first.item.id)


async def test_long_work_does_not_hold_up_a_vector(beside: Toolbox, tmp_path: Path) -> None:
    begun = anyio.Event()

    async def endless(*_: object) -> dict[str, JsonValue]:
        begun.set()
        await anyio.sleep_forever()
        return {}

    woken = list[Worker]()
    toolbox = replace(beside, wake=lambda: woken[0].wake())
    woken.append(Worker(toolbox, {}, {**long_handlers(tmp_path), CONSOLIDATE: endless}))
    await toolbox.queue(CONSOLIDATE, "asked", {})
    async with anyio.create_task_group() as group:
        group.start_soon(woken[0].run)
        with anyio.fail_after(HANG_S):
            await begun.wait()
            await remember(toolbox, FIRST, attribution=PROMPT)
            while (await _job(toolbox)).status != "completed":
                await anyio.lowlevel.checkpoint()
        group.cancel_scope.cancel()


async def _job(toolbox: Toolbox) -> Job:
    job = await toolbox.store.find_job(toolbox.scope, EMBED, BACKLOG)
    assert job is not None
    return job
