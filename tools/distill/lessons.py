"""A lesson: a draft with what it is worth, and how a resolved error is told as one."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.changes import Change, telling_changes
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, left_out, shape
from swarm_memory.tools.trajectory.failures import Failure
from swarm_memory.tools.trajectory.phrasing import (
    bare,
    folder_of,
    show_call,
    show_command,
    show_file,
    show_symptom,
    show_task,
)
from swarm_memory.tools.trajectory.reading import Reading
from swarm_memory.tools.trajectory.shell import Command

MAX_TITLE, MAX_LINE, MAX_LINES = 80, 240, 8

GUARDRAIL, PROVEN_REPAIR = "guardrail", "repair"
"""Tags: of a lesson on what did not work; of one that tells what was seen to get past an error."""

HOST_TOOLS = frozenset(
    {"Read", "Edit", "MultiEdit", "Write", "Glob", "Grep", "LS", "TodoWrite", "KillShell", "BashOutput", "Task",
     "Skill", "WebFetch", "WebSearch", "ExitPlanMode", "NotebookEdit", "AskUserQuestion", "TaskOutput"}
)  # fmt: skip
"""What a coding agent's host brings along: a slip with them teaches little."""

_LANGUAGE = {
    "pytest": "python", "unittest": "python", "python": "python", "python3": "python", "pip": "python", "uv": "python",
    "ruff": "python", "mypy": "python", "pyright": "python", "poetry": "python", "tox": "python", "nox": "python",
    "npm": "node", "pnpm": "node", "yarn": "node", "bun": "node", "node": "node", "jest": "node", "vitest": "node",
    "tsc": "node", "eslint": "node", "npx": "node", "vite": "node", "next": "node", "mocha": "node", "tsx": "node",
    "cargo": "rust", "rustc": "rust", "go": "go", "mvn": "java", "gradle": "java", "gradlew": "java", "javac": "java",
    "dotnet": "dotnet", "rspec": "ruby", "bundle": "ruby", "ruby": "ruby", "phpunit": "php", "composer": "php",
    "make": "make", "cmake": "cpp", "gcc": "cpp", "g++": "cpp", "ctest": "cpp", "swift": "swift", "git": "git",
    "gh": "git", "docker": "docker", "kubectl": "kubernetes", "terraform": "terraform",
}  # fmt: skip

_CODE_KINDS = frozenset({"assertion", "types", "syntax", "error"})
_MAX_CHANGES = 4


@dataclass(frozen=True, slots=True)
class Lesson:
    """A draft, what it is worth (0…1 and a little more), and whether the trajectory itself proves it."""

    value: float
    draft: MemoryDraft
    proven: bool
    """It rests on a run that was seen to succeed, or on the user's own word: it holds whatever the verdict."""
    topic: str
    """Two lessons of one topic say the same; the better one is kept."""


@dataclass(frozen=True, slots=True)
class Material:
    """What lessons are drawn from."""

    reading: Reading
    verdict: Verdict

    @property
    def trajectory(self) -> Trajectory:
        return self.reading.trajectory

    @property
    def calls(self) -> tuple[Call, ...]:
        return self.reading.calls

    @property
    def particulars(self) -> tuple[str, ...]:
        """Names and ids of this task, to be replaced."""
        return self.reading.particulars

    @property
    def task(self) -> str:
        """The task's words as they may be kept; empty where there are too few to tell it from another."""
        shown = show_task(self.trajectory.task, self.particulars)
        return shown if len(shown.split()) >= 3 else ""

    @property
    def failed(self) -> bool:
        return self.verdict.label == "Failure"


@dataclass(frozen=True, slots=True)
class Told:
    """What a lesson says."""

    title: str
    when: str
    """Continues "Of use when …"."""
    lines: Sequence[str]
    """They become the numbered steps."""
    topic: str
    tags: Sequence[str] = ()


