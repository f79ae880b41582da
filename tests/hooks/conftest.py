"""A project whose host runs our hook commands."""

import shutil
from pathlib import Path

import pytest
from hook_project import SAID, HookProject, second_session

from swarm_memory.server.storage.driver import choose
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.storage.engine.connection import close, connect


@pytest.fixture
def shop(tmp_path: Path, home: Path) -> HookProject:
    """A project without a bank."""
    return HookProject.made(tmp_path / "shop", home)


@pytest.fixture(scope="session")
def taught(tmp_path_factory: pytest.TempPathFactory) -> HookProject:
    """A project whose bank is made once and then copied."""
    folder = tmp_path_factory.mktemp("taught")
    project = HookProject.made(folder / "shop", folder / "home")
    other = second_session(project.transcript)
    project.cli("learn", str(other))
    project.cli("learn", str(project.transcript))
    other.unlink()
    project.cli("remember", SAID)
    return project


@pytest.fixture
def learned(shop: HookProject, taught: HookProject) -> HookProject:
    """A project whose bank contains what the demo session taught, and what the user said."""
    shutil.copytree(taught.bank, shop.bank)
    registry.begin(shop.database)
    close(connect(shop.database, driver=choose()), shop.database)  # record it as complete, with its log ended
    return shop
