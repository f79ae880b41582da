"""The views that any SQLite client can read: they say what the operations say, and withdrawn memories are marked."""

import os
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from made_tasks import NOW, Shop, done, opened, ran, verdict

from swarm_memory.schema.memory import Provenance
from swarm_memory.schema.outcome import Effect
from swarm_memory.schema.sqlite.statements import schema_objects
from swarm_memory.schema.tool_memory import ReportedCall
from swarm_memory.server.storage.driver import choose
from swarm_memory.tools.credit.metrics import memory_effect
from swarm_memory.tools.memories.decide import set_memory_status
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.tool_memory.log import log_tool_calls

SQLITE = choose(os.environ.get("SWARM_MEMORY_SQLITE") or "auto").module
PAGE = Path(__file__).resolve().parents[2] / "docs" / "SQL.md"


def read(folder: Path, query: str) -> list[dict[str, Any]]:
    """Query a closed bank as a stranger does: read-only and without extensions."""
    with closing(SQLITE.connect(f"file:{folder / 'memory.db'}?mode=ro", uri=True)) as connection:
        connection.row_factory = SQLITE.Row
        return [dict(row) for row in connection.execute(query)]


async def test_memories_that_are_held_back_or_withdrawn_are_marked_with_the_reason(tmp_path: Path) -> None:
    async with opened(tmp_path) as shop:
        await shop.add("Migrate first", outcome="Failure", tags=("a", "b"))
        held = await shop.add("Ask first", provenance=Provenance(distiller="user"))
        gone = await shop.add("Retry", created_at=NOW)
        await set_memory_status(shop.toolbox, [held], "quarantined", "to be looked at")
        await set_memory_status(shop.toolbox, [gone], "archived", "wrong")
    rows = {row["title"]: row for row in read(tmp_path, "SELECT * FROM v_memories")}
    assert {title: row["status"] for title, row in rows.items()} == {
        "Migrate first": "active", "Ask first": "quarantined", "Retry": "archived"
    }  # fmt: skip
    assert rows["Ask first"]["status_reason"] == "to be looked at"
    assert (rows["Ask first"]["standing"], rows["Ask first"]["distiller"]) == ("said by the user", "user")
    first = rows["Migrate first"]
    assert (first["kind"], first["tags"]) == ("guardrail", '["a","b"]')
    assert (first["project"], first["standing"]) == ("shop", None)


async def test_tasks_have_their_verdict_and_their_outcome_whichever_is_known(tmp_path: Path) -> None:
    async with opened(tmp_path) as shop:
        await shop.outcome("Success", done(ran("pytest"), ran("ls"), task_id="credited"), task_id="credited")
        judged = done(ran("pytest"), task_id="judged", task="find it")
        for steps in (judged, done(ran("pytest"), ran("ls"), task_id="judged", task="find it again")):
            await shop.toolbox.store.save_verdict(
                shop.toolbox.scope, f"traj_{len(steps.steps)}", steps, verdict("Failure")
            )
    rows = {row["task_id"]: row for row in read(tmp_path, "SELECT * FROM v_tasks")}
    assert set(rows) == {"credited", "judged"}
    credited, judged_row = rows["credited"], rows["judged"]
    assert (credited["outcome"], credited["arm"]) == ("Success", "nothing_fitted")
    assert (credited["steps"], credited["query"]) == (2, None)
    assert (judged_row["verdict"], judged_row["judge"], judged_row["outcome"]) == ("Failure", "evidence", None)
    assert (judged_row["query"], judged_row["trajectories"]) == ("find it again", 2)


async def test_calls_of_tools_are_rows_with_what_they_were_for(tmp_path: Path) -> None:
    async with opened(tmp_path) as shop:
        call = ReportedCall(tool_name="Bash", input={"command": "ls"}, output="a.txt", success=True, task="look")
        await log_tool_calls(shop.toolbox, [call, call.model_copy(update={"success": False})])
    rows = read(tmp_path, "SELECT * FROM v_tool_calls ORDER BY seq")
    assert [(row["tool_name"], row["success"], row["task"], row["score"]) for row in rows] == [
        ("Bash", 1, "look", None), ("Bash", 0, "look", None)
    ]  # fmt: skip
    assert rows[0]["input"] == '{"command": "ls"}'


@pytest.mark.parametrize("holdout_rate", [0.0, 0.5])
async def test_lift_is_what_status_compares(tmp_path: Path, holdout_rate: float) -> None:
    async with opened(tmp_path) as bank:
        await bank.add("Migrate the orders table before the tests", "1. Run `make migrate`.")
        await tasks_of(bank, 4)  # before any task was held out: not randomized
        await tasks_of(bank.set(holdout_rate=holdout_rate), 24, begin=4)
        effect = await memory_effect(bank.toolbox)
    (row,) = read(tmp_path, "SELECT * FROM v_lift")
    assert effect is not None
    assert row == {"tenant_id": "default", "project": "shop", **as_row(effect)}


async def tasks_of(bank: Shop, count: int, begin: int = 0) -> None:
    """Record `count` tasks: every third ends well, the others fail, and the bank has something for every second one."""
    for number in range(begin, begin + count):
        task_id = f"task-{number}"
        asked = "the tests fail: no such table orders, migrate" if number % 2 else "what shall we have for lunch"
        await retrieve(bank.toolbox, asked, task_id=task_id)
        steps = done(*[ran("pytest")] * (1 + number % 5), task_id=task_id)
        await bank.outcome("Failure" if number % 3 else "Success", steps, task_id=task_id)


def as_row(effect: Effect) -> dict[str, Any]:
    sides = {"with": effect.with_memory, "without": effect.without_memory}
    names = {"tasks": "tasks", "decided": "decided", "success_rate": "success_rate"}
    names |= {"steps": "mean_steps", "tokens": "mean_tokens"}
    row = {f"{name}_{side}": getattr(arm, field) for side, arm in sides.items() for name, field in names.items()}
    assert effect.success_rate is not None
    return row | {"basis": effect.basis, "lift": pytest.approx(effect.success_rate.value)}


async def test_the_page_describes_every_column_of_every_view(tmp_path: Path) -> None:
    async with opened(tmp_path):
        pass
    chapters = dict(re.findall(r"^## (v_\w+)\n(.+?)(?=^## |\Z)", PAGE.read_text("utf-8"), re.M | re.S))
    views = [name for name in schema_objects() if name.startswith("v_")]
    assert sorted(chapters) == sorted(views)
    for view in views:
        documented = [
            name for cell in re.findall(r"^\| (`.+?) \|", chapters[view], re.M) for name in re.findall(r"`(\w+)`", cell)
        ]
        assert sorted(documented) == sorted(row["name"] for row in read(tmp_path, f"PRAGMA table_info({view})"))
