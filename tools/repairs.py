"""Lessons from errors: what resolved one, and which were never resolved; it looks at calls only, not at words."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from pydantic import JsonValue

from swarm_memory.tools.calls import Call
from swarm_memory.tools.commands import Command
from swarm_memory.tools.failures import Failure, classify
from swarm_memory.tools.intent import same_intent
from swarm_memory.tools.lessons import MAX_TITLE, Lesson, Material, lesson
from swarm_memory.tools.wording import folder_of, one_line, show_call, show_command, show_file, show_symptom

_FAR = 40
"""A success so many calls later is of something else."""

_HOST_TOOLS = frozenset(
    {"Read", "Edit", "MultiEdit", "Write", "Glob", "Grep", "LS", "TodoWrite", "KillShell", "BashOutput", "Task",
     "Skill", "WebFetch", "WebSearch", "ExitPlanMode", "NotebookEdit", "AskUserQuestion", "TaskOutput"}
)  # fmt: skip
"""What a coding agent's host brings along: a slip with them teaches little."""

_DOCUMENT = re.compile(
    r"(?i)(?:readme|contributing|install|makefile|changelog|docs?/.*)(?:\.\w+)?$|(?:^|/)package\.json$"
)
_CODE_KINDS = frozenset({"assertion", "types", "syntax", "error"})
_PREREQUISITES = frozenset(
    {"missing-module", "missing-command", "service-down", "port-in-use", "not-logged-in", "missing-setting", "locked"}
)
"""Errors that keep a command from starting: when it then fails with another error, this one was resolved."""

_NOT_STARTED = frozenset({"missing-command", "missing-script", "bad-arguments", "wrong-folder", "syntax", "timeout"})
"""After one of these it is not known whether the first error is gone."""

_KIND_WORDS = {
    "assertion": "a failed assertion",
    "types": "a type error",
    "syntax": "a syntax error",
    "error": "an error",
}


@dataclass(frozen=True, slots=True)
class Repair:
    """An error, the attempts that did not help, what was done, and the call that then succeeded."""

    failed: Call
    attempts: tuple[Call, ...]
    """Later calls of the same intent that failed too."""
    deeds: tuple[Call, ...]
    """What was changed between the last failure and the success."""
    success: Call
    failure: Failure
    told_by: str = ""
    """The document that was read between, in which the way out stood; empty where none was."""

    @property
    def same_call(self) -> bool:
        """Whether the very same call succeeded in the end, so that the deeds between are what helped."""
        return _shape(self.failed) == _shape(self.success)


def repairs(material: Material) -> Iterator[Lesson]:
    """Lessons from errors that were resolved."""
    for repair in find_repairs(material.calls):
        yield _repair_lesson(material, repair)


def find_repairs(calls: Sequence[Call]) -> list[Repair]:
    """Return each error that a later call got past, with what lies between; a call is an attempt of one repair only.

    A call of the same intent got past an error when it succeeded, or when it failed with another error where the first
    one kept it from even starting (a module, a service, a login was missing).
    """
    found: list[Repair] = []
    taken = set[int]()
    for index, call in enumerate(calls):
        if not call.failed or index in taken:
            continue
        failure = classify(call.error)
        later = range(index + 1, min(len(calls), index + _FAR))
        end = next((other for other in later if _gets_past(call, failure, calls[other])), None)
        if end is None:
            continue
        attempts = [other for other in range(index + 1, end) if calls[other].failed and same_intent(call, calls[other])]
        taken.update(attempts)
        start = attempts[-1] if attempts else index
        deeds = [calls[other] for other in range(start + 1, end) if _changes_something(calls[other])]
        told_by = next((name for at in range(end - 1, start, -1) if (name := _document(calls[at]))), "")
        found.append(Repair(call, tuple(calls[at] for at in attempts), tuple(deeds), calls[end], failure, told_by))
    return found


def _gets_past(failed: Call, failure: Failure, other: Call) -> bool:
    if (
        other.empty
        or other.observation is None
        or other.refused
        or other.is_background
        or not same_intent(failed, other)
    ):
        return False
    if not other.failed:
        return failed.check is None or bool(other.check and other.check.passed)
    if failure.kind not in _PREREQUISITES or failed.command is None:
        return False
    now = classify(other.error)
    return (now.kind, now.subject) != (failure.kind, failure.subject) and now.kind not in _NOT_STARTED


