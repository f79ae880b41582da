"""The bank as the running server holds it: opened at first use, with its worker; it knows no protocol."""

import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import anyio
import anyio.lowlevel

from swarm_memory.schema.base import CONNECTION, new_id
from swarm_memory.schema.errors import ConfigError, SwarmMemoryError
from swarm_memory.server.access.roles import calling
from swarm_memory.server.hosts.host import transcript_folders
from swarm_memory.server.location import locate
from swarm_memory.server.switch import off_by

if TYPE_CHECKING:
    from swarm_memory.server.jobs.worker import Worker
    from swarm_memory.server.location import Location
    from swarm_memory.server.storage.stores.team.people import People
    from swarm_memory.tools.ports.records import HostSession
    from swarm_memory.tools.toolbox import Toolbox

OpenToolbox: TypeAlias = "Callable[[], Awaitable[Toolbox]]"
Listen: TypeAlias = "Callable[[ServedBank], Coroutine[Any, Any, None]]"

FIRST_LOOK_S = 1.0
"""Seconds before background work opens the bank: the client's first requests go first, and open it if they need it."""

GIVE_WAY_S, QUIET_S = 0.2, 0.03
"""Each piece of background work waits for `QUIET_S` in which nobody is served, but at most for `GIVE_WAY_S`."""

log = logging.getLogger(__name__)


