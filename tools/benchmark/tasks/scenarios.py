"""The five engineering scenarios: what is asked in words, and where their files are. It runs nothing.

Each is a folder beside this module: `task.md` (what the agent is asked), `work/` (what it begins with) and `check.py`,
a script that is given a folder, tries what was made there, and ends with 0 when all of it works, else with 1 and why.
"""

from pathlib import Path
from typing import Literal, NamedTuple, get_args

ScenarioName = Literal["web_scraping", "payment_api", "schema_migration", "batch_csv", "zero_downtime_deploy"]


class Scenario(NamedTuple):
    """One of them."""

    name: ScenarioName
    task: str
    work: Path
    """The folder that an agent gets a copy of."""
    check: Path
    """The script that tells whether the task is met."""


def scenario_names() -> tuple[ScenarioName, ...]:
    """Return all of them, in the order of the document they come from."""
    return get_args(ScenarioName)


def scenario(name: ScenarioName) -> Scenario:
    """Return a scenario of the package."""
    folder = Path(__file__).resolve().parent / name
    return Scenario(
        name, (folder / "task.md").read_text(encoding="utf-8").strip(), folder / "work", folder / "check.py"
    )