def _document(call: Call) -> str:
    """Return the name of the document that a call read: a README, a help text."""
    if call.failed or call.observation is None:
        return ""
    if call.command is not None:
        if any(
            word in ("--help", "-h", "help") or part.program == "man"
            for part in call.command.parts
            for word in part.words
        ):
            return f"`{show_command(call.command.text, limit=60)}`"
        words = [word for part in call.command.parts if part.purpose == "read" for word in part.words[1:]]
    else:
        words = [] if call.writes else [str(call.input.get("file_path") or call.input.get("path") or "")]
    return next((f"`{show_file(word)}`" for word in words if _DOCUMENT.search(word)), "")


def _changes_something(call: Call) -> bool:
    if call.failed or call.observation is None or call.refused:
        return False
    if call.command is not None:
        return (
            call.command.purpose in ("install", "edit", "run", "build", "other") or call.command.name in _CHANGING_GIT
        )
    return call.writes


_CHANGING_GIT = frozenset({"git pull", "git checkout", "git switch", "git merge", "git rebase", "git init", "git fetch",
                           "git stash", "git reset", "git config", "git rm", "gh auth"})  # fmt: skip


def _shape(call: Call) -> str:
    return f"{folder_of(call.command.text)}:{show_command(call.command.text)}" if call.command else call.key


def _repair_lesson(material: Material, repair: Repair) -> Lesson:
    names = material.particulars
    symptom = show_symptom(repair.failed.error, names)
    told = f'ends with "{symptom}"' if symptom else f"fails ({repair.failure.kind.replace('-', ' ')})"
    of_shell = repair.failed.command is not None and repair.success.command is not None
    lines = _command_lines(repair, told, names) if of_shell else _tool_lines(material, repair, told, names)
    what = repair.failed.command.name if repair.failed.command else repair.failed.tool
    return lesson(
        material,
        title=_title(repair, names),
        when=f"`{what}` {told}",
        lines=lines,
        calls=[repair.failed, *repair.attempts[-2:], *repair.deeds[-3:], repair.success],
        value=_value(repair),
        topic=f"{repair.failure.kind}:{repair.failure.subject}:{what}",
        tags=(repair.failure.kind, "error"),
        proven=bool(repair.success.check) or repair.success.exit_code == 0 or _trusted(repair.success),
    )


def _command_lines(repair: Repair, told: str, names: Sequence[str]) -> list[str]:
    lines = [f"When {show_call(repair.failed, names)} {told}, do not run it again unchanged."]
    if repair.failure.first and not (repair.told_by and repair.failure.kind == "missing-file"):
        lines.append(f"First {repair.failure.first}.")
    tried = [_attempt(call, repair.failed, names) for call in repair.attempts if _shape(call) != _shape(repair.failed)]
    if tried:
        lines.append(f"What did not help: {', '.join(dict.fromkeys(tried[:3]))}.")
    if repair.told_by:
        lines.append(f"What to do stands in {repair.told_by}: read that before guessing.")
    return [*lines, *(_deed(call, names) for call in repair.deeds[-3:]), _ending(repair, names)]


def _attempt(call: Call, failed: Call, names: Sequence[str]) -> str:
    """What an attempt did, without the failing command where that only followed in the same line."""
    if call.command is None or failed.command is None:
        return show_call(call, names)
    text, again = call.command.text.strip(), failed.command.text.strip()
    before = text.removesuffix(again).rstrip(" &;") if text.endswith(again) else text
    return f"`{show_command(before or text, names)}`"


def _tool_lines(material: Material, repair: Repair, told: str, names: Sequence[str]) -> list[str]:
    """Of a tool with arguments: which of them differ in the call that went through, and what was looked up for it."""
    tool = repair.failed.tool
    lines = [f"`{tool}` {told}."]
    changed = list(dict.fromkeys(_changed_paths(repair.failed.input, repair.success.input)))[:4]
    if changed:
        lines.append(
            f"Check {', '.join(f'`{path}`' for path in changed)} first: the call went through with other values there."
        )
    elif repair.attempts or not repair.deeds:
        lines.append("The same call went through later: what it needs was made in between.")
    if repair.attempts:
        lines.append(
            f"{len(repair.attempts)} more call(s) failed before: after one refusal look it up, do not guess again."
        )
    between = [c for c in material.calls if repair.failed.end < c.position < repair.success.position and not c.failed]
    looked = dict.fromkeys(f"`{call.tool}`" for call in between if call.tool != tool and call.command is None)
    if looked:
        lines.append(f"What was called in between: {', '.join(list(looked)[-4:])}.")
    return [*lines, *(_deed(call, names) for call in repair.deeds[-2:] if call.tool != tool)]


