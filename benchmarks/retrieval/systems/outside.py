"""An outside memory system in the retrieval suite: a process of its own for each group unless it knows groups."""

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

from swarm_memory.schema.benchmark import BenchmarkItem, BenchmarkQuestion
from swarm_memory.schema.errors import InputError
from swarm_memory.server.benchmark.outside import OutsideServer, OutsideSystem, ToolUse, Values, at, listed

if TYPE_CHECKING:
    from mcp.client import Client

MAX_PROCESSES = 12


class OutsideMemory(OutsideServer):
    """A system that a config describes: its command, the tool that stores, the tool that searches.

    Its answers are data: an id in them counts only when it is one that was stored.
    """

    def __init__(self, config: OutsideSystem, stack: AsyncExitStack) -> None:
        super().__init__(config, stack)
        self.name = config.name
        self._clients: dict[str, Client] = {}
        self._known: dict[str, dict[str, str]] = {}
        """By group, the item of each id and of each text that the system may answer with."""

    @property
    def _knows_groups(self) -> bool:
        return "{group}" in self.config.store.model_dump_json()

    async def ingest(self, group: str, items: Sequence[BenchmarkItem]) -> None:
        client, known = await self._client(group), self._known.setdefault(group, {})
        for item in items:
            time = "" if item.time is None else item.time.isoformat()
            values: Values = {"id": item.id, "content": item.content, "group": group, "time": time}
            answer = await self.call(client, self.config.store, values)
            known[item.id] = known[_squeezed(item.content)] = item.id
            if self.config.store.results:
                for given in listed(at(answer, self.config.store.results)):
                    known[str(given)] = item.id

    async def retrieve(self, question: BenchmarkQuestion, k: int) -> Sequence[str]:
        search, known = self.config.search, self._known[question.group]
        values: Values = {"query": question.query, "k": k, "group": question.group}
        answer = await self.call(await self._client(question.group), search, values)
        found = [_named(hit, search, known) for hit in listed(at(answer, search.results))]
        return list(dict.fromkeys(each for each in found if each is not None))[:k]

    async def size_bytes(self) -> int | None:
        return None

    async def _client(self, group: str) -> "Client":
        key = "" if self._knows_groups else group
        if key not in self._clients:
            if len(self._clients) >= MAX_PROCESSES:
                raise InputError(
                    f"{self.name}: more than {MAX_PROCESSES} groups need as many processes: put {{group}} into the "
                    "arguments of its tools, or ask fewer groups with option groups"
                )
            self._clients[key] = await self.start()
        return self._clients[key]


def _named(hit: Any, search: ToolUse, known: Mapping[str, str]) -> str | None:
    """Return the item that a hit is: by its id, else by its text."""
    if search.id and (named := known.get(str(at(hit, search.id)))):
        return named
    text = at(hit, search.text) if search.text else hit
    return known.get(_squeezed(text)) if isinstance(text, str) else None


def _squeezed(text: str) -> str:
    return " ".join(text.split())
