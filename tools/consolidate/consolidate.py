"""Upkeep of the bank in one run: duplicates, contradictions, and aging, which lets unused confidence fade and archives
what is no longer worth keeping. Every change is recorded, every run can be undone.
"""

from datetime import datetime, timedelta

from pydantic import JsonValue

from swarm_memory.schema.base import RUN, counted, new_id
from swarm_memory.schema.memory import Consolidation, Undone
from swarm_memory.tools.consolidate.contradictions import DOUBTED, WELL_USED, Conflicts, find_conflicts, is_outvoted
from swarm_memory.tools.consolidate.pairs import OnProgress, Survey, find_duplicates, in_parts, links_of, retire, survey
from swarm_memory.tools.consolidate.upkeep import UpkeepRun
from swarm_memory.tools.ports.records import Aging, UpkeepChange, UpkeepItem, UpkeepState
from swarm_memory.tools.retrieve.rank import clamp01, recency
from swarm_memory.tools.toolbox import Toolbox

AGING_STEP = timedelta(days=1)
"""The least time between two aging passes of a scope, and the least that an item must be unused to be aged."""

HALF_LIFE_DAYS, PRUNE_AGE, WORTH_KEEPING = 90.0, timedelta(days=180), 0.30
"""The days without use that halve confidence; the age above which, and the confidence below which, a memory that was
never used is archived."""

_DIGITS = 6
_PAGE = 200


def decayed(item: UpkeepItem, since: datetime | None, now: datetime) -> float:
    """Return the confidence of an item at `now`: it halves with every half-life without use.

    Time counts from the item's last use (or its creation, if never used), but not from before `since`, the moment that
    it was already faded to: fading to a moment twice changes nothing, and two steps give the same as one. Less than
    `AGING_STEP` does not count, and a clock that is before the start changes nothing.
    """
    start = item.last_used or item.created_at
    if since is not None and since > start:
        start = since
    confidence = clamp01(item.confidence)
    if now - start < AGING_STEP:
        return confidence
    return min(confidence, round(confidence * recency((now - start).total_seconds(), HALF_LIFE_DAYS), _DIGITS))


def is_worthless(item: UpkeepItem, confidence: float, now: datetime) -> bool:
    """Whether an item was never used, has little confidence and is old. What somebody restored by hand stays."""
    return (
        item.usage_count == 0
        and item.last_used is None
        and item.status_reason is None
        and confidence < WORTH_KEEPING
        and now - item.created_at > PRUNE_AGE
    )


async def age_items(run: UpkeepRun, state: UpkeepState) -> None:
    """Let confidence fade and archive what is not worth keeping, once a day; finish a pass that was cut off first."""
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
    """Age all items from where a pass had stopped, and return the resulting state of aging."""
    after, is_last = this.through or 0, False
    in_files = run.toolbox.promoted(None)  # no prompt shows these, so their lack of use says nothing
    while not is_last:  # items are read again: what changed since the run began is faded as it is now
        await run.toolbox.give_way()
        part = await run.toolbox.store.upkeep_items(run.toolbox.scope, run.toolbox.embedder, after=after, limit=_PAGE)
        is_last = len(part) < _PAGE
        after = part[-1].position if part else after
        reached = Aging(at=this.at) if is_last else Aging(at=this.at, through=after, since=this.since)
        gone = {*run.gone, *in_files}
        changes: list[UpkeepChange] = []
        for item in part:
            if item.id in gone or item.priority > 0:  # what the user said does not age
                continue
            confidence = decayed(item, this.since, this.at)
            if is_worthless(item, confidence, run.now):
                age_days = (run.now - item.created_at).days
                reason = f"never used, confidence {confidence:.2f}, {age_days} days old"
                changes.append(UpkeepChange(item, confidence, "archived", reason, unless_used=True))
            elif confidence != item.confidence:
                changes.append(UpkeepChange(item, confidence, unless_used=True))
        written = await run.write(changes, aging=(before, reached))
        if written.refused:
            return before  # another run ages the same items: the rest is left to it
        run.report(run.done + len(part))
        before = reached
    return before


_BATCH = 100
_COUNTED = ("merged", "related", "quarantined", "pruned", "skipped")
"""The event of a run holds only the number of these; its batches hold the details."""


