"""What a hook command does by itself when no server answers: the same work on the same bank, in its own process."""

import logging
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.server.hooks.events import HookAnswer, answer_hook
from swarm_memory.server.location import Location, log_line
from swarm_memory.server.storage.engine import registry
from swarm_memory.server.wiring import is_at_hand, open_at_once, open_toolbox, place_of, without_server
from swarm_memory.tools.guard.rules import switch_off
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.schema.settings import Settings

T = TypeVar("T")


def answer_alone(event: Mapping[str, Any], root: Path, settings: "Settings | None" = None) -> HookAnswer:
    """Return hook JSON for an event; the bank is made where there is none. Raises `ConfigError`.

    `settings`: those in force, where they are known without reading.
    """
    is_prompt = event.get("hook_event_name") == "UserPromptSubmit"
    settings = settings or _settings(root)
    switch_off(settings.guard.disabled_rules)
    place = place_of(None, settings)
    logging.getLogger("swarm_memory").addHandler(_BesideBank(place))
    quick = is_prompt and is_at_hand(settings)
    opened: list[Toolbox] = []

    async def open_once() -> Toolbox:
        opened.append(open_at_once(place, settings) if quick else await open_toolbox(place, settings, in_haste=True))
        return opened[0].for_agents()

    async def answer() -> HookAnswer:
        try:
            return await answer_hook(open_once, event, "hook", root)
        finally:
            for toolbox in opened:
                await toolbox.store.close()

    if quick:
        return at_once(answer())
    import asyncio

    return asyncio.run(answer())


def _settings(root: Path) -> "Settings":
    from swarm_memory.server.config import resolve_settings

    return without_server(resolve_settings(root).settings)  # a person waits: the network is not asked


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """Run what waits for nothing: an event loop would take longer to load than the work does.

    Raises `RuntimeError` where something waited.
    """
    try:
        work.send(None)
    except StopIteration as end:
        return end.value
    work.close()
    raise RuntimeError("a hook's work waited for an event loop, and there is none")


class _BesideBank(logging.Handler):
    """Keeps warnings in the log beside the bank, where that is this user's."""

    def __init__(self, place: Location) -> None:
        super().__init__(logging.WARNING)
        self._place = place

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError, SwarmMemoryError):  # what went wrong is noted as missed too
            if registry.knows(self._place.database):
                log_line(self._place.folder, self.format(record))
