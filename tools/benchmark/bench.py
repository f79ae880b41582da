"""The seam of all benchmarks: what a suite is, and what it is given to work with. It knows no suite."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Protocol, TypeAlias, TypeVar

from pydantic import Field, JsonValue, ValidationError

from swarm_memory.schema.base import Model
from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Progress
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.ports.store import Store
from swarm_memory.tools.toolbox import Toolbox

Report: TypeAlias = Callable[[Progress], Awaitable[None]]


class OpenStore(Protocol):
    """Opens an empty store of the real kind in a file of its own, which is gone after the block."""

    def __call__(self, embedder: Embedder) -> AbstractAsyncContextManager[Store]: ...


@dataclass(frozen=True, slots=True)
class Bench:
    """What a suite works with. Cancellation is that of the task: nothing needs to be asked."""

    toolbox: Toolbox
    """Ports and settings. Its store is the user's own bank: a suite writes only to stores that it opens."""
    root: Path
    """The project's folder, from which relative paths in options are meant."""
    folder: Path
    """A folder that is removed after the run."""
    cache: Path
    """A folder that stays, for what costs much to make again; it may not be there yet."""
    open_store: OpenStore
    report: Report
    """Tells how far the suite is."""
    keep: Callable[[SuiteResults], None]
    """Takes what has been measured so far: it is what is left of a run that is interrupted."""


class SuiteOptions(Model):
    """What every suite takes."""

    seed: int = Field(default=7, description="Seed of all that is drawn")


Options = TypeVar("Options", bound=SuiteOptions)


@dataclass(frozen=True, slots=True)
class Suite(Generic[Options]):
    """A benchmark: its name, its options as a model, and the function that runs it."""

    name: str
    summary: str
    options: type[Options]
    measure: Callable[[Bench, Options], Awaitable[SuiteResults]]

    def checked(self, given: Mapping[str, JsonValue]) -> Options:
        """Return the options, checked. Raises `InputError` that names the one to change."""
        try:
            return self.options.model_validate(given)
        except ValidationError as error:
            first = error.errors(include_input=False)[0]
            where = ".".join(map(str, first["loc"])) or "options"
            known = ", ".join(self.options.model_fields)
            raise InputError(f"suite {self.name}, option {where}: {first['msg']}; the options are {known}") from error
