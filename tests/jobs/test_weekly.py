"""The CSV file of weeks: written once a week by a job, each week as it was first, in columns that stay."""

import csv
import os
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import pytest
from clock import SetClock
from made_tasks import NOW, Shop, done, opened, ran

from swarm_memory.schema.base import Scope
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.server.jobs.handlers import long_handlers
from swarm_memory.server.jobs.weekly import begin_weekly, end_weekly, weekly_file
from swarm_memory.server.jobs.worker import Worker

COLUMNS = (
    "week,tasks,successes,failures,undecided,success_rate,success_rate_with_memory,success_rate_without_memory,"
    "steps_to_success,tokens_per_success,cost_usd_per_success,time_to_resolution_s,new_items,new_items_per_100_tasks,"
    "injected_per_task,active_items_used_per_task,matts_runs,matts_lift"
)
"""Other programs read the file: a column is never taken away or put elsewhere. New ones stand at the end."""

NEWER = ",told_by_lot,left_out_by_lot,note_tokens,withdrawn"


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Shop]:
    async with opened(tmp_path) as bank:
        yield bank


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return weekly_file(tmp_path / "figures", tmp_path, Scope(project="shop"))


async def task(shop: Shop, name: str, label: Any = "Success") -> None:
    at = shop.toolbox.clock.now()
    await shop.outcome(label, done(ran("pytest"), task_id=name, ended_at=at), task_id=name)


def forward(shop: Shop, **time: float) -> None:
    cast("SetClock", shop.toolbox.clock).forward(**time)


OTHER = "week,price\n2026-01-05,3\n"


def text(file: Path) -> str:
    return file.read_text("utf-8")


def put(file: Path, content: str) -> None:
    file.write_text(content, encoding="utf-8")


def link(file: Path) -> None:
    file.unlink()
    file.symlink_to(file.with_name("elsewhere"))


def is_private(file: Path) -> bool:
    return os.name != "posix" or file.stat().st_mode & 0o077 == 0


def weeks(file: Path) -> list[tuple[str, str]]:
    return [(row["week"], row["successes"]) for row in csv.DictReader(text(file).splitlines())]


async def test_a_week_is_written_when_it_is_over_and_then_every_week_by_the_worker(shop: Shop, file: Path) -> None:
    worker = Worker(shop.toolbox, {}, long_handlers(file.parent))
    await task(shop, "a")
    assert await begin_weekly(shop.toolbox, file) == 0
    assert text(file) == f"{COLUMNS}{NEWER}\n"
    assert is_private(file)
    forward(shop, days=5)  # Monday at noon: the week ended, and a last session may still be learned from
    assert await worker.work_off_due() == 0
    forward(shop, days=1)
    await task(shop, "b")
    assert await worker.work_off_due() == 1
    assert weeks(file) == [("2026-03-02", "1")]
    forward(shop, days=21)  # nobody was there for weeks
    assert await worker.work_off_due() == 1
    assert weeks(file) == [("2026-03-02", "1"), ("2026-03-09", "1")]
    assert await worker.work_off_due() == 0


async def test_what_was_written_of_a_week_stays_whatever_the_bank_says_later(shop: Shop, file: Path) -> None:
    await task(shop, "a")
    forward(shop, days=7)
    assert await begin_weekly(shop.toolbox, file) == 1
    written = text(file)
    await shop.outcome("Failure", done(ran("ls"), task_id="a", ended_at=NOW), task_id="a", given=True)
    assert await begin_weekly(shop.toolbox, file) == 0
    assert text(file) == written


async def test_a_file_of_an_older_version_gets_the_new_columns_and_its_rows_stay(shop: Shop, file: Path) -> None:
    row = "2026-01-05,3" + "," * (COLUMNS.count(",") - 1)
    file.parent.mkdir(parents=True, exist_ok=True)
    put(file, f"{COLUMNS}\n{row}\n")
    await task(shop, "a")
    forward(shop, days=7)
    assert await begin_weekly(shop.toolbox, file) == 1
    heading, before, new = text(file).splitlines()
    assert (heading, before) == (COLUMNS + NEWER, f"{row},,,,")
    assert new.startswith("2026-03-02,1,")
    assert new.count(",") == heading.count(",")


async def test_who_ends_it_gets_no_further_week_and_keeps_the_file(shop: Shop, file: Path) -> None:
    assert await end_weekly(shop.toolbox) is None
    await begin_weekly(shop.toolbox, file)
    assert await end_weekly(shop.toolbox) == str(file)
    forward(shop, days=14)
    assert await Worker(shop.toolbox, {}, long_handlers(file.parent)).work_off_due() == 0
    assert text(file) == f"{COLUMNS}{NEWER}\n"


async def test_a_file_or_a_link_that_is_another_is_left_alone_and_the_next_week_is_tried(
    shop: Shop, file: Path
) -> None:
    await begin_weekly(shop.toolbox, file)
    put(file, OTHER)
    with pytest.raises(InputError, match="other columns"):
        await begin_weekly(shop.toolbox, file)
    forward(shop, days=8)
    worker = Worker(shop.toolbox, {}, long_handlers(file.parent))
    assert await worker.work_off_due() == 1
    assert text(file) == OTHER
    failed, next_one = sorted(
        await shop.toolbox.store.list_jobs(shop.toolbox.scope, ("failed", "queued"), 9), key=lambda job: job.status
    )
    assert (failed.status, "other columns" in (failed.error or "")) == ("failed", True)
    assert next_one.run_after - NOW == timedelta(days=12, hours=12)
    link(file)
    with pytest.raises(InputError, match="no file of weeks"):
        await begin_weekly(shop.toolbox, file)
    put(file.parent / "plain", "")
    with pytest.raises(ConfigError, match="cannot be written"):
        await begin_weekly(shop.toolbox, file.parent / "plain" / file.name)


def test_projects_of_one_name_in_different_places_have_different_files(tmp_path: Path) -> None:
    named = weekly_file(tmp_path, tmp_path / "a", Scope(project="the shop/2"))
    assert named.name.startswith("swarm-memory-the-shop-2-")
    assert named != weekly_file(tmp_path, tmp_path / "b", Scope(project="the shop/2"))
