"""A project with a page."""

from pathlib import Path

import pytest

from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import Location
from swarm_memory.server.wiring import place_of


@pytest.fixture
def place(tmp_path: Path) -> Location:
    """A project with one page."""
    folder = tmp_path / "shop"
    (folder / "docs").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "docs" / "guide.md").write_text("# Guide\n\nThe retry limit stands in settings.toml.\n")
    return place_of(folder, Settings())
