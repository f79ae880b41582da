"""What the tests of the fault rig share."""

from pathlib import Path

import pytest
from laid_bank import laid


@pytest.fixture
def database(tmp_path: Path) -> Path:
    """An empty bank in a project's folder."""
    return laid(tmp_path / ".swarm" / "memory.db")
