"""Errors that nothing ended: no advice, but kept so that a later way out can be joined to them."""

import re
from collections.abc import Iterator, Sequence

from swarm_memory.schema.memory import OPEN_PROBLEM, MemoryItem
from swarm_memory.tools.distill.lessons import GUARDRAIL, HOST_TOOLS, MAX_TITLE, Lesson, Material, Told, lesson
from swarm_memory.tools.distill.repairs import can_be_told, repair_lesson
from swarm_memory.tools.distill.ways_out import MANY, OWN_FAULTS, in_order
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, changes_something, same_error
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.files import written_by
from swarm_memory.tools.trajectory.phrasing import bare, show_call, show_symptom

_BY_THE_WAY = frozenset({"error", "missing-file", "bad-arguments"})
"""Met once, such an error may be that of a thing that was only looked at."""

_STAYED = "calling it unchanged was no way past it"
_TOLD = re.compile(
    rf'^1\. When (?P<call>`[^`]+`) ends with "(?P<symptom>[^"]+)", {_STAYED}: (?P<times>\d+) times in one task\.'
)

_ALONE, _BOTH = "After the first of these alone it failed again.", "Nobody tried whether one of them would do."
_OF_THE_PLACE = frozenset(
    {"missing-table", "service-down", "not-logged-in", "missing-setting", "missing-command", "port-in-use",
     "permission", "locked", "disk-full", "rate-limit", "network"}
)  # fmt: skip
"""Errors of a check that say nothing of the work."""


def open_problems(material: Material) -> Iterator[Lesson]:
    """Yield what a failed task ran into more than once and no later call got past, but for faults in its own work."""
    if not material.failed:
        return
    errors, names = material.reading.errors, material.reading.names
    ended = {error.mark for error in errors if not error.is_open}
    for error in errors:
        symptom = show_symptom(error.calls[-1].error, names)
        known = error.calls[0].signature is not None and symptom and error.mark.name not in ("", *HOST_TOOLS)
        times = len(error.calls)
        pursued = times >= MANY or (times > 1 and _is_asked_for(error.mark.name, material))
        if error.mark in ended or error.asked_for or not known or not pursued:
            continue
        if error.failure.kind not in OWN_FAULTS and not _is_own_work(error.calls[-1], material):
            yield _lesson(material, error.mark.name, error.calls, symptom)


def joined(material: Material) -> Iterator[Lesson]:
    """Yield the ways past an error that took two deeds in order, where an open problem says that it stays otherwise."""
    names = material.reading.names
    for repair in in_order(material.reading):
        if any(has_stayed(problem, repair, names) for problem in material.open_problems):
            yield repair_lesson(material, repair, names, [_ALONE if repair.attempts else _BOTH])


def has_stayed(problem: MemoryItem, repair: Repair, names: Sequence[str]) -> bool:
    """Whether an open problem is the error that ended here, and a call failed with it more often there than here.

    Then it does not pass by itself. What the call was given may stand in the error and differ. Where it failed here but
    once, it must have failed often there.
    """
    told = _told(problem)
    if told is None:
        return False
    here = 1 + sum(same_error(repair.failed, each) for each in repair.attempts)
    ours = _said(show_symptom(repair.failed.error, names), show_call(repair.failed, names))
    is_same = problem.description.startswith(f"Of use when `{repair.failed.name}` ")
    return is_same and int(told["times"]) > max(here, MANY - 1) and ours == _said(told["symptom"], told["call"])


def outlasts(new: MemoryItem, known: MemoryItem) -> bool:
    """Whether two open problems are the same error, and the new one lasted through more calls: it says more."""
    one, other = _told(new), _told(known)
    if one is None or other is None or new.description.split("`")[:2] != known.description.split("`")[:2]:
        return False
    is_same = _said(one["symptom"], one["call"]) == _said(other["symptom"], other["call"])
    return is_same and int(one["times"]) > int(other["times"])


def _told(problem: MemoryItem) -> re.Match[str] | None:
    """What an open problem tells of its error; None of another memory, or one that was not drawn from calls here."""
    source = problem.provenance
    is_ours = OPEN_PROBLEM in problem.tags and source.distiller == "extractive" and source.imported_from is None
    return _TOLD.match(problem.content) if is_ours else None


def _said(symptom: str, call: str) -> list[str]:
    given = set(re.findall(r"\w+", call))
    return [word for word in re.findall(r"\w+", symptom) if word not in given]


def _is_asked_for(name: str, material: Material) -> bool:
    """Whether the task speaks of a program; what failed by the way is no problem of the task."""
    return any(word in material.trajectory.task for word in name.split() if len(word) > 3)


def _is_own_work(call: Call, material: Material) -> bool:
    """Whether a call only says that what the agent wrote is wrong: a check, a program of its own, a write."""
    if call.command is None:
        return bool(written_by(call))
    if call.check is not None:
        return classify(call.error).kind not in _OF_THE_PLACE
    files = material.reading.files
    return any((file := files.of(word)) and file.writes for part in call.command.parts for word in part.words)


def is_pursued(failed: Sequence[Call]) -> bool:
    """Whether failures of one kind are of a thing that was wanted: tried again, or with an error of a known kind."""
    return len(failed) > 1 or any(classify(call.error).kind not in _BY_THE_WAY for call in failed)


def _lesson(material: Material, name: str, calls: Sequence[Call], symptom: str) -> Lesson:
    names = material.reading.names
    shown = show_call(calls[-1], names)
    lines = [f'When {shown} ends with "{symptom}", {_STAYED}: {len(calls)} times in one task.']
    lines += _vain(material, calls)
    lines.append("What was tried may be needed beside something else. Report it as open, not as done.")
    return lesson(
        material,
        Told(
            title=f'Not solved yet: "{one_line(bare(symptom), MAX_TITLE - 18)}"',
            when=f'`{name}` fails with "{symptom}"',
            lines=lines,
            topic=f"open:{name}:{symptom}",
            tags=(OPEN_PROBLEM, GUARDRAIL, classify(calls[-1].error).kind),
            of_any_task=True,
        ),
        calls=calls[-3:],
        value=0.4,
    )


def _vain(material: Material, calls: Sequence[Call]) -> Iterator[str]:
    """What was done between the failures and did not help; the failing command itself is no remedy and not told."""
    names = material.reading.names
    between = [call for call in material.calls if calls[0].end < call.position < calls[-1].position]
    shown = {show_call(call, names, 80) for call in calls}
    done = (show_call(call, names, 80) for call in between if changes_something(call) and can_be_told(call))
    remedies = [text for text in dict.fromkeys(done) if text not in shown]
    if remedies:
        yield f"Alone it did not help: {', '.join(remedies[-4:])}."
    keys = [key for key in calls[-1].input if len({str(call.input.get(key)) for call in calls}) > 1]
    if calls[0].command is None and keys:
        yield f"Other values of {', '.join(f'`{key}`' for key in keys[:4])} did not help."
