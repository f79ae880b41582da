"""A project's folder, into which memories are written as skills."""

from pathlib import Path

import pytest

from swarm_memory.server.hosts.files.skills import plan_promoted, write_promotion
from swarm_memory.tools.promote.promote import Promotion
from swarm_memory.tools.toolbox import Toolbox


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """The folder of the project `shop`."""
    folder = tmp_path / "shop"
    folder.mkdir()
    return folder


async def promote(toolbox: Toolbox, root: Path, *ids: str, overwrite: bool = False) -> Promotion:
    """Write memories into skills, in their current state."""
    done, changes = await plan_promoted(toolbox, root, ids, overwrite=overwrite)
    await write_promotion(toolbox, root, done, changes)
    return done
