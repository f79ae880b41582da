"""What a benchmark suite is, what it is given to work with, and how its options are checked."""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeAlias, TypeVar

from pydantic import BaseModel, Field, JsonValue, TypeAdapter, ValidationError

from swarm_memory.schema.base import Model
from swarm_memory.schema.benchmark import SuiteResults
from swarm_memory.schema.errors import InputError
from swarm_memory.schema.job import Report
from swarm_memory.tools.ports.models import Embedder
from swarm_memory.tools.text.cleaning import faults
from swarm_memory.tools.toolbox import Toolbox

if TYPE_CHECKING:
    from swarm_memory.server.storage.store import Store

T = TypeVar("T")
AnyModel = TypeVar("AnyModel", bound=BaseModel)


OpenStore: TypeAlias = "Callable[[Embedder], AbstractAsyncContextManager[Store]]"
"""Opens an empty store of the real kind in a file of its own, which is gone after the block."""


@dataclass(frozen=True, slots=True)
class SuiteContext:
    """What a suite works with. It is cancelled as a task is, so it need not check for that."""

    toolbox: Toolbox
    """Ports and settings. Its store is the user's own bank: a suite writes only to stores that it opens."""
    root: Path
    """The project's folder, which relative paths in options start from."""
    folder: Path
    """A folder that is removed after the run."""
    open_store: OpenStore
    report: Report
    """Reports how far the suite has come."""
    keep: Callable[[SuiteResults], None]
    """Takes what has been measured so far, which is what remains of a run that is interrupted."""

    def named(self, path: str) -> Path:
        """Return the file or folder that an option names."""
        return self.root / Path(path).expanduser()


class SuiteOptions(Model):
    """The options that every suite takes."""

    seed: int = Field(default=7, description="Seed for everything that is random")


Options = TypeVar("Options", bound=SuiteOptions)


@dataclass(frozen=True, slots=True)
class Suite(Generic[Options]):
    """A benchmark: its name, what it shows and costs, its options as a model, and the function that runs it."""

    name: str
    summary: str
    cost: str
    """What a run takes by default, and how to make that less."""
    options: type[Options]
    measure: Callable[[SuiteContext, Options], Awaitable[SuiteResults]]

    def checked(self, given: Mapping[str, JsonValue]) -> Options:
        """Return the options, checked. Raises `InputError` that names the one to change."""
        try:
            return checked_options(self.options, given, "")
        except InputError as error:
            known = ", ".join(self.options.model_fields)
            raise InputError(f"suite {self.name}, {error}; the options are {known}") from error


def checked_options(form: type[AnyModel], given: Mapping[str, object], option: str) -> AnyModel:
    """Return options, or the parts of one option, checked. Raises `InputError` that names the one to change."""
    try:
        return form.model_validate(given)
    except ValidationError as error:
        raise InputError(faults(error, f"option {option}")) from error


def checked(form: TypeAdapter[T], value: object, where: str) -> T:
    """Return a value of a file, checked by its form. Raises `InputError` that names `where`, then the path inside."""
    try:
        return form.validate_python(value)
    except ValidationError as error:
        first = error.errors(include_input=False, include_url=False)[0]
        inside = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in first["loc"])
        raise InputError(f"{where}{inside}: {first['msg']}") from error


def comma_list(value: object) -> object:
    """Read `a,b` or one number, as people type them, as a list; leave all else as it is."""
    if isinstance(value, str):
        return [part.strip() for part in value.split(",") if part.strip()]
    return [value] if isinstance(value, int) else value
