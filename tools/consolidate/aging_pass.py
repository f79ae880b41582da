"""The pass in which confidence fades and what is not worth keeping is archived, a page of items at a time.

How much an item fades, and which one is worthless, stands in `aging`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from swarm_memory.schema.memory import Pruned
from swarm_memory.tools.consolidate.aging import age_days, faded, is_worthless, next_pass
from swarm_memory.tools.consolidate.upkeep_run import UpkeepRun
from swarm_memory.tools.ports.upkeep import Aging, UpkeepChange, UpkeepItem, UpkeepState

_PAGE = 1000


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a pass stands between two pages."""

    aging: Aging | None
    """The state of aging as the bank has it."""
    after: int
    """The position of the last item that was aged."""
    is_end: bool = False


async def age_items(run: UpkeepRun, state: UpkeepState, full: bool) -> None:
    """Let confidence fade and archive what is not worth keeping; a pass that was cut off is ended first."""
    before = state.aging
    if before is not None and run.now < before.at:
        return
    if before is not None and before.through is not None:
        before = await _pass(run, before, before)
    due = next_pass(before, run.now)
    if due is not None:
        await _pass(run, before, due)
    elif full:
        await _pass(run, before, None)


async def _pass(run: UpkeepRun, before: Aging | None, this: Aging | None) -> Aging | None:
    """Go over all items, a page at a time, and return the state of aging that this leaves.

    Without `this` nothing fades, and only what is not worth keeping goes. When another run ages the same items
    meanwhile, the rest is left to it.
    """
    place = _Place(before, after=(this.through or 0) if this else 0)
    while not place.is_end:
        place = await _aged_page(run, place, this)
    return place.aging


async def _aged_page(run: UpkeepRun, place: _Place, this: Aging | None) -> _Place:
    """Age the page of items that follows a place, and return the place where it ends."""
    toolbox, embedder = run.toolbox, run.toolbox.embedder
    page = await toolbox.store.upkeep_items(
        toolbox.scope, embedder.name, embedder.dimensions, after=place.after, limit=_PAGE
    )
    is_last = len(page) < _PAGE
    after = page[-1].position if page else place.after
    reached = _reached(this, after, is_last)
    changes = [change for item in page if (change := _aged(run, item, this)) is not None]
    if reached is not None or changes:
        written = await run.write(changes, aging=None if reached is None else (place.aging, reached))
        if written.refused:
            return replace(place, is_end=True)
        _note(run, changes, set(written.changed))
    run.tell(run.told + len(page))
    return _Place(reached or place.aging, after, is_last)


def _reached(this: Aging | None, after: int, is_last: bool) -> Aging | None:
    """Return the state of aging to write with a page; None where nothing fades."""
    if this is None:
        return None
    return Aging(this.at) if is_last else Aging(this.at, after, this.since)


def _aged(run: UpkeepRun, item: UpkeepItem, this: Aging | None) -> UpkeepChange | None:
    """Return what time does to an item; None for nothing."""
    if item.id in run.gone:
        return None
    settings, confidence = run.toolbox.settings.consolidate, item.confidence
    if this is not None:
        confidence = faded(item, this.since, this.at, settings.confidence_half_life_days)
    if is_worthless(item, confidence, run.now, settings):
        reason = f"never used, confidence {confidence:.2f}, {age_days(item, run.now):.0f} days old"
        return UpkeepChange(item, confidence, "archived", reason, unless_used=True)
    return None if confidence == item.confidence else UpkeepChange(item, confidence, unless_used=True)


def _note(run: UpkeepRun, changes: Sequence[UpkeepChange], written: set[str]) -> None:
    for change in changes:
        if change.seen.id not in written:
            continue
        if change.status == "active":
            run.aged += 1
        else:
            age = round(age_days(change.seen, run.now), 1)
            run.pruned.append(Pruned(id=change.seen.id, confidence=change.confidence, age_days=age))
            run.gone.add(change.seen.id)