def _changed_paths(before: Mapping[str, JsonValue], after: Mapping[str, JsonValue], prefix: str = "") -> Iterator[str]:
    """Yield the paths of the arguments that differ, such as `payment_methods[].amount`; never their values."""
    for key in after:
        old, new = before.get(key), after[key]
        path = f"{prefix}{key}"
        if old == new:
            continue
        if isinstance(old, dict) and isinstance(new, dict):
            yield from _changed_paths(old, new, f"{path}.")
        elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
            pairs = [(left, right) for left, right in zip(old, new, strict=True) if left != right]
            inner = [
                inside
                for left, right in pairs
                if isinstance(left, dict) and isinstance(right, dict)
                for inside in _changed_paths(left, right, f"{path}[].")
            ]
            yield from inner or [path]
        else:
            yield path
    yield from (f"{prefix}{key} (leave it out)" for key in before if key not in after)


def _trusted(call: Call) -> bool:
    return call.observation is not None and call.observation.is_error is False


def _ending(repair: Repair, names: Sequence[str]) -> str:
    summary = repair.success.check.summary if repair.success.check else ""
    shown = f' ("{show_symptom(summary, names, 80)}")' if summary else ""
    result = "it got past that error" if repair.success.failed else f"it succeeded{shown}"
    if repair.same_call:
        return f"Run {show_call(repair.success, names)} again: {result} after that."
    folder = folder_of(repair.success.command.text) if repair.success.command else ""
    moved = bool(folder and repair.failed.command and folder != folder_of(repair.failed.command.text))
    where = f" in the folder `{show_file(folder, names)}`" if moved else ""
    return f"Use {show_call(repair.success, names)}{where}: {result}."


def _deed(call: Call, names: Sequence[str]) -> str:
    """What was done, as an imperative: an edit with its one changed line, a command as it was run."""
    if call.command is not None:
        return f"Run {show_call(call, names)}."
    path = str(call.input.get("file_path") or call.input.get("path") or "")
    if not path:
        return f"Call {show_call(call, names)}."
    changed = _changed_line(call)
    if changed is None:
        return f"Change `{show_file(path, names)}`."
    old, new = (one_line(show_symptom(line, names, 80) or "…", 80) for line in changed)
    return (
        f"In `{show_file(path, names)}` replace `{old}` by `{new}`."
        if old
        else f"In `{show_file(path, names)}` add `{new}`."
    )


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


def _title(repair: Repair, names: Sequence[str]) -> str:
    failed, success, failure = repair.failed, repair.success, repair.failure
    if failed.command is None or success.command is None:
        return _tool_title(repair, names)
    name, better = failed.command.name, success.command.name
    if better != name and better.split()[0] != name.split()[0]:
        return f"Use `{better}` instead of `{name}`{_because(failure)}"
    installs = [call for call in repair.deeds if call.command and call.command.purpose == "install"]
    if failure.kind in ("missing-module", "missing-command") and installs and failure.subject:
        return (
            f"Install `{failure.subject}` before {'its first use' if failure.subject == name else f'running `{name}`'}"
        )
    if not repair.same_call and not repair.deeds:
        shown = show_command(success.command.text, names, 60)
        return f"Run `{shown}`{_because(failure)}" if shown else f"Change how `{name}` is called{_because(failure)}"
    commands = [call for call in repair.deeds if call.command is not None]
    if len(commands) == 1 == len(repair.deeds) and commands[0].command:
        return _run_before(commands[0].command, name, failure, names)
    if failure.first:
        return f"{failure.first} before running `{name}`"
    files = [
        show_file(str(call.input.get("file_path", "")), names) for call in repair.deeds if call.input.get("file_path")
    ]
    error = _error_name(failed.error, failure)
    return (
        f"When `{name}` fails with {error}, mend `{files[-1]}`" if files else f"Mend {error} before trusting `{name}`"
    )


def _run_before(command: Command, name: str, failure: Failure, names: Sequence[str]) -> str:
    """The command that made the difference; of a long line the first part."""
    shown = show_command(command.text, names)
    choices = (
        f"Run `{part}` before `{name}`{because}"
        for part in (shown, shown.split(" && ")[0])
        for because in (_because(failure), "")
    )
    return next((title for title in choices if len(title) <= MAX_TITLE), f"Run `{one_line(shown, 45)}` before `{name}`")


