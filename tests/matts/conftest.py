"""An empty bank for each test; slow modules are imported early."""

from collections.abc import AsyncGenerator
from importlib import import_module
from pathlib import Path

import pytest

from swarm_memory.tools.toolbox import Toolbox
from tests.matts.worlds import opened

import_module("jsonschema")


@pytest.fixture
async def tools(tmp_path: Path) -> AsyncGenerator[Toolbox]:
    """A toolbox on the bank in the test's folder, with the system clock."""
    async with opened(tmp_path) as toolbox:
        yield toolbox
