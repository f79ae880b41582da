"""Files of memories and calls are known by what stands in them, however they are laid out."""

import json
import time
from collections.abc import AsyncGenerator, Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from made_tasks import Shop, opened

from swarm_memory.schema.errors import InputError
from swarm_memory.server.jobs.exports import format_of, import_export, lines_of
from swarm_memory.tools.memories.transfer import Imported, export_memories
from swarm_memory.tools.tool_memory.log import log_tool_calls
from swarm_memory.tools.tool_memory.transfer import export_tools

CALL: dict[str, Any] = {
    "create_time": "2025-10-10 12:00:00",
    "tool_name": "search_web",
    "input": {"query": "capital of France"},
    "output": "Paris",
    "success": True,
}

LAYOUTS: dict[str, Callable[[list[Any]], str]] = {
    "lines": lambda records: "\n".join(json.dumps(each) for each in records),
    "jq -c -S": lambda records: "\n".join(json.dumps(each, sort_keys=True, separators=(",", ":")) for each in records),
    "jq": lambda records: "\n".join(json.dumps(each, indent=2, ensure_ascii=False) for each in records),
    "jq -s": lambda records: json.dumps(records, indent=2),
    "json.dumps of a list": json.dumps,
    "with a mark and blank lines": lambda records: (
        "\ufeff\n" + "\n\n".join(json.dumps(each) for each in records) + "\n"
    ),
}


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Shop]:
    async with opened(tmp_path) as bank:
        yield bank


@pytest.fixture(autouse=True)
def far_east(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A machine nine hours before UTC."""
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


async def taken_in(shop: Shop, folder: Path, text: str) -> Imported:
    file = folder / "given.json"
    put(file, text)
    return await import_export(shop.toolbox, file, False)


def put(file: Path, text: str) -> None:
    file.write_text(text, "utf-8")


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_file_is_known_and_read_however_it_is_laid_out(tmp_path: Path, layout: Callable[[list[Any]], str]) -> None:
    ours: list[Any] = [
        {"scope": {}, "id": f"rm_{number}", "title": "Schlüssel", "content": "1. \n2."} for number in range(3)
    ]
    tools: list[Any] = [{"kind": "tool", "totals": {}}, {"kind": "call", "call": {}}]
    for records, form in ((ours, "memories"), (tools, "tools")):
        put(file := tmp_path / "given.json", layout(records))
        assert format_of(file) == form
        assert [json.loads(line.lstrip("\ufeff")) for line in lines_of(file) if line.strip()] == records


async def test_an_export_of_ours_that_was_laid_out_anew_gives_the_same_bank(shop: Shop, tmp_path: Path) -> None:
    for title in ("Migrate first", "Fragt zuerst nach dem Schlüssel"):
        await shop.add(title)
    await log_tool_calls(shop.toolbox, [{"tool_name": "Bash", "input": "ls", "output": "a", "success": True}] * 2)
    memories = [json.loads(line) async for line in export_memories(shop.toolbox)]
    tools = [json.loads(line) async for line in export_tools(shop.toolbox)]
    async with opened(tmp_path / "other") as other:
        done = await taken_in(other, tmp_path, LAYOUTS["jq"](memories))
        assert (done.added, done.faulty, done.known) == (2, 0, 0)
        done = await taken_in(other, tmp_path, LAYOUTS["jq -c -S"](tools))
        assert (done.calls, done.faulty) == (2, 0)
        assert (await taken_in(other, tmp_path, LAYOUTS["jq -s"](tools))).known_calls == 2
        (totals,) = [each.totals for each in await other.toolbox.store.tool_memory.memories(other.toolbox.scope, None)]
        assert (totals.tool_name, totals.calls) == ("Bash", 2)


async def test_a_time_without_a_zone_is_this_machines(shop: Shop) -> None:
    await log_tool_calls(shop.toolbox, [CALL, {**CALL, "create_time": "2025-10-10T12:00:00Z"}])
    kept = await shop.toolbox.store.tool_memory.recent_calls(shop.toolbox.scope, "search_web", 9)
    assert sorted(each.call.created_at for each in kept) == [
        datetime(2025, 10, 10, 3, tzinfo=UTC), datetime(2025, 10, 10, 12, tzinfo=UTC)
    ]  # fmt: skip


async def test_a_document_that_ends_in_no_json_is_refused(shop: Shop, tmp_path: Path) -> None:
    await shop.add("Migrate first")
    memories = [json.loads(line) async for line in export_memories(shop.toolbox)]
    with pytest.raises(InputError, match="no JSON from character"):
        await taken_in(shop, tmp_path, json.dumps(memories, indent=2) + "\n{oops")


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
    put(tmp_path / "x.jsonl", text)
    assert format_of(tmp_path / "x.jsonl") is None
