"""Aging: confidence fades without use, and what is no longer worth keeping is archived."""

from datetime import datetime, timedelta

from swarm_memory.tools.consolidate.upkeep import UpkeepRun
from swarm_memory.tools.ports.upkeep import Aging, UpkeepChange, UpkeepItem, UpkeepState
from swarm_memory.tools.retrieve.rank import recency, unit

AGING_STEP = timedelta(days=1)
"""A scope is aged again when so much time has passed since the last pass, and an item when it was so long unused."""

HALF_LIFE_DAYS, PRUNE_AGE_DAYS, WORTH_KEEPING = 90.0, 180.0, 0.30
"""After how many days without use confidence is halved; from which age on, and below which confidence, what nobody ever
used is archived."""

_DIGITS = 6
_BATCH = 200


def faded(item: UpkeepItem, since: datetime | None, now: datetime) -> float:
    """Return the confidence of an item at `now`: it halves with every half-life without use.

    Counted from the item's last use (its making, if there was none), but not from before `since`, the moment that it
    was faded to already: fading to a moment twice changes nothing, and two steps give what one step would. Less than
    `AGING_STEP` does not count, and a clock that stands before the start does nothing.
    """
    start = item.last_used or item.created_at
    if since is not None and since > start:
        start = since
    confidence = unit(item.confidence)
    if now - start < AGING_STEP:
        return confidence
    return min(confidence, round(confidence * recency((now - start).total_seconds(), HALF_LIFE_DAYS), _DIGITS))


def is_worthless(item: UpkeepItem, confidence: float, now: datetime) -> bool:
    """Whether an item was never used, is hardly believed and is old. What somebody restored by hand stays."""
    return (
        item.usage_count == 0
        and item.last_used is None
        and item.status_reason is None
        and confidence < WORTH_KEEPING
        and _age_days(item, now) > PRUNE_AGE_DAYS
    )


async def age_items(run: UpkeepRun, state: UpkeepState) -> None:
    """Let confidence fade and archive what is not worth keeping, once a day; a pass that was cut off is ended first."""
    before = state.aging
    if before is not None and run.now < before.at:
        return
    if before is not None and before.through is not None:
        before = await _pass(run, before, before)
    if before is None:
        await _pass(run, None, Aging(at=run.now, through=0))
    elif before.through is None and run.now - before.at >= AGING_STEP:
        await _pass(run, before, Aging(at=run.now, through=0, since=before.at))


async def _pass(run: UpkeepRun, before: Aging | None, this: Aging) -> Aging | None:
    """Go over all items from where a pass stands, and return the state of aging that this leaves.

    They are read again, a batch at a time: what changed since the run began is faded as it is now. When another run
    ages the same items meanwhile, the rest is left to it.
    """
    after, is_last = this.through or 0, False
    in_files = run.toolbox.promoted(None)  # no prompt shows these, and that they are not used says nothing
    while not is_last:
        await run.toolbox.give_way()
        part = await run.toolbox.store.upkeep_items(run.toolbox.scope, run.toolbox.embedder, after=after, limit=_BATCH)
        is_last = len(part) < _BATCH
        after = part[-1].position if part else after
        reached = Aging(at=this.at) if is_last else Aging(at=this.at, through=after, since=this.since)
        gone = {*run.gone, *in_files}
        aged = (_aged(run, item, this) for item in part if item.id not in gone)
        changes = [change for change in aged if change is not None]
        written = await run.write(changes, aging=(before, reached))
        if written.refused:
            return before
        run.report(run.done + len(part))
        before = reached
    return before


def _aged(run: UpkeepRun, item: UpkeepItem, this: Aging) -> UpkeepChange | None:
    """Return what time does to an item; None for nothing, as to all that the user said."""
    if item.standing > 0:
        return None
    confidence = faded(item, this.since, this.at)
    if is_worthless(item, confidence, run.now):
        reason = f"never used, confidence {confidence:.2f}, {_age_days(item, run.now):.0f} days old"
        return UpkeepChange(item, confidence, "archived", reason, unless_used=True)
    return None if confidence == item.confidence else UpkeepChange(item, confidence, unless_used=True)


def _age_days(item: UpkeepItem, now: datetime) -> float:
    """Return how many days ago an item was made; an item of the future is 0 days old."""
    return max(0.0, (now - item.created_at) / timedelta(days=1))