def _tool_title(repair: Repair, names: Sequence[str]) -> str:
    symptom = _bare(show_symptom(repair.failed.error, names))
    changed = list(_changed_paths(repair.failed.input, repair.success.input))
    if repair.failure.first and repair.failure.kind != "error":
        return f"{repair.failure.first} before calling `{repair.failed.tool}`"
    if changed and symptom:
        return f"Check `{changed[-1].rsplit('.', 1)[-1]}` before `{repair.failed.tool}`: {symptom}"
    return f"Expect `{repair.failed.tool}` to refuse{': ' + symptom if symptom else ''}"


def _bare(symptom: str) -> str:
    """A symptom without the word that only says that it is one."""
    return re.sub(r"(?i)^(?:npm )?(?:error|fatal|err)\b(?:\[\w*\])?[:!]*\s*", "", symptom)


def _because(failure: Failure) -> str:
    return f" ({failure.kind.replace('-', ' ')})" if failure.kind not in ("error", "assertion") else ""


def _error_name(error: str, failure: Failure) -> str:
    head = error.split(":")[0].strip()
    name = head.rsplit(".", 1)[-1] if " " not in head else ""
    return (
        name if name.endswith(("Error", "Exception")) else failure.kind.replace("-", " ").replace("error", "an error")
    )


def _value(repair: Repair) -> float:
    worth = repair.failure.value + 0.1 * min(len(repair.attempts), 3) + (0.1 if repair.told_by else 0.0)
    if repair.failed.check is not None and repair.failure.kind == "missing-file" and repair.deeds:
        worth += 0.3
    if repair.failed.command is None and repair.failed.tool in _HOST_TOOLS:
        worth *= 0.5
    if repair.same_call and not repair.deeds:
        worth -= 0.3
    told = any(call.command or _changed_line(call) for call in repair.deeds)
    if repair.same_call and repair.failure.kind in _CODE_KINDS and not told:
        worth -= 0.15
    return worth


def open_errors(material: Material) -> Iterator[Lesson]:
    """Guardrails from what failed again and again, or last, and was never resolved; only of a failed task."""
    if not material.failed:
        return
    names = material.particulars
    resolved = {call.position for repair in find_repairs(material.calls) for call in (repair.failed, *repair.attempts)}
    left = [call for call in material.calls if call.failed and call.position not in resolved]
    groups: dict[str, list[Call]] = {}
    for call in left:
        groups.setdefault(call.command.name if call.command else call.tool, []).append(call)
    for name, calls in groups.items():
        symptom = show_symptom(calls[-1].error, names)
        failure = classify(calls[-1].error)
        once = len(calls) == 1 and failure.kind in ("error", "missing-file")
        if not symptom or not name or once or (name in _HOST_TOOLS and len(calls) < 3):
            continue
        lines = [f'`{name}` failed {len(calls)} time(s) with "{symptom}" and never succeeded.']
        if failure.first:
            lines.append(f"Before the first call {failure.first}.")
        lines += _vain(material, calls)
        lines.append("After the second such failure take another way, or report it as open instead of done.")
        yield lesson(
            material,
            title=f"Change course after two refusals of `{name}`: {_bare(symptom)}",
            when=f'`{name}` fails with "{symptom}"',
            lines=lines,
            calls=calls[-3:],
            value=0.35 + 0.1 * min(len(calls), 4) + (0.1 if failure.kind != "error" else 0.0),
            topic=f"open:{name}",
            tags=(failure.kind, "guardrail"),
        )


def _vain(material: Material, calls: Sequence[Call]) -> list[str]:
    """What was tried between the failures and did not help."""
    names = material.particulars
    told: list[str] = []
    commands = list(dict.fromkeys(show_call(call, names, 80) for call in calls if call.command))
    if len(commands) > 1:
        told.append(f"What did not help: {', '.join(commands[-3:])}.")
    between = [call for call in material.calls if calls[0].end < call.position < calls[-1].position]
    files = dict.fromkeys(
        show_file(str(call.input.get("file_path"))) for call in between if call.input.get("file_path") and call.writes
    )
    if files:
        told.append(f"Changing {', '.join(f'`{name}`' for name in list(files)[-4:])} did not resolve it.")
    keys = [key for key in calls[-1].input if len({str(call.input.get(key)) for call in calls}) > 1]
    if calls[0].command is None and keys:
        told.append(f"Other values of {', '.join(f'`{key}`' for key in keys[:4])} did not help.")
    elif not told and len(calls) > 1:
        told.append("The same call was made again, which changed nothing.")
    return told
