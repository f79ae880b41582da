"""A time that a query names, and what it does to the order."""

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from swarm_memory.tools.retrieve.query import mentioned_time
from swarm_memory.tools.retrieve.retrieve import retrieve
from swarm_memory.tools.toolbox import Toolbox

NOW = datetime(2026, 3, 25, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("query", "day"),
    [
        ("what broke three weeks ago", "2026-03-04"),
        ("what broke a couple of days ago", "2026-03-23"),
        ("what we said yesterday", "2026-03-24"),
        ("the outage last Tuesday", "2026-03-24"),
        ("the outage last Wednesday", "2026-03-18"),
        ("on 8 May 2023 we met", "2023-05-08"),
        ("on May 8th, 2023", "2023-05-08"),
        ("decided on 2024-02-29", "2024-02-29"),
        ("done on 24 December", "2025-12-24"),
        ("uploads in February 2026", "2026-02-14"),
        ("in December", "2025-12-16"),
        ("trips in 2022", "2022-07-02"),
    ],
)
def test_a_time_in_a_query_becomes_a_date(query: str, day: str) -> None:
    target = mentioned_time(query, NOW)
    assert target is not None
    assert f"{target.moment:%Y-%m-%d}" == day
    assert target.closeness(target.moment) == 1.0


@pytest.mark.parametrize(
    "query", ["how do I run the tests", "the march of time", "may I", "on 2024-02-31", "a day", "it fails today"]
)
def test_a_query_without_a_time_has_none(query: str) -> None:
    assert mentioned_time(query, NOW) is None


async def test_a_time_in_the_query_lifts_what_is_of_that_time_and_without_one_nothing_changes(
    toolbox: Toolbox, add: Callable[..., Awaitable[str]]
) -> None:
    now = toolbox.clock.now()
    ids = {
        days: await add(f"Restart the deploy that failed, attempt {days}", created_at=now - timedelta(days=days))
        for days in (2, 21, 60)
    }
    named = await retrieve(toolbox, "the deploy that failed three weeks ago")
    assert named.memories[0].item.id == ids[21]
    assert any("lifted" in notice for notice in named.notices)
    silent = await retrieve(toolbox, "the deploy that failed")
    assert silent.memories[0].item.id == ids[2]
    assert not any("lifted" in notice for notice in silent.notices)
