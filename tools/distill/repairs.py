"""How what ended an error is told: so that it can be done, with nothing that only happened to lie between."""

from collections.abc import Iterator, Sequence

from swarm_memory.schema.memory import WAY_OUT
from swarm_memory.tools.distill.changes import Change, telling_changes
from swarm_memory.tools.distill.lessons import HOST_TOOLS, MAX_TITLE, Lesson, Material, Told, lesson
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, left_out, shape
from swarm_memory.tools.trajectory.failures import Failure
from swarm_memory.tools.trajectory.files import written_by
from swarm_memory.tools.trajectory.phrasing import bare, folder_of, show_call, show_command, show_file, show_symptom

MAX_TOLD = 160
"""Characters of a command that can be told; of a longer one only a part would be left."""

_CONFIGURATION = (
    ".toml", ".yaml", ".yml", ".json", ".ini", ".cfg", ".conf", ".env", ".lock", ".properties", ".xml", ".gradle",
    "Makefile", "Dockerfile", ".mod", "requirements.txt",
)  # fmt: skip
_NO_COMMAND = frozenset({"if", "for", "while", "until", "case", "select", "function", "[[", "[", "exit", "edit"})
_MAX_CHANGES = 4


def can_be_told(call: Call) -> bool:
    """Whether a reader can do what a call did: one line of a command, or one line of a configuration file.

    A change of code mends one bug, and is nothing to be done again.
    """
    if call.command is None:
        return call.waits or (_path(call).endswith(_CONFIGURATION) and _changed_line(call) is not None)
    main, written = call.command.main, written_by(call)
    text = call.command.text.strip()
    if main is None or text.split()[0] in _NO_COMMAND or "\n" in text or "<<" in text:
        return False
    if written and not any(path.endswith(_CONFIGURATION) for path in written):
        return False
    return not show_command(text, limit=MAX_TOLD + 2)[MAX_TOLD:]


def repair_lesson(
    material: Material, repair: Repair, names: Sequence[str], more: Sequence[str] = (), following: Repair | None = None
) -> Lesson:
    """Return what one repair teaches, with `more` lines at its end; `names` are of this task alone and not told.

    `following` is what ended the next error of its chain.
    """
    symptom = show_symptom(repair.failed.error, names)
    told = f'ends with "{symptom}"' if symptom else f"fails ({repair.failure.kind.replace('-', ' ')})"
    of_shell = repair.failed.command is not None and repair.success.command is not None
    lines = _command_lines(repair, told, names) if of_shell else _tool_lines(material, repair, told, names)
    if following is not None:
        then = [show_call(call, names, MAX_TOLD) for call in following.deeds or (following.success,)]
        lines.append(f"Past that one: {', then '.join(then)}.")
    what = repair.failed.name
    success = repair.success
    proven = bool(success.check) or success.exit_code == 0 or (success.command is None and not success.failed)
    proven = proven or (success.observation is not None and success.observation.is_error is False)
    return lesson(
        material,
        Told(
            title=_title(material, repair, names),
            when=f"`{what}` {told}",
            lines=[*lines, *more],
            topic=f"{repair.failure.kind}:{repair.failure.subject or symptom}:{what}",
            tags=(repair.failure.kind, "error", *((WAY_OUT,) if proven else ())),
            of_any_task=True,
        ),
        calls=[repair.failed, *repair.attempts[-2:], *repair.deeds[-3:], repair.success],
        value=_value(repair),
        proven=proven,
    )


def passing_lesson(material: Material, repair: Repair, names: Sequence[str]) -> Lesson:
    """Return what is told of an error that passed when the same call was made once more and nothing had been done."""
    symptom = show_symptom(repair.failed.error, names)
    shown, what = show_call(repair.failed, names), repair.failed.name
    times = 1 + sum(call.failed for call in repair.attempts)
    lines = [
        f'When {shown} ends with "{symptom}", run it once more before changing anything: it may pass by itself.',
        f"It ended so {'once' if times == 1 else f'{times} times'} and then went through; nothing was done in between.",
        "Only when it fails a third time in a row look for another cause.",
    ]
    return lesson(
        material,
        Told(
            title=f"Run {show_call(repair.failed, names, 40)} once more when it fails: it may pass by itself",
            when=f'`{what}` ends with "{symptom}"',
            lines=lines,
            topic=f"{repair.failure.kind}:{repair.failure.subject or symptom}:{what}",
            tags=(repair.failure.kind, "error", WAY_OUT),
            of_any_task=True,
        ),
        calls=[repair.failed, *repair.attempts[-2:], repair.success],
        value=0.5,
        proven=True,
    )


