"""Whether a task kept to what ended an error before: done beforehand, or run that way from the start."""

from pathlib import Path

import pytest
from scripted_runs import Script, opened

from swarm_memory.server.embedding.static import StaticEmbedder
from swarm_memory.server.storage.hook_reader import open_for_hook
from swarm_memory.tools.distill.conventions import kept_to
from swarm_memory.tools.learn.learn import learn
from swarm_memory.tools.toolbox import Toolbox
from swarm_memory.tools.trajectory.reading import read

NO_TABLE = "OperationalError: no such table: crates"
NO_MODULE = "ModuleNotFoundError: No module named 'web'"
MIGRATED = (
    Script("seed the shop", task_id="one")
    .shell("manage seed", NO_TABLE, 1)
    .shell("manage migrate", "ok")
    .shell("manage seed", "seeded")
)
RUN_BY_UV = (
    Script("test the shop", task_id="one")
    .shell("pytest -q tests/web", NO_MODULE, 1)
    .shell("uv run pytest -q tests/web", "3 passed in 0.1s")
)


@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        (MIGRATED, [("manage migrate", 0), ("manage seed", 0)], [True]),
        (MIGRATED, [("manage seed", 0), ("manage migrate", 0)], [False]),
        (MIGRATED, [("manage migrate", 0)], []),
        (MIGRATED, [("manage migrate", 0), ("manage seed", 1)], []),
        (RUN_BY_UV, [("uv run pytest -q tests/stock", 0)], [True]),
        (RUN_BY_UV, [("uv run pytest -q", 0), ("pytest -q tests/stock", 0)], [False]),
        (RUN_BY_UV, [("uv run ruff check", 0)], []),
    ],
)
async def test_a_task_kept_to_a_way_where_the_program_went_through_after_it_or_so(
    tmp_path: Path, first: Script, then: list[tuple[str, int]], kept: list[bool]
) -> None:
    script = Script("another task", task_id="two")
    for command, code in then:
        script.shell(command, NO_TABLE if code else "ok", code)
    async with opened(tmp_path, StaticEmbedder()) as (tools, bank):
        await learn(tools, first.done())
        items = [item for item in await bank.items() if item.use == "way_out"]
    trajectory = script.done()
    assert [way.worked for way in kept_to(read(trajectory), items)] == kept
    told = trajectory.model_copy(update={"injected_memory_ids": tuple(item.id for item in items)})
    assert [way.worked for way in kept_to(read(told), items)] == [each for each in kept if not each]


async def test_a_convention_is_what_ended_an_error_once_and_was_kept_to_ever_since(tmp_path: Path) -> None:
    async def briefed(tools: Toolbox, script: Script) -> list[str]:
        await learn(tools, script.done())
        with open_for_hook(tmp_path / "memory.db", (tools.scope.tenant_id, tools.scope.project), 0.3) as reader:
            return [title for _, title, *_ in reader.briefing_rows(5) if "migrate" in title]

    async with opened(tmp_path, StaticEmbedder()) as (tools, _):
        assert await briefed(tools, MIGRATED) == []
        kept = Script("seed it again", task_id="two").shell("manage migrate", "ok").shell("manage seed", "seeded")
        assert await briefed(tools, kept) == ["Run `manage migrate` before `manage` (missing table)"]
        assert await briefed(tools, Script("and again", task_id="three").shell("manage seed", "seeded")) == []
