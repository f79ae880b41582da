"""The texts of many memories, read by id when they are needed and kept as long as there is room."""

from collections.abc import Callable, Iterable, Mapping
from typing import Generic, TypeVar

from swarm_memory.schema.memory import MemoryItem
from swarm_memory.tools.consolidate.pairs import IDS_AT_ONCE, in_parts
from swarm_memory.tools.toolbox import Toolbox

PAIRS_AT_ONCE = 500
"""Pairs whose texts are asked for together."""

MAX_KEPT = 20_000

T = TypeVar("T")


class Texts(Generic[T]):
    """What `of` makes of each memory, by id. At most 20,000 are kept, and those of one call."""

    def __init__(self, toolbox: Toolbox, of: Callable[[MemoryItem], T]) -> None:
        self._toolbox = toolbox
        self._of = of
        self._kept: dict[str, T] = {}

    async def read(self, ids: Iterable[str]) -> Mapping[str, T]:
        """Return at least these memories, but for those that are not there any more. Raises `StorageError`."""
        wanted = list(dict.fromkeys(ids))
        if len(self._kept) + len(wanted) > MAX_KEPT:
            self._kept = {}
        missing = [each for each in wanted if each not in self._kept]
        for part in in_parts(missing, IDS_AT_ONCE):
            for item in await self._toolbox.store.get_memories((self._toolbox.scope,), part):
                self._kept[item.id] = self._of(item)
        return self._kept
