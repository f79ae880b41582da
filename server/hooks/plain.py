"""Stands in for pydantic and dataclasses in a prompt's hook command that no server answers: they took half of its time.

Here are the few names that such a command asks for; for all others it is done once more with the real ones
(`NotHere`). What comes from outside or from the bank (`model_validate`) is looked at as closely as it needs: by its
type. What the code makes is taken as it is.
"""

import json
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, Union, cast, get_args, get_origin

from swarm_memory.server.hooks.main import PROMPT_S

if TYPE_CHECKING:
    from swarm_memory.schema.settings import Settings

T = TypeVar("T")

AwareDatetime, JsonValue, SecretStr, ConfigDict = datetime, object, str, dict

__path__: list[str] = []
"""So that parts of either are looked for."""

_STOOD_FOR = ("pydantic", "pydantic_core", "dataclasses")

_NOTHING = object()
"""In the place of a default that there is not."""


_ANEW = """
import json, sys
from pathlib import Path
from swarm_memory.server.hooks.alone import answer_alone
print(json.dumps(answer_alone(json.load(sys.stdin), Path(sys.argv[1]))))
"""


def answer_plainly(event: Mapping[str, Any], root: Path, settings: "Settings") -> dict[str, Any]:
    """Return hook JSON for an event, by a process of its own where the real ones are needed. Raises `ConfigError`."""
    stand_in()
    from swarm_memory.server.hooks.alone import answer_alone

    try:
        return answer_alone(event, root, settings)
    except NotHere:
        import subprocess

        command = [sys.executable, "-I", "-c", _ANEW, str(root)]
        told = json.dumps(event).encode()
        # The host of the prompt is let go by then: no child may go on after it.
        done = subprocess.run(command, input=told, stdout=subprocess.PIPE, check=True, timeout=0.8 * PROMPT_S)  # noqa: S603
        return json.loads(done.stdout)


def stand_in() -> None:
    """Have modules that are imported from now on get this for both, unless they are loaded."""
    for name in _STOOD_FOR:
        sys.modules.setdefault(name, sys.modules[__name__])
    sys.meta_path.insert(0, cast("Any", _NoParts))


class NotHere(BaseException):
    """Something was asked for that only the real ones have; no `except` on the way may take it for a fault."""


def __getattr__(name: str) -> Any:
    if name.startswith("_"):
        raise AttributeError(name)
    raise NotHere(name)


class _NoParts:
    """Finds no module within either."""

    @staticmethod
    def find_spec(name: str, *_: object) -> None:
        if name.partition(".")[0] in _STOOD_FOR:
            raise NotHere(name)


class ValidationError(ValueError):
    """A value that a model cannot have."""

    def errors(self, **_: bool) -> list[dict[str, str]]:
        return [{"msg": str(self)}]


