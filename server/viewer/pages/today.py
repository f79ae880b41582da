"""Today: what was learned and shown lately, what it did, and what is out of order."""

from collections.abc import Sequence

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.schema.sqlite.events import RETRIEVED
from swarm_memory.server.missed import lines_of_missed
from swarm_memory.server.viewer.page import Asked, Page, Route
from swarm_memory.tools.credit.metrics import memory_effect, weekly_metrics
from swarm_memory.tools.memories.desk import desk_counts
from swarm_memory.tools.memories.edit import list_memories
from swarm_memory.tools.memories.status import chat_status, out_of_order
from swarm_memory.tools.ports.journal import Event
from swarm_memory.tools.ports.memories import MemoryFilter
from swarm_memory.tools.toolbox import Toolbox

SHOWN = 8
WEEKS = 8


async def today(asked: Asked) -> Page:
    """Show how things stand."""
    toolbox = asked.toolbox
    weeks = (await weekly_metrics(toolbox))[-WEEKS:]
    statistics = await toolbox.store.statistics(toolbox.scope, toolbox.embedder.name)
    failed = await toolbox.store.list_jobs(toolbox.scope, ("failed",), SHOWN)
    retrieved = await toolbox.store.events_of_kind(toolbox.scope, RETRIEVED, SHOWN)
    return Page(
        "today.html",
        {
            "counts": statistics,
            "effect": await memory_effect(toolbox),
            "chat": await chat_status(toolbox),
            "faults": out_of_order(toolbox, await toolbox.store.health(), statistics),
            "learned": await list_memories(toolbox, MemoryFilter(limit=SHOWN)),
            "retrieved": await _with_memories(toolbox, retrieved),
            "waiting": await desk_counts(toolbox),
            "proposed": await toolbox.store.team.count_waiting(toolbox.scope.tenant_id),
            "missed": lines_of_missed(asked.root),
            "failed": failed,
            "week": weeks[-1] if weeks else None,
            "weeks": weeks,
        },
    )


async def _with_memories(toolbox: Toolbox, retrieved: Sequence[Event]) -> list[tuple[Event, list[MemoryItem]]]:
    """Return each retrieval with the memories that it gave, as far as they are still there."""
    ids = {event.subject_id: list(_scores(event)) for event in retrieved}
    wanted = list(dict.fromkeys(each for some in ids.values() for each in some))
    found = {item.id: item for item in await toolbox.store.get_memories(toolbox.readable, wanted)}
    return [(event, [found[each] for each in ids[event.subject_id] if each in found]) for event in retrieved]


def _scores(event: Event) -> dict[str, object]:
    scores = event.data.get("scores")
    return dict(scores) if isinstance(scores, dict) else {}


ROUTES = (Route("/", today),)
