"""What ended an error: a candidate at first, and a memory once a second task bears it out.

An error came, then something was done, then the call went through. One task cannot tell what of it helped; two can.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from swarm_memory.schema.memory import CANDIDATE, WAY_OUT, MemoryDraft, MemoryItem
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.distill.lessons import HOST_TOOLS, Material
from swarm_memory.tools.distill.repairs import MAX_TOLD, can_be_told, is_same_call, repair_draft
from swarm_memory.tools.ports.trajectories import TriedWay
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, changes_something, same_error, shape
from swarm_memory.tools.trajectory.phrasing import show_call
from swarm_memory.tools.trajectory.reading import Reading

OWN_FAULTS = frozenset({"assertion", "syntax", "types"})
"""Kinds of errors in what the agent had just written: what ended one of them is of no use for the next."""

_LOOKS = frozenset({"search", "read", "print"})
_MAX_DEEDS = 3
_OF_ONE_RUN = re.compile(r"(?<![\w.])\d{3,}(?![\w.])|\b(?=\w*\d)(?=\w*[a-f])[0-9a-f]{6,}\b|<[a-z]+>|…")
"""A process, a port that was free, who held a lock: in another run it is another one."""


class Fix(NamedTuple):
    """An error that ended, with what ended it."""

    signature: str
    """The digest of the error's."""
    repair: Repair
    """With these deeds alone."""
    deeds: tuple[str, ...]
    """What was done, in its order, each as it is told; last the other call that went through instead."""
    vain: tuple[str, ...]
    """What was done before the same error came once more."""


def fixes_of(reading: Reading) -> tuple[Fix, ...]:
    """Return one fix for each error that something ended: of one that ended twice what was done both times."""
    found: dict[str, Fix] = {}
    for repair in reading.repairs:
        fix = _fix(repair, reading)
        if fix is None:
            continue
        earlier = found.get(fix.signature)
        common = _common(earlier.deeds, fix.deeds) if earlier else fix.deeds
        if common:
            found[fix.signature] = _only(fix, common, reading.particulars)
    return tuple(found.values())


def _fix(repair: Repair, reading: Reading) -> Fix | None:
    failed, success, names = repair.failed, repair.success, reading.particulars
    if failed.signature is None or not is_seen(repair) or not _is_wanted(repair) or reading.is_own(success):
        return None
    last = max([failed.position, *(each.position for each in repair.attempts if same_error(failed, each))])
    vain, deeds = _done(failed.position, last, failed, reading), list(repair.deeds)
    known = [shape(call) for call in vain]
    if deeds and shape(deeds[-1]) in known:  # alone it did not help: it wanted what was done after that
        deeds = [*vain[len(known) - known[::-1].index(shape(deeds[-1])) :], *deeds]
    deeds = list({shape(call): call for call in deeds if shape(call) != shape(failed)}.values())
    is_other = success.command is not None and not is_same_call(failed, success, names)
    told = [*deeds, *([success] if is_other else [])]
    shown = tuple(show_call(call, names, MAX_TOLD) for call in told)
    if not 0 < len(told) <= _MAX_DEEDS or not all(map(can_be_told, told)) or any(map(_OF_ONE_RUN.search, shown)):
        return None
    tried = tuple(show_call(call, names, MAX_TOLD) for call in vain)
    return Fix(failed.signature.digest, replace(repair, deeds=tuple(deeds)), shown, tried)


def is_seen(repair: Repair) -> bool:
    """Whether the call was seen to get past the error, and is more than a slip with a tool of the host's."""
    failed, success = repair.failed, repair.success
    is_slip = failed.command is None and failed.tool in HOST_TOOLS
    passed = success.failed or success.went_through or success.command is None
    return not is_slip and (passed or bool(success.check and success.check.passed))


def _is_wanted(repair: Repair) -> bool:
    """Whether an error is of a thing that a later task may meet: not the agent's own work, nor a look."""
    command = repair.failed.command
    return repair.failure.kind not in OWN_FAULTS and (command is None or command.purpose not in _LOOKS)


def _done(start: int, end: int, failed: Call, reading: Reading) -> list[Call]:
    between = (call for call in reading.calls if start < call.position < end and shape(call) != shape(failed))
    return [call for call in between if changes_something(call)]


def _only(fix: Fix, deeds: Sequence[str], names: Sequence[str]) -> Fix:
    kept = tuple(call for call in fix.repair.deeds if show_call(call, names, MAX_TOLD) in deeds)
    return fix._replace(repair=replace(fix.repair, deeds=kept), deeds=tuple(deeds))


