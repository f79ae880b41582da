"""A bank in a real file, with a clock that can be set."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from tests.consolidate.kept_bank import Kept, opened


@pytest.fixture
async def kept(tmp_path: Path) -> AsyncGenerator[Kept]:
    """A bank without memories."""
    async with opened(tmp_path) as bank:
        yield bank