def lesson(
    material: Material,
    told: Told,
    *,
    calls: Sequence[Call],
    value: float,
    proven: bool = False,
    steps: Sequence[str] = (),
) -> Lesson:
    """Put a lesson together; `calls`, and the ids of `steps`, are what it rests on."""
    numbered = [f"{number}. {one_line(line, MAX_LINE)}" for number, line in enumerate(told.lines[:MAX_LINES], 1)]
    task = f' Met in a task such as: "{material.task}".' if material.task else ""
    program = next((call.command.main.program for call in reversed(calls) if call.command and call.command.main), None)
    draft = MemoryDraft(
        title=told.title[:1].upper() + one_line(told.title, MAX_TITLE)[1:],
        description=one_line(f"Of use when {told.when}.", 300) + task,
        content="\n".join(numbered),
        tags=_tags(told.tags, calls, program),
        domain=_domain(calls, program),
        evidence=tuple(dict.fromkeys([*steps, *(step for call in calls for step in call.ids)]))[:20],
    )
    return Lesson(value, draft, proven, told.topic)


def _tags(tags: Sequence[str], calls: Sequence[Call], program: str | None) -> tuple[str, ...]:
    language = _LANGUAGE.get(program or "")
    named = [*tags, *(call.tool for call in calls if call.command is None), program or "", language or ""]
    return tuple(dict.fromkeys(one_line(tag.lower(), 40) for tag in named if tag))[:8]


def _domain(calls: Sequence[Call], program: str | None) -> str | None:
    if program:
        return f"{_LANGUAGE.get(program, 'shell')}.{program}"[:100]
    tool = next((call.tool for call in calls), None)
    return f"tool.{tool.lower()}"[:100] if tool else None


def repairs(material: Material) -> Iterator[Lesson]:
    """Lessons from errors that were resolved."""
    for repair in material.reading.repairs:
        yield repair_lesson(material, repair, material.reading.names)


def repair_lesson(material: Material, repair: Repair, names: Sequence[str], more: Sequence[str] = ()) -> Lesson:
    """Return what one repair teaches, with `more` lines at its end; `names` are of this task alone and not told."""
    symptom = show_symptom(repair.failed.error, names)
    told = f'ends with "{symptom}"' if symptom else f"fails ({repair.failure.kind.replace('-', ' ')})"
    of_shell = repair.failed.command is not None and repair.success.command is not None
    lines = _command_lines(repair, told, names) if of_shell else _tool_lines(material, repair, told, names)
    what = repair.failed.name
    proven = bool(repair.success.check) or repair.success.exit_code == 0 or _trusted(repair.success)
    return lesson(
        material,
        Told(
            title=_title(material, repair, names),
            when=f"`{what}` {told}",
            lines=[*lines, *more],
            topic=f"{repair.failure.kind}:{repair.failure.subject}:{what}",
            tags=(repair.failure.kind, "error", *((PROVEN_REPAIR,) if proven else ())),
        ),
        calls=[repair.failed, *repair.attempts[-2:], *repair.deeds[-3:], repair.success],
        value=_value(repair),
        proven=proven,
    )


