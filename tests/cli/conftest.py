"""A shell in an empty project, and tasks as lines of a file."""

from typing import Any

import pytest
from served import fixed_task
from shell import project, swarm

__all__ = ["project", "swarm"]


@pytest.fixture
def fixed() -> dict[str, Any]:
    """A task that failed first and was then fixed, as a line of a file."""
    return fixed_task(id="fix-1")


@pytest.fixture
def talk() -> dict[str, Any]:
    """A task about which nothing can be proved."""
    said = {"role": "assistant", "content": "A monoid in the category of endofunctors."}
    return {"id": "talk-1", "task": "What is a monad?", "steps": [said]}
