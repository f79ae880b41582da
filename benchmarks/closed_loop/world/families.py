"""All families of tasks: those in memory, which were looked at while the rules were made, and those in folders."""

from random import Random

from world.folders import IN_FOLDERS
from world.rules import IN_MEMORY, World

FAMILIES = {**IN_MEMORY, **IN_FOLDERS}
GROUPS: dict[str, tuple[str, ...]] = {
    "all families": tuple(FAMILIES),
    "in memory": tuple(IN_MEMORY),
    "in folders": tuple(IN_FOLDERS),
}


def make_world(family: str, seed: str) -> World:
    """Return the task of a family that belongs to a seed; the same one every time."""
    return FAMILIES[family](Random(seed))
