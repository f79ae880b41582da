"""Lessons from work that held: how commands are run in this project, which checks it has, and in which order."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from swarm_memory.tools.distill.fixes import fixes_of
from swarm_memory.tools.distill.lessons import Lesson, Material, Told, lesson
from swarm_memory.tools.distill.repairs import MAX_TOLD, can_be_told
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import selection_of
from swarm_memory.tools.trajectory.errors import shape
from swarm_memory.tools.trajectory.phrasing import folder_of, show_call, show_file, show_symptom
from swarm_memory.tools.trajectory.shell import Part

_SHOWN = {"build": "Build", "lint": "Lint", "test": "Tests"}
_OF_THE_PROJECT = re.compile(
    r"^(?:-e|-r|i|ci|install|sync|restore|bootstrap|\.|\.\[.*\]|--\S+|[\w./-]*requirements[\w.-]*)$"
)
_CUSTOMARY = re.compile(
    r"^(?:python\d? -m )?(?:pytest|unittest|jest|vitest|ruff|mypy|eslint|tsc|flake8|make|gcc|g\+\+|javac|python\d?|node"
    r"|(?:npm|yarn) test|npm run (?:test|build|lint)|go (?:test|build|vet)|cargo (?:test|build|check|clippy))\b"
)
"""What everybody would try first."""

_SOME_PASSED = re.compile(r"(?i)\b[1-9]\d* (?:tests? )?(?:passed|passing|ok)\b|\bpassed:? +[1-9]")

_MAX_CHECKS = 5


def procedures(material: Material) -> Iterator[Lesson]:
    """Yield how the checks of this project are run, where that is not what everybody would try first.

    Only of checks that were seen to pass, or some of their tests; not of those that the agent wrote itself. A file
    that was named is of that task: FILE stands in its place. What was set up before the first of them comes with them,
    in the order in which it was done. Nothing where a fix tells it already.
    """
    passed = [call for call in material.calls if _is_check(call, material)]
    chosen = {call.command.name: call for call in sorted(passed, key=_rank, reverse=True) if call.command}
    checks = sorted(chosen.values(), key=lambda call: call.position)[:_MAX_CHECKS]
    told = {shape(fix.repair.success) for fix in fixes_of(material.reading)}
    if not any(_is_telling(call) and shape(call) not in told for call in checks):
        return
    names = material.reading.names
    setup = [call for call in material.calls if call.position < checks[0].position and _sets_up(call)]
    lines = [f"Set up: {show_call(call, names)}." for call in list({shape(c): c for c in setup}.values())[-2:]]
    for call in checks:
        summary = show_symptom(call.check.summary, names, 60) if call.check and call.check.passed else ""
        purpose = _SHOWN[call.check.purpose] if call.check else ""
        folder = folder_of(call.command.text) if call.command else ""
        where = f" in the folder `{show_file(folder, names)}`" if folder else ""
        lines.append(
            f"{purpose}: {_shown(call, names, MAX_TOLD)}{where}" + (f' (it told "{summary}").' if summary else ".")
        )
    first = max(checks, key=_is_telling)
    others = [call for call in checks if call is not first][:1]
    shown = " and ".join(_shown(call, names, 40 if others else 52) for call in (first, *others))
    yield lesson(
        material,
        Told(
            title=f"Checks of this project: {shown}",
            when="a change in this project has to be checked: how its tests, linters and builds are run",
            lines=lines,
            topic="procedure",
            tags=("procedure",),
        ),
        calls=[*setup[-2:], *checks],
        value=0.45 + 0.05 * min(len(lines), 4),
        proven=True,
    )


def _is_check(call: Call, material: Material) -> bool:
    check = call.check
    if check is None or not check.counted or call.command is None or not can_be_told(call):
        return False
    if not check.passed and not _SOME_PASSED.search(check.summary):
        return False
    files = material.reading.files
    return not any((file := files.of(word)) and file.is_own for part in call.command.parts for word in part.words[1:])


def _rank(call: Call) -> tuple[bool, int]:
    """Those that passed first, then those with the fewest words: they cover the most."""
    main = call.command.main if call.command else None
    return not (call.check and call.check.passed), len(main.words) if main else 0


def _shown(call: Call, names: Sequence[str], limit: int) -> str:
    """A check as it is run, with FILE for the file of that task."""
    text = show_call(call, names, MAX_TOLD).strip("`")
    for path in sorted(selection_of(call).paths, key=len, reverse=True):
        if "." in path.rpartition("/")[2]:
            text = text.replace(path, "FILE")
    return f"`{one_line(text, limit)}`"


def _is_telling(call: Call) -> bool:
    """Whether a check is run in another way than everybody would run it first."""
    text = call.command.text.strip() if call.command else ""
    return bool(folder_of(text)) or not _CUSTOMARY.match(text)


def _sets_up(call: Call) -> bool:
    """Whether a call installed what the project as a whole needs."""
    main = call.command.main if call.command else None
    if main is None or main.purpose != "install" or call.failed or not can_be_told(call):
        return False
    return _installs_project(main)


def _installs_project(part: Part) -> bool:
    words = part.words[1:]
    return all(_OF_THE_PROJECT.match(word) for word in words) and Counter(words)["install"] <= 1
