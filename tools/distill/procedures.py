"""Lessons from work that held: the order of steps and the checks of a success."""

from collections.abc import Iterator, Sequence

from swarm_memory.tools.distill.lessons import Lesson, Material, Told, lesson
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.phrasing import show_call, show_file, show_symptom


def procedures(material: Material) -> Iterator[Lesson]:
    """The order of steps of a success that was checked, or that ran through several tools without an error."""
    if material.verdict.label != "Success" or any(call.failed for call in material.calls):
        return
    done = [call for call in material.calls if call.observation is not None and not call.refused and not call.empty]
    checked = [call for call in done if call.command and call.check and call.check.passed]
    changed = [call for call in done if call.writes]
    if checked and changed:
        yield _checked_procedure(material, changed, checked)
    elif len({call.tool for call in done if call.command is None}) >= 3 and changed:
        yield _tool_procedure(material, done, changed[-1])


def _checked_procedure(material: Material, changed: Sequence[Call], checked: Sequence[Call]) -> Lesson:
    """How changes of this kind are checked here: the commands that were seen to pass, tests first."""
    names = material.particulars
    last = {call.command.name: call for call in checked if call.command}
    order = sorted(
        last.values(), key=lambda call: ("test", "build", "lint").index(call.check.purpose) if call.check else 3
    )
    files = dict.fromkeys(
        show_file(str(call.input["file_path"]), names) for call in changed if call.input.get("file_path")
    )
    lines = (
        [f"Make the change; in a task like this one it was in {', '.join(f'`{name}`' for name in list(files)[:5])}."]
        if files
        else []
    )
    needed = [call for call in material.calls if call.command and call.command.purpose == "install"]
    lines += [f"Before the first check run {show_call(call, names)}." for call in needed[:2]]
    for call in order[:4]:
        summary = show_symptom(call.check.summary, names, 80) if call.check else ""
        lines.append(f"Run {show_call(call, names)}" + (f' and look for a line like "{summary}".' if summary else "."))
    shown = " and ".join(f"`{name}`" for name in list(dict.fromkeys(c.command.name for c in order if c.command))[:2])
    return lesson(
        material,
        Told(
            title=f"Check changes here with {shown}",
            when=f"a change in this project has to be checked; {shown} passed",
            lines=lines,
            topic="procedure",
            tags=("procedure",),
        ),
        calls=[*changed[-2:], *order[:4]],
        value=0.4 + 0.05 * min(len(lines), 4),
        proven=True,
    )


def _tool_procedure(material: Material, done: Sequence[Call], last: Call) -> Lesson:
    order = list(dict.fromkeys(call.tool for call in done if call.command is None))[:7]
    lines = [f"Call `{tool}`{_arguments(tool, done)}." for tool in order]
    return lesson(
        material,
        Told(
            title=f"Look up first, then `{last.tool}`",
            when=f"a task ends with `{last.tool}`",
            lines=lines,
            topic="procedure",
            tags=("procedure",),
        ),
        calls=done[-4:],
        value=0.42,
    )


def _arguments(tool: str, done: Sequence[Call]) -> str:
    keys = list(dict.fromkeys(key for call in done if call.tool == tool for key in call.input))[:4]
    return f" with {', '.join(f'`{key}`' for key in keys)}" if keys else ""
