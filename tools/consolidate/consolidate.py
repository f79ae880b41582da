"""The upkeep of the bank in one run: duplicates, contradictions, aging; every change recorded, every run undoable."""

from collections.abc import Sequence

from pydantic import JsonValue

from swarm_memory.schema.base import RUN, counted, new_id
from swarm_memory.schema.memory import Consolidation, MemoryLink, Merged, Undone
from swarm_memory.tools.consolidate.aging import age_items
from swarm_memory.tools.consolidate.contradictions import Relations, find_relations
from swarm_memory.tools.consolidate.duplicates import find_duplicates
from swarm_memory.tools.consolidate.pairs import Survey, in_parts, links_of, survey
from swarm_memory.tools.consolidate.upkeep import Progress, UpkeepRun
from swarm_memory.tools.ports.upkeep import UpkeepChange, UpkeepItem
from swarm_memory.tools.retrieve.query import note_common_words
from swarm_memory.tools.toolbox import Toolbox

WELL_USED, OUTVOTED = 3, 6
"""A new memory is quarantined when those that it contradicts, each used three times or more, were used six times in
sum: two that are well used, or one that is much used. One that contradicts what the user said is,
however old and often used …"""

DOUBTED = 0.5
"""… and so much of its confidence is left."""

_BATCH = 100


async def consolidate(
    toolbox: Toolbox, *, dry_run: bool = False, full: bool = False, on_progress: Progress | None = None
) -> Consolidation:
    """Put the toolbox's scope in order, and return what was done; with `dry_run` what would be, and nothing is written.

    New memories are compared with the bank; with `full` all memories with each other. Duplicates are archived and
    linked to the one that is kept; contradictions are linked, and a new memory that contradicts what is well used is
    quarantined; confidence without use fades, and what nobody used or believes is archived. The words that most tasks
    have in common are noted. Everything is written in short batches, each checked against what other processes did
    meanwhile, so that a run that is cut off anywhere leaves a bank in order: the next run goes on. The toolbox's chat
    model says how near memories relate; without one rules look for contradictions. `on_progress` is called with (done,
    total). Raises `StorageError`.
    """
    run = UpkeepRun(toolbox, new_id(RUN), toolbox.clock.now(), dry_run, on_progress)
    state = await toolbox.store.upkeep_state(toolbox.scope)
    run.total = 2 * max(1, state.active)

    def compared(done: int, total: int) -> None:
        run.report(run.total // 2 * done // max(1, total))

    # All steps read this survey, of the bank as it was before; what a step archives the next leave out by `run.gone`.
    found = await survey(toolbox, state, full=full, on_progress=compared)
    duplicates = await find_duplicates(toolbox, found)
    await _merge(run, found, duplicates)
    relations = await find_relations(toolbox, found, run.gone)
    await _relate(run, found, relations)
    await age_items(run, state)
    notices = [*relations.notices]
    if found.without_vector:
        notices.append(
            f"{counted(found.without_vector, 'memory')} without a vector left out: run `swarm-memory bank reembed`"
        )
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
        await note_common_words(toolbox)
        await toolbox.store.finish_upkeep(toolbox.scope, run.id, run.now, state.last, _summary(result))
    run.report(run.total)
    return result


async def undo_consolidation(toolbox: Toolbox, run_id: str) -> Undone:
    """Take a run back, also one that was cut off: statuses, confidences and links are as they were before it.

    What was changed after the run is left alone and named. Undoing twice changes nothing. Raises `NotFoundError` for a
    run that is unknown in the scope.
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


async def _merge(run: UpkeepRun, found: Survey, duplicates: Sequence[Merged]) -> None:
    """Archive duplicates, each linked to the one that is kept."""
    items = {item.id: item for item in found.items}
    for part in in_parts(duplicates, _BATCH):
        changes = [
            UpkeepChange(
                seen=items[each.id],
                confidence=items[each.id].confidence,
                status="archived",
                reason=f"duplicate of {each.kept} ({each.similarity:.2f})",
                needs=each.kept,
            )
            for each in part
        ]
        links = [
            MemoryLink(src_id=each.id, dst_id=each.kept, relation="duplicate_of", weight=each.similarity)
            for each in part
        ]
        await run.write(changes, links)


async def _relate(run: UpkeepRun, found: Survey, relations: Relations) -> None:
    """Link what relates, and quarantine new memories that contradict what is well used."""
    items = {item.id: item for item in found.items}
    for part in in_parts(relations.related, _BATCH):
        await run.write((), [related.link for related in part], origins=part)
    against: dict[str, set[str]] = {}
    links, gone = [related.link for related in relations.related], run.gone
    said = [item.id for item in found.items if item.standing > 0]
    for link in [*links, *await links_of(run.toolbox, [*said, *(link.src_id for link in links)])]:
        ids = (link.src_id, link.dst_id)
        if link.relation == "contradicts" and items.keys() >= {*ids} and gone.isdisjoint(ids):
            for one, other in (ids, ids[::-1]):
                if _is_doubtful(items[one], items[other]):
                    against.setdefault(one, set()).add(other)
    doubted = [
        items[item_id]
        for item_id, others in against.items()
        if sum(items[each].usage_count for each in others) >= OUTVOTED
        or any(items[each].standing > 0 for each in others)
    ]
    changes = [
        UpkeepChange(
            seen=item,
            confidence=round(item.confidence * DOUBTED, 6),
            status="quarantined",
            reason=f"contradicts {', '.join(sorted(against[item.id]))}",
            unless_used=True,
        )
        for item in doubted
    ]
    for part in in_parts(changes, _BATCH):
        await run.write(part)


def _is_doubtful(one: UpkeepItem, other: UpkeepItem) -> bool:
    """Whether a contradiction speaks against the first: the user said the other, or it is well used, this one new.

    What somebody restored by hand stays.
    """
    if one.standing > 0 or other.standing > 0:
        return one.standing <= 0 and one.status_reason is None
    return one.position > other.position and one.usage_count < WELL_USED <= other.usage_count


def _summary(result: Consolidation) -> dict[str, JsonValue]:
    """Return the figures of a run; its batches have the rest."""
    counted_only = ("merged", "related", "quarantined", "pruned", "skipped")
    counts = {name: len(getattr(result, name)) for name in counted_only}
    others = {"full": result.full, "compared": result.compared, "aged": result.aged, "asked": result.asked}
    return {**others, **counts, "notices": list(result.notices)}
