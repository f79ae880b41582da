"""Guardrails from errors that were never resolved: each error by itself, with what was tried against it in vain."""

from collections.abc import Iterator, Sequence

from swarm_memory.tools.distill.lessons import GUARDRAIL, HOST_TOOLS, MAX_TITLE, Lesson, Material, lesson
from swarm_memory.tools.distill.repairs import changes_something, find_repairs, mark_of
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.intent import varied_words
from swarm_memory.tools.trajectory.phrasing import bare, show_call, show_file, show_symptom

_BY_THE_WAY = frozenset({"error", "missing-file", "bad-arguments"})
"""Met once, such an error may be that of a thing that was only looked at."""


def open_errors(material: Material) -> Iterator[Lesson]:
    """Guardrails from what failed again and again, or last, and was never resolved; only of a failed task."""
    if not material.failed:
        return
    found = find_repairs(material.calls)
    resolved = {call.position for repair in found for call in (repair.failed, *repair.attempts)}
    known = {mark_of(repair.failed) for repair in found}
    groups: dict[tuple[str, tuple[str, str]], list[Call]] = {}
    for call in material.calls:
        if call.failed and call.position not in resolved and mark_of(call) not in known:
            groups.setdefault(mark_of(call), []).append(call)
    names = (*material.particulars, *varied_words(material.calls, material.trajectory.task))
    for (name, _), calls in groups.items():
        symptom = show_symptom(calls[-1].error, names)
        if symptom and name and is_pursued(calls) and not (name in HOST_TOOLS and len(calls) < 3):
            yield _open_lesson(material, name, calls, symptom, names)


def is_pursued(failed: Sequence[Call]) -> bool:
    """Whether failures of one kind are of a thing that was wanted: tried again, or with an error of a known kind."""
    return len(failed) > 1 or any(classify(call.error).kind not in _BY_THE_WAY for call in failed)


def _open_lesson(material: Material, name: str, calls: Sequence[Call], symptom: str, names: Sequence[str]) -> Lesson:
    failure = classify(calls[-1].error)
    again = "run it" if calls[-1].command else "call it"
    shown = show_call(calls[-1], names)
    lines = [f'When {shown} ends with "{symptom}", do not {again} again unchanged.']
    if failure.first:
        lines.append(f"Before the first call {failure.first}.")
    vain = _vain(material, calls, names)
    lines += vain or ["The same call was made again, which changed nothing."] * (len(calls) > 1)
    lines.append("No way out was seen: try what stands in none of these lines, or report it as open instead of done.")
    told = "What did not help against" if vain else "No way was found past"
    worth = 0.35 + 0.1 * min(len(calls), 4) + (0.1 if failure.kind != "error" else 0.0)
    return lesson(
        material,
        title=f'{told} "{one_line(bare(symptom), MAX_TITLE - len(told) - 3)}"',
        when=f'`{name}` fails with "{symptom}"',
        lines=lines,
        calls=calls[-3:],
        value=worth if vain or failure.first else worth - 0.2,
        topic=f"open:{name}:{symptom}",
        tags=(failure.kind, GUARDRAIL),
    )


def _vain(material: Material, calls: Sequence[Call], names: Sequence[str]) -> list[str]:
    """What was done between the failures and did not help; the failing command itself is no remedy and not told."""
    told: list[str] = []
    between = [call for call in material.calls if calls[0].end < call.position < calls[-1].position]
    shown = {show_call(call, names, 80) for call in calls}
    done = [show_call(call, names, 80) for call in between if call.command and changes_something(call)]
    remedies = [text for text in dict.fromkeys(done) if text not in shown]
    if remedies:
        told.append(f"What did not help: {', '.join(remedies[-4:])}.")
    files = dict.fromkeys(
        show_file(str(call.input.get("file_path"))) for call in between if call.input.get("file_path") and call.writes
    )
    if files:
        told.append(f"Changing {', '.join(f'`{name}`' for name in list(files)[-4:])} did not resolve it.")
    keys = [key for key in calls[-1].input if len({str(call.input.get(key)) for call in calls}) > 1]
    if calls[0].command is None and keys:
        told.append(f"Other values of {', '.join(f'`{key}`' for key in keys[:4])} did not help.")
    return told
