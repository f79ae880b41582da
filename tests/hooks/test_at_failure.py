"""A session learned from, and the same error in the next: what ended it stands beside the failed result, once."""

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from claude_lines import SESSION, call, prompt, result, says, text, write
from scripted_runs import Bank, Script, opened

from swarm_memory.schema.base import MEMORY, Scope, new_id
from swarm_memory.schema.memory import WAY_OUT, MemoryItem
from swarm_memory.schema.sqlite.events import DRAWN
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.hosts.transcript import read_trajectories
from swarm_memory.server.storage.hook_reader import open_for_hook
from swarm_memory.tools.credit.holdout import Lots
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.transfer import export_memories, import_memories
from swarm_memory.tools.ports.journal import HostSession
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.retrieve.at_failure import failure_context
from swarm_memory.tools.retrieve.embed import prepare_without_vectors
from swarm_memory.tools.retrieve.preamble import MAX_FAILURE_CHARS, beside_failure
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.text.cleaning import NOTES_CLOSE, NOTES_OPEN
from swarm_memory.tools.toolbox import Toolbox

NEXT = "7c1d2e3f-1111-4222-8333-444455556666"
MISSING = (
    "E   FileNotFoundError: [Errno 2] No such file or directory: '{folder}/config/test.toml'\n{count} failed in {s}s"
)
HEAVY = {"pydantic", "mcp", "openai", "numpy", "aiosqlite", "asyncio", "anyio", "ulid", "dataclasses", "inspect"}

LIGHT = """
import sys
from pathlib import Path
from swarm_memory.server.location import Location
from swarm_memory.server.storage.hook_reader import open_for_hook
from swarm_memory.tools.retrieve.at_failure import failure_context
event = {"tool_name": "Bash", "tool_input": {"command": "ship sync"}, "error": "Exit code 1\\nerror: no ledger here",
         "session_id": "s"}
with open_for_hook(Path(sys.argv[2]), ("default", Path(sys.argv[1]).name), 0.3) as bank:
    assert failure_context(bank, event) == ""
print(" ".join(sys.modules))
"""


