"""What every command is given: the project and the settings, opened when they are asked for."""

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from pydantic import JsonValue

    from swarm_memory.schema.job import Progress
    from swarm_memory.schema.settings import Settings
    from swarm_memory.server.cli.console import Moved
    from swarm_memory.server.config import ResolvedSettings
    from swarm_memory.server.location import Location
    from swarm_memory.server.storage.care.care import SqliteCare
    from swarm_memory.tools.toolbox import Toolbox

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call of the command line."""

    folder: Path | None
    """The project's folder as it was given."""
    overrides: Mapping[str, str]
    """Settings of the command line, by key."""

    @property
    def root(self) -> Path:
        """The project's root, which needs no settings to be known."""
        from swarm_memory.server.location import locate

        return locate(self.folder).root

    @property
    def place(self) -> "Location":
        """Where the bank is. Raises `ConfigError`."""
        return self.bank()[0]

    def bank(self) -> "tuple[Location, Settings]":
        """Return where the bank is and the settings it is opened with. Raises `ConfigError`."""
        from swarm_memory.server.wiring import place_of

        settings = self.settings().settings
        return place_of(self.folder, settings), settings

    def settings(self) -> "ResolvedSettings":
        """Return the settings in force. Raises `ConfigError`."""
        from swarm_memory.server.config import resolve_settings

        return resolve_settings(self.root, self.overrides)

    def care(self) -> "SqliteCare":
        """Return who looks after the bank's file. Raises `ConfigError`."""
        from swarm_memory.server.wiring import make_care

        return make_care(*self.bank())

    @asynccontextmanager
    async def site(self) -> "AsyncGenerator[CommandSite]":
        """Hold what an operation is called with; what it opened is closed at the end."""
        async with AsyncExitStack() as stack:
            yield CommandSite(self, stack)

    def read(self, operation: "Callable[[Toolbox], Awaitable[T]]") -> T:
        """Run an operation that only reads; where there is no bank, on an empty one that is thrown away."""

        async def on_bank(site: CommandSite) -> T:
            return await operation(await site.for_reading())

        return self.call(on_bank)

    def run(self, operation: "Callable[[Toolbox], Awaitable[T]]") -> T:
        """Run an operation on the opened bank and return its result."""

        async def on_bank(site: CommandSite) -> T:
            return await operation(await site.toolbox())

        return self.call(on_bank)

    def call(self, operation: "Callable[[CommandSite], Awaitable[T]]") -> T:
        """Run an operation that opens the bank itself, and so makes one only when it has what to keep."""
        import anyio

        async def held() -> T:
            async with self.site() as site:
                return await operation(site)

        return anyio.run(held)


@dataclass(slots=True)
class CommandSite:
    """Where the user calls an operation: the command line, which does long work itself."""

    invocation: Invocation
    stack: AsyncExitStack
    is_users: bool = True
    _opened: "Toolbox | None" = None
    _empty: "Toolbox | None" = None
    _moved: "Moved | None" = None

    async def toolbox(self) -> "Toolbox":
        """Open the bank at the first call, and make it where there is none. Raises `ConfigError`, `StorageError`."""
        from swarm_memory.server.wiring import opened_toolbox

        if self._opened is None:
            self._opened = await self.stack.enter_async_context(opened_toolbox(*self.invocation.bank()))
        return self._opened

    async def for_reading(self) -> "Toolbox":
        """Return the bank, or an empty one that is thrown away. Raises `ConfigError`, `StorageError`."""
        from swarm_memory.server.wiring import empty_toolbox

        if self._opened is not None or self.invocation.place.has_bank:
            return await self.toolbox()
        if self._empty is None:
            self._empty = await self.stack.enter_async_context(empty_toolbox(*self.invocation.bank()))
        return self._empty

    async def session(self) -> None:
        """Return None: nobody's hooks say in which session a person works."""

    @property
    def root(self) -> Path:
        """The project's root."""
        return self.invocation.root

    @property
    def folders(self) -> None:
        """None: the user may name any file."""

    @property
    def unmade_bank(self) -> Path | None:
        """The file of a bank that is not made yet. Raises `ConfigError`."""
        place = self.invocation.place
        return None if place.has_bank else place.database

    async def report(self, progress: "Progress") -> None:
        """Show how far the work is, where a person looks."""
        self._show(progress)

    def _show(self, progress: "Progress") -> None:
        if self._moved is None:
            from swarm_memory.server.cli.console import progress as shown

            self._moved = self.stack.enter_context(shown("working"))
        self._moved(progress.done, progress.total, progress.message)

    def wake(self) -> None:
        """Do nothing: what was queued waits for `jobs work`, or for a server."""

    def waiting(self) -> "AbstractContextManager[None]":
        """Mark nothing: no worker runs here."""
        return nullcontext()

    async def work(self, kind: str, payload: "Mapping[str, JsonValue]", key: str | None = None) -> dict[str, Any]:
        """Do what a worker would do with such a job, and return its result. Raises `SwarmMemoryError`.

        The `key` of what can be gone on with is shown first.
        """
        from swarm_memory.schema.job import Job
        from swarm_memory.server.jobs.handlers import long_handlers
        from swarm_memory.server.jobs.worker import Reported

        if key is not None:
            click.echo(f"{kind} {key}", err=True)
        toolbox = await self.toolbox()
        now = toolbox.clock.now()
        given = {"kind": kind, "key": kind, "payload": dict(payload), "run_after": now, "created_at": now}
        job = Job.model_validate({"id": kind, "scope": toolbox.scope, **given})
        return dict(await long_handlers(self.invocation.root)[kind](toolbox, job, Reported(self._show)))
