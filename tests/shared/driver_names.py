"""The SQLite drivers that this interpreter can use."""

import os

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.storage.driver import DRIVERS, choose


def _is_possible(driver_name: str) -> bool:
    try:
        choose(driver_name)
    except ConfigError:
        return False
    return True


POSSIBLE = [driver_name for driver_name in DRIVERS if _is_possible(driver_name)]
AVAILABLE = [driver_name for driver_name in (os.environ.get("SWARM_MEMORY_SQLITE"),) if driver_name] or POSSIBLE
"""The driver that the environment forces, otherwise all possible ones."""
