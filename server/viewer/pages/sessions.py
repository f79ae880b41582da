"""Sessions: a list of what agents did; one task's transcript with what was shown, its verdict and what it taught."""

from datetime import date
from typing import get_args

from swarm_memory.schema.base import counted
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.trajectory import Label
from swarm_memory.server.viewer.page import ActionResult, Page, PageRequest, Route, Undo
from swarm_memory.tools.ports.records import TaskFilter
from swarm_memory.tools.tasks.transcript import WINDOW, transcript
from swarm_memory.tools.tasks.verdict import Revised, judge_again, say_verdict

SHOWN = 50
LABELS: tuple[Label, ...] = get_args(Label)


async def sessions(asked: PageRequest) -> Page:
    """List tasks; where the first day of a week is given, only those of that week. Raises `InputError`."""
    kept = {name: asked.query.get(name, "") for name in ("q", "agent", "verdict", "taught", "week", "sort")}
    try:
        week = date.fromisoformat(kept["week"]) if kept["week"] else None
    except ValueError as error:
        raise InputError(f"week must be a day such as 2026-11-23, not {kept['week'][:20]!r}") from error
    which = TaskFilter(
        source=kept["agent"] or None,
        label=kept["verdict"] or None,
        text=kept["q"] or None,
        taught=bool(kept["taught"]),
        week=week and week.isoformat(),
        sort=kept["sort"],
        limit=SHOWN + 1,
        offset=(asked.page - 1) * SHOWN,
    )
    found = await asked.toolbox.store.list_tasks(asked.toolbox.scope, which)
    shown = {
        "tasks_found": found[:SHOWN],
        "week": week,
        "has_more": len(found) > SHOWN,
        "page": asked.page,
        "kept": kept,
        "labels": LABELS,
        "sources": await asked.toolbox.store.sources_of_tasks(asked.toolbox.scope),
    }
    return Page("sessions.html", shown)


async def task(asked: PageRequest) -> Page:
    """Show one task. Raises `InputError`, `NotFoundError`."""
    first = (asked.page - 1) * WINDOW
    read = await transcript(asked.toolbox, asked.path["task"], step=asked.query.get("step"), first=first)
    return Page("task.html", {"read": read, "labels": LABELS, "page": read.first // WINDOW + 1, "window": WINDOW})


async def verdict(asked: PageRequest) -> ActionResult:
    """Put the user's verdict on a task in place of the current one. Raises `InputError`, `NotFoundError`."""
    label = asked.form.get("label", "")
    if label not in LABELS:
        raise InputError(f"label must be one of {', '.join(LABELS)}")
    return _done(await say_verdict(asked.toolbox, asked.path["task"], label, asked.form.get("reason", "")))


async def rejudge(asked: PageRequest) -> ActionResult:
    """Have a task judged once more. Raises `NotFoundError`."""
    return _done(await judge_again(asked.toolbox, asked.path["task"]))


def _done(revised: Revised) -> ActionResult:
    to, former, verdict = f"/tasks/{revised.trajectory_id}", revised.former, revised.verdict
    was = "not judged" if former is None else former.label
    if not revised.stands:
        return ActionResult(to, f"Judged again: {verdict.label}, by {verdict.judge}. Your word stands: {was}.")
    parts = [f"The verdict is now {verdict.label}, by {verdict.judge}; it was {was}"]
    for ids, became in (
        (revised.stored, "learned"),
        (revised.superseded, "archived"),
        (revised.credited, "trusted more or less than before"),
    ):
        if ids:
            parts.append(f"{counted(len(ids), 'memory')} {became}")
    undo = None if former is None or was == verdict.label else Undo(f"{to}/verdict", {"label": was})
    return ActionResult(to, f"{'; '.join(parts)}.", undo)


ROUTES = (
    Route("/sessions", sessions),
    Route("/tasks/{task:path}/verdict", verdict, "POST"),
    Route("/tasks/{task:path}/again", rejudge, "POST"),
    Route("/tasks/{task:path}", task),
)
