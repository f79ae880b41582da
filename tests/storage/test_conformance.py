"""What every store must do, whichever engine it uses: the contracts of the ports, by behavior, on real banks."""

import asyncio
from array import array
from collections.abc import AsyncGenerator
from datetime import datetime, timedelta
from typing import Any

import pytest
from driver_names import AVAILABLE
from indexed_items import NUMBERS, stored
from made_items import HERE, made_item
from made_work import AT, WON, made_job, made_record

from swarm_memory.schema.base import GLOBAL_PROJECT, Scope, new_id
from swarm_memory.schema.benchmark import BenchmarkRun
from swarm_memory.schema.errors import InputError, NotFoundError, QuotaReached, StorageError
from swarm_memory.schema.job import JobEnd
from swarm_memory.schema.memory import MemoryLink, Provenance
from swarm_memory.schema.outcome import Credit, OutcomeRecord
from swarm_memory.schema.rollout import MattsRun, Rollout, RunSummary
from swarm_memory.schema.source import Passage
from swarm_memory.schema.tool_memory import Evaluation, ToolCall
from swarm_memory.schema.trajectory import Step, Trajectory, Verdict
from swarm_memory.server.storage.stores.tool_memory import ToolMemoryCounts
from swarm_memory.server.storage.stores.upkeep import PendingUpkeep
from swarm_memory.tools.ports.memories import MemoryFilter, SearchQuery
from swarm_memory.tools.ports.records import (
    CORRECTED,
    Aging,
    BankEvent,
    EvaluatedCall,
    HostSession,
    LearnRecord,
    MattsRunEnd,
    TaskFilter,
    UpkeepBatch,
    UpkeepChange,
)
from swarm_memory.tools.ports.sources import SourceKey, StoredGroup, StoredPassage

ENGINES = (*AVAILABLE, "postgres")


@pytest.fixture(params=ENGINES)
def open_store(request: pytest.FixtureRequest, bank_on: Any) -> Any:
    """Return a function that opens the test's bank on the engine, any number of times; SQLite on every driver."""
    return bank_on(request.param)


@pytest.fixture
async def store(open_store: Any) -> AsyncGenerator[Any]:
    async with open_store() as store:
        yield store


async def test_items_come_back_as_they_were_written_by_id_and_by_filter(open_store: Any) -> None:
    source = Provenance(task_id="t1", trajectory_id="tr_1", evidence=("s1",), judge="evidence", run_id="run_1")
    fields = {"tags": ("net", "lock"), "domain": "web", "description": "When locked", "outcome": "Failure"}
    first = made_item("Straße sperren", **fields, provenance=source, created_at=AT)
    other = made_item("Close the file", status="quarantined", tags=("net",), created_at=AT + timedelta(1))
    async with open_store() as store:
        both_stored = [stored(each, NUMBERS) for each in (first, other)]
        assert await store.add_memories(both_stored, NUMBERS.name) == [first.id, other.id]
        again = stored(first.model_copy(update={"title": "Another title"}), NUMBERS)
        assert await store.add_memories([again, both_stored[1]], NUMBERS.name) == []
    async with open_store() as store:
        assert await store.get_memories([HERE], [other.id, "rm_none", first.id]) == [other, first]
        assert await store.get_memories([Scope(project="there")], [first.id]) == []
        both = MemoryFilter(statuses=("active", "quarantined"))
        for which, listed in (
            (MemoryFilter(), [first]),
            (MemoryFilter(task_id="t1"), [first]),
            (MemoryFilter(text="SPERREN", domain="web"), [first]),
            (MemoryFilter(text="50%_"), []),
            (MemoryFilter(domain="net"), []),
            (both, [other, first]),
            (both._replace(limit=1, offset=1), [first]),
            (both._replace(text="CLOSE"), [other]),
            (both._replace(tags=("net",)), [other, first]),
            (both._replace(tags=("net", "lock")), [first]),
            (both._replace(tags=("net", "no")), []),
        ):
            assert await store.list_memories([HERE], which) == listed, which
        with pytest.raises(InputError, match="limit"):
            await store.list_memories([HERE], MemoryFilter(limit=0))


