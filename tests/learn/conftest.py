"""An empty bank for each test, with the queries that tests need."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from laid_bank import EMBEDDER
from scripted_runs import Bank, opened

from swarm_memory.tools.toolbox import Toolbox


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncGenerator[Toolbox]:
    """A toolbox on a fresh database in the test's folder."""
    async with opened(tmp_path, EMBEDDER) as (toolbox, _):
        yield toolbox


@pytest.fixture
def bank(tools: Toolbox, tmp_path: Path) -> Bank:
    """The bank of that toolbox."""
    return Bank(tools.store, tmp_path, tools.scope)
