"""A bank in a real file, and tasks that are made in it."""

import sys
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from made_tasks import Shop, opened


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncGenerator[Shop]:
    """A bank without memories."""
    async with opened(tmp_path) as bank:
        yield bank
