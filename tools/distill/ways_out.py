"""Which errors of a trajectory were seen to end by something that was done, and which memories say what that was."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from swarm_memory.schema.memory import WAY_OUT, MemoryItem
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.distill.changes import telling_changes
from swarm_memory.tools.distill.lessons import HOST_TOOLS, Lesson, Material
from swarm_memory.tools.distill.repairs import MAX_TOLD, can_be_told, is_same_call, passing_lesson, repair_lesson
from swarm_memory.tools.ports.trajectories import TriedWay
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import names
from swarm_memory.tools.trajectory.errors import (
    PASSES_WITH_TIME,
    Repair,
    changes_something,
    left_out,
    same_error,
    shape,
    spoken,
    telling_words,
)
from swarm_memory.tools.trajectory.phrasing import show_call
from swarm_memory.tools.trajectory.reading import Reading, read
from swarm_memory.tools.trajectory.shell import CHECKS

OWN_FAULTS = frozenset({"assertion", "syntax", "types"})
"""Kinds of errors in what the agent had just written: what ended one of them is of no use for the next."""

_MAY_PASS = frozenset({"rate-limit", "timeout", "service-down", "network", "locked"})
"""Kinds that may pass when the same is done once more."""

_MAY_COME_AND_GO = _MAY_PASS | {"error"}
"""All others stay as long as nothing is done."""

_NOT_STARTED = frozenset({"missing-command", "missing-module", "wrong-folder"})
"""Kinds that keep a program from running at all: another way to run it is the way out."""

_ENDS: dict[str, str] = {
    "missing-module": r"\b(?:install|add|sync|restore|activate|pythonpath|requirements|ci)\b",
    "missing-command": r"\b(?:install|add|activate|path|ci|apk|corepack)\b",
    "missing-table": r"migrat|schema|syncdb|\bdb[:_]",
    "missing-setting": r"\bexport\b|\.env|\bset\b|config",
    "not-logged-in": r"log-?in|logon|auth|token|credential|ssh-add",
    "service-down": r"\b(?:start|restart|up|serve|run|daemon|service)\b",
    "port-in-use": r"\b(?:kill|pkill|stop|down|fuser)\b",
    "permission": r"\b(?:chmod|chown|sudo)\b",
    "disk-full": r"\b(?:rm|prune|clean|gc)\b",
    "locked": r"lock|kill|stop",
    "wrong-branch": r"^git (?:pull|fetch|rebase|merge|switch|checkout)",
}
"""Of each kind of error, what of a command's words is made to end it."""

_HINT = re.compile(
    r"(?im)^.*\b(?:use|using|try|run|did you mean|instead|choose|choices|hint|set|available|usage|must|one of)\b.*$"
)
_WORD = re.compile(r"[\w./:@+-]+")
_MIN_NAME = 3
_MAX_HINTED = 4000
_LOOKS = frozenset({"read", "search", "print"})
_TWICE = 2
MANY = 3
"""An error that lasts through so many calls does not pass by itself; so often nobody tries what he does not want."""

_SPARE_STEPS = 4
"""A memory that rests on so many more steps than a way out has tells something wider."""


class WayOut(NamedTuple):
    """An error that ended, and the calls that say so."""

    signature: str
    """The digest of the error's."""
    calls: tuple[Call, ...]
    """The one that failed first; then what was done, and the one that went through."""


def ways_out_of(given: Trajectory | Reading, told: Iterable[tuple[str, MemoryItem]]) -> tuple[TriedWay, ...]:
    """Return which memory was seen to end which error.

    `told` are ids of memories in the bank, each with the item that was drawn from the trajectory.
    """
    items = [(memory_id, item) for memory_id, item in told if item.provenance.evidence]
    if not items:
        return ()
    reading = read(given)
    ways = [*ways_out(reading), *map(_way_out, in_order(reading))]
    worked = (TriedWay(way.signature, memory_id) for way in ways for memory_id, item in items if _tells(item, way))
    return tuple(dict.fromkeys(worked))


class Done(NamedTuple):
    """What was done against an error, in its order, each as it would be told."""

    vain: tuple[str, ...]
    """Before it came again, or failed itself."""
    last: tuple[str, ...]
    """Between its last time and what got past it; empty where nothing did soon."""


