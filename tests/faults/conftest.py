"""What the tests of the fault rig have in common."""

from pathlib import Path

import pytest


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / ".swarm" / "memory.db"
