"""What every command is given: the project, the settings, and the bank, which is opened when it is needed."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import click

from swarm_memory.schema.errors import ConfigError, SwarmMemoryError
from swarm_memory.server.cli.console import say_notices
from swarm_memory.server.operations.operation import Row, Site

if TYPE_CHECKING:
    from pydantic import JsonValue

    from swarm_memory.schema.job import Progress
    from swarm_memory.schema.settings import Settings
    from swarm_memory.server.config import ResolvedSettings
    from swarm_memory.server.location import Location
    from swarm_memory.server.storage.care.care import SqliteCare
    from swarm_memory.tools.toolbox import Toolbox

T = TypeVar("T")


class Invocation(Site):
    """One call of the command line. As the `Site` of the user's operations it does long work itself."""

    is_users = True

    def __init__(self, folder: Path | None, overrides: Mapping[str, str]) -> None:
        """`folder` is the project's, if the user named it; `overrides` are settings of the command line, by key."""
        self.folder = folder
        self.overrides = overrides
        self.has_said_notices = False  # also where the command's own answer says what is wrong with the settings
        self._stack = AsyncExitStack()
        self._opened: Toolbox | None = None
        self._empty: Toolbox | None = None
        self._moved: Callable[[Progress], None] | None = None
        self._before = ""  # the state of the memories as the bank was opened, where they are mirrored in files

    def settings(self) -> "ResolvedSettings":
        """Return the effective settings. Raises `ConfigError`."""
        from swarm_memory.server.config import resolve_settings

        resolved = resolve_settings(self.root, self.overrides)
        if resolved.left_out and not self.has_said_notices:
            say_notices(resolved.left_out, err=True)
        self.has_said_notices = True
        return resolved

    def bank(self) -> "tuple[Location, Settings]":
        """Return where the bank is and the settings it is opened with. Raises `ConfigError`."""
        from swarm_memory.server.wiring import place_of

        settings = self.settings().settings
        return place_of(self.folder, settings), settings

    @property
    def place(self) -> "Location":
        """Where the bank is. Raises `ConfigError`."""
        return self.bank()[0]

    def care(self) -> "SqliteCare":
        """Return the maintenance object for the bank's file. Raises `ConfigError`."""
        from swarm_memory.server.wiring import make_care

        return make_care(*self.bank())

    def call(self, operation: "Callable[[Invocation], Awaitable[T]]") -> T:
        """Run an operation that opens the bank itself, and close what it opened."""
        import anyio

        async def held() -> T:
            async with AsyncExitStack() as self._stack:
                self._opened, self._empty, self._moved, self._before = None, None, None, ""
                result = await operation(self)
                if self._opened:
                    await self._mirror(self._opened)
                return result

        return anyio.run(held)

    def run(self, operation: "Callable[[Toolbox], Awaitable[T]]", *, reads: bool = False) -> T:
        """Run an operation on the opened bank; with `reads`, on an empty one where there is no bank."""

        async def on_bank(_: Invocation) -> T:
            return await operation(await (self.for_reading() if reads else self.toolbox()))

        return self.call(on_bank)

    @property
    def root(self) -> Path:
        from swarm_memory.server.location import locate

        return locate(self.folder).root

    @property
    def unmade_bank(self) -> Path | None:
        place = self.place
        return None if place.has_bank else place.database

    async def toolbox(self) -> "Toolbox":
        from swarm_memory.server.mirror.mirror import mirror_folder
        from swarm_memory.server.wiring import opened_toolbox

        if self._opened is None:
            self._opened = await self._stack.enter_async_context(opened_toolbox(*self.bank()))
            try:
                if mirror_folder(self._opened):
                    self._before = await self._opened.store.state_of_memories(self._opened.scope)
            except ConfigError as error:  # this must not hold up the command
                say_notices([f"no files are mirrored: {error}"], err=True)
        return self._opened

    async def for_reading(self) -> "Toolbox":
        from swarm_memory.server.wiring import empty_toolbox

        if self._opened is not None or self.place.has_bank:
            return await self.toolbox()
        if self._empty is None:
            self._empty = await self._stack.enter_async_context(empty_toolbox(*self.bank()))
        return self._empty

    async def _mirror(self, opened: "Toolbox") -> None:
        """Write the mirrored files if the command changed memories: there may be no server that does."""
        from swarm_memory.server.mirror.mirror import MIRROR

        try:
            if self._before and await opened.store.state_of_memories(opened.scope) != self._before:
                await self.work(MIRROR, {})
        except SwarmMemoryError as error:  # the command itself is done
            say_notices([f"no files are mirrored: {error}"], err=True)

    async def report(self, progress: "Progress") -> None:
        """Show how far the work is, if a person can see it."""
        self._show(progress)

    def _show(self, progress: "Progress") -> None:
        if self._moved is None:
            from swarm_memory.server.cli.console import progress as shown

            self._moved = self._stack.enter_context(shown("working"))
        self._moved(progress)

    async def work(self, kind: str, payload: "Mapping[str, JsonValue]", key: str | None = None) -> Row:
        """Do what a worker would do with such a job. If it can be resumed, the `key` for that is printed first."""
        from swarm_memory.schema.job import Job
        from swarm_memory.server.jobs.handlers import long_handlers
        from swarm_memory.server.jobs.worker import ProgressReporter

        if key is not None:
            click.echo(f"{kind} {key}", err=True)
        toolbox = await self.toolbox()
        now = toolbox.clock.now()
        given = {"kind": kind, "key": kind, "payload": dict(payload), "run_after": now, "created_at": now}
        job = Job.model_validate({"id": kind, "scope": toolbox.scope, **given})
        return dict(await long_handlers(self.root)[kind](toolbox, job, ProgressReporter(self._show)))