class _Made:
    """A default that each value gets anew."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self.make = make


def Field(default: Any = _NOTHING, *, default_factory: Callable[[], Any] | None = None, **_: Any) -> Any:  # noqa: N802 - pydantic's name
    """Return the default of a field; its limits hold for what is written."""
    return default if default_factory is None else _Made(default_factory)


def field_validator(*_: str) -> Callable[[T], T]:
    """Return a decorator that changes nothing: what is validated is a draft, and none is made here."""
    return lambda method: method


def AfterValidator(_: object) -> None:  # noqa: N802 - pydantic's name
    """Stand in an annotation."""


BeforeValidator = AfterValidator


class _Model(type):
    def __getattr__(cls, name: str) -> Any:
        if name.startswith("model_"):
            raise NotHere(name)
        raise AttributeError(name)


class BaseModel(metaclass=_Model):
    """A value by the names of its fields."""

    model_fields: dict[str, Any] = {}  # noqa: RUF012 - each class has its own
    """The default of each."""

    def __init_subclass__(cls) -> None:
        cls.model_fields = cls.model_fields | _fields(cls)

    def __init__(self, **values: Any) -> None:
        _fill(self, self.model_fields, values)

    @classmethod
    def model_construct(cls, **values: Any) -> Self:
        return cls(**values)

    @classmethod
    def model_validate(cls, values: Mapping[str, Any]) -> Self:
        return _checked(cls, values)

    def model_copy(self, *, update: Mapping[str, Any]) -> Self:
        copy: Any = type(self).__new__(type(self))
        copy.__dict__.update(self.__dict__, **update)
        return copy

    def model_dump(self, *, include: Collection[str] = (), exclude: Collection[str] = ()) -> dict[str, Any]:
        names = [name for name in self.model_fields if name not in exclude and (not include or name in include)]
        return {name: self.__dict__[name] for name in names}

    def __getattr__(self, name: str) -> Any:
        return getattr(type(self), name)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._values() == other._values()  # pyright: ignore

    def __hash__(self) -> int:
        return hash(self._values())

    def _values(self) -> tuple[Any, ...]:
        return tuple(self.__dict__[name] for name in self.model_fields)


def _fields(kind: type) -> dict[str, Any]:
    """Return the fields that a class declares itself, each with its default."""
    return {name: vars(kind).get(name, _NOTHING) for name in kind.__annotations__}


def _fill(value: object, fields: Mapping[str, Any], given: dict[str, Any]) -> None:
    """Give a value its fields. Raises `TypeError` where one is missing, or is none of them."""
    held = vars(value)
    for name, default in fields.items():
        kept = given.pop(name, default)
        held[name] = kept.make() if type(kept) is _Made else kept
        if kept is _NOTHING:
            raise TypeError(f"{type(value).__name__} lacks {name}")
    if given:
        raise TypeError(f"{type(value).__name__} has no {', '.join(given)}")


field = Field


def dataclass(kind: Any = None, /, **options: bool) -> Any:
    """Return a class with an `__init__` that takes its fields, whose values compare by them."""
    if not options.keys() <= {"frozen", "slots"}:
        raise NotHere(f"dataclass({', '.join(options)})")
    if kind is None:
        return dataclass
    fields = _fields(kind)

    def take(self: object, *values: Any, **named: Any) -> None:
        if len(values) > len(fields) or hasattr(self, "__post_init__"):
            raise NotHere(kind.__name__)
        _fill(self, fields, dict(zip(fields, values, strict=False)) | named)

    def equals(self: object, other: object) -> bool:
        return type(other) is type(self) and vars(other) == vars(self)

    def digest(self: object) -> int:
        return hash(tuple(vars(self).values()))

    kind.__init__, kind.__eq__, kind.__hash__ = take, equals, digest
    return kind


def replace(value: T, /, **changes: Any) -> T:
    """Return a copy of a value of a dataclass with other values of some fields."""
    copy = type(value).__new__(type(value))
    vars(copy).update(vars(value), **changes)
    return copy


class TypeAdapter:
    """A class that values are checked by."""

    def __init__(self, kind: Any) -> None:
        self.core_schema = kind

    def __getattr__(self, name: str) -> Any:
        raise NotHere(name)


class core_schema:  # noqa: N801 - pydantic_core's name
    """Mappings of some keys: each is wanted or not, and of a class or such a mapping itself."""

    @staticmethod
    def typed_dict_field(schema: Any, *, required: bool) -> tuple[Any, bool]:
        return schema, required

    @staticmethod
    def typed_dict_schema(fields: dict[str, tuple[Any, bool]]) -> dict[str, tuple[Any, bool]]:
        return fields


class SchemaValidator:
    """Reads such a mapping from JSON."""

    def __init__(self, schema: dict[str, tuple[Any, bool]]) -> None:
        self._fields = schema

    def validate_json(self, text: str) -> dict[str, Any]:
        return _mapping(self._fields, json.loads(text))


def _mapping(fields: Mapping[str, tuple[Any, bool]], values: Any) -> dict[str, Any]:
    """Return what is known of a mapping. Raises `ValidationError`."""
    if not isinstance(values, dict) or any(each not in values for each, (_, wanted) in fields.items() if wanted):
        raise ValidationError("it is no mapping, or lacks something")
    held = {name: (fields[name][0], value) for name, value in cast("dict[str, Any]", values).items() if name in fields}
    return {
        name: _mapping(cast("dict[str, tuple[Any, bool]]", kind), value) if isinstance(kind, dict) else _of(kind, value)
        for name, (kind, value) in held.items()
    }


def _checked(kind: type[T], values: Mapping[str, Any]) -> T:
    """Return a value of a class with fields; what the class does not know is left out. Raises `ValidationError`."""
    if not isinstance(values, dict):
        raise ValidationError(f"{kind.__name__} is no mapping")
    hints = {name: hint for each in kind.__mro__ for name, hint in getattr(each, "__annotations__", {}).items()}
    try:
        return kind(**{name: _of(hints[name], value) for name, value in values.items() if name in hints})
    except TypeError as error:
        raise ValidationError(str(error)) from error


def _of(hint: Any, value: Any) -> Any:
    """Return a value of JSON, or of a row, as an annotation wants it. Raises `ValidationError`."""
    for kind in get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,):
        origin, parts = get_origin(kind), get_args(kind)
        if origin is Literal:
            if value in parts:
                return value
        elif origin is tuple:
            if isinstance(value, list | tuple):
                return tuple(_of(parts[0], each) for each in cast("Sequence[Any]", value))
        elif isinstance(value, float | int if kind is float else origin or kind):
            return value
        elif kind is datetime and isinstance(value, str):
            return datetime.fromisoformat(value)
        elif isinstance(kind, type) and issubclass(kind, BaseModel) and isinstance(value, Mapping):
            return _checked(kind, cast("Mapping[str, Any]", value))
    raise ValidationError(f"{value!r:.40} is not {hint}")