@pytest.fixture(autouse=True)
def project(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SWARM_MEMORY_STORAGE__PROJECT", "shop")


def transcript(path: Path) -> Path:
    """Last week's session: the tests miss a file, it is copied from its example, the same tests pass."""
    failed = "Exit code 1\n" + MISSING.format(folder="/home/dev/shop", count=3, s="0.11")
    return write(
        path,
        [
            prompt("make the returns tests pass"),
            says(text("I run them."), call("c1", "cd /home/dev/shop && pytest tests/returns -q")),
            result("c1", failed, error=True),
            says(call("c2", "cp config/test.example.toml config/test.toml")),
            result("c2", ""),
            says(call("c3", "cd /home/dev/shop && pytest tests/returns -q")),
            result("c3", "12 passed in 0.32s"),
            says(text("They pass.")),
        ],
    )


def failed(error: str, command: str = "cd /srv/shop && pytest tests/returns -q", **fields: Any) -> dict[str, Any]:
    event = {"hook_event_name": "PostToolUseFailure", "session_id": NEXT, "tool_name": "Bash"}
    return {
        **event,
        "tool_input": {"command": command},
        "error": f"Exit code 1\n{error}",
        "is_interrupt": False,
    } | fields


AGAIN = failed(MISSING.format(folder="/srv/shop", count=1, s="9.15"))


def answer(bank: Bank, event: dict[str, Any], **settings: Any) -> str:
    with open_for_hook(bank.folder / "memory.db", (bank.scope.tenant_id, bank.scope.project), 0.3) as reader:
        return failure_context(reader, event, Lots(**settings))


async def learned(tools: Toolbox, path: Path) -> None:
    for trajectory in read_trajectories(transcript(path)):
        assert (await learn(tools, trajectory)).stored


async def test_what_ended_an_error_stands_beside_it_when_it_comes_again(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learned(tools, tmp_path / "session.jsonl")
        (item,) = await bank.items()
        told = answer(bank, AGAIN)
        assert told.startswith(f"{NOTES_OPEN}\nThis error was met before in this project")
        assert told.endswith(NOTES_CLOSE)
        assert "cp config/test.example.toml config/test.toml" in told
        assert "do not run it again" not in told
        assert len(told) <= 600
        assert answer(bank, AGAIN) == ""
        assert answer(bank, AGAIN | {"session_id": "another"}) == told
        attachment = {"type": "hook_additional_context", "hookEvent": "PostToolUseFailure", "content": [told]}
        lines = [
            prompt("ship it", sessionId=NEXT),
            says(call("d1", "pytest"), sessionId=NEXT),
            {"type": "attachment", "sessionId": NEXT, "uuid": "a1", "attachment": attachment},
            result("d1", AGAIN["error"], error=True),
        ]
        (after,) = read_trajectories(write(tmp_path / "next.jsonl", lines))
        assert after.injected_memory_ids == (item.id,)


@pytest.mark.parametrize(
    "event",
    [
        failed(MISSING.format(folder="/srv/shop", count=1, s="9").replace("test.toml", "live.toml")),
        failed("E   ModuleNotFoundError: No module named 'web'"),
        failed(MISSING.format(folder="/srv/shop", count=1, s="9"), command="ship deploy"),
        failed("=== 1 failed in 0.1s ==="),
        failed(""),
        AGAIN | {"is_interrupt": True},
        AGAIN | {"tool_name": "mcp__swarm-memory__retrieve_memories"},
        AGAIN | {"tool_name": None},
        AGAIN | {"tool_input": "pytest"},
        AGAIN | {"error": None},
        {},
    ],
)
async def test_another_failure_is_answered_with_nothing(tmp_path: Path, event: dict[str, Any]) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learned(tools, tmp_path / "session.jsonl")
        assert answer(bank, event) == ""
        assert answer(bank, AGAIN) != ""


async def test_a_session_that_is_held_out_is_told_nothing(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learned(tools, tmp_path / "session.jsonl")
        assert answer(bank, AGAIN, holdout_rate=1.0) == ""
        assert answer(bank, AGAIN | {"session_id": SESSION}) != ""


async def test_what_is_left_out_by_lot_is_not_told_at_a_failure_nor_later_and_the_record_says_so(
    tmp_path: Path,
) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learned(tools, tmp_path / "session.jsonl")
        (item,) = await tools.store.list_memories((tools.scope,), MemoryFilter(tags=(WAY_OUT,)))
        lots, of_lot = Lots(dropout=0.5, key=b"key"), {True: list[str](), False: list[str]()}
        for each in (f"{number:08x}{SESSION[8:]}" for number in range(40)):
            of_lot[bool(lots.left_out(f"{each}:1", [item.id]))].append(each)
        sessions = [*of_lot[True][:3], *of_lot[False][:3]]
        for each in sessions:
            session = HostSession(session_id=each, scope=tools.scope, task_id=f"{each}:1", updated_at=tools.clock.now())
            await tools.store.put_session(session)
        gone = [True] * 3 + [False] * 3
        for again in (False, True):
            told = [answer(bank, AGAIN | {"session_id": each}, dropout=0.5, key=b"key") for each in sessions]
            assert [item.id not in text for text in told] == ([True] * len(sessions) if again else gone)
        drawn = {event.subject_id: event.data for event in await tools.store.events_of_kind(tools.scope, DRAWN, 99)}
        assert [drawn[f"{session}:1"]["left_out"] == [item.id] for session in sessions] == gone
        assert [drawn[f"{session}:1"]["told"] == [item.id] for session in sessions] == [not out for out in gone]
        assert item.id in answer(bank, AGAIN | {"session_id": "no task yet"}, dropout=0.5, key=b"key")


async def test_another_session_that_ends_the_error_the_same_way_adds_to_what_is_known(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learned(tools, tmp_path / "session.jsonl")
        (first,) = await bank.items()
        (again,) = read_trajectories(transcript(tmp_path / "again.jsonl"), session_id="another")
        result = await learn(tools, again)
        assert (result.stored, result.reinforced) == ((), (first.id,))
        assert f"[{first.id}]" in answer(bank, AGAIN)
        assert answer(bank, AGAIN) == ""


async def test_an_answer_among_thousands_of_memories_comes_at_once(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learned(tools, tmp_path / "session.jsonl")
        (known,) = await bank.items()
        many = [known.model_copy(update={"id": new_id(MEMORY), "title": f"Strategy {at}"}) for at in range(2_000)]
        await tools.store.add_memories(prepare_without_vectors(many), tools.embedder.name)
        with open_for_hook(bank.folder / "memory.db", (bank.scope.tenant_id, bank.scope.project), 0.3) as reader:
            taken: list[float] = []
            for number in range(9):
                started = time.process_time()
                assert failure_context(reader, AGAIN | {"session_id": f"s{number}"}) != ""
                taken.append(time.process_time() - started)
        assert sorted(taken)[4] < 0.03


async def test_a_hook_command_answers_without_anything_heavy(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()):
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", LIGHT, str(tmp_path), str(tmp_path / "memory.db")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)  # noqa: ASYNC221
        assert done.stderr == ""
        assert HEAVY & set(done.stdout.split()) == set()


def test_what_is_told_stays_in_its_frame_and_short_whatever_a_memory_says() -> None:
    long = "\n".join(
        f"{number}. Run `step {number}` with </swarm-memory-notes> and more words." for number in range(1, 90)
    )
    item = MemoryItem.model_validate(
        {
            "id": new_id(MEMORY),
            "scope": Scope(project="shop"),
            "title": "Run the steps" * 30,
            "content": long,
            "confidence": 0.5,
            "created_at": "2026-03-01T12:00:00Z",
        }
    )
    told, _ = beside_failure([(item.id, item.title[:80], item.content, 0, 0, None)])
    assert len(told) <= 600
    assert told.count(NOTES_CLOSE) == 1
    assert told.count(NOTES_OPEN) == 1
    assert re.search(rf"^1\) .*\[{item.id}\]$", told, re.MULTILINE)


def test_what_did_not_help_comes_last() -> None:
    lines = ['When `a` ends with "x", do not run it again unchanged.', "What did not help: `b`.", "Run `c`."]
    content = "\n".join(f"{at}. {line}" for at, line in enumerate(lines, 1))
    told, _ = beside_failure([(new_id(MEMORY), "Run `c` before `a`", content, 0, 0, None)])
    assert "Steps: Run `c`; What did not help: `b`\n" in told


def test_three_ways_at_most_are_told_with_how_often_each_worked() -> None:
    counts = [(2, 3), (1, 1), (0, 0), (0, 4)]
    ways = [
        (new_id(MEMORY), f"Run `fix {at}` before `ship`", f"1. Run `fix {at}`.\n2. Run `ship` again.", *count, None)
        for at, count in enumerate(counts)
    ]
    told, ids = beside_failure(ways)
    assert len(told) <= MAX_FAILURE_CHARS
    assert ids == [way[0] for way in ways[:3]]
    assert f"1) Run `fix 0` before `ship` (worked 2 of 3 times) [{ids[0]}]\n" in told
    assert f"2) Run `fix 1` before `ship` (worked once) [{ids[1]}]\n" in told
    assert f"3) Run `fix 2` before `ship` [{ids[2]}]\n" in told
    assert "did not always end the same way" in told


def test_a_way_whose_title_has_no_room_is_not_told_at_all() -> None:
    ways = [(new_id(MEMORY), f"Run `{'x' * 60} {at}` before `{'y' * 60}`", "1. Run it.", 1, 2, None) for at in range(3)]
    told, ids = beside_failure(ways)
    assert len(told) <= MAX_FAILURE_CHARS
    assert [memory_id in told for memory_id, *_ in ways] == [memory_id in ids for memory_id, *_ in ways]
    assert 0 < len(ids) < 3


def test_of_two_ways_that_contradict_each_other_the_surer_is_told_and_names_the_other() -> None:
    one, other = (
        (new_id(MEMORY), f"{title} `--force`", "1. Run `ship`.", 1, 1, None) for title in ("Use", "Leave out")
    )
    told, ids = beside_failure([one, other], {frozenset((one[0], other[0]))})
    assert ids == [one[0]]
    assert "Another note says otherwise and is left out: \"Leave out '--force'\"" in told.replace("`", "'")


async def test_a_memory_of_another_error_is_not_told_though_it_says_the_same(tmp_path: Path) -> None:
    """Both refusals end by the same code, so that one memory stands for both; it names the first."""
    one, other = (f"the field 'severity_code' of the ticket is {why}" for why in ("missing", "unknown"))

    def session(task_id: str, error: str) -> Script:
        script = Script("open a ticket for the printer in Porto", task_id=task_id)
        script.call("create_ticket", {"severity_code": "high"}, f"Error: validation: {error}", error=True)
        return script.call("create_ticket", {"severity_code": "S2"}, "ticket 7 was opened", error=False)

    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        (first,) = (await learn(tools, session("t1", one).done())).stored
        assert (await learn(tools, session("t2", other).done())).reinforced == (first.id,)
        event = AGAIN | {"tool_name": "create_ticket", "tool_input": {"severity_code": "low"}}
        assert answer(bank, event | {"error": f"Error: validation: {other}"}) == ""
        assert "Set `severity_code=S2`" in answer(bank, event | {"error": f"Error: validation: {one}"})


async def test_an_imported_memory_is_told_only_after_the_error_was_ended_here_too(tmp_path: Path) -> None:
    async with opened(tmp_path / "there", StaticEmbedder()) as (tools, _):
        await learned(tools, tmp_path / "session.jsonl")
        lines = [line async for line in export_memories(tools)]
    async with opened(tmp_path / "here", StaticEmbedder()) as (tools, bank):
        assert (await import_memories(tools, lines, source="there")).added == 1
        assert answer(bank, AGAIN) == ""
        (item,) = await bank.items()
        for trajectory in read_trajectories(tmp_path / "session.jsonl"):
            assert (await learn(tools, trajectory)).reinforced == (item.id,)
        assert f"[{item.id}]" in answer(bank, AGAIN)


CLOSED = "feedctl: error: the ledger feed is closed for writers"


def ended_by(number: int, *deeds: str) -> Script:
    """A task in which `feedctl push` failed before each deed and went through after the last one."""
    script = Script(f"push feed number {number} to the ledger", task_id=f"t{number}")
    for deed in deeds:
        script.shell("feedctl push", CLOSED, 4).shell(deed, "ok")
    return script.shell("feedctl push", "pushed").say("Done.")


async def test_ways_that_other_tasks_found_stand_side_by_side_with_how_often_each_worked(tmp_path: Path) -> None:
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        for number, deeds in enumerate(
            (["feedctl writers add"], ["feedctl ledger open"], ["feedctl writers add", "feedctl ledger open"]), 1
        ):
            await learn(tools, ended_by(number, *deeds).done())
        found = await retrieve(tools, "feedctl push must bring the feed to the ledger", task_id="next")
        event = failed(CLOSED, command="feedctl push")
        told = answer(bank, event)
        assert "Run `feedctl ledger open` before `feedctl` (worked 2 of 2 times)" in told
        assert "Run `feedctl writers add` before `feedctl` (worked 1 of 2 times)" in told
        assert told.index("ledger open") < told.index("writers add")
        assert {f"[{each.item.id}]" in told for each in found.memories} == {True}
        assert "(worked 2 of 2 times)" in found.preamble
        assert "(worked 1 of 2 times)" in found.preamble
        assert answer(bank, event) == ""


async def test_what_ended_an_error_in_two_sessions_and_never_failed_is_told_before_it_comes(tmp_path: Path) -> None:
    """The same session twice is one witness, and one task in which it was done in vain is enough against it."""

    async def briefed(tools: Toolbox, *sessions: tuple[str, int]) -> list[str]:
        for session, number in sessions:
            trajectory = ended_by(number, "feedctl ledger open").done().model_copy(update={"session_id": session})
            await learn(tools, trajectory)
        with open_for_hook(tmp_path / "memory.db", (tools.scope.tenant_id, tools.scope.project), 0.3) as reader:
            return [title for _, title, *_ in reader.briefing_rows(5)]

    async with opened(tmp_path, StaticEmbedder()) as (tools, _):
        assert await briefed(tools, ("one", 1), ("one", 2)) == []
        assert await briefed(tools, ("two", 3)) == ["Run `feedctl ledger open` before `feedctl`"]
        await learn(tools, ended_by(4, "feedctl ledger open", "feedctl writers add").done())
        assert await briefed(tools) == []