def _command_lines(repair: Repair, told: str, names: Sequence[str]) -> list[str]:
    lines = [f"When {show_call(repair.failed, names)} {told}, do not run it again unchanged."]
    lines += [*(_deed(call, names) for call in repair.deeds[-3:]), _ending(repair, names)]
    done = " ".join(lines[1:])
    tried = (show_call(call, names, MAX_TOLD) for call in repair.vain if can_be_told(call))
    if vain := [text for text in dict.fromkeys(tried) if text.strip("`") not in done][:3]:
        lines.append(f"What did not help: {', '.join(vain)}.")
    return lines


def _tool_lines(material: Material, repair: Repair, told: str, names: Sequence[str]) -> list[str]:
    """Of a tool with arguments: which of them made the difference."""
    tool = repair.failed.tool
    lines = [f"When `{tool}` {told}, do not call it again unchanged."]
    changes = _changes(material, repair)
    lines += _change_lines(changes, tool)
    lines += [_deed(call, names) for call in repair.deeds[-2:] if call.tool != tool]
    refused = [f"`{change.path}={value}`" for change in changes for value in change.refused][:_MAX_CHANGES]
    return [*lines, f"What did not help: {', '.join(refused)}."] if refused else lines


def _changes(material: Material, repair: Repair) -> tuple[Change, ...]:
    return telling_changes(repair, material.calls, material.trajectory.task, material.particulars)[:_MAX_CHANGES]


def _change_lines(changes: Sequence[Change], tool: str) -> Iterator[str]:
    """What is known of each argument: a code that the tool takes, or the answer that holds it; else only its name."""
    for change in changes:
        if change.is_code:
            yield f"Set `{change.path}={change.value}`: that was accepted."
        elif change.source:
            yield f"Take `{change.path}` from what `{change.source}` answers: the call went through with a value of it."
    others: Sequence[Change] = () if any(change.is_code or change.source for change in changes) else changes
    left_out = [f"`{change.path}`" for change in others if change.is_left_out]
    given = [f"`{change.path}`" for change in others if not change.is_left_out]
    if given:
        yield f"Check {', '.join(given)} first: the call went through with other values there."
    if left_out:
        yield f"Leave out {', '.join(left_out)}: the call to `{tool}` went through without."


def is_same_call(left: Call, right: Call, names: Sequence[str]) -> bool:
    """Whether two calls read the same once what is of this task alone is taken out."""
    both = left.command is not None and right.command is not None
    return shape(left) == shape(right) or (both and show_call(left, names) == show_call(right, names))


def _ending(repair: Repair, names: Sequence[str]) -> str:
    summary = repair.success.check.summary if repair.success.check else ""
    shown = f' ("{show_symptom(summary, names, 80)}")' if summary else ""
    result = "it got past that error" if repair.success.failed else f"it succeeded{shown}"
    after = [call for call in repair.attempts if repair.deeds and call.position > repair.deeds[-1].end]
    if after and (following := show_symptom(after[0].error, names, 80)):
        result = f'it got past that error, and the next one was "{following}"'
    if is_same_call(repair.failed, repair.success, names):
        return f"Run {show_call(repair.success, names)} again: after that {result}."
    folder = folder_of(repair.success.command.text) if repair.success.command else ""
    moved = bool(folder and repair.failed.command and folder != folder_of(repair.failed.command.text))
    where = f" in the folder `{show_file(folder, names)}`" if moved else ""
    return f"Use {show_call(repair.success, names, MAX_TOLD)}{where}: {result}."


def _deed(call: Call, names: Sequence[str]) -> str:
    """What was done, as an imperative: an edit with its one changed line, a command as it was run."""
    if call.command is not None:
        return f"Run {show_call(call, names, MAX_TOLD)}."
    changed = _changed_line(call)
    if not _path(call) or changed is None:
        return f"Call {show_call(call, names)}."
    old, new = (one_line(show_symptom(line, names, 80) or "…", 80) for line in changed)
    file = show_file(_path(call), names)
    return f"In `{file}` replace `{old}` by `{new}`." if old else f"In `{file}` add `{new}`."


