"""Results of played sessions, one by one and by arm."""

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from trial.projects import ARMS, Place, Project, load, unmet
from trial.transcript import Figures, figures_of


class Result(NamedTuple):
    """One played session."""

    project: Project
    session: str
    arm: str
    why_unmet: str
    figures: Figures

    @property
    def is_later(self) -> bool:
        """Whether notes of an earlier session could help."""
        return self.session != "A"


def result_of(folder: Path) -> Result:
    """Check a session that was played in a folder; return its result."""
    plan = json.loads((folder / "plan.json").read_text(encoding="utf-8"))
    project = load(plan["project"])
    place = Place(folder, project.name)
    (path,) = (place.home / ".claude" / "projects").glob("*/*.jsonl")
    figures = figures_of(path)
    why = unmet(project, plan["session"], place, figures.answer)
    return Result(project, plan["session"], plan["arm"], why, figures)


def shown(result: Result) -> str:
    """Return one session's result as lines of text."""
    figures = result.figures
    met = f"NOT MET: {result.why_unmet}" if result.why_unmet else "met"
    lines = [
        f"{result.project.name} {result.session} {result.arm}: {met}",
        f"calls {figures.calls}, failed {figures.failed}, seconds {figures.seconds:.0f}, "
        f"characters read {figures.chars_read}, tokens injected {figures.tokens_injected}",
    ]
    for each in figures.injected:
        lines += [f"  {each.moment}: {'; '.join(each.titles()) or each.text[:100]}"]
    return "\n".join(lines)


def table(results: Sequence[Result]) -> str:
    """Return the figures by arm, separately for first and later sessions, and below them each task that was not met."""
    head = "| arm | sessions | met | calls | failed | seconds | chars read | tokens injected | injected in | moments |"
    lines = [head, "|" + "---|" * 10]
    for is_later in (False, True):
        of_arms = [(arm, [each for each in results if (each.is_later, each.arm) == (is_later, arm)]) for arm in ARMS]
        lines += [_row(f"{arm}, {'later' if is_later else 'first'}", some) for arm, some in of_arms if some]
    missed = [each for each in results if each.why_unmet]
    return "\n".join([*lines, "", *(f"- {shown(each).splitlines()[0]}" for each in missed)])


def _row(title: str, some: Sequence[Result]) -> str:
    figures = [each.figures for each in some]
    moments = Counter(injected.moment for each in figures for injected in each.injected)
    cells = [
        title,
        len(some),
        sum(not each.why_unmet for each in some),
        sum(each.calls for each in figures),
        sum(each.failed for each in figures),
        f"{sum(each.seconds for each in figures):.0f}",
        sum(each.chars_read for each in figures),
        sum(each.tokens_injected for each in figures),
        sum(any(injected.moment != "stop" for injected in each.injected) for each in figures),
        ", ".join(f"{moment} {count}" for moment, count in moments.items()) or "-",
    ]
    return "| " + " | ".join(map(str, cells)) + " |"
