"""Errors that several attempts at one task met, and what got any of them past: bystanders show when attempts differ.

A way out that was seen to work holds whoever found it; what one attempt did in vain is not what helped another. How a
repair is told, and what else parts attempts, is not here.
"""

import itertools
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from swarm_memory.tools.distill.repairs import Repair, changes_something, find_repairs, mark_of, shape
from swarm_memory.tools.matts.attempts import Attempt
from swarm_memory.tools.trajectory.calls import Call, calls_of
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.intent import same_intent, varied_words
from swarm_memory.tools.trajectory.phrasing import particulars_of

Mark = tuple[str, tuple[str, str]]
"""What failed, and with which error."""

_MAX_OPEN_DEEDS = 2
"""Of so many deeds at most one can still be told which of them made the difference, when attempts agree on them."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One attempt with its calls, the errors it met and how it got past them."""

    attempt: Attempt
    calls: tuple[Call, ...]
    names: tuple[str, ...]
    """Names and ids of this task, to be replaced."""
    failed: dict[Mark, list[Call]] = field(default_factory=dict[Mark, list[Call]])
    repaired: dict[Mark, list[Repair]] = field(default_factory=dict[Mark, list[Repair]])
    vain: dict[Mark, dict[str, Call]] = field(default_factory=dict[Mark, dict[str, Call]])
    """What was done after an error, by its shape, when the next such call ended with the same error."""

    @property
    def label(self) -> str:
        return self.attempt.verdict.label


@dataclass(frozen=True, slots=True)
class Shared:
    """A way past an error, with the attempts that bear it out."""

    mark: Mark
    owner: Looked
    """The attempt that shows it best."""
    repair: Repair
    """Without what the other attempts show to be a bystander, and with what they tried in vain."""
    borne_out: tuple[Looked, ...]
    """The attempts that went this way."""
    open_in: tuple[Looked, ...]
    """Those that met the error and had not got past it in the end."""


def look(attempt: Attempt) -> Looked:
    """Return an attempt with the errors in it."""
    calls = calls_of(attempt.trajectory)
    names = particulars_of(attempt.trajectory, calls)
    looked = Looked(attempt, calls, (*names, *varied_words(calls, attempt.trajectory.task)))
    for call in calls:
        if call.failed:
            looked.failed.setdefault(mark_of(call), []).append(call)
    for repair in find_repairs(calls):
        looked.repaired.setdefault(mark_of(repair.failed), []).append(repair)
    for mark, failed in looked.failed.items():
        looked.vain[mark] = {shape(call): call for call in _in_vain(failed, calls)}
    return looked


def _in_vain(failed: Sequence[Call], calls: Sequence[Call]) -> Iterator[Call]:
    """Yield what was done between two failures of one kind, where no such call succeeded in between."""
    for one, following in itertools.pairwise(failed):
        between = [call for call in calls if one.end < call.position < following.position]
        if any(not call.failed and same_intent(one, call) for call in between):
            continue
        yield from (call for call in between if changes_something(call))


def shared_repairs(all_: Sequence[Looked]) -> list[Shared]:
    """Return one way past each error that any attempt got past, those that most attempts bear out first.

    Where no attempt that met an error got past it, one that never met it may show why: by the only thing that it did
    before the same call and that none of the others had done.
    """
    found: list[Shared] = []
    for mark in dict.fromkeys(mark for each in all_ for mark in each.failed):
        own = [(each, repair) for each in all_ for repair in each.repaired.get(mark, ())]
        shared = _of_repairs(mark, own, all_) if own else _of_others(mark, all_)
        if shared is not None:
            found.append(shared)
    return sorted(found, key=lambda each: -len(each.borne_out))


def _of_repairs(mark: Mark, own: Sequence[tuple[Looked, Repair]], all_: Sequence[Looked]) -> Shared:
    """Return the way that most attempts went, as the attempt shows it that did the least beside."""
    helpful = _helpful(mark, own, all_)
    pruned = [(each, replace(repair, deeds=_only(repair.deeds, helpful))) for each, repair in own]
    owner, repair = min(pruned, key=lambda pair: (-len(_went(pair[1], own)), *_rank(*pair)))
    borne_out = _went(repair, own)
    way = {shape(call) for call in repair.deeds}
    tried = {key: call for each in all_ for key, call in each.vain.get(mark, {}).items() if key not in way}
    vain = {**{shape(call): call for call in repair.vain}, **tried}
    open_in = tuple(each for each in all_ if _ended_with(mark, each))
    told = replace(repair, vain=tuple(call for key, call in vain.items() if key not in way))
    return Shared(mark, owner, told, tuple(borne_out.values()), open_in)


