"""The field trial's projects, played with their written solutions, and its recorder with our hooks and server."""

import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from forked import ISOLATED, Forked, nursery
from trial.host import Session
from trial.projects import lay_out, load, names
from trial.rehearsal import rehearse
from trial.transcript import figures_of

from swarm_memory.server.hosts.transcript import read_trajectories


@pytest.mark.parametrize("name", names())
def test_a_right_solution_is_met_and_a_plausible_wrong_one_is_not(name: str) -> None:
    assert rehearse([name], ["none"]) == []


def test_both_halves_have_each_group_of_kinds() -> None:
    halves = Counter(load(name).half for name in names())
    assert set(halves) == {"looked", "unseen"}
    assert max(halves.values()) - min(halves.values()) <= 1


def test_a_played_session_reads_as_one_of_claude_code(tmp_path: Path) -> None:
    place = lay_out(load("kiln"), "B", tmp_path / "played")
    session = Session(place, load("kiln"), "B", "none")
    assert session.open().startswith("What does `python3 -m kiln.plan tile` print here?")
    assert session.run("python3 -m kiln.plan tile").startswith("Exit code 1\nkilntab: E41")
    assert session.run("echo seen; sleep 60 &") == "seen\n"
    session.say("E41 is in the way.")
    session.end()
    (trajectory,) = read_trajectories(session.transcript.path)
    assert [step.is_error for step in trajectory.steps if step.is_error is not None] == [True, False]
    assert figures_of(session.transcript.path)[:2] == (2, 1)


def test_what_an_agent_remembers_is_kept_for_the_next_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nursery()
    kinds: list[Any] = [subprocess.Popen, Forked]
    monkeypatch.setattr(
        subprocess,
        "Popen",
        lambda command, **how: kinds[command[:2] == ISOLATED](command, **how),  # type: ignore
    )
    first, later = (lay_out(load("tidewater"), name, tmp_path / name) for name in "AB")
    (by_table := tmp_path / "config.yaml").write_text("embedding: {provider: static}\n", encoding="utf-8")
    session = Session(first, load("tidewater"), "A", "agent")
    session.install(by_table)
    assert "mcp__swarm-memory__remember" in session.open()
    note = {"title": "tidecsv gives feet", "when": "Whenever `tidecsv` is run.", "note": "Use `tidecsv --si IN OUT`."}
    session.remember({"notes": [note], "outcome": "Success"})
    session.say("Done.")
    assert "tidecsv gives feet" in session.end()
    session = Session(later, load("tidewater"), "B", "rules")
    session.install(by_table, before=first)
    session.open()
    assert "tidecsv gives feet" in session.end()
