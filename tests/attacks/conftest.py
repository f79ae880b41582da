"""The bank that is attacked."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from swarm_memory.tools.toolbox import Toolbox
from tests.attacks.attacked_bank import opened


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncGenerator[Toolbox]:
    """A toolbox on a fresh database in the test's folder."""
    async with opened(tmp_path) as toolbox:
        yield toolbox
