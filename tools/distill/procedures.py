"""How the checks of this project are run, where that is not what everybody would try first."""

import re
from collections.abc import Iterator

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.distill.drafts import MAX_SHOWN, draft_of
from swarm_memory.tools.distill.fixes import fixes_of
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import selection_of
from swarm_memory.tools.trajectory.phrasing import folder_of, show_command, show_symptom
from swarm_memory.tools.trajectory.reading import Reading
from swarm_memory.tools.trajectory.shell import parse_command

_CUSTOMARY = re.compile(
    r"^(?:python\d? -m )?(?:pytest|unittest|jest|vitest|ruff|mypy|eslint|tsc|flake8|make|gcc|g\+\+|javac|python\d?|node"
    r"|(?:npm|yarn) test|npm run (?:test|build|lint)|go (?:test|build|vet)|cargo (?:test|build|check|clippy))\b"
)
"""What everybody would try first."""

_SEPARATOR = re.compile(r"\s*(?:&&|\|\||;|\n)\s*")
_MAX_CHECKS = 3


def procedures(reading: Reading) -> Iterator[MemoryDraft]:
    """Yield how the checks of this project are run, where that is not what everybody would try first.

    Only of checks that were seen to pass, and not of those that the agent wrote itself, nor where a fix says it
    already. A file that was named is of that task: FILE takes its place.
    """
    fixed = {fix.repair.success.position for fix in fixes_of(reading)}
    last = {call.name: (call, text) for call in reading.calls if (text := _check(call, reading))}
    checks = sorted(last.values(), key=lambda each: each[0].position)[:_MAX_CHECKS]
    lines, named = list[str](), list[str]()
    for call, text in checks:
        folder, result = folder_of(call.command.text) if call.command else "", call.check
        shown = f"`{text}`" + (f" in the folder `{folder}`" if folder else "")
        if result:
            said = show_symptom(result.summary, (), 60)
            lines.append(f'{result.purpose.capitalize()}: {shown} (it said "{said}").')
        if call.position not in fixed and (folder or not _CUSTOMARY.match(text)):
            named.append(f"`{one_line(text, 40)}`")
    if named:
        yield draft_of(
            title=f"Checks of this project: {' and '.join(named[:2])}",
            when="a change in this project has to be checked: how its tests, linters and builds are run",
            lines=lines,
            tags=("procedure",),
            calls=[call for call, _ in checks],
        )


def _check(call: Call, reading: Reading) -> str:
    """Return the check alone that a call ran, where it passed, is not the agent's own and can be shown; or empty."""
    result, command = call.check, call.command
    part = command.check if command else None
    if command is None or part is None or not (result and result.passed and result.summary):
        return ""
    if reading.is_own(call):
        return ""
    parts = ((text, parse_command(text).parts[:1]) for text in _SEPARATOR.split(command.text))
    shown = show_command(next((text for text, alone in parts if alone and alone[0].words == part.words), ""), (), 999)
    for path in sorted(selection_of(call).paths, key=len, reverse=True):
        shown = shown.replace(path, "FILE") if "." in path.rpartition("/")[2] else shown
    return shown if len(shown) <= MAX_SHOWN and not folder_of(command.text).startswith(("/", "~")) else ""