def _common(one: Sequence[str], other: Sequence[str]) -> tuple[str, ...]:
    """What was done both times; nothing unless it ended with the same."""
    return tuple(each for each in one if each in other) if one[-1] == other[-1] else ()


def stand_in_order(wanted: Sequence[str], done: Sequence[str]) -> bool:
    """Whether all that is wanted was done, in that order."""
    rest = iter(done)
    return bool(wanted) and all(each in rest for each in wanted)


def helped(fix: Fix, known: MemoryItem) -> bool | None:
    """Return whether a known fix of the same error helped where it was done; None where it was not."""
    if stand_in_order(known.deeds, fix.vain):
        return False
    is_last = bool(known.deeds) and known.deeds[-1] == fix.deeds[-1]
    return True if is_last and stand_in_order(known.deeds, (*fix.vain, *fix.deeds)) else None


def is_of_another(known: MemoryItem, trajectory: Trajectory) -> bool:
    """Whether a memory is of another task, and of another session where both have one."""
    source, session = known.provenance, trajectory.session_id
    return source.task_id != trajectory.task_id and (session is None or session != source.session_id)


def fix_drafts(material: Material) -> Iterator[MemoryDraft]:
    """Yield the fixes that are not known: a candidate each, or what another task's candidate did as well."""
    ended, task_id = set[int](), material.trajectory.task_id
    for fix in fixes_of(material.reading):
        end = fix.repair.success.position
        if end in ended:
            continue  # one thing ended several errors in a row
        ended.add(end)
        known = [item for signature, item in material.known if signature == fix.signature]
        known = [item for item in known if item.provenance.task_id != task_id]  # what this task gave, it gives again
        if any(helped(fix, item) or item.deeds == fix.deeds for item in known):
            continue
        names = material.reading.particulars
        others = [item for item in known if is_of_another(item, material.trajectory)]
        commons = (_common(item.deeds, fix.deeds) for item in others if item.deeds and helped(fix, item) is None)
        common = max((each for each in commons if not stand_in_order(each, fix.vain)), key=len, default=())
        told = _only(fix, common, names) if common else fix
        yield repair_draft(told.repair, names, tags=(WAY_OUT,) if common else (WAY_OUT, CANDIDATE))


def tried(reading: Reading, known: Iterable[tuple[str, MemoryItem]]) -> Iterator[TriedWay]:
    """Yield of the known fixes, each with the signature of its error, those that were done, and whether they helped."""
    fixes = {fix.signature: fix for fix in fixes_of(reading)}
    failed = _in_vain(reading)
    for signature, item in known:
        fix = fixes.get(signature)
        worked = helped(fix, item) if fix else None
        if worked is None and stand_in_order(item.deeds, failed.get(signature, ())):
            worked = False
        if worked is not None:
            yield TriedWay(signature, item.id, worked)


def _in_vain(reading: Reading) -> dict[str, list[str]]:
    """Return what was done before an error came, or came once more, by the digest of its signature.

    Not of a check, which may have failed for the work itself.
    """
    found: dict[str, list[str]] = {}
    for error in reading.errors:
        first, last = error.calls[0], error.calls[-1]
        if first.signature is None or first.check is not None:
            continue
        runs = [call for call in reading.calls if shape(call) == shape(first)]
        since = max((call.end for call in runs if not call.failed and call.end < first.position), default=-1)
        end = max(call.position for call in runs if call.failed) if error.is_open else last.position
        between = (call for call in reading.calls if since < call.position < end and shape(call) != shape(first))
        done = [call for call in between if call.failed or changes_something(call)]
        found[first.signature.digest] = [show_call(call, reading.particulars, MAX_TOLD) for call in done]
    return found


def drawn_fixes(reading: Reading, told: Iterable[tuple[str, MemoryItem]]) -> tuple[TriedWay, ...]:
    """Return which memory tells the fix of which error.

    `told` are ids of memories in the bank, each with the item that was drawn from the trajectory.
    """
    fixes = {fix.repair.failed.step.id: fix for fix in fixes_of(reading)}
    first = ((memory_id, item, item.provenance.evidence[:1]) for memory_id, item in told if WAY_OUT in item.tags)
    pairs = ((memory_id, fixes[step]) for memory_id, _, steps in first for step in steps if step in fixes)
    return tuple(dict.fromkeys(TriedWay(fix.signature, memory_id, True) for memory_id, fix in pairs))
