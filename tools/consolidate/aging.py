"""How confidence fades without use, and what is no longer worth keeping. Pure functions of one item and the time."""

from datetime import datetime, timedelta

from swarm_memory.schema.settings import ConsolidateSettings
from swarm_memory.tools.ports.upkeep import Aging, UpkeepItem
from swarm_memory.tools.retrieve.rank import recency, unit

AGING_STEP = timedelta(days=1)
"""A scope is aged again when so much time has passed since the last pass, and an item when it was so long unused."""

_DIGITS = 6


def faded(item: UpkeepItem, since: datetime | None, now: datetime, half_life_days: float) -> float:
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
    return min(confidence, round(confidence * recency((now - start).total_seconds(), half_life_days), _DIGITS))


def is_worthless(item: UpkeepItem, confidence: float, now: datetime, settings: ConsolidateSettings) -> bool:
    """Whether an item was never used, is hardly believed and is old. What somebody restored by hand stays."""
    return (
        item.usage_count == 0
        and item.last_used is None
        and item.status_reason is None
        and confidence < settings.min_confidence_keep
        and age_days(item, now) > settings.prune_age_days
    )


def age_days(item: UpkeepItem, now: datetime) -> float:
    """Return how many days ago an item was made; an item of the future is 0 days old."""
    return max(0.0, (now - item.created_at) / timedelta(days=1))


def next_pass(before: Aging | None, now: datetime) -> Aging | None:
    """Return the pass that is due: what is left of an unfinished one, else a new one; None when it is too early."""
    if before is None:
        return Aging(now, 0, None)
    if before.through is not None:
        return before
    return Aging(now, 0, before.at) if now - before.at >= AGING_STEP else None
