"""The fault rig: each test breaks something real and writes down the figure that it found."""

from pathlib import Path

import pytest

_KEY = "fault"
"""Under which the fixture `record` leaves a figure with its test."""


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the figures of all rows."""
    lines = [
        value
        for reports in terminalreporter.stats.values()
        for report in reports
        if getattr(report, "when", None) == "call"
        for name, value in report.user_properties
        if name == _KEY
    ]
    if lines:
        terminalreporter.section("faults")
        for line in sorted(lines):
            terminalreporter.line(line.replace("\t", "  "))


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / ".swarm" / "memory.db"
