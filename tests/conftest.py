"""What every test gets: a home of its own, so that no test reads or writes the developer's files."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest

_PREFIXES = ("SWARM_MEMORY_", "CLAUDE", "OPENAI_", "ANTHROPIC_", "XDG_")
_KEPT = {"SWARM_MEMORY_SQLITE"}


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the user's folder at an empty one and drop settings of the environment, but for the forced SQLite rung."""
    for name in list(os.environ):
        if name.startswith(_PREFIXES) and name not in _KEPT:
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    return folder


FIGURES = Path(__file__).parent.parent / "build" / "faults.jsonl"
"""Where `make faults` leaves the figures, for `scripts/write_reliability.py`."""


@pytest.fixture
def record(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Return what writes down the figure of one row of docs/RELIABILITY.md."""

    def written(row: str, figure: str) -> None:
        request.node.user_properties.append(("fault", f"{row}\t{figure}"))
        if os.environ.get("FAULTS") == "full":
            FIGURES.parent.mkdir(exist_ok=True)
            with FIGURES.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"row": row, "figure": figure, "test": request.node.name}) + "\n")

    return written