def done_against(reading: Reading) -> dict[str, Done]:
    """Return what was done against each error, by the digest of its signature; nothing where nothing was.

    In vain is what came before the call failed for the last time, also before it failed so for the first time; and what
    failed itself. Where nothing ended the error, the call may have failed otherwise in the end; that of a check may be
    of the work itself.
    """
    found: dict[str, Done] = {}
    for error in reading.errors:
        first, last = error.calls[0], error.calls[-1]
        repair = error.repair if not reading.is_own_fault(first) else None
        tries = [call for call in reading.calls if shape(call) == shape(first)]
        before = max((call.end for call in tries if not call.failed and call.end < first.position), default=-1)
        is_left = repair is None and first.check is None and error.is_open
        again = max(call.position for call in tries if call.failed) if is_left else last.position
        end = repair.success.position if repair else again
        between = [
            call for call in reading.calls
            if before < call.position < end and shape(call) != shape(first) and (call.failed or changes_something(call))
        ]  # fmt: skip
        shown = [(call, show_call(call, reading.names, MAX_TOLD)) for call in between]
        if first.signature is not None and shown:
            vain = tuple(text for call, text in shown if call.failed or call.position < again)
            found[first.signature.digest] = Done(
                vain, tuple(text for call, text in shown if not call.failed and call.position > again)
            )
    return found


def tried(done: Mapping[str, Done], known: Iterable[tuple[str, MemoryItem]]) -> Iterator[TriedWay]:
    """Yield which of the known ways, given with the digests of their errors' signatures, were done, and how it went."""
    for signature, item in known:
        deeds, (vain, last) = item.deeds, done[signature]
        if deeds and deeds[-1] in last and stand_in_order(deeds, (*vain, *last)):
            yield TriedWay(signature, item.id)
        elif deeds and stand_in_order(deeds, vain):
            yield TriedWay(signature, item.id, worked=False)


def stand_in_order(wanted: Sequence[str], done: Sequence[str]) -> bool:
    """Whether all that is wanted was done, in that order."""
    rest = iter(done)
    return all(each in rest for each in wanted)


def ways_out(reading: Reading) -> Iterator[WayOut]:
    """Yield each error of a trajectory that something was seen to end, or that was seen to pass by itself."""
    yield from map(_way_out, (*cures(reading), *passing(reading)))


def _way_out(repair: Repair) -> WayOut:
    digest = repair.failed.signature.digest if repair.failed.signature else ""
    return WayOut(digest, (repair.failed, *repair.deeds[-3:], repair.success))


def way_out_lessons(material: Material) -> Iterator[Lesson]:
    """Yield the lessons on errors that were seen to end."""
    found = cures(material.reading)
    for repair in found:
        links = [each for each in repair.attempts if repair.deeds and each.position > repair.deeds[-1].end]
        following = next((each for each in found if links and each.failed is links[0]), None)
        yield repair_lesson(material, repair, material.reading.names, following=following)
    for repair in passing(material.reading):
        yield passing_lesson(material, repair, material.reading.names)


def cures(reading: Reading) -> tuple[Repair, ...]:
    """Return of each error that something was seen to end one repair, with the deeds alone that ended it.

    Not of one that passed when the same call was made once more, anywhere in the trajectory; nor where it ended now by
    this and now by that; nor of one in the agent's own work. What was done must fit the error: be made for its kind, or
    name what the error or its hint names; or it ended the error twice; or it was the one thing done between the last
    failure and a success of the very same call, and that was the only failure, or the error had lasted through three or
    names the program that was run. What was done before that failure is told as in vain: the error outlived it, so that
    of all that was done only the last thing can have ended it.
    """
    passed = {each.failed.signature for each in reading.repairs if each.same_call and not each.deeds}
    found: dict[object, list[Repair]] = {}
    for repair in reading.repairs:
        cure = _cure(repair, reading) if repair.failed.signature not in passed else None
        if cure is not None:
            found.setdefault(repair.failed.signature, []).append(cure)
    return tuple(alike[0] for alike in found.values() if _common(map(_way, alike)))


def _common(sets: Iterable[set[str]]) -> set[str]:
    first, *others = sets
    return first.intersection(*others)


def _way(cure: Repair) -> set[str]:
    return {shape(call) for call in cure.deeds} or {shape(cure.success)}


def _cure(repair: Repair, reading: Reading) -> Repair | None:
    failed, success = repair.failed, repair.success
    if failed.signature is None or not _is_wanted(repair):
        return None
    seen = success.failed or success.went_through or (success.check and success.check.passed)
    if not seen and success.command is not None:
        return None  # of a tool with arguments its answer says it
    is_alone = sum(not _only_looks(call) for call in _between(repair, reading.calls)) == 1
    deeds = tuple(call for call in repair.deeds if can_be_told(call) and _fits(call, repair, is_alone=is_alone))[-2:]
    if is_same_call(failed, success, reading.names):
        deeds = deeds or _done_twice(repair, reading) or _only_deed(repair, reading)
        return replace(repair, deeds=(*_first_as_well(deeds, repair, reading), *deeds)) if deeds else None
    if failed.command is None:
        changes = telling_changes(repair, reading.calls, reading.trajectory.task, reading.particulars)
        is_told = any(change.is_code or (change.source and change.is_named) for change in changes)
        return replace(repair, deeds=()) if is_told else None
    return replace(repair, deeds=deeds) if _is_other_way(repair, reading) and can_be_told(success) else None