def _path(call: Call) -> str:
    return str(call.input.get("file_path") or call.input.get("path") or "")


def _changed_line(call: Call) -> tuple[str, str] | None:
    """Return the old and the new line of an edit that changed or added just one."""
    old, new = call.input.get("old_string"), call.input.get("new_string")
    if not isinstance(old, str) or not isinstance(new, str):
        return None
    before, after = old.splitlines(), new.splitlines()
    while before and after and before[0] == after[0]:
        before, after = before[1:], after[1:]
    while before and after and before[-1] == after[-1]:
        before, after = before[:-1], after[:-1]
    if len(before) > 1 or len(after) != 1 or not after[0].strip():
        return None
    return (before[0].strip() if before else ""), after[0].strip()


def _title(material: Material, repair: Repair, names: Sequence[str]) -> str:
    failed, success, failure = repair.failed, repair.success, repair.failure
    if failed.command is None or success.command is None:
        return _tool_title(material, repair, names)
    name, better = failed.command.name, success.command.name
    if better != name and better.split()[0] != name.split()[0]:
        return f"Use `{better}` instead of `{name}`{_because(failure)}"
    installs = [call for call in repair.deeds if call.command and call.command.purpose == "install"]
    if failure.kind in ("missing-module", "missing-command") and installs and failure.subject:
        return (
            f"Install `{failure.subject}` before {'its first use' if failure.subject == name else f'running `{name}`'}"
        )
    if option := left_out(failed, success):
        return f"Leave out `{option}` in `{show_command(success.command.text, names, 40)}`{_because(failure)}"
    if repair.deeds:
        return _done_before(repair.deeds, name, failure, names)
    shown = show_command(success.command.text, names, 60)
    return f"Run `{shown}`{_because(failure)}" if shown else f"Change how `{name}` is called{_because(failure)}"


def _done_before(deeds: Sequence[Call], name: str, failure: Failure, names: Sequence[str]) -> str:
    """The deed that made the difference, of a long line the first part; two in their order where both have room."""
    deed = deeds[-1]
    if len(deeds) == 2 and all(call.command for call in deeds):
        both = f"Run {', then '.join(show_call(call, names) for call in deeds)} before `{name}`"
        if len(both) <= MAX_TITLE:
            return both
    if deed.command is None:
        changed = _changed_line(deed)
        if changed is None:
            return f"Call {show_call(deed, names)} before `{name}`{_because(failure)}"
        return f"Set `{show_symptom(changed[1], names, 40)}` in `{show_file(_path(deed), names)}` for `{name}`"
    shown = show_command(deed.command.text, names)
    choices = (
        f"Run `{part}` before `{name}`{because}"
        for part in (shown, shown.split(" && ")[0])
        for because in (_because(failure), "")
    )
    return next((title for title in choices if len(title) <= MAX_TITLE), f"Run `{one_line(shown, 45)}` before `{name}`")


def _tool_title(material: Material, repair: Repair, names: Sequence[str]) -> str:
    """An argument stands in the title only where the error names it: another may be a bystander."""
    tool = repair.failed.tool
    symptom = bare(show_symptom(repair.failed.error, names))
    changes = _changes(material, repair)
    codes = [change for change in changes if change.is_code]
    if codes:
        return f"Set `{codes[0].path}={codes[0].value}` before calling `{tool}`"
    if repair.deeds:
        return _done_before(repair.deeds, tool, repair.failure, names)
    sure = [change for change in changes if change.is_named]
    if sure and symptom:
        return f"Check `{sure[-1].name}` before `{tool}`: {symptom}"
    return f"Expect `{tool}` to refuse{': ' + symptom if symptom else ''}"


def _because(failure: Failure) -> str:
    return f" ({failure.kind.replace('-', ' ')})" if failure.kind not in ("error", "assertion") else ""


def _value(repair: Repair) -> float:
    worth = max(repair.failure.value, 0.45) + 0.1 * min(len(repair.attempts), 3)
    return worth * 0.5 if repair.failed.command is None and repair.failed.tool in HOST_TOOLS else worth
