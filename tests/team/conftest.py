"""A team whose server and homes have banks in real files, or the server's in a real PostgreSQL."""

from pathlib import Path

import pytest
from postgres_server import database_url, engine

from tests.team.team_banks import home, server

__all__ = ["database_url", "engine", "home", "server"]


@pytest.fixture
def user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty home folder, as the fixture `home` makes elsewhere; here, `home` makes people."""
    folder = tmp_path / "user"
    folder.mkdir()
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    monkeypatch.setenv("SWARM_MEMORY_EMBEDDING__PROVIDER", "static")