async def test_a_search_gives_scores_and_the_items_themselves_of_its_scopes_alone(store: Any) -> None:
    mine = made_item("Retry the upload", provenance=Provenance(task_id="t1"))
    shared = made_item("Retry everything", scope=Scope(project=GLOBAL_PROJECT))
    foreign = made_item("Retry the upload", scope=Scope(project="there"))
    theirs = made_item("Retry the upload", scope=Scope(tenant_id="other", project="here"))
    await store.add_memories([stored(each, NUMBERS) for each in (mine, shared, foreign, theirs)], NUMBERS.name)
    scopes = (HERE, Scope(project=GLOBAL_PROJECT))
    query = SearchQuery(scopes, NUMBERS.name, NUMBERS.vector("upload"), ("retri", "upload", "nowher"), 5)
    found = await store.search(query)
    assert {each.id: each.words for each in found.candidates} == {mine.id: {"retri", "upload"}, shared.id: {"retri"}}
    first, other = sorted(found.candidates, key=lambda each: -(each.keyword or 0))
    assert (first.read_item(), other.read_item()) == (mine, shared)
    assert first.keyword > other.keyword > 0
    assert (found.documents, found.document_frequency) == (2, {"retri": 2, "upload": 1, "nowher": 0})
    assert [each.id for each in await store.list_memories([HERE], MemoryFilter())] == [mine.id]
    assert await store.get_memories([HERE], [foreign.id, theirs.id]) == []
    assert (await store.forget([HERE], [foreign.id, theirs.id])).ids == ()


async def test_more_than_a_day_allows_is_not_written(store: Any) -> None:
    two = [stored(made_item(f"Number {number}"), NUMBERS) for number in range(2)]
    await store.add_memories(two[:1], NUMBERS.name, (1, AT))
    with pytest.raises(QuotaReached):
        await store.add_memories(two, NUMBERS.name, (1, AT))
    assert len(await store.list_memories([HERE], MemoryFilter())) == await store.added_on(HERE, AT) == 1
    await store.add_memories(two, NUMBERS.name, (1, AT + timedelta(1)))


async def test_an_outcome_is_credited_once_and_taken_back_by_another(store: Any) -> None:
    helped = made_item("Retry the upload")
    credit = Credit(memory_id=helped.id, method="cited", change=0.2)
    won = OutcomeRecord(
        task_id="t", digest="d", label="Success", judge="evidence", arm="memory", credits=(credit,), at=AT
    )
    await store.add_memories([stored(helped, NUMBERS)], NUMBERS.name)
    assert (await store.save_outcome([HERE], won)).credits[0].applied == pytest.approx(0.2)
    assert (await store.save_outcome([HERE], won)).status == "already_credited"
    lost = won.model_copy(update={"label": "Failure", "credits": ()})
    await store.save_outcome([HERE], lost)
    assert (await store.get_memories([HERE], [helped.id]))[0].confidence == pytest.approx(helped.confidence)
    assert [each.label for each in await store.list_outcomes(HERE)] == ["Failure"]


async def test_passages_are_found_replaced_by_group_and_removed(store: Any) -> None:
    source = SourceKey(HERE, "document", "/docs")

    def group(text: str) -> StoredGroup:
        passage = Passage(kind="document", group="a.md", position=0, title="Uploads", content=text)
        words = tuple(text.split())
        return StoredGroup("a.md", text, ("a",), (StoredPassage(passage, NUMBERS.vector(text), (), (), words),))

    for text in ("retri slowli", "give up"):
        await store.sources.write_groups(source, [group(text)], NUMBERS.name)
    assert await store.sources.groups(source) == {"a.md": "give up"}
    query = SearchQuery((HERE,), NUMBERS.name, NUMBERS.vector("give up"), ("give", "retri"), 5)
    result = await store.sources.search(query, ("document",), {})
    assert result.document_frequency == {"give": 1, "retri": 0}
    (found,) = await store.sources.get_passages([HERE], [each.seq for each in result.candidates])
    assert found.passage.content == "give up"
    assert await store.sources.remove(source) == 1
    with pytest.raises(NotFoundError):
        await store.sources.remove(source)


KINDS = ("learn",)


def at(seconds: float) -> datetime:
    return AT + timedelta(seconds=seconds)


