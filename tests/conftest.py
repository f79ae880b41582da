"""What every test gets: a home of its own, so that no test reads or writes the developer's files."""

from pathlib import Path

import pytest

_PREFIXES = ("SWARM_MEMORY_", "CLAUDE", "OPENAI_", "ANTHROPIC_", "XDG_")
_KEPT = {"SWARM_MEMORY_SQLITE"}


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Point the user's folder at an empty one and drop settings of the environment, but for the forced SQLite rung."""
    import os

    for name in list(os.environ):
        if name.startswith(_PREFIXES) and name not in _KEPT:
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("USERPROFILE", str(folder))
    return folder