def _command_lines(repair: Repair, told: str, names: Sequence[str]) -> list[str]:
    lines = [f"When {show_call(repair.failed, names)} {told}, do not run it again unchanged."]
    if repair.failure.first and not (repair.told_by and repair.failure.kind == "missing-file"):
        lines.append(f"First {repair.failure.first}.")
    known = {show_call(call, names) for call in (repair.failed, repair.success)}
    ways = [call for call in repair.attempts if show_call(call, names) not in known]
    tried = [
        *(_attempt(call, repair.failed, names) for call in ways),
        *(show_call(call, names) for call in repair.vain),
    ]
    if tried:
        lines.append(f"What did not help: {', '.join(dict.fromkeys(tried[:4]))}.")
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
    """Of a tool with arguments: which of them made the difference, and what was looked up for it."""
    tool = repair.failed.tool
    lines = [f"When `{tool}` {told}, do not call it again unchanged."]
    changes = _changes(material, repair)
    refused = [f"`{change.path}={value}`" for change in changes for value in change.refused][:_MAX_CHANGES]
    if refused:
        lines.append(f"What did not help: {', '.join(refused)}.")
    if changes:
        lines += _change_lines(changes, tool)
    elif repair.attempts or not repair.deeds:
        lines.append("The same call went through later: what it needs was made in between.")
    if repair.attempts and not refused:
        lines.append(
            f"{len(repair.attempts)} more call(s) failed before: after one refusal look it up, do not guess again."
        )
    between = [c for c in material.calls if repair.failed.end < c.position < repair.success.position and not c.failed]
    looked = dict.fromkeys(f"`{call.tool}`" for call in between if call.tool != tool and call.command is None)
    if looked and not any(change.source or change.is_code for change in changes):
        lines.append(f"What was called in between: {', '.join(list(looked)[-4:])}.")
    return [*lines, *(_deed(call, names) for call in repair.deeds[-2:] if call.tool != tool)]


def _changes(material: Material, repair: Repair) -> tuple[Change, ...]:
    return telling_changes(repair, material.calls, material.trajectory.task, material.particulars)[:_MAX_CHANGES]


def _change_lines(changes: Sequence[Change], tool: str) -> Iterator[str]:
    """What is known of each argument: a code that the tool takes, or the answer that holds it; else only its name."""
    for change in changes:
        if change.is_code:
            yield f"Set `{change.path}={change.value}`: that was accepted."
        elif change.source:
            yield f"Take `{change.path}` from what `{change.source}` answers: the call went through with a value of it."
    others = [change for change in changes if not change.is_code and not change.source]
    left_out = [f"`{change.path}`" for change in others if change.is_left_out]
    given = [f"`{change.path}`" for change in others if not change.is_left_out]
    if given:
        yield f"Check {', '.join(given)} first: the call went through with other values there."
    if left_out:
        yield f"Leave out {', '.join(left_out)}: the call to `{tool}` went through without."


def _trusted(call: Call) -> bool:
    return call.observation is not None and call.observation.is_error is False


def _is_same_call(left: Call, right: Call, names: Sequence[str]) -> bool:
    """Whether two calls read the same once what is of this task alone is taken out."""
    return shape(left) == shape(right) or show_call(left, names) == show_call(right, names)


def _ending(repair: Repair, names: Sequence[str]) -> str:
    summary = repair.success.check.summary if repair.success.check else ""
    shown = f' ("{show_symptom(summary, names, 80)}")' if summary else ""
    result = "it got past that error" if repair.success.failed else f"it succeeded{shown}"
    if _is_same_call(repair.failed, repair.success, names):
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
    if not repair.deeds and not _is_same_call(failed, success, names):
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


def _tool_title(material: Material, repair: Repair, names: Sequence[str]) -> str:
    """An argument stands in the title only where the error names it: another may be a bystander."""
    tool = repair.failed.tool
    symptom = bare(show_symptom(repair.failed.error, names))
    changes = _changes(material, repair)
    codes = [change for change in changes if change.is_code]
    if codes:
        return f"Set `{codes[0].path}={codes[0].value}` before calling `{tool}`"
    sure = [change for change in changes if change.is_named]
    if sure and symptom:
        return f"Check `{sure[-1].name}` before `{tool}`: {symptom}"
    if repair.failure.first and repair.failure.kind != "error":
        return f"{repair.failure.first} before calling `{tool}`"
    return f"Expect `{tool}` to refuse{': ' + symptom if symptom else ''}"


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
    if repair.failed.command is None and repair.failed.tool in HOST_TOOLS:
        worth *= 0.5
    if repair.same_call and not repair.deeds:
        worth -= 0.3  # it went away by itself, as far as was seen
    told = any(call.command or _changed_line(call) for call in repair.deeds)
    if repair.same_call and repair.failure.kind in _CODE_KINDS and not told:
        worth -= 0.15
    return worth
