"""Drafts of what the rules found; a repair is worded so that a reader can carry it out."""

from collections.abc import Iterable, Iterator, Sequence

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.phrasing import folder_of, show_call, show_command, show_file, show_symptom

MAX_TITLE, MAX_LINE, MAX_LINES = 80, 240, 8

GUARDRAIL = "guardrail"
"""Tag of a lesson on what did not work."""

MAX_SHOWN = 160
"""The most characters of a command that can be shown; a longer one would be cut."""

MAX_ACTION = 60
"""The most characters of a command in a title."""

_MAX_VAIN = 6

_NO_COMMAND = frozenset({"if", "for", "while", "until", "case", "select", "function", "[[", "[", "exit", "edit"})


def draft_of(
    title: str,
    when: str,
    lines: Sequence[str],
    tags: Sequence[str] = (),
    *,
    calls: Sequence[Call] = (),
    steps: Sequence[str] = (),
) -> MemoryDraft:
    """Return the draft of a lesson: `when` continues "Of use when …", the lines become the numbered steps.

    `calls` and the step ids `steps` are its evidence.
    """
    program = next((call.command.main.program for call in reversed(calls) if call.command and call.command.main), "")
    tools = [call.tool for call in calls if call.command is None]
    domain = f"shell.{program}" if program else f"tool.{tools[0].lower()}" if tools else None
    shown = [one_line(line, MAX_LINE) for line in lines[:MAX_LINES]]
    return MemoryDraft(
        title=title[:1].upper() + one_line(title, MAX_TITLE)[1:],
        description=one_line(f"Of use when {when}.", 300),
        content="\n".join(f"{number}. {line}" for number, line in enumerate(shown, 1)),
        tags=tuple(dict.fromkeys(one_line(tag.lower(), 40) for tag in (*tags, *tools, program) if tag))[:8],
        domain=domain and domain[:100],
        evidence=tuple(dict.fromkeys([*steps, *(step for call in calls for step in call.ids)]))[:20],
    )


def is_repeatable(call: Call) -> bool:
    """Whether a reader can repeat a call: no command of several lines, and no file change, which only fixes one bug."""
    if call.command is None:
        return not (call.writes and call.file)
    text, parts = call.command.text.strip(), call.command.parts
    if call.command.main is None or text.split()[0] in _NO_COMMAND or "\n" in text or "<<" in text:
        return False
    is_edit = any(part.outputs or part.program in ("sed", "perl", "patch", "tee") for part in parts)
    return not is_edit and not show_command(text, limit=MAX_SHOWN + 2)[MAX_SHOWN:]


def repair_draft(
    repair: Repair, names: Sequence[str], more: Sequence[str] = (), *, tags: Sequence[str] = ()
) -> MemoryDraft:
    """Return what one repair teaches, then the `more` lines; `names` belong to this task alone and are not shown."""
    symptom = show_symptom(repair.failed.error, names)
    sign = f'ends with "{symptom}"' if symptom else f"fails ({repair.failure.kind.replace('-', ' ')})"
    return draft_of(
        title=_title(repair, names),
        when=f"`{repair.failed.name}` {sign}",
        lines=[*_lines(repair, sign, names), *more],
        tags=(repair.failure.kind, "error", *tags),
        calls=[repair.failed, *repair.attempts[-2:], *repair.actions[-3:], repair.success],
    )


def guardrail_draft(
    failed: Sequence[Call], vain: Iterable[str], names: Sequence[str], more: Sequence[str] = (), *, tags: Sequence[str]
) -> MemoryDraft | None:
    """Return what did not help against an error that nothing ended, and its symptom; None when it has none to show.

    `failed` are the calls that ended with it, of which the last is shown; `vain` is what was done against it, as it is
    to be shown. The `more` lines come before the last line.
    """
    symptom, shown = show_symptom(failed[-1].error, names), show_call(failed[-1], names)
    if not symptom:
        return None
    remedies = [text for text in dict.fromkeys(vain) if text != shown][:_MAX_VAIN]
    lines = [f'When {shown} ends with "{symptom}", do not repeat it unchanged.']
    lines += [f"What did not help: {', '.join(remedies)}."] if remedies else []
    lines += [*more, "No fix was seen: try something that is not listed here, or report it as open instead of done."]
    heading = "What did not help against" if remedies else "No way was found past"
    title = f'{heading} "{one_line(symptom, MAX_TITLE - len(heading) - 3)}"'
    when = f'`{failed[-1].name}` fails with "{symptom}"'
    return draft_of(title, when, lines, (*tags, classify(failed[-1].error).kind, GUARDRAIL), calls=failed)


def _lines(repair: Repair, sign: str, names: Sequence[str]) -> Iterator[str]:
    failed, success = repair.failed, repair.success
    yield f"When {show_call(failed, names)} {sign}, do not {'run' if failed.command else 'call'} it again unchanged."
    for call in repair.actions[-3:]:
        yield f"Run {show_call(call, names, MAX_SHOWN)}."
    result = "got past the error" if success.failed else "succeeded"
    if success.command is None or show_call(failed, names) == show_call(success, names):
        yield f"Run {show_call(success, names)} again: after that it {result}."
    else:
        folder = folder_of(success.command.text)
        yield f"Run {show_call(success, names, MAX_SHOWN)}."
        yield f"That way it {result}" + (f" in the folder `{show_file(folder, names)}`." if folder else ".")
    if vain := dict.fromkeys(show_call(call, names, MAX_SHOWN) for call in repair.vain if is_repeatable(call)):
        yield f"What did not help: {', '.join([*vain][:3])}."


def _title(repair: Repair, names: Sequence[str]) -> str:
    """Return a title with all actions in order if they fit, else the last; without any, with the successful call."""
    failed, success, kind = repair.failed, repair.success, repair.failure.kind
    because = f" ({kind.replace('-', ' ')})" if kind not in ("error", "assertion") else ""
    name = failed.command.name if failed.command else failed.tool
    if repair.actions:
        actions = [show_call(call, names, MAX_ACTION) for call in repair.actions]
        titles = [f"Run {each} before {name}" for each in (", then ".join(actions), actions[-1])]
        return titles[len(titles[0]) > MAX_TITLE]
    if success.command is None:
        return f"Expect {name} to refuse{because}"
    end = because if success.command.name == name else f" instead of {name}"
    return f"Run {show_call(success, names, MAX_ACTION)}{end}"