def _ended_with(mark: Mark, looked: Looked) -> bool:
    """Whether an attempt met an error last after it had got past it for the last time, or never got past it."""
    past = max((repair.success.position for repair in looked.repaired.get(mark, ())), default=-1)
    return mark in looked.failed and looked.failed[mark][-1].position > past


def _went(repair: Repair, own: Sequence[tuple[Looked, Repair]]) -> dict[int, Looked]:
    """Return by their numbers the attempts that went a way: they did all of it, or got past the error with no deed."""
    if repair.same_call and not repair.deeds:
        return {}  # it went away by itself, as far as was seen
    way = {shape(call) for call in repair.deeds}
    done = ((each, {shape(call) for call in other.deeds}) for each, other in own)
    return {each.attempt.number: each for each, deeds in done if way <= deeds and bool(way) == bool(deeds)}


def _rank(looked: Looked, repair: Repair) -> tuple[object, ...]:
    return looked.label != "Success", len(repair.deeds), -len(repair.attempts), looked.attempt.number


def _helpful(
    mark: Mark, own: Sequence[tuple[Looked, Repair]], all_: Sequence[Looked]
) -> Callable[[str], bool]:  # fmt: skip
    """Return whether a deed may be what helped: it stands in most repairs, and nowhere was it done in vain."""
    done = Counter(key for each in _by_attempt(own) for key in each)
    most = max(done.values(), default=0)
    vain = {key for each in all_ for key in each.vain.get(mark, ())}
    if most > 1:
        return lambda key: done[key] == most and key not in vain
    return lambda key: key not in vain


def _by_attempt(own: Sequence[tuple[Looked, Repair]]) -> list[set[str]]:
    deeds: dict[int, set[str]] = {}
    for each, repair in own:
        deeds.setdefault(each.attempt.number, set()).update(shape(call) for call in repair.deeds)
    return list(deeds.values())


def _only(deeds: tuple[Call, ...], helpful: Callable[[str], bool]) -> tuple[Call, ...]:
    return tuple(call for call in deeds if helpful(shape(call))) or deeds


def _of_others(mark: Mark, all_: Sequence[Looked]) -> Shared | None:
    """Return what attempts that never met an error did before the same call, and those that met it had not done."""
    met = tuple(each for each in all_ if mark in each.failed)
    free = [(each, call) for each in all_ if mark not in each.failed and (call := _went_through(mark, met, each))]
    if not free:
        return None
    failed = met[0].failed[mark][-1]
    if failed.command is None:
        return None
    had = {shape(call) for each in met for call in each.calls if _is_before(call, each.failed[mark][-1])}
    done = [frozenset(shape(call) for call in each.calls if _is_before(call, goal)) for each, goal in free]
    only = done[0].intersection(*done[1:]) - had
    if not only or len(only) > (_MAX_OPEN_DEEDS if len(free) > 1 else 1):
        return None
    owner, success = min(free, key=lambda pair: (pair[0].label != "Success", pair[0].attempt.number))
    deeds = {shape(call): call for call in owner.calls if _is_before(call, success) and shape(call) in only}
    repair = replace(
        _spliced(failed, success, tuple(deeds.values())),
        vain=tuple(call for each in met for call in each.vain.get(mark, {}).values()),
    )
    return Shared(mark, owner, repair, tuple(each for each, _ in free), met)


def _went_through(mark: Mark, met: Sequence[Looked], other: Looked) -> Call | None:
    """Return the first call of an attempt that did what failed in the others."""
    failed = met[0].failed[mark][-1]
    for call in other.calls:
        if same_intent(failed, call) and not call.refused:
            return call if call.went_through and shape(call) == shape(failed) else None
    return None


def _is_before(call: Call, other: Call) -> bool:
    return call.end < other.position and changes_something(call) and not same_intent(other, call)


def _spliced(failed: Call, success: Call, deeds: tuple[Call, ...]) -> Repair:
    """Return the repair that two attempts make together."""
    return Repair(failed=failed, attempts=(), deeds=deeds, vain=(), success=success, failure=classify(failed.error))