async def test_a_queued_job_is_replaced_by_a_later_one_of_its_key(store: Any) -> None:
    first, later = made_job(payload={"n": 1}), made_job(run_after=at(9), payload={"n": 2})
    assert await store.enqueue(first) == first.id
    assert await store.enqueue(later) == first.id
    assert await store.enqueue(made_job(scope=Scope(project="there"))) != first.id
    assert await store.enqueue(made_job(kind="consolidate")) != first.id
    (queued,) = [each for each in await store.list_jobs(HERE, ["queued"], 9) if each.kind == "learn"]
    assert (queued.payload, queued.run_after, queued.created_at) == ({"n": 2}, at(9), AT)
    assert (await store.next_due(KINDS, 60, HERE), await store.next_due(KINDS, 60, HERE, KINDS)) == (at(9), AT)
    assert await store.next_due(("other",), 60, HERE) is None


async def test_a_job_is_queued_with_new_items_unless_one_of_its_key_is(store: Any) -> None:
    for number, each in enumerate((made_job(payload={"n": 1}), made_job(payload={"n": 2}))):
        assert len(await store.add_memories([stored(made_item(f"Case {number}"))], NUMBERS.name, None, each)) == 1
    assert await store.add_memories([], NUMBERS.name, None, made_job("none")) == []
    (queued,) = await store.list_jobs(HERE, ["queued"], 9)
    assert (queued.key, queued.payload) == ("k", {"n": 1})


TELOS = (
    "\u03c4\u03ad\u03bb\u03bf\u03a3.\u0391 \u03c0\u03c1\u03ce\u03c4\u03b1",
    "\u03c4\u03ad\u03bb\u03bf\u03c2.\u03b1 \u03a0\u03a1\u03ce\u03c4\u03b1",
)


SAID = (
    ("Use fooBar before the tests of Z\u00fcrich", ()),
    ("It is what it is", ()),
    ("\u6d4b\u8bd5\u5148\u884c", ()),
    (TELOS[0], TELOS[1:]),
    ("\u03b4\u03c1\u03cc\u03bc\u03bf\u03c2", ("\u03b4\u03c1\u03cc\u03bc\u03bf\u03c3",)),
    ("Pr\u00fcfe die Stra\u00dfe vor dem Tor", ("PR\u00dcFE DIE STRASSE VOR DEM TOR",)),
    ("Use the \ufb01le before the tests", ("use the FILE before the tests",)),
)


@pytest.mark.parametrize("status", ["active", "quarantined"])
async def test_the_same_words_are_found_in_any_case_and_form(store: Any, status: Any) -> None:
    heard = Provenance(heard_in="unseen")
    for content, others in SAID:
        said = made_item("Said", content=content, status=status, provenance=heard)
        longer = made_item("Said", content=f"{content}.", provenance=heard)
        await store.add_memories([stored(said), stored(longer), stored(made_item("Other"))], NUMBERS.name)
        for words in (content, content.upper(), content.lower(), *others):
            assert [item.id for item in await store.said(HERE, words)] == [said.id], words
        assert await store.said(HERE, content[1:]) == [], content


async def test_what_another_process_wrote_a_moment_ago_is_not_written_once_more(store: Any) -> None:
    first, same = (made_item("Lease the lane", content="First.") for _ in range(2))
    changes = ({"outcome": "Failure"}, {"content": "Second."}, {"provenance": Provenance(distiller="user")})
    others = [same.model_copy(update={"id": new_id("rm"), **change}) for change in changes]
    assert await store.add_memories([stored(first)], NUMBERS.name, once=True) == [first.id]
    written = await store.add_memories([stored(each) for each in (same, *others, others[1])], NUMBERS.name, once=True)
    assert written == [each.id for each in others]
    again = same.model_copy(update={"title": "LEASE the lane", "content": "\uff26irst."})  # a full-width letter
    assert await store.add_memories([stored(again)], NUMBERS.name, once=True) == []
    assert await store.add_memories([stored(same)], NUMBERS.name) == [same.id]


