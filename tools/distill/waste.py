"""Guardrails from what was done in vain: errors that nothing resolved, loops, look-ups that found nothing."""

from collections.abc import Iterator, Sequence

from swarm_memory.tools.distill.lessons import GUARDRAIL, HOST_TOOLS, MAX_TITLE, Lesson, Material, Told, lesson
from swarm_memory.tools.judge.evidence import HOUSEKEEPING
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import LOOKING_TOOL, Call
from swarm_memory.tools.trajectory.errors import Mark, changes_something, mark_of
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.phrasing import bare, general, show_call, show_file, show_symptom

_BY_THE_WAY = frozenset({"error", "missing-file", "bad-arguments"})
"""Met once, such an error may be that of a thing that was only looked at."""


def open_errors(material: Material) -> Iterator[Lesson]:
    """Guardrails from what failed again and again, or last, and was never resolved; only of a failed task."""
    if not material.failed:
        return
    errors = material.reading.errors
    known = {error.mark for error in errors if not error.is_open}
    attempts = {call.position for repair in material.reading.repairs for call in repair.attempts}
    groups: dict[Mark, list[Call]] = {}
    for error in errors:
        if error.mark not in known and not error.asked_for and error.calls[0].position not in attempts:
            groups.setdefault(error.mark, []).extend(error.calls)
    names = material.reading.names
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
        Told(
            title=f'{told} "{one_line(bare(symptom), MAX_TITLE - len(told) - 3)}"',
            when=f'`{name}` fails with "{symptom}"',
            lines=lines,
            topic=f"open:{name}:{symptom}",
            tags=(failure.kind, GUARDRAIL),
        ),
        calls=calls[-3:],
        value=worth if vain or failure.first else worth - 0.2,
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


def loops(material: Material) -> Iterator[Lesson]:
    """The same call with the same result: three times where it failed, four where it told nothing new.

    One that went through in the end was no loop, whatever made it do so.
    """
    names = material.reading.names
    ended = {error.mark for error in material.reading.errors if not error.is_open}
    for loop in material.reading.loops:
        calls = loop.calls
        looking = calls[0].command is not None and calls[0].command.purpose in ("read", "search", "vcs", "print")
        few = len(calls) < (3 if loop.failed else 4)
        if few or not calls[0].output or calls[0].tool in HOUSEKEEPING or (looking and not loop.failed):
            continue
        if loop.failed and mark_of(calls[0]) in ended:
            continue
        then = next((c for c in material.calls if c.position > calls[-1].end and not c.failed and not c.empty), None)
        symptom = show_symptom(calls[0].error or (calls[0].output[:200] if calls[0].empty else ""), names)
        told = f': "{symptom}"' if symptom else ""
        shown = show_call(calls[0], names, 60)
        lines = [f"{shown} was called {len(calls)} times with the same result{told}."]
        lines.append("After the second same result change the arguments or the tool: a third call tells nothing new.")
        if then is not None and (then.command is not None or then.tool != calls[0].tool):
            lines.append(f"What ended it: {show_call(then, names)}.")
        yield lesson(
            material,
            Told(
                title=f"Do not repeat {show_call(calls[0], names, 40)} unchanged after the same result",
                when=f"{shown} gives the same result twice{told}",
                lines=lines,
                topic=f"open:{calls[0].name}:{symptom}",
                tags=("loop", "guardrail"),
            ),
            calls=[calls[0], calls[-1]],
            value=0.45 + 0.05 * min(len(calls), 5) if symptom else 0.42,
        )


def fruitless_lookups(material: Material) -> Iterator[Lesson]:
    """Wordings that found nothing, where fewer words of the same then found something: what to look up is a name."""
    names = material.particulars
    if any(call.command is not None for call in material.calls):
        return
    missed = [call for call in material.calls if call.empty and LOOKING_TOOL.search(call.tool) and call.target]
    pairs = [(miss, hit) for miss in missed if (hit := _shortened(miss, material.calls)) is not None]
    if not pairs:
        return
    tool = pairs[0][0].tool
    shown = [
        tuple(one_line(general(each.target[:400], names), 50).replace('"', "'") for each in pair) for pair in pairs
    ]
    lines = [f'`{tool}` found nothing for "{miss}", and did find "{hit}".' for miss, hit in dict.fromkeys(shown[:3])]
    lines.append(
        "Look up the plain name of one thing; what is asked about it goes into the next look-up, not into this."
    )
    yield lesson(
        material,
        Told(
            title=f"Give `{tool}` the plain name of one thing, not a description",
            when=f'`{tool}` finds nothing, as for "{shown[0][0]}"',
            lines=lines,
            topic=f"lookup:{tool}",
            tags=("search",),
        ),
        calls=[each for pair in pairs[:2] for each in pair],
        value=0.42 + 0.04 * min(len(pairs), 4),
    )


def _shortened(missed: Call, calls: Sequence[Call]) -> Call | None:
    """Return the later look-up that found something with a part of the words of one that found nothing."""
    words = set(missed.target.lower().split())
    for call in calls:
        fewer = set(call.target.lower().split())
        found = call.tool == missed.tool and call.position > missed.position and not call.empty and not call.failed
        if found and fewer and fewer < words:
            return call
    return None
