"""Memories made up for a bank."""

from datetime import UTC, datetime
from typing import Any

from swarm_memory.schema.base import Scope, new_id
from swarm_memory.schema.memory import MemoryItem

HERE = Scope(project="here")


def made_item(title: str, **fields: Any) -> MemoryItem:
    """Return an item; what is not given has a default."""
    given: dict[str, Any] = {
        "id": new_id("rm"),
        "scope": HERE,
        "content": f"1. {title}, then look again",
        "confidence": 0.5,
        "created_at": datetime.now(UTC),
    }
    return MemoryItem(title=title, **(given | fields))
