"""How the checks of this project are run, where that is not what everybody would try first."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.distill.fixes import fixes_of
from swarm_memory.tools.distill.lessons import Material, Told, draft_of
from swarm_memory.tools.distill.repairs import MAX_TOLD
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import selection_of
from swarm_memory.tools.trajectory.phrasing import folder_of, show_command, show_symptom
from swarm_memory.tools.trajectory.shell import parse_command

_SHOWN = {"build": "Build", "lint": "Lint", "test": "Tests"}
_CUSTOMARY = re.compile(
    r"^(?:python\d? -m )?(?:pytest|unittest|jest|vitest|ruff|mypy|eslint|tsc|flake8|make|gcc|g\+\+|javac|python\d?|node"
    r"|(?:npm|yarn) test|npm run (?:test|build|lint)|go (?:test|build|vet)|cargo (?:test|build|check|clippy))\b"
)
"""What everybody would try first."""

_SEPARATOR = re.compile(r"\s*(?:&&|\|\||;|\n)\s*")
_MAX_CHECKS = 3


class _Check(NamedTuple):
    call: Call
    text: str
    """The check alone, of a line that did more, as it was run."""
    folder: str

    @property
    def is_telling(self) -> bool:
        return bool(self.folder) or not _CUSTOMARY.match(self.text)


def procedures(material: Material) -> Iterator[MemoryDraft]:
    """Yield how the checks of this project are run, where that is not what everybody would try first.

    Only of checks that were seen to pass, and not of those that the agent wrote itself, nor where a fix tells it
    already. A file that was named is of that task: FILE stands in its place.
    """
    told = {fix.repair.success.position for fix in fixes_of(material.reading)}
    found = {check.call.name: check for call in material.calls if (check := _check(call, material)) is not None}
    checks = sorted(found.values(), key=lambda each: each.call.position)[:_MAX_CHECKS]
    if not any(each.is_telling and each.call.position not in told for each in checks):
        return
    titled = sorted(checks, key=lambda each: not each.is_telling)[:2]
    yield draft_of(
        Told(
            title=f"Checks of this project: {' and '.join(one_line(each.text, 40).join('``') for each in titled)}",
            when="a change in this project has to be checked: how its tests, linters and builds are run",
            lines=[_line(each) for each in checks],
            tags=("procedure",),
        ),
        calls=[each.call for each in checks],
    )


def _line(check: _Check) -> str:
    result = check.call.check
    purpose = _SHOWN[result.purpose] if result else ""
    where = f" in the folder `{check.folder}`" if check.folder else ""
    return f'{purpose}: `{check.text}`{where} (it said "{show_symptom(result.summary if result else "", (), 60)}").'


def _check(call: Call, material: Material) -> _Check | None:
    """Return the check that a call ran, where it passed, is not the agent's own and can be told by itself."""
    result, part = call.check, call.command.check if call.command else None
    if result is None or not (result.passed and result.summary) or part is None or call.command is None:
        return None
    files = material.reading.files
    if any((file := files.of(word)) and file.is_own for word in part.words[1:]):
        return None
    for text in _SEPARATOR.split(call.command.text):
        alone = parse_command(text).parts[:1]
        if alone and alone[0].words == part.words:
            folder = folder_of(call.command.text)
            shown = show_command(text, (), MAX_TOLD + 2)
            for path in sorted(selection_of(call).paths, key=len, reverse=True):
                shown = shown.replace(path, "FILE") if "." in path.rpartition("/")[2] else shown
            is_short = len(shown) <= MAX_TOLD and not folder.startswith(("/", "~"))
            return _Check(call, shown, folder) if is_short else None
    return None
