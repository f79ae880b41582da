"""One odd trajectory of many is named, and the others are learned from."""

import json
from collections.abc import Awaitable
from pathlib import Path

import pytest
from scripted_runs import opened

from swarm_memory.schema.errors import StorageError
from swarm_memory.schema.job import Progress
from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.jobs.transcripts import import_files
from swarm_memory.tools.learn.learn import Contained
from swarm_memory.tools.trajectory import reading


async def failing(error: Exception) -> str:
    raise error


async def answering(said: str) -> str:
    return said


async def test_a_fault_in_one_task_is_named_and_one_of_the_bank_is_raised() -> None:
    contained = Contained()
    works: list[Awaitable[str]] = [answering("a"), failing(ZeroDivisionError("x")), answering("c")]
    assert [await contained.answer(f"t{number}", work) for number, work in enumerate(works)] == ["a", None, "c"]
    assert contained.notice == "1 of 3 tasks could not be read: t1 (ZeroDivisionError)"
    with pytest.raises(StorageError):
        await contained.answer("t3", failing(StorageError("the disk is full")))
    assert Contained().notice is None


async def test_the_tasks_behind_an_odd_one_of_a_file_are_learned_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = reading.calls_of

    def raises_at_odd_ones(trajectory: reading.Trajectory) -> tuple[reading.Call, ...]:
        if trajectory.task == "the odd one":
            raise ZeroDivisionError("division by zero")
        return whole(trajectory)

    monkeypatch.setattr(reading, "calls_of", raises_at_odd_ones)
    steps = [{"role": "user", "content": "do it"}, {"role": "assistant", "content": "Done."}]
    tasks = [{"id": f"t{number}", "task": f"part {number}", "steps": steps} for number in range(4)]
    tasks[1]["task"] = "the odd one"
    file = tmp_path / "runs.jsonl"
    file.write_text("\n".join(map(json.dumps, tasks)))

    async def silent(progress: Progress) -> None:
        del progress

    async with opened(tmp_path / "bank", StaticEmbedder()) as (tools, _):
        tally = await import_files(tools, [file], False, silent)
    assert (tally.files, tally.tasks) == (1, 3)
    assert tally.faults == {str(file): "1 of 4 tasks could not be read: t1 (ZeroDivisionError)"}
