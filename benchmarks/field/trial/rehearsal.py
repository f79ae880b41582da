"""Plays each session with its written solutions: the right one must meet the task, the plausible wrong one must not."""

import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from trial.host import Session
from trial.projects import SESSIONS, Place, lay_out, load, unmet
from trial.transcript import figures_of

QUESTION = ("Stop hook feedback", "<system-reminder>\nStop hook")


def rehearse(projects: Iterable[str], arms: Sequence[str]) -> list[str]:
    """Play all sessions and print a line for each; return the outcomes that are not as they should be."""
    faults: list[str] = []
    for name in projects:
        for arm in arms:
            with tempfile.TemporaryDirectory() as folder:
                faults += _rehearse(name, arm, Path(folder))
    return faults


def _rehearse(name: str, arm: str, folder: Path) -> list[str]:
    """Return the faults of one project in one arm; each later session starts with what the first one left."""
    project = load(name)
    solutions = tomllib.loads((project.folder / "solution.toml").read_text(encoding="utf-8"))
    faults: list[str] = []
    first: Place | None = None
    for session in SESSIONS:
        for kind in ("right", "wrong") if arm == "none" else ("right",):
            if kind not in solutions[session]:
                continue
            place = lay_out(project, session, folder / f"{session}-{kind}")
            (place.home / ".local" / "state").mkdir(parents=True)
            (place.home / ".local" / "state" / "no-wait").touch()  # tells the slow tools not to wait
            played = Session(place, project, session, arm)
            played.install(None, first if session != "A" else None)
            notes = solutions["notes"] if (session, arm) == ("A", "agent") else ()
            _play(played, solutions[session][kind], notes)
            figures = figures_of(played.transcript.path)
            first = first or place
            why = unmet(project, session, place, figures.answer)
            moments = ", ".join(each.moment for each in figures.injected) or "nothing"
            print(f"{name} {session} {arm} {kind}: {why or 'met'}; injected: {moments}")
            if bool(why) is (kind == "right"):
                faults.append(f"{name} {session} {arm}: the {kind} solution is {why or 'met'}")
    return faults


def _play(session: Session, steps: Sequence[dict[str, str]], notes: Sequence[dict[str, Any]]) -> None:
    """Play one step for each prompt: a command, then an answer."""
    session.open()
    for number, step in enumerate(steps, 1):
        session.run(step["run"])
        if notes and number == len(steps):
            session.remember({"notes": list(notes), "outcome": "Success"})
        if session.say(step["say"]).startswith(QUESTION):
            session.say(step["say"])
    session.end()
