"""Forgetting a memory with the task that it came from: no byte of either is left, and it is not learned again."""

import subprocess
from pathlib import Path

import pytest
from attacked_bank import Told, items_of, opened

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.server.storage.sqlite import SqliteStore
from swarm_memory.tools.learn import learn
from swarm_memory.tools.memories import forget_memories
from swarm_memory.tools.retrieve import retrieve

pytestmark = pytest.mark.attack

MARKS = ("zqxylophoneqz", "zqmarimbaqz", "zqcelestaqz")


def files_with(folder: Path, *marks: str) -> int:
    """Count the files of the bank that hold any of the texts: by another process, for the bank is open here."""
    patterns = [part for mark in marks for part in ("-e", mark)]
    found = subprocess.run(["grep", "-rlaiF", *patterns, str(folder)], capture_output=True, timeout=20, check=False)
    return len(found.stdout.splitlines())


async def test_with_the_trajectory_no_byte_of_the_task_is_left_and_it_is_not_learned_again(tmp_path: Path) -> None:
    told = Told(f"tune the {MARKS[0]}", "t1").shell(f"play {MARKS[1]}", f"Error: no {MARKS[1]}", 1)
    done = told.shell("play again", "3 passed").say(f"the {MARKS[0]} sounds").done()
    draft = MemoryDraft(title=f"Tune the {MARKS[2]} first", content=f"1. Tune the {MARKS[2]}\n2. Play")
    async with opened(tmp_path) as tools:
        await learn(tools, done, agent_drafts=[draft])
        await retrieve(tools, f"tune the {MARKS[0]}", task_id="t1")
        (stored,) = await items_of(tools)
        assert isinstance(tools.store, SqliteStore)
        await tools.store.back_up()
        assert files_with(tmp_path, *MARKS) > 1
        assert await forget_memories(tools, [stored.id], with_trajectories=True) == 1
        assert files_with(tmp_path, *MARKS) == 0
        assert (await tools.store.inspect()).trajectories == []
        again = await learn(tools, done, agent_drafts=[draft])
        assert (again.status, await items_of(tools)) == ("already_learned", [])
    assert files_with(tmp_path, *MARKS) == 0


async def test_without_it_the_record_of_the_task_stays(tmp_path: Path) -> None:
    done = Told(f"tune the {MARKS[0]}", "t1").shell("play", "3 passed").done()
    draft = MemoryDraft(title=f"Tune the {MARKS[2]} first", content="1. Tune it\n2. Play")
    async with opened(tmp_path) as tools:
        learned = await learn(tools, done, agent_drafts=[draft])
        await forget_memories(tools, [(await items_of(tools))[0].id])
        kept = await tools.store.get_trajectory(tools.scope, learned.trajectory_id)
        assert kept is not None
        assert kept[0].task == f"tune the {MARKS[0]}"
        assert files_with(tmp_path, MARKS[2]) == 0
