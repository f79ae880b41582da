"""A bank in a real file, and tasks made in it."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from made_tasks import Shop, opened


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Shop]:
    """A bank without memories."""
    async with opened(tmp_path) as bank:
        yield bank
