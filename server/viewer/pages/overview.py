"""Overview: what waits, what was done and learned by week, and a feed of what was learned, shown, and worked."""

from collections import Counter, defaultdict
from datetime import UTC, date, datetime, timedelta
from typing import Any, Literal, NamedTuple

from swarm_memory.schema.outcome import OutcomeRecord
from swarm_memory.schema.sqlite.events import RETRIEVED
from swarm_memory.server.missed_hooks import lines_of_missed
from swarm_memory.server.viewer.page import Page, PageRequest, Route
from swarm_memory.tools.credit.metrics import effect_of, sentence
from swarm_memory.tools.memories.decide import to_review
from swarm_memory.tools.memories.manage import list_memories
from swarm_memory.tools.memories.status import chat_usage, out_of_order
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox

SHOWN, CARDS = 20, 3
LEAST_WEEKS, MOST_WEEKS = 13, 53
WEEK = timedelta(weeks=1)


class Entry(NamedTuple):
    """One thing that happened with memories."""

    at: datetime
    what: Literal["learned", "shown", "worked"]
    ids: tuple[str, ...]
    task_id: str | None
    asked: str = ""
    """The prompt or query for which they were shown."""


async def overview(asked: PageRequest) -> Page:
    """Show how things stand."""
    toolbox = asked.toolbox
    statistics = await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)
    outcomes = await toolbox.store.list_outcomes(toolbox.scope)
    waiting, kind, cards = await to_review(toolbox, limit=CARDS)
    feed = await _feed(toolbox, outcomes)
    failed = await toolbox.store.list_jobs(toolbox.scope, ("failed",), SHOWN)
    last = [await toolbox.store.find_job(toolbox.scope, job.kind, job.key) for job in failed]
    ids = list(dict.fromkeys(memory_id for entry in feed for memory_id in entry.ids))
    return Page(
        "overview.html",
        {
            "counts": statistics,
            "in_use": sum(statistics.projects.get(each.project, 0) for each in toolbox.readable),
            "sentence": await sentence(toolbox, statistics),
            "effect": effect_of(outcomes),
            "chat": await chat_usage(toolbox),
            "faults": await out_of_order(toolbox, await toolbox.store.health(), statistics),
            "feed": feed,
            "memories": {item.id: item for item in await toolbox.store.get_memories(toolbox.readable, ids)},
            "waiting": waiting.total(),
            "kind": kind,
            "cards": cards,
            "project_query": {},
            "proposed": await toolbox.store.team.count_waiting(toolbox.scope.tenant_id),
            "missed": lines_of_missed(asked.root),
            "failed": [job for job in failed if job in last],  # without those that were started again since
            "weeks": await _weeks(toolbox),
        },
    )


async def _weeks(toolbox: Toolbox) -> list[tuple[date, Counter[str]]]:
    """Return weeks (UTC) since the first with data, 13 to 53 or none, with tasks by verdict and memories `learned`."""
    found = defaultdict[date, Counter[str]](Counter)
    days = [(day, "learned", count) for day, count in (await toolbox.store.items_by_day(toolbox.scope)).items()]
    for day, what, count in (*days, *await toolbox.store.tasks_by_day(toolbox.scope)):
        found[day - timedelta(days=day.weekday())][what] += count
    today = toolbox.clock.now().astimezone(UTC).date()
    last = today - timedelta(days=today.weekday())
    since = min(*found, last - (LEAST_WEEKS - 1) * WEEK) if found else last + WEEK
    mondays = [last - at * WEEK for at in range(min((last - since) // WEEK + 1, MOST_WEEKS))]
    return [(monday, found[monday]) for monday in reversed(mondays)]


async def _feed(toolbox: Toolbox, outcomes: list[OutcomeRecord]) -> list[Entry]:
    """Return the latest memories that were learned, shown, or worked in a task that used them, newest first."""
    learned = await list_memories(toolbox, MemoryFilter(limit=SHOWN))
    found = [Entry(item.created_at, "learned", (item.id,), item.provenance.task_id) for item in learned]
    for event in await toolbox.store.events_of_kind(toolbox.scope, RETRIEVED, SHOWN):
        data: Any = event.data
        query = data.get("query", "")  # forgetting removes it
        found.append(Entry(event.at, "shown", tuple(data.get("scores", ())), data.get("task_id"), query))
    for each in [each for each in outcomes if each.label == "Success" and each.used][-SHOWN:]:
        used = (credit for credit in each.credits if credit.method != "none" and credit.worked is not False)
        found.append(Entry(each.at, "worked", tuple(credit.memory_id for credit in used), each.task_id))
    ended = {each.task_id for each in outcomes}  # a task that is still running has no page yet
    found = [entry if entry.task_id in ended else entry._replace(task_id=None) for entry in found if entry.ids]
    return sorted(found, key=lambda entry: entry.at, reverse=True)[:SHOWN]


ROUTES = (Route("/", overview),)
