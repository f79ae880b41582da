"""A bank in a real file for each test, with a clock that is set by hand; calls as a caller logs them."""

from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

import pytest

from swarm_memory.tools.toolbox import Toolbox
from tests.tool_memory.logged import bank

OpenBank = Callable[..., AbstractAsyncContextManager[Toolbox]]


@pytest.fixture
def open_bank(tmp_path: Path) -> OpenBank:
    """Return a function that opens the test's bank."""
    return partial(bank, tmp_path)


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncGenerator[Toolbox]:
    """An empty bank with default settings and no chat model."""
    async with bank(tmp_path) as opened:
        yield opened