async def test_a_handle_calls_for_nothing_where_it_calls_for_fewer_than_it_must(store: Any) -> None:
    both = [made_item(f"Case {number}", content='Open the "ledger" and the "crate".') for number in range(2)]
    one = made_item("Other", content='Close the "ledger".')
    elsewhere = made_item("Away", content='Close the "crate".', scope=Scope(project="there"))
    await store.add_memories([stored(each) for each in (*both, one, elsewhere)], NUMBERS.name)

    async def called(handles: Any) -> set[str]:
        return {item.id for item in await store.called_for((HERE,), handles, 9)}

    every = {each.id for each in (*both, one)}
    assert await called({"word:ledger": 3, "word:crate": 2.4}) == every
    assert await called({"word:ledger": 3.1, "word:crate": 2}) == {each.id for each in both}
    assert await called({"word:crate": 2.1}) == set()
    assert await called(["word:ledger"]) == every


async def test_the_oldest_due_job_is_taken_and_none_before_its_time(store: Any) -> None:
    late, early = made_job("late", at(5)), made_job("early", at(1))
    await store.enqueue(late)
    await store.enqueue(early)
    await store.enqueue(made_job("other", at(0), kind="consolidate"))
    for scope in (Scope(project="there"), Scope(tenant_id="other", project="there")):
        await store.enqueue(made_job(scope=scope))
    assert await store.claim("w", at(0.5), 60, KINDS, HERE) is None
    taken = await store.claim("w", at(6), 60, KINDS, HERE)
    assert taken is not None
    assert (taken.id, taken.status, taken.worker, taken.attempts) == (early.id, "running", "w", 1)
    assert taken.started_at == at(6)
    assert (await store.claim("w", at(6), 60, KINDS, HERE)).id == late.id
    assert await store.claim("w", at(6), 60, KINDS, HERE) is None
    elsewhere = [await store.claim("w", at(6), 60, KINDS, HERE, KINDS) for _ in range(2)]
    assert [each and each.scope for each in elsewhere] == [Scope(project="there"), None]


async def test_many_workers_take_each_job_once(open_store: Any) -> None:
    async with open_store() as one, open_store() as two:
        ids = {await one.enqueue(made_job(f"k{number}")) for number in range(12)}
        taken = await asyncio.gather(
            *(store.claim(f"w{number}", at(1), 60, KINDS, HERE) for number in range(10) for store in (one, two))
        )
    assert sorted(each.id for each in taken if each) == sorted(ids)


async def test_a_job_whose_worker_fell_silent_is_taken_over(store: Any) -> None:
    await store.enqueue(made_job())
    taken = await store.claim("dead", at(0), 10, KINDS, HERE)
    assert await store.heartbeat(taken.id, "dead", at(8))
    assert await store.claim("new", at(17), 10, KINDS, HERE) is None
    again = await store.claim("new", at(18), 10, KINDS, HERE)
    assert (again.id, again.worker, again.attempts) == (taken.id, "new", 2)
    assert not await store.heartbeat(taken.id, "dead", at(19))
    assert not await store.finish(taken.id, "dead", JobEnd("completed", {"n": 1}))
    assert await store.finish(taken.id, "new", JobEnd("completed", {"n": 2}))
    assert not await store.finish(taken.id, "new", JobEnd("failed", error="twice"))
    (ended,) = await store.list_jobs(made_job().scope, ["completed"], 9)
    assert (ended.result, ended.error, ended.worker) == ({"n": 2}, None, "new")
    assert ended.ended_at is not None


async def test_a_job_that_is_put_back_is_taken_again_unless_a_later_one_stands_for_it(store: Any) -> None:
    await store.enqueue(made_job())
    taken = await store.claim("w", at(1), 60, KINDS, HERE)
    assert await store.finish(taken.id, "w", JobEnd("queued", error="try later"))
    again = await store.claim("w", at(1), 60, KINDS, HERE)
    assert (again.id, again.attempts, again.error) == (taken.id, 2, "try later")
    newer = made_job()
    await store.enqueue(newer)
    assert await store.finish(taken.id, "w", JobEnd("queued", error="try later"))
    assert [each.id for each in await store.list_jobs(HERE, ["queued"], 9)] == [newer.id]
    assert [each.id for each in await store.list_jobs(HERE, ["cancelled"], 9)] == [taken.id]
    assert (await store.statistics(HERE, "numbers")).jobs == {"queued": 1, "cancelled": 1}