class ServedBank:
    """A toolbox that is opened at first use. Where that fails, each use reports why, and the next one tries again."""

    def __init__(
        self,
        open_toolbox: OpenToolbox,
        make_worker: "Callable[[Toolbox], Worker] | None" = None,
        root: Path | None = None,
        place: "Callable[[], Location] | None" = None,
        hold_empty: "Callable[[], AbstractAsyncContextManager[Toolbox]] | None" = None,
    ) -> None:
        """`place` returns where the bank is: while there is no bank, the worker waits for the first use.

        `hold_empty` opens an empty bank for calls that only read, until there is a real one.
        """
        self._hold_empty = hold_empty
        self._held = AsyncExitStack()
        self._empty: Toolbox | None = None
        self._open = open_toolbox
        self._root = root
        self._place = place
        self._make_worker = make_worker
        self._toolbox: Toolbox | None = None
        self._worker: Worker | None = None
        self._opening = anyio.Lock()
        self._served = 0
        self._all_served = anyio.Event()
        self._quiet_from = 0.0
        self._session_id: str | None = None
        self.speakers: tuple[str, ...] = (new_id(CONNECTION),)
        self._is_wanted = anyio.Event()

    async def toolbox(self) -> "Toolbox":
        """Return the toolbox, for a call or an event that is served.

        Raises the error with which opening it failed; `ConfigError` where swarm-memory is switched off.
        """
        if self._worker is not None:
            self._worker.note_use()
        return self._unless_off(await self._opened())

    async def for_reading(self) -> "Toolbox":
        """Like `toolbox`, for a call that only reads: it creates no bank, and gets an empty one until there is one."""
        if self._hold_empty is None or self.is_made:
            return await self.toolbox()
        async with self._opening:
            if self._empty is None:
                with anyio.CancelScope(shield=True):
                    self._empty = (await self._held.enter_async_context(self._hold_empty())).for_agents()
        assert self._empty is not None
        return self._unless_off(self._empty)

    async def people(self) -> "tuple[People, str] | None":
        """Return the people and their tenant; None where there is no bank yet, and so no people.

        Raises the error with which opening the bank failed.
        """
        if not self.is_made:
            return None
        toolbox = await self._opened()
        return toolbox.store.people, toolbox.scope.tenant_id

    def _unless_off(self, toolbox: "Toolbox") -> "Toolbox":
        """Return the toolbox for the current caller. Raises `ConfigError` where swarm-memory is switched off."""
        if by := off_by(self.root, toolbox.settings.enabled):
            raise ConfigError(
                f"swarm-memory is switched off in this project, by {by}; `swarm-memory pause --end` ends a pause"
            )
        return toolbox.by(calling().person)

    async def _opened(self) -> "Toolbox":
        """Return the bank, and finish opening it even if the caller is cancelled: what was opened must get closed."""
        async with self._opening:
            if self._toolbox is None:
                with anyio.CancelScope(shield=True):
                    self._toolbox = replace((await self._open()).for_agents(), wake=self.wake_worker)
                    self._is_wanted.set()
        assert self._toolbox is not None
        return self._toolbox

    @property
    def transcript_folders(self) -> tuple[Path, ...]:
        """The folders below which a caller may name a transcript: the hosts' own, and the project."""
        return tuple(map(Path, transcript_folders(self.root)))

    @property
    def is_made(self) -> bool:
        """Whether there is a bank; assumed where this server was not told its place. Raises `ConfigError`."""
        return self._toolbox is not None or self._place is None or self._place().has_bank

    @property
    def place(self) -> "Location":
        """Where the bank is: the place that this server was told, else the project's default. Raises `ConfigError`."""
        return locate(self._root) if self._place is None else self._place()

    @property
    def root(self) -> Path:
        """The project's folder."""
        return self._root or locate().root

    def note_session(self, session_id: str) -> None:
        """Remember the session of the host that is our client over stdio, as its hooks name it."""
        self._session_id, self.speakers = session_id, (session_id, self.speakers[-1])

    async def session(self) -> "HostSession | None":
        """Return that session as hooks recorded it, or None where they did not. Raises `StorageError`."""
        if self._session_id is None:
            return None
        toolbox = await self.for_reading()
        return await toolbox.store.get_session(toolbox.scope, self._session_id)

    @property
    def max_output_tokens(self) -> int | None:
        """The most tokens that the settings allow a tool's answer; None before the bank was opened."""
        return None if self._toolbox is None else self._toolbox.settings.output.max_tokens

    @contextmanager
    def serving(self, callers: int = 1) -> Generator[None]:
        """Count a caller who waits for the block; -1 discounts one who waits for the worker meanwhile."""
        self._count(callers)
        try:
            yield
        finally:
            self._count(-callers)
            if not self._served:
                self._quiet_from = anyio.current_time() + QUIET_S

    def _count(self, callers: int) -> None:
        self._served += callers
        if not self._served:
            self._all_served.set()
            self._all_served = anyio.Event()

    async def give_way(self) -> None:
        """Wait until nobody is being served, for at most `GIVE_WAY_S`: background work goes on under any load."""
        await anyio.lowlevel.checkpoint()
        with anyio.move_on_after(GIVE_WAY_S):
            while self._served or anyio.current_time() < self._quiet_from:
                await (self._all_served.wait() if self._served else anyio.sleep_until(self._quiet_from))

    def wake_worker(self) -> None:
        """Tell the worker that a job was queued, perhaps by another process that created the bank."""
        self._is_wanted.set()
        if self._worker is not None:
            self._worker.wake()

    async def work(self) -> None:
        """Run queued jobs until cancelled."""
        if self._make_worker is None:
            return
        await anyio.sleep(FIRST_LOOK_S)
        try:
            toolbox = await self._opened_for_work()
            self._worker = self._make_worker(replace(toolbox, give_way=self.give_way, wake=None))
            await self._worker.run(is_served=True)
        except Exception:  # the worker's main: its failure must not end the server
            log.exception("this server runs no more jobs")

    async def _opened_for_work(self) -> "Toolbox":
        """Return the bank without creating one. While it is missing or fails to open, wait for a use or a hook."""
        while True:
            try:
                if self.is_made:
                    return await self._opened()
            except SwarmMemoryError as error:
                log.warning("the bank is not open: %s", error)
            await self._is_wanted.wait()
            self._is_wanted = anyio.Event()

    async def close(self) -> None:
        """Write what is queued and close the database."""
        async with self._held:
            if self._toolbox is not None:
                await self._toolbox.close()


@asynccontextmanager
async def running(
    bank: ServedBank, on_closed: Callable[[], None] | None = None, listen: "Listen | None" = None
) -> AsyncGenerator[ServedBank]:
    """Run the bank's worker and the listener for hooks during the block, then close the bank.

    `on_closed` is called when everything is written.
    """
    try:
        async with anyio.create_task_group() as group:
            group.start_soon(bank.work)
            if listen is not None:
                group.start_soon(listen, bank)
            try:
                yield bank
            finally:
                group.cancel_scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await bank.close()
        if on_closed is not None:
            on_closed()
