"""What a hook command does by itself when no server answers: the same work on the same bank, in its own process."""

import asyncio
import logging
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.server.config import resolve_settings
from swarm_memory.server.hooks.events import HookAnswer, answer_hook
from swarm_memory.server.location import Location, log_line
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.wiring import open_toolbox, place_of, without_server
from swarm_memory.tools.guard.rules import switch_off
from swarm_memory.tools.toolbox import Toolbox


def answer_alone(event: Mapping[str, Any], root: Path) -> HookAnswer:
    """Return hook JSON for an event; a prompt makes the bank where there is none. Raises `ConfigError`."""
    settings = without_server(resolve_settings(root).settings)  # a person waits: the network is not asked
    if not settings.enabled:
        return {}
    switch_off(settings.guard.disabled_rules)
    place = place_of(None, settings)
    logging.getLogger("swarm_memory").addHandler(_BesideBank(place))
    opened: list[Toolbox] = []

    async def open_once() -> Toolbox:
        opened.append(await open_toolbox(place, settings, in_haste=True))
        return opened[0].for_agents()

    async def answer() -> HookAnswer:
        try:
            return await answer_hook(open_once, event, "hook", place)
        finally:
            for toolbox in opened:
                await toolbox.store.close()

    return asyncio.run(answer())


class _BesideBank(logging.Handler):
    """Keeps warnings in the log beside the bank, where that is this user's."""

    def __init__(self, place: Location) -> None:
        super().__init__(logging.WARNING)
        self._place = place

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, SwarmMemoryError):  # what went wrong is noted as missed too
            if registry.knows(self._place.database):
                log_line(self._place.folder, self.format(record))
