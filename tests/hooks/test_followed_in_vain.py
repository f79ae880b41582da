"""A note that a session followed in vain waits for review after its first failure; a note that names something gone is
not shown next to a call."""

from dataclasses import replace
from pathlib import Path

import pytest
from hooked import hooked
from scripted_runs import Script

from swarm_memory.schema.memory import MemoryItem, Note
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.server.project.folder import ProjectFolder
from swarm_memory.tools.anchors import staleness
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.memories.decide import keep, to_review
from swarm_memory.tools.memories.manage import get_memories
from swarm_memory.tools.memories.remember import Session, remember_notes
from swarm_memory.tools.toolbox import Toolbox

REFUSED = "ship: error: the berth is taken"
LEASE = Note(
    title="What `ship send` waits for",
    note=f'`ship send` failed with "{REFUSED}". `ship wash` did not help. After `ship lease` it went through.',
)


async def shown_before(toolbox: Toolbox, command: str, session_id: str) -> str:
    """Return what a session is shown at its prompt and next to a call."""
    prompt = {"hook_event_name": "UserPromptSubmit", "prompt": "Send it now please"}
    call = {"hook_event_name": "PreToolUse", "tool_name": "Bash", "tool_input": {"command": command}}
    answers = [await hooked(toolbox, {**event, "session_id": session_id}) for event in (prompt, call)]
    return "".join(each.get("hookSpecificOutput", {}).get("additionalContext", "") for each in answers)


def task(session_id: str, *commands: tuple[str, str, int]) -> Trajectory:
    script = Script("Send it now please", task_id=f"{session_id}:1", session_id=session_id)
    for command, output, code in commands:
        script.shell(command, output, code)
    return script.say("That is all.").done()


async def taught(toolbox: Toolbox) -> MemoryItem:
    (done,) = await remember_notes(toolbox, [LEASE])
    return done.item


FAILED = Verdict(label="Failure", confidence=0.9, judge="agent", reasons=("it was not sent",))
SEND, SENT, LEASED = ("ship send", REFUSED, 3), ("ship send", "sent", 0), ("ship lease", "leased", 0)
GONE = ("ship lease", "ship: unknown option: lease is no such option", 2)


@pytest.mark.parametrize(
    ("commands", "status"),
    [
        ((LEASED, SEND), "quarantined"),  # the goal of the note fails after that
        ((GONE, SEND), "quarantined"),  # its command cannot be run as written
        ((LEASED, SEND, SENT), "active"),
        ((SEND, ("ship wash", "", 0), SEND), "active"),  # what the note warns of was done, not what it advises
        ((LEASED, ("pytest -q", "1 failed in 0.1s", 1)), "active"),
        ((LEASED, ("ship send", "ship: could not resolve host: berth", 3)), "active"),  # another error than the note's
        ((GONE, SENT), "active"),  # its goal succeeded in another way
    ],
)
async def test_a_note_is_put_to_review_the_first_time_that_a_task_follows_it_in_vain(
    toolbox: Toolbox, commands: tuple[tuple[str, str, int], ...], status: str
) -> None:
    item = await taught(toolbox)
    assert item.id in await shown_before(toolbox, "ship send", "s1")
    assert item.id not in await shown_before(toolbox, "ship send", "s1"), "once in a session"
    await learn(toolbox, task("s1", *commands), agent_verdict=FAILED)
    (found,) = await get_memories(toolbox, [item.id])
    assert found.status == status
    if status == "quarantined":
        assert await shown_before(toolbox, "ship send", "s2") == ""
        _, kind, (card,) = await to_review(toolbox)
        assert "followed it without success: 'ship lease'" in card.reason
        await keep(toolbox, item.id, kind)
        assert item.id in await shown_before(toolbox, "ship send", "s3")
        await learn(toolbox, task("s3", *commands), agent_verdict=FAILED)
        (kept,) = await get_memories(toolbox, [item.id])
        assert kept.status == "active", "whoever kept it knows more"


@pytest.mark.parametrize("is_shown", [True, False])
async def test_what_was_not_shown_or_in_a_task_that_did_not_fail_is_not_blamed(
    toolbox: Toolbox, *, is_shown: bool
) -> None:
    item = await taught(toolbox)
    if is_shown:
        await shown_before(toolbox, "ship send", "s1")
    await learn(toolbox, task("s1", LEASED, SEND), agent_verdict=None if is_shown else FAILED)
    (found,) = await get_memories(toolbox, [item.id])
    assert found.status == "active"


async def test_beside_a_call_nothing_is_shown_that_advises_what_is_gone(
    toolbox: Toolbox, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staleness, "LOOK_S", 10.0)
    folder = tmp_path / "shop"
    folder.mkdir()
    for name in ("send.sh", "lease.sh", "wash.sh"):
        (folder / name).write_text("")
    here = replace(toolbox, project=ProjectFolder(folder))
    said = "`sh wash.sh` did not help against the berth of `sh send.sh`. Run `sh lease.sh` first."
    (done,) = await remember_notes(here, [Note(title="The berth of the ship", note=said)])
    (folder / "wash.sh").unlink()
    assert done.item.id in await shown_before(here, "sh send.sh", "s1"), "what it warns of may be gone"
    (folder / "lease.sh").unlink()
    assert await shown_before(here, "sh send.sh", "s2") == ""


async def test_beside_a_call_too_one_memory_says_that_tasks_of_both_outcomes_taught_it(toolbox: Toolbox) -> None:
    note = Note(title="Lease first", when="Before `ship send`.", note="Run `ship lease` before it.")
    (first,) = await remember_notes(toolbox, [note], Session(outcome="Success"))
    (second,) = await remember_notes(toolbox, [note], Session(outcome="Failure"))
    shown = await shown_before(toolbox, "ship send", "s1")
    assert first.item.id in shown
    assert second.item.id not in shown
    assert "It was noted after a failed task and after a successful one" in shown
