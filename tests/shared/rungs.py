"""The ways to SQLite that this interpreter can take."""

import os

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.storage.driver import RUNGS, choose


def _is_possible(rung: str) -> bool:
    try:
        choose(rung)
    except ConfigError:
        return False
    return True


POSSIBLE = [rung for rung in RUNGS if _is_possible(rung)]
AVAILABLE = [rung for rung in (os.environ.get("SWARM_MEMORY_SQLITE"),) if rung] or POSSIBLE
"""The one that the environment forces, else all that are possible."""