async def consolidate(
    toolbox: Toolbox, *, dry_run: bool = False, full: bool = False, on_progress: OnProgress | None = None
) -> Consolidation:
    """Consolidate the toolbox's scope and return what was done; with `dry_run`, only what would be done.

    New memories are compared with the bank; with `full`, all memories with each other. Duplicates are archived and
    linked to the one that is kept; contradictions are linked, and a new memory that contradicts what is well used is
    quarantined; unused confidence fades, and what was never used and has little confidence is archived. Everything is
    written in short batches, each checked against what other processes did meanwhile, so a run that is cut off anywhere
    leaves the bank consistent, and the next run goes on. The toolbox's chat model decides how near memories relate;
    without one, rules look for contradictions. `on_progress` is called with (done, total). Raises `StorageError`.
    """
    run = UpkeepRun(toolbox, new_id(RUN), toolbox.clock.now(), dry_run, on_progress)
    state = await toolbox.store.upkeep_state(toolbox.scope)
    run.total = 2 * max(1, state.active)

    def compared(done: int, total: int) -> None:
        run.report(run.total // 2 * done // max(1, total))

    # All steps read this survey of the bank as it was before; what one step archives, later ones skip by `run.gone`.
    found = await survey(toolbox, state, full=full, on_progress=compared)
    duplicates = await find_duplicates(toolbox, found)
    items = {item.id: item for item in found.items}
    for part in in_parts(duplicates, _BATCH):
        archived = [retire(items[each.id], each) for each in part]
        await run.write([change for change, _ in archived], [link for _, link in archived])
    relations = await find_conflicts(toolbox, found, run.gone)
    await _relate(run, found, relations)
    await age_items(run, state)
    notices = [*relations.notices]
    if without := found.without_vector:
        notices.append(f"left out {counted(without, 'memory')} without a vector: run `swarm-memory bank reembed`")
    result = Consolidation(
        run_id=run.id,
        dry_run=dry_run,
        full=full,
        compared=found.compared,
        merged=tuple(each for each in duplicates if each.id in run.changed and run.changed[each.id].needs),
        related=tuple(relations.related),
        quarantined=run.withdrawn("quarantined"),
        pruned=run.withdrawn("archived"),
        aged=sum(change.status == "active" for change in run.changed.values()),
        skipped=tuple(dict.fromkeys(run.skipped)),
        asked=relations.asked,
        notices=tuple(notices),
    )
    if not dry_run:
        counts = {name: len(getattr(result, name)) for name in _COUNTED}
        figures = {name: getattr(result, name) for name in ("full", "compared", "aged", "asked")}
        summary: dict[str, JsonValue] = {**figures, **counts, "notices": [*notices]}
        await toolbox.store.finish_upkeep(toolbox.scope, run.id, run.now, state.last, summary)
    run.report(run.total)
    return result


async def undo_consolidation(toolbox: Toolbox, run_id: str) -> Undone:
    """Undo a run, even one that was cut off: statuses, confidences and links become what they were before it.

    What was changed after the run is left alone and reported. Undoing twice changes nothing. Raises `NotFoundError`.
    """
    undone = [
        await toolbox.store.undo_upkeep(toolbox.scope, run_id, batch, toolbox.clock.now())
        for batch in await toolbox.store.upkeep_batches(toolbox.scope, run_id)
    ]
    return Undone(
        run_id=run_id,
        restored=sum(each.restored for each in undone),
        links_removed=sum(each.links_removed for each in undone),
        skipped=tuple(dict.fromkeys(memory_id for each in undone for memory_id in each.skipped)),
    )


async def _relate(run: UpkeepRun, found: Survey, relations: Conflicts) -> None:
    """Link contradictions, and quarantine memories that contradict what is well used or what the user said."""
    items = {item.id: item for item in found.items}
    for part in in_parts(relations.related, _BATCH):
        await run.write((), [related.link for related in part], origins=part)
    against: dict[str, set[str]] = {}
    links, gone = [related.link for related in relations.related], run.gone
    said, fresh = [item.id for item in found.items if item.priority > 0], {link.src_id for link in links}
    for link in [*links, *await links_of(run.toolbox, [*said, *fresh])]:
        ids = (link.src_id, link.dst_id)
        if link.relation == "contradicts" and items.keys() >= {*ids} and gone.isdisjoint(ids):
            for one, other in (ids, ids[::-1]):
                if _is_doubtful(items[one], items[other]):
                    against.setdefault(one, set()).add(other)
    changes: list[UpkeepChange] = []
    for each, others in against.items():
        if is_outvoted((items[other].priority, items[other].usage_count) for other in others):
            # If the contradiction was seen when the newer one was stored, its confidence was lowered then.
            was_lowered = each not in fresh and all(items[each].position > items[other].position for other in others)
            left = items[each].confidence * (1.0 if was_lowered else DOUBTED)
            reason = f"contradicts {', '.join(sorted(others))}"
            changes.append(UpkeepChange(items[each], round(left, 6), "quarantined", reason, unless_used=True))
    for part in in_parts(changes, _BATCH):
        await run.write(part)


def _is_doubtful(one: UpkeepItem, other: UpkeepItem) -> bool:
    """Whether a contradiction speaks against `one`: the user said `other`, or `other` is well used and `one` is new."""
    if one.priority > 0 or other.priority > 0:
        return one.priority <= 0 and one.status_reason is None  # what somebody restored by hand stays
    return one.position > other.position and one.usage_count < WELL_USED <= other.usage_count
