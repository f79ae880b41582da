"""Which suites there are; a suite's code is imported when it is asked for."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.errors import InputError

if TYPE_CHECKING:
    from swarm_memory.tools.benchmark.suite import Suite

SUITES = {
    "retrieval": "swarm_memory.server.benchmark.retrieval",
    "learning": "swarm_memory.server.benchmark.tasks",
    "performance": "swarm_memory.server.benchmark.performance",
    "tool-memory": "swarm_memory.server.benchmark.tool_choice",
}
"""By name the module that has it as `SUITE`."""


def find_suite(name: str) -> "Suite[Any]":
    """Return a suite. Raises `InputError` for a name that is none."""
    if name not in SUITES:
        raise InputError(f"there is no suite {name!r}: the suites are {', '.join(SUITES)}")
    return import_module(SUITES[name]).SUITE