async def test_queued_jobs_are_brought_forward_by_the_start_of_their_key(store: Any) -> None:
    for key, seconds in (("s1:1", 90), ("s1:2", 1), ("s10:1", 90), ("s%:1", 90)):
        await store.enqueue(made_job(key, at(seconds)))
    assert await store.release(HERE, "s1:", at(5)) == 1
    assert await store.release(HERE, "s%", at(5)) == 1
    assert await store.release(Scope(project="there"), "", at(0)) == 0
    due = {each.key: each.run_after for each in await store.list_jobs(HERE, ["queued"], 9)}
    assert due == {"s1:1": at(5), "s1:2": at(1), "s10:1": at(90), "s%:1": at(5)}


async def test_a_session_is_kept_as_it_was_last_written(store: Any) -> None:
    begun = HostSession(
        session_id="s", scope=HERE, transcript_path="/t.jsonl", task="Fix it", task_number=1, updated_at=AT
    )
    later = begun.model_copy(update={"task_id": "s:2", "task": "Test it", "task_number": 2})
    assert await store.get_session(HERE, "s") is None
    await store.put_session(begun)
    await store.put_session(later)
    assert await store.get_session(HERE, "s") == later
    assert await store.get_session(Scope(project="there"), "s") is None


async def test_a_call_that_is_logged_twice_is_one_row(store: Any) -> None:
    call = ToolCall(scope=HERE, tool_name="Bash", success=True, created_at=AT, session_id="s", call_id="c")
    without_id = call.model_copy(update={"call_id": None})
    tools = store.tool_memory
    assert await tools.add_calls([call, call, without_id, without_id], 100) == 3
    assert await tools.add_calls([call, call.model_copy(update={"session_id": "s2"})], 100) == 1
    assert await tools.add_calls([call.model_copy(update={"session_id": None})], 100) == 1
    assert await tools.add_calls([call.model_copy(update={"session_id": None})], 100) == 0


async def test_calls_are_known_by_session_and_id_also_when_they_left_the_window(store: Any) -> None:
    def made(number: int, session_id: str | None, call_id: str | None) -> ToolCall:
        at = AT + timedelta(seconds=number)
        fields = {"scope": HERE, "tool_name": "Bash", "success": True, "created_at": at}
        return ToolCall.model_validate(fields | {"session_id": session_id, "call_id": call_id})

    ids = [("s", "c0"), ("s", "c1"), ("", "c1"), ("s", "ü'\"")]
    unknown = [("s", "c9"), ("t", "c0"), ("", "c0"), ("s", "")]
    tools = store.tool_memory
    assert await tools.known_calls(HERE, ids) == set()
    calls = [made(number, session or None, call) for number, (session, call) in enumerate(ids)]
    assert await tools.add_calls([*calls, made(9, "s", None)], 2) == len(ids) + 1
    assert await tools.known_calls(HERE, [*unknown, *ids, *ids]) == set(ids)
    assert await tools.known_calls(HERE, []) == set()
    assert await tools.known_calls(Scope(project="there"), ids) == set()
    await tools.forget_tools(HERE, None)
    assert await tools.known_calls(HERE, ids) == set()


async def test_events_come_back_in_order_within_their_scope(store: Any) -> None:
    events = [BankEvent(kind, AT, "x", {"n": number, "text": "ü\x00"}) for number, kind in enumerate(("a", "b"))]
    for event in events:
        await store.add_event(HERE, event)
    await store.add_event(Scope(project="there"), events[0])
    assert await store.memory_history([HERE], "x") == events
    assert await store.memory_history([Scope(project="nowhere")], "x") == []


def trajectory(*texts: str, task_id: str = "t1") -> Trajectory:
    steps = tuple(
        Step(id=f"s{number}", kind="message", role="assistant", text=text, at=AT)
        for number, text in enumerate(texts, start=1)
    )
    return Trajectory(task_id=task_id, task=f"Fix the lock {task_id}", steps=steps, started_at=AT)


def record(done: Trajectory, *titles: str, **fields: Any) -> LearnRecord:
    """Return the record of a run that yields items with these titles."""
    run_id = new_id("run")
    source = Provenance(task_id=done.task_id, run_id=run_id)
    memories = [stored(made_item(title, provenance=source), NUMBERS) for title in titles]
    return made_record(done, *memories, run_id=run_id, **fields)


