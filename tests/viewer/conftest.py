"""What the tests of the viewer's pages share."""

from collections.abc import AsyncGenerator

import pytest
from served import place, settings

from swarm_memory.schema.settings import Settings
from swarm_memory.server.location import Location
from tests.viewer.browsed import Browsing, browsing

__all__ = ["place", "settings"]


@pytest.fixture
async def browser(place: Location, settings: Settings) -> AsyncGenerator[Browsing]:
    """An authorized browser on the pages of an empty bank."""
    async with browsing(place, settings) as opened:
        yield opened