def _is_wanted(repair: Repair) -> bool:
    """Whether an error is of a thing that a later task may meet: not the agent's own work, nor a slip."""
    failed = repair.failed
    if repair.failure.kind in OWN_FAULTS or (failed.command is None and failed.tool in HOST_TOOLS):
        return False
    return failed.command is None or failed.command.purpose not in _LOOKS


def _fits(deed: Call, repair: Repair, *, is_alone: bool) -> bool:
    """Whether a deed is made to end such an error, or names what the error or its hint names.

    Against an error that may pass with time it must also have come after the unchanged call had failed once more, or
    be the first thing that was tried and made for it. Against an error of no known kind one word alone may be chance
    where other things were done as well, or the call had failed once more before: then it may pass by itself.
    """
    kind, failed = repair.failure.kind, repair.failed
    if deed.waits:
        return kind in PASSES_WITH_TIME
    said = spoken(deed)
    named = telling_words(f"{failed.error} {repair.failure.subject} {_hints(failed)}") - telling_words(spoken(failed))
    is_made_for = re.search(_ENDS.get(kind, r"(?!)"), said, re.IGNORECASE) is not None
    again = any(same_error(failed, each) and each.key == failed.key for each in repair.attempts)
    if kind in _MAY_PASS and not again:
        return is_made_for and not repair.attempts
    return is_made_for or len(named & telling_words(said)) >= (
        _TWICE if kind == "error" and (again or not is_alone) else 1
    )


def _hints(failed: Call) -> str:
    """The lines of an error that say what to do."""
    return "\n".join(_HINT.findall(failed.output[-_MAX_HINTED:]))


def _only_deed(repair: Repair, reading: Reading) -> tuple[Call, ...]:
    """Return the one thing that was done since the unchanged call last failed so, before it got past that error.

    Where that was done in vain before, it wanted what was done in between: both, where that was one thing too. Nothing
    where the error had lasted through two calls alone, for a thing that passes by itself at the third looks the same;
    but what runs the very thing that the error names.
    """
    failed, since = repair.failed, _last_failure(repair)
    lasted = 1 + sum(same_error(failed, each) for each in repair.attempts)
    links = [each for each in repair.attempts if each.position > since]
    end = links[0].position if links else repair.success.position
    between = [
        call for call in _between(repair, reading.calls) if since < call.position < end and not _only_looks(call)
    ]
    is_same = all(shape(each) == shape(failed) for each in repair.attempts)
    if repair.failure.kind in _MAY_PASS or not is_same or list(repair.deeds) != between or len(between) != 1:
        return ()
    named = telling_words(failed.error) - telling_words(spoken(failed))
    if 1 < lasted < MANY and named.isdisjoint(telling_words(between[0].name)):
        return ()
    ended = shape(between[0])
    before = _changing(failed.end, since, reading)
    if any(shape(call) == ended for call in before):
        between = [*_first_of_two(repair, reading), *between]
        return tuple(between) if len(between) == _TWICE and all(map(can_be_told, between)) else ()
    return tuple(filter(can_be_told, between))


def _first_as_well(deeds: Sequence[Call], repair: Repair, reading: Reading) -> tuple[Call, ...]:
    """Return what fits the error too and was done before these: that it did not help alone says nothing against it."""
    if repair.failure.kind in _MAY_PASS:
        return ()
    done = {shape(call) for call in deeds}
    first = (call for call in _first_of_two(repair, reading) if _fits(call, repair, is_alone=False))
    return tuple(call for call in first if deeds and shape(call) not in done)


def in_order(reading: Reading) -> Iterator[Repair]:
    """Yield the errors that no cure is known of and that two things ended, one after the other, with both.

    After the first one alone the unchanged call failed again, and it went through when the second one was all that had
    been done since; or both were all that was done after it had failed once. So it looks too where a thing passes by
    itself at the next try: from one trajectory nobody knows.
    """
    known = {repair.failed.signature for repair in (*cures(reading), *passing(reading))}
    for repair in reading.repairs:
        failed, success = repair.failed, repair.success
        is_sure = repair.failure.kind not in _MAY_PASS and success.went_through and _is_wanted(repair)
        if failed.signature is None or failed.signature in known or not is_sure:
            continue
        last = _since_last(repair, reading)
        both = (*_first_of_two(repair, reading), *last)
        are_two = len(both) == len(set(map(shape, both))) == _TWICE and (len(last) == 1 or not repair.attempts)
        if are_two and all(map(can_be_told, both)) and is_same_call(failed, success, reading.names):
            yield replace(repair, deeds=both)


