"""A folder of transcripts and exports is imported over MCP as a job, with progress; exports are known by content."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from made_tasks import opened

from swarm_memory.schema.job import Progress
from swarm_memory.schema.settings import Settings
from swarm_memory.server.jobs.transcripts import import_files, is_memory_export
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import open_toolbox
from swarm_memory.tools.memories.transfer import export_memories


def _folder(place: Location, fixed: dict[str, Any]) -> Path:
    folder = place.root / "projects"
    folder.mkdir()
    (folder / "one.jsonl").write_text(json.dumps({"id": "fix-1", "task": fixed["task"], "steps": fixed["steps"]}))
    return folder


async def test_a_folder_is_learned_from_once(
    connected: Callable[[], Any], place: Location, fixed: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    reported: list[tuple[float, float | None]] = []

    async def note(progress: float, total: float | None, _: str | None) -> None:
        reported.append((progress, total))

    folder = _folder(place, fixed)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(place.root))  # so that it is a host's, too
    async with connected() as caller:
        arguments = {"transcript_path": str(folder)}
        done = await caller.client.call_tool("learn_from_trajectory", arguments, progress_callback=note)
        answer = done.structured_content
        assert (answer["kind"], answer["status"]) == ("import", "completed")
        assert answer["result"]["transcripts"]["tasks"] == 1
        assert answer["result"]["transcripts"]["stored"] >= 1
        again = await caller.call("learn_from_trajectory", **arguments)
        assert (again["result"]["transcripts"]["known"], again["result"]["transcripts"]["stored"]) == (1, 0)
        assert "leave task_id out" in await caller.error("learn_from_trajectory", **arguments, task_id="x")
        (folder / "one.jsonl").write_text(json.dumps(fixed | {"id": "fix-2", "task": "Mend the shop."}))
        await caller.call("learn_from_trajectory", transcript_path=f"{folder}/one.jsonl")
        found = (await caller.call("manage_memories", action="list", status="candidate"))["memories"]
        assert found, "one caller is one witness, wherever the files lie"
    assert all(total == 1 for _, total in reported[1:])


async def test_an_export_waits_in_quarantine(
    connected: Callable[[], Any], place: Location, fixed: dict[str, Any]
) -> None:
    folder = _folder(place, fixed)
    async with connected() as caller:
        (task,) = (await caller.call("learn_from_trajectory", **fixed))["tasks"]
        await caller.call("learn_from_trajectory", **{**fixed, "task_id": "fix-2"})  # it confirms the fix
        toolbox = await open_toolbox(place, Settings())
        lines = [line async for line in export_memories(toolbox)]
        await toolbox.store.close()
        await caller.call("manage_memories", action="forget", ids=task["stored"])
        (folder / "one.jsonl").write_text("\n".join(lines))
        (row,) = (await caller.call("learn_from_trajectory", transcript_path=str(folder)))["result"]["exports"].values()
        assert row["added"] == len(lines) >= 1
        assert (await caller.call("memory_status"))["memories"]["quarantined"] == len(lines)


async def test_a_folder_elsewhere_is_refused(connected: Callable[[], Any], place: Location, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "x.jsonl").write_text("{}")
    async with connected() as caller:
        refused = await caller.error("learn_from_trajectory", transcript_path=str(other))
        assert "must be in" in refused
        assert "x.jsonl" not in refused, "what lies there is not named"
        (place.root / "empty").mkdir()
        empty = str(place.root / "empty")
        assert "no .jsonl files" in await caller.error("learn_from_trajectory", transcript_path=empty)


@pytest.mark.parametrize("mark", ["", "\ufeff"], ids=["plain", "with a mark"])
async def test_an_export_is_known_by_its_first_line_and_gives_the_same_bank(tmp_path: Path, mark: str) -> None:
    async def report(progress: Progress) -> None:
        assert progress.total == 1

    file = tmp_path / "given.json"
    async with opened(tmp_path) as shop:
        for title in ("Migrate first", "Fragt zuerst nach dem Schlüssel"):
            await shop.add(title)
        file.write_text(mark + "\n".join([line async for line in export_memories(shop.toolbox)]), "utf-8")
    async with opened(tmp_path / "other") as other:
        for added, known in ((2, 0), (0, 2)):
            tally = await import_files(other.toolbox, [file], False, report)
            done = tally.exports[str(file)]
            assert (done.added, done.faulty, done.known, tally.faults) == (added, 0, known, {})


@pytest.mark.parametrize(
    "text",
    [
        '{"id": "fix-1", "task": "x", "steps": []}',
        '{"type": "user", "message": {"content": "say \\"when_to_use\\" and \\"content\\""}}',
        '{"role": "user", "tool_name": "x", "output": "y"}',
        '{"id": "rm_x"}',
        "not JSON",
        "",
        "[" * 5000,
    ],
)
def test_a_transcript_is_no_such_file(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.jsonl").write_text(text, "utf-8")
    assert not is_memory_export(tmp_path / "x.jsonl")
    assert not is_memory_export(tmp_path)  # a folder: whoever reads it whole says why
