"""How what ended an error is told: so that it can be done."""

from collections.abc import Iterator, Sequence

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.distill.lessons import MAX_TITLE, Told, draft_of
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, shape
from swarm_memory.tools.trajectory.failures import Failure
from swarm_memory.tools.trajectory.files import written_by
from swarm_memory.tools.trajectory.phrasing import folder_of, show_call, show_command, show_file, show_symptom

MAX_TOLD = 160
"""Characters of a command that can be told; of a longer one only a part would be left."""

_NO_COMMAND = frozenset({"if", "for", "while", "until", "case", "select", "function", "[[", "[", "exit", "edit"})


def can_be_told(call: Call) -> bool:
    """Whether a reader can do what a call did: one line of a command. A change of a file mends one bug."""
    if call.command is None:
        return call.waits or (not call.writes and not written_by(call)) or not call.file
    text = call.command.text.strip()
    if call.command.main is None or text.split()[0] in _NO_COMMAND or "\n" in text or "<<" in text:
        return False
    parts = call.command.parts
    is_edit = any(part.outputs or part.program in ("sed", "perl", "patch", "tee") for part in parts)
    return not is_edit and not show_command(text, limit=MAX_TOLD + 2)[MAX_TOLD:]


def is_same_call(left: Call, right: Call, names: Sequence[str]) -> bool:
    """Whether two calls read the same once what is of this task alone is taken out."""
    both = left.command is not None and right.command is not None
    return shape(left) == shape(right) or (both and show_call(left, names) == show_call(right, names))


def repair_draft(
    repair: Repair, names: Sequence[str], more: Sequence[str] = (), *, tags: Sequence[str] = ()
) -> MemoryDraft:
    """Return what one repair teaches, with `more` lines at its end; `names` are of this task alone and not told."""
    symptom = show_symptom(repair.failed.error, names)
    told = f'ends with "{symptom}"' if symptom else f"fails ({repair.failure.kind.replace('-', ' ')})"
    return draft_of(
        Told(
            title=_title(repair, names),
            when=f"`{repair.failed.name}` {told}",
            lines=[*_lines(repair, told, names), *more],
            tags=(repair.failure.kind, "error", *tags),
        ),
        calls=[repair.failed, *repair.attempts[-2:], *repair.deeds[-3:], repair.success],
    )


def _lines(repair: Repair, told: str, names: Sequence[str]) -> Iterator[str]:
    failed, success = repair.failed, repair.success
    again = "run it" if failed.command else "call it"
    yield f"When {show_call(failed, names)} {told}, do not {again} again unchanged."
    for call in repair.deeds[-3:]:
        yield f"Run {show_call(call, names, MAX_TOLD)}."
    summary = show_symptom(success.check.summary, names, 80) if success.check else ""
    result = f'it succeeded ("{summary}")' if summary else "it got past that" if success.failed else "it succeeded"
    if is_same_call(failed, success, names) or success.command is None:
        yield f"Run {show_call(success, names)} again: after that {result}."
    else:
        folder = folder_of(success.command.text)
        moved = folder and failed.command and folder != folder_of(failed.command.text)
        yield f"Run {show_call(success, names, MAX_TOLD)}."
        yield f"So {result}" + (f" in the folder `{show_file(folder, names)}`." if moved else ".")
    done = {show_call(call, names, MAX_TOLD) for call in (*repair.deeds, success)}
    vain = dict.fromkeys(show_call(call, names, MAX_TOLD) for call in repair.vain if can_be_told(call))
    if left := [text for text in vain if text not in done][:3]:
        yield f"What did not help: {', '.join(left)}."


def _title(repair: Repair, names: Sequence[str]) -> str:
    failed, success = repair.failed, repair.success
    name = failed.command.name if failed.command else failed.tool
    if repair.deeds:
        return _done_before(repair.deeds, name, repair.failure, names)
    if success.command is None:
        return f"Expect {name} to refuse{_because(repair.failure)}"
    better = success.command.name
    shown = f"Run `{show_command(success.command.text, names, 60)}`"
    return f"{shown}{_because(repair.failure)}" if better == name else f"{shown} instead of {name}"


def _done_before(deeds: Sequence[Call], name: str, failure: Failure, names: Sequence[str]) -> str:
    """All that was done in its order where that has room, else the last, of a long line the first part."""
    every = ", then ".join(show_call(call, names) for call in deeds)
    last = show_call(deeds[-1], names)
    first = f"`{last.strip('`').split(' && ')[0]}`"
    told = (every, last + _because(failure), last, first, f"`{one_line(last.strip('`'), 45)}`")
    titles = [f"Run {each} before {name}" for each in told]
    return next((title for title in titles if len(title) <= MAX_TITLE), titles[-1])


def _because(failure: Failure) -> str:
    return f" ({failure.kind.replace('-', ' ')})" if failure.kind not in ("error", "assertion") else ""
