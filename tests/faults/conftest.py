"""The fault rig: each test breaks something real and writes down the figure that it found."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # what the tests of this folder share

FIGURES = Path(__file__).parent.parent.parent / "build" / "faults.jsonl"
"""Where `make faults` leaves the figures, for `scripts/write_reliability.py`."""

_KEY = "fault"

Record = Callable[[str, str], None]


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Record:
    """Write down the figure of one row of the matrix."""

    def written(row: str, figure: str) -> None:
        request.node.user_properties.append((_KEY, f"{row}\t{figure}"))
        if os.environ.get("FAULTS") == "full":
            FIGURES.parent.mkdir(exist_ok=True)
            with FIGURES.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"row": row, "figure": figure, "test": request.node.name}) + "\n")

    return written


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of all rows."""
    told = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == _KEY
    ]
    if told:
        terminalreporter.section("faults")
        for line in sorted(told):
            terminalreporter.line(line.replace("\t", "  "))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / ".swarm" / "memory.db"
