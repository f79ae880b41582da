"""A project whose host runs our hook commands."""

from pathlib import Path

import pytest
from hook_project import SAID, HookProject


@pytest.fixture
def shop(tmp_path: Path, home: Path) -> HookProject:
    """A project without a bank."""
    return HookProject.made(tmp_path / "shop", home)


@pytest.fixture
def learned(shop: HookProject) -> HookProject:
    """A project whose bank holds what the demo session taught, and what the user said."""
    shop.cli("learn", str(shop.transcript))
    shop.cli("remember", SAID)
    return shop
