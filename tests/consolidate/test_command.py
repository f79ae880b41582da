"""The command that consolidates."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from swarm_memory.server.cli.commands.bank import consolidate
from swarm_memory.server.cli.invocation import Invocation
from tests.consolidate.kept_bank import ADVICE, Kept


class Project:
    """A project's folder with a bank, and the command in it."""

    def __init__(self, folder: Path) -> None:
        self.invocation = Invocation(folder, {"storage.project": "shop"})

    def run(self, *arguments: str) -> Result:
        return CliRunner().invoke(consolidate, list(arguments), obj=self.invocation)

    def json(self, *arguments: str) -> dict[str, Any]:
        result = self.run(*arguments, "--json")
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)


@pytest.fixture
async def project(tmp_path: Path, kept: Kept) -> Project:
    """The project of the bank, with two memories that say the same."""
    now = datetime.now(UTC)
    await kept.add(*ADVICE[0], confidence=0.4, created_at=now)
    await kept.add(*ADVICE[1], confidence=0.6, created_at=now)
    return Project(tmp_path)


def test_a_dry_run_a_run_and_its_undoing_by_command(project: Project) -> None:
    shown = project.json("--dry-run")
    assert len(shown["merged"]) == 1
    done = project.json()
    assert done["merged"] == shown["merged"]
    assert project.json("--full")["merged"] == []
    assert project.json("--undo", done["run_id"])["restored"] == 1
    assert len(project.json("--full")["merged"]) == 1


def test_people_see_what_happened_and_how_to_take_it_back(project: Project) -> None:
    shown = project.run("--dry-run")
    assert "dry run: yes" in shown.output
    assert "merged:" in shown.output
    assert "--undo" not in shown.output
    done = project.run()
    assert "merged:" in done.output
    run_id = done.output.split("--undo ")[1].split()[0]
    assert "restored: 1" in project.run("--undo", run_id).output


def test_undo_goes_with_no_other_option(project: Project) -> None:
    assert "neither dry_run nor full" in str(project.run("--undo", "run_01JXYZ", "--full").exception)
