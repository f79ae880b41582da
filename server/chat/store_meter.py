"""A meter that keeps what was spent in the bank, for every process that uses it; it knows no endpoint and no SQL."""

from datetime import UTC

from swarm_memory.schema.base import Scope
from swarm_memory.server.chat.metering import ChatCall
from swarm_memory.tools.ports.journal import ChatRecord, Journal
from swarm_memory.tools.ports.store import Clock


class StoreMeter:
    """Writes calls to a store and asks it for the day's sum, which holds what other processes wrote too."""

    def __init__(self, store: Journal, scope: Scope, clock: Clock) -> None:
        self._store = store
        self._scope = scope
        self._clock = clock

    async def used_today(self) -> int:
        """Return the tokens since 00:00 UTC in the whole database. Raises `StorageError`."""
        midnight = self._clock.now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        return (await self._store.chat_spending(midnight)).tokens

    def record(self, call: ChatCall) -> None:
        """Queue the call."""
        at = self._clock.now()
        self._store.record_chat(
            ChatRecord(self._scope, call.purpose, call.model, call.outcome, call.usage, call.latency_ms, at)
        )