def _first_of_two(repair: Repair, reading: Reading) -> tuple[Call, ...]:
    """Return the one thing that was done in vain before what then ended an error; nothing where there were more.

    Where what ended it was done before, too, only what came after that counts: it was missing then.
    """
    ended = {shape(call) for call in _since_last(repair, reading)}
    before = _changing(repair.failed.end, _last_failure(repair), reading)
    since = max((at for at, call in enumerate(before, 1) if shape(call) in ended), default=0)
    found = {shape(call): call for call in before[since:]}
    return tuple(found.values()) if len(found) == 1 and all(map(can_be_told, found.values())) else ()


def _since_last(repair: Repair, reading: Reading) -> list[Call]:
    return _changing(_last_failure(repair), repair.success.position, reading)


def _last_failure(repair: Repair) -> int:
    """Where the unchanged call failed in that way for the last time."""
    alike = [
        each for each in repair.attempts if shape(each) == shape(repair.failed) and same_error(repair.failed, each)
    ]
    return [repair.failed, *alike][-1].position


def _changing(start: int, end: int, reading: Reading) -> list[Call]:
    return [call for call in reading.calls if start < call.position < end and changes_something(call)]


def _done_twice(repair: Repair, reading: Reading) -> tuple[Call, ...]:
    """Return what was done before each of two successes or more after the same error."""
    alike = [each for each in reading.repairs if each.same_call and each.failed.signature == repair.failed.signature]
    if len(alike) < _TWICE:
        return ()
    common = _common({shape(call) for call in each.deeds} for each in alike)
    return tuple(call for call in repair.deeds if shape(call) in common and can_be_told(call))[-2:]


def _is_other_way(repair: Repair, reading: Reading) -> bool:
    """Whether it was the other call, and not chance or a change of mind, that got past the error.

    Its program was run in another way where it could not be run at all; what the error names was left out, or what it
    or its hint names was put in; or the other call went through twice, and the first one never.
    """
    failed, success, kind = repair.failed, repair.success, repair.failure.kind
    if failed.command is None or success.command is None or _brings_code(failed) or kind in _MAY_PASS:
        return False
    if left_out(failed, success):
        return True
    if kind in _NOT_STARTED and (failed.command.purpose in CHECKS or _given(failed) <= _words(success)):
        return True
    if kind == "missing-file":
        return False
    new = {word for word in _words(success) - _words(failed) if len(word) >= _MIN_NAME}
    told = f"{failed.error} {_hints(failed)}"
    if any(names(failed.output if word.startswith("--") else told, word) for word in new):
        return True
    went = [call for call in reading.calls if shape(call) == shape(success) and call.went_through]
    return len(went) >= _TWICE and sum(shape(call) == shape(failed) for call in reading.calls) >= _TWICE


def _words(call: Call) -> set[str]:
    return set(_WORD.findall(call.command.text if call.command else ""))


def _given(call: Call) -> set[str]:
    """What the program was given, without the program."""
    main = call.command.main if call.command else None
    return set(_WORD.findall(" ".join(main.words[1:]))) if main else set()


def _brings_code(call: Call) -> bool:
    """Whether a call brings the program that it runs along: the next one brings another."""
    words = _words(call)
    return call.command is not None and ("<<" in call.command.text or "-c" in words or "-e" in words)


def passing(reading: Reading) -> tuple[Repair, ...]:
    """Return the errors that passed when the same call was made once more, and nothing but a look lay between."""
    found = {
        repair.failed.signature: repair
        for repair in reversed(reading.repairs)
        if repair.failed.signature is not None
        and repair.same_call
        and repair.success.went_through
        and repair.failure.kind in _MAY_COME_AND_GO
        and _is_wanted(repair)
        and not any(repair.failed.position < said.index < repair.success.position for said in reading.said)
        and all(map(_only_looks, _between(repair, reading.calls)))
    }
    return tuple(found.values())


def _between(repair: Repair, calls: Sequence[Call]) -> Iterator[Call]:
    for call in calls:
        between = repair.failed.position < call.position < repair.success.position
        if between and shape(call) != shape(repair.failed):
            yield call


def _only_looks(call: Call) -> bool:
    """Whether a call changes nothing; of a tool that is not known."""
    return call.command is not None and all(part.purpose in _LOOKS for part in call.command.parts)


def _tells(item: MemoryItem, way: WayOut) -> bool:
    """Whether a memory rests on all calls of a way out, and on little else; one of extraction must be its lesson."""
    evidence = item.provenance.evidence
    if item.provenance.distiller == "extractive":
        return WAY_OUT in item.tags and evidence[0] == way.calls[0].step.id
    rests = all(not set(evidence).isdisjoint(call.ids) for call in way.calls)
    return rests and len(evidence) <= 2 * len(way.calls) + _SPARE_STEPS