async def test_a_run_is_written_whole_and_once_and_known_again(open_store: Any) -> None:
    done = trajectory("one", "two")
    run = record(done, "Retry once", "Log it")
    async with open_store() as store:
        assert await store.learned_before(HERE, done) is None
        assert await store.save_learning(run) == ()
    async with open_store() as store:
        before = await store.learned_before(HERE, done)
        assert before is not None
        assert (before.trajectory_id, before.run_id, before.verdict) == (run.trajectory_id, run.run_id, WON)
        assert before.memory_ids == tuple(each.item.id for each in run.memories)
        assert await store.get_trajectory(HERE, run.trajectory_id) == (done, WON)
        assert await store.get_trajectory(HERE, "t1") == (done, WON)
        assert await store.get_trajectory(Scope(project="there"), "t1") is None
        assert await store.learned_before(Scope(project="there"), done) is None
        assert await store.save_learning(record(done, "Something else")) == ()
        titles = {each.title for each in await store.list_memories([HERE], MemoryFilter())}
        assert (titles, (await store.statistics(HERE, "numbers")).trajectories) == ({"Retry once", "Log it"}, 1)
        (event,) = await store.memory_history([HERE], run.run_id)
        assert (event.kind, event.at, event.data["label"]) == ("learned", AT, "Success")


async def test_what_a_longer_version_of_a_task_does_not_give_again_is_archived(store: Any) -> None:
    first = record(trajectory("one"), "Retry once", "Log it")
    kept, gone = (each.item.id for each in first.memories)
    elsewhere = record(trajectory("one", task_id="t2"), "Of another task")
    second = record(trajectory("one", "two"), "Quote it", reinforced=(kept,))
    await store.save_learning(first)
    await store.save_learning(elsewhere)
    assert await store.save_learning(second) == (gone,)
    (archived,) = await store.get_memories([HERE], [gone])
    assert archived.status == "archived"
    assert "superseded" in (archived.status_reason or "")
    titles = {each.title for each in await store.list_memories([HERE], MemoryFilter())}
    assert titles == {"Retry once", "Quote it", "Of another task"}
    assert (await store.get_trajectory(HERE, "t1"))[0] == second.trajectory


async def test_what_another_task_gives_again_becomes_surer_but_never_more_than_sure(store: Any) -> None:
    first = record(trajectory("one"), "Retry once")
    (known,) = (each.item.id for each in first.memories)
    await store.save_learning(first)
    for number, (step, expected) in enumerate([(0.05, 0.55), (0.9, 1.0), (0.0, 1.0)]):
        run = record(trajectory("x", task_id=f"o{number}"), reinforced=(known,), reinforcement=step)
        await store.save_learning(run)
        (found,) = await store.get_memories([HERE], [known])
        assert found.confidence == pytest.approx(expected)


async def test_a_run_with_one_bad_vector_writes_nothing(store: Any) -> None:
    done = trajectory("one")
    run = record(done, "Retry once", "Log it")
    broken = run.memories[1]._replace(vector=array("f", [float("nan")] * 16))
    with pytest.raises(StorageError, match="refused"):
        await store.save_learning(run._replace(memories=(run.memories[0], broken)))
    assert await store.learned_before(HERE, done) is None
    assert await store.list_memories([HERE], MemoryFilter()) == []
    await store.save_learning(run)


async def test_a_verdict_alone_is_kept_and_is_no_learning(store: Any) -> None:
    done = trajectory("one")
    lost = WON.model_copy(update={"label": "Failure"})
    await store.save_verdict(HERE, "tr_1", done, WON)
    await store.save_verdict(HERE, "tr_1", done, lost)
    assert await store.get_trajectory(HERE, "tr_1") == (done, lost)
    assert await store.learned_before(HERE, done) is None
    assert (await store.statistics(HERE, "numbers")).verdicts == {"Failure": 1}
    await store.save_verdict(Scope(project="there"), "tr_1", done, WON)
    assert await store.get_trajectory(HERE, "tr_1") == (done, lost)
    await store.save_learning(record(done, "Retry once"))
    assert await store.learned_before(HERE, done) is not None


