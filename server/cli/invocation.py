"""What every command is given: the project and the settings, opened when they are asked for."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias, TypeVar

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from swarm_memory.schema.settings import Settings
    from swarm_memory.server.config import ResolvedSettings
    from swarm_memory.server.location import Location
    from swarm_memory.server.storage.care.care import SqliteCare
    from swarm_memory.tools.toolbox import Toolbox

T = TypeVar("T")

OpenBank: TypeAlias = "Callable[[], Awaitable[Toolbox]]"
"""Opens the bank at its first call, and makes it where there is none."""


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
        return self._bank()[0]

    def _bank(self) -> "tuple[Location, Settings]":
        from swarm_memory.server.wiring import place_of

        settings = self.settings().settings
        return place_of(self.folder, settings), settings

    def settings(self) -> "ResolvedSettings":
        """Return the settings in force, with the rules of the guard that they leave out switched off in this process.

        Raises `ConfigError`.
        """
        from swarm_memory.server.config import resolve_settings
        from swarm_memory.tools.guard.rules import switch_off

        resolved = resolve_settings(self.root, self.overrides)
        switch_off(resolved.settings.guard.disabled_rules)
        return resolved

    async def open_toolbox(self) -> "Toolbox":
        """Open the bank. Raises `ConfigError`, `StorageError`."""
        from swarm_memory.server.wiring import open_toolbox

        return await open_toolbox(*self._bank())

    def empty_toolbox(self) -> "AbstractAsyncContextManager[Toolbox]":
        """Hold an empty bank for what reads where there is none. Raises `ConfigError`, `StorageError`."""
        from swarm_memory.server.wiring import empty_toolbox

        return empty_toolbox(*self._bank())

    def care(self) -> "SqliteCare":
        """Return who looks after the bank's file. Raises `ConfigError`."""
        from swarm_memory.server.wiring import make_care

        return make_care(*self._bank())

    def read(self, operation: "Callable[[Toolbox], Awaitable[T]]") -> T:
        """Run an operation that only reads; where there is no bank, on an empty one that is thrown away."""
        import anyio

        if self._bank()[0].has_bank:
            return self.run(operation)

        async def held() -> T:
            async with self.empty_toolbox() as toolbox:
                return await operation(toolbox)

        return anyio.run(held)

    def run(self, operation: "Callable[[Toolbox], Awaitable[T]]") -> T:
        """Run an operation on the opened bank and return its result."""

        async def on_bank(open_bank: "OpenBank") -> T:
            return await operation(await open_bank())

        return self.run_with(on_bank)

    def run_with(self, operation: "Callable[[OpenBank], Awaitable[T]]") -> T:
        """As `run`, for an operation that opens the bank itself, and so makes one only when it has what to keep."""
        import anyio

        from swarm_memory.server.wiring import opened_toolbox

        async def held() -> T:
            async with AsyncExitStack() as stack:
                opened: list[Toolbox] = []

                async def open_bank() -> "Toolbox":
                    if not opened:
                        opened.append(await stack.enter_async_context(opened_toolbox(*self._bank())))
                    return opened[0]

                return await operation(open_bank)

        return anyio.run(held)