async def test_a_run_grows_with_its_rollouts_until_it_ends(open_store: Any) -> None:
    run = MattsRun(
        run_id="run_1", scope=HERE, task_id="t", task="Fix it", mode="parallel", k=2,
        summary=RunSummary(runner="r"), created_at=AT,
    )  # fmt: skip
    first = Rollout(number=1, status="finished", seed=1, temperature=0.5, trajectory_id="tr_1", notes=("it held",))
    async with open_store() as store:
        assert (await store.begin_run(run)).status == "running"
        assert await store.save_rollout(HERE, "run_1", first, trajectory("one"), WON)
    async with open_store() as store:
        grown = await store.begin_run(run)
        assert grown == run.model_copy(update={"status": "running"}).with_rollout(first)
        assert await store.get_trajectory(HERE, "tr_1") == (trajectory("one"), WON)
        assert await store.list_runs(HERE, ["running"], 9) == [grown]
        ended = grown.completed(grown.summary.model_copy(update={"best": 1}))
        assert await store.end_run(MattsRunEnd(ended, "numbers"))
        assert not await store.end_run(MattsRunEnd(ended, "numbers"))
        assert not await store.save_rollout(HERE, "run_1", first, None, None)
        assert await store.get_run(HERE, "run_1") == ended
        assert await store.get_run(Scope(project="there"), "run_1") is None
        assert not await store.cancel_run(HERE, "run_1")


async def test_a_batch_of_upkeep_is_written_once_and_taken_back(store: Any) -> None:
    kept, gone = made_item("Retry the upload"), made_item("Retry uploads")
    await store.add_memories([stored(each, NUMBERS) for each in (kept, gone)], NUMBERS.name)
    assert (await store.pending_upkeep(HERE, NUMBERS.name, 9)) == PendingUpkeep(2, 0, 0)
    seen = {each.id: each for each in await store.upkeep_items(HERE, NUMBERS, after=0, limit=9)}
    assert all(each.direction for each in seen.values())
    link = MemoryLink(src_id=gone.id, dst_id=kept.id, relation="duplicate_of", weight=0.9)
    change = UpkeepChange(seen[gone.id], 0.4, "archived", "the same", needs=kept.id)
    batch = UpkeepBatch("run_1", AT, (change,), (link,), aging=(None, Aging(at=AT)))
    assert (await store.write_upkeep(HERE, batch)).changed == (gone.id,)
    assert (await store.write_upkeep(HERE, batch)).refused
    await store.finish_upkeep(HERE, "run_1", AT, seen[gone.id].position, {"merged": 1})
    state = await store.upkeep_state(HERE)
    assert (state.active, state.consolidated, state.aging) == (1, seen[gone.id].position, Aging(at=AT))
    assert await store.memory_links((HERE,), [kept.id]) == [link]
    (number,) = await store.upkeep_batches(HERE, "run_1")
    undone = await store.undo_upkeep(HERE, "run_1", number, AT)
    assert (undone.restored, undone.links_removed) == (1, 1)
    assert await store.upkeep_batches(HERE, "run_1") == []
    assert await store.get_memories([HERE], [gone.id]) == [gone]
    assert await store.upkeep_items(Scope(project="there"), NUMBERS, after=0, limit=9) == []


async def test_what_lacks_a_vector_is_given_one(store: Any) -> None:
    bare = made_item("Retry the upload")
    await store.add_memories([stored(bare)], NUMBERS.name)
    assert (await store.pending_upkeep(HERE, NUMBERS.name, 9)).not_embedded == 1
    ((position, text),) = await store.unembedded(HERE, 9, 0)
    assert await store.vectors.without_vector(NUMBERS.name, 16, 9, 0) == [(position, text)]
    assert text == bare.embedding_text
    vector = NUMBERS.vector(text)
    assert await store.put_first_vectors(NUMBERS.name, {position: vector}) == {bare.id: vector}
    assert await store.put_first_vectors(NUMBERS.name, {position: NUMBERS.vector("other")}) == {}
    assert await store.unembedded(HERE, 9, 0) == []
    ((found, cosine),) = await store.nearest([HERE], NUMBERS.name, NUMBERS.vector(text), 9)
    assert (found, cosine) == (bare.id, pytest.approx(1.0, abs=0.01))


async def test_runs_of_benchmarks_come_back_newest_first(store: Any) -> None:
    first = BenchmarkRun(
        run_id="b0", suite="retrieval", status="completed", options={"k": 5}, settings={}, seed=1, versions={},
        machine={}, started_at=AT,
    )  # fmt: skip
    runs = [first, first.model_copy(update={"run_id": "b1", "started_at": AT + timedelta(1)})]
    for run in runs:
        await store.benchmarks.save_benchmark(HERE, run)
    assert await store.benchmarks.list_benchmarks(HERE, 9) == [*reversed(runs)]
    assert await store.benchmarks.get_benchmark(HERE, "b0") == runs[0]
    assert await store.benchmarks.get_benchmark(Scope(project="there"), "b0") is None


async def test_a_tool_is_known_by_its_calls_their_evaluations_and_its_summary(store: Any) -> None:
    calls = [
        ToolCall(scope=HERE, tool_name="Bash", input=text, success=text != "b", created_at=AT, session_id="s")
        for text in ("a", "b")
    ]
    tools = store.tool_memory
    await tools.add_calls(calls, 100)
    await tools.put_schema(HERE, "Bash", "{}")
    await store.add_event(HERE, BankEvent(CORRECTED, AT, "s"))
    asked: dict[str, Any] = {"now": AT, "until": AT, "tools": None, "after": 0, "limit": 9}
    pending = await tools.pending_calls(HERE, **asked)
    assert [kept.call for kept in pending.calls] == calls
    assert ([each.call.input for each in pending.after], pending.corrections) == (["b"], {"s": [AT]})
    first, second = (kept.seq for kept in pending.calls)
    good = Evaluation(score=1.0, summary="listed", evaluation="it did", method="evidence")
    done, failed = [EvaluatedCall(first, good, ("list", "file"))], {second: "busy"}
    assert await tools.save_evaluations(HERE, done, failed, now=AT, retry_after_s=60) == 1
    assert await tools.save_evaluations(HERE, done, {}, now=AT, retry_after_s=60) == 0
    assert (await tools.pending_calls(HERE, **asked)).calls == ()
    assert [each.evaluation for each in await tools.recent_calls(HERE, "Bash", 9)] == [None, good]
    assert [each.score for each in (await tools.past_calls(HERE, ("list",), None)).calls] == [1.0]
    assert await tools.new_calls(HERE, "Bash", 9) == 1
    assert await tools.counts(HERE) == ToolMemoryCounts(1, 2, 2, 1, 0)
    (known,) = await tools.memories(HERE, ["Bash", "Read"])
    totals = known.totals
    assert (totals.calls, totals.succeeded, totals.evaluated, totals.first_at) == (2, 1, 1, AT)
    assert (known.tool_schema, known.summary) == ("{}", None)
    assert await tools.forget_tools(HERE, None) == 1
    assert await tools.memories(HERE, None) == []


async def test_tasks_are_counted_by_day_filtered_and_sorted(store: Any) -> None:
    verdict = Verdict(label="Failure", confidence=0.9, judge="evidence")
    for days, minutes in ((0, 5), (1, 9), (4, 1)):  # AT is a Friday: the last one belongs to that week's Monday
        step = Step(id="s1", kind="message", role="user", text="go")
        ended = AT - timedelta(days=days)
        task = Trajectory(task_id=f"t{days}", task="go", steps=(step,), ended_at=ended)
        task = task.model_copy(update={"started_at": ended - timedelta(minutes=minutes)})
        await store.save_verdict(HERE, f"tr_{days}", task, verdict)
    item = made_item("Learned", provenance=Provenance(task_id="t4"), created_at=AT - timedelta(days=5))
    await store.add_memories([stored(item, NUMBERS)], NUMBERS.name)
    monday = (AT - timedelta(days=4)).date()
    days = [(AT.date() - timedelta(days=each), "Failure", 1) for each in (4, 1, 0)]
    assert sorted(await store.tasks_by_day(HERE)) == days

    async def found(**which: Any) -> list[str]:
        return [row.task_id for row in await store.list_tasks(HERE, TaskFilter(**which))]

    assert await found(sort="took") == ["t1", "t0", "t4"]
    assert await found(sort="taught") == ["t4", "t0", "t1"]
    assert await found(taught=True, week=monday.isoformat()) == ["t4"]
    assert await found(week="2026-04-20") == []
    assert await store.tool_memory.failed_calls(HERE, ["Bash"], 5) == []
