"""Reads a file or stream as JSON records within bounded memory; their values are accessed by type."""

import io
import itertools
import json
import math
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import IO, Any, NoReturn, TypeAlias, cast

from pydantic import JsonValue

from swarm_memory.schema.errors import InputError

JsonObject: TypeAlias = dict[str, object]

_MAX_DEPTH = 12
_MAX_ITEMS = 500
_FIRST_YEAR, _LAST_YEAR = 1970, 2200  # some programs write the year 1 for no time at all


class JsonDict(dict[str, object]):
    """A JSON object whose values are read by their expected type: a value of another type counts as missing."""

    def text(self, *keys: str) -> str:
        """Return the first of these values that is a non-empty string, else an empty string."""
        return next(filter(None, (as_text(self.get(key)) for key in keys)), "")

    def object(self, key: str) -> "JsonDict":
        """Return an object, else an empty one."""
        return as_object(self.get(key))

    def array(self, key: str) -> list[Any]:
        """Return an array, else an empty one."""
        return as_list(self.get(key))

    def objects(self, key: str) -> "list[JsonDict]":
        """Return the elements of an array, each as an object."""
        return list(map(as_object, as_list(self.get(key))))

    def flag(self, *keys: str) -> bool | None:
        """Return the first of these values that is true or false, else None."""
        return next((value for key in keys if isinstance(value := self.get(key), bool)), None)

    def count(self, *keys: str) -> int:
        """Return the first of these values that is a non-negative integer and fits in 63 bits, else 0."""
        return next((number for key in keys if (number := self._number(key)) is not None and 0 <= number < 2**63), 0)

    def code(self, key: str) -> int | None:
        """Return the value if it can be an exit code, else None."""
        number = self._number(key)
        return number if number is not None and abs(number) < 10**10 else None

    def time(self, key: str) -> datetime | None:
        """Return an ISO 8601 time as an aware one in UTC (a naive one is taken as UTC), else None."""
        try:
            time = datetime.fromisoformat(self.text(key))
            time = time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)
            return time if _FIRST_YEAR <= time.year <= _LAST_YEAR else None
        except (ValueError, OverflowError):
            return None

    def millis(self, key: str) -> datetime | None:
        """Return milliseconds since 1970 as a time, else None."""
        return datetime.fromtimestamp(self.count(key) / 1000, UTC) if 0 < self.count(key) < 1 << 47 else None

    def _number(self, key: str) -> int | None:
        value = self.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None


def as_object(value: object) -> JsonDict:
    """Return `value` where it is an object, else an empty one."""
    return (
        value if isinstance(value, JsonDict) else JsonDict(cast("JsonObject", value) if isinstance(value, dict) else {})
    )


def as_list(value: object) -> list[Any]:
    """Return `value` where it is an array, else an empty one."""
    return cast("list[Any]", value) if isinstance(value, list) else []


def as_text(value: object) -> str:
    """Return `value` where it is a string, else an empty one."""
    return value if isinstance(value, str) else ""


def all_text(content: object) -> str:
    """Return the texts of a message's content, one paragraph for each block, without tool results."""
    if isinstance(content, str):
        return content
    parts: list[str] = []
    for each in as_list(content):
        block = as_object(each)
        if isinstance(each, str):
            parts.append(each)
        elif "image" in block.text("type"):
            parts.append("[image]")
        else:
            parts.append(block.text("text"))
    return "\n".join(filter(None, parts))


def text_or_json(content: object) -> str:
    """Return the text of a message's content; an object is shown as JSON."""
    is_object = isinstance(content, dict)
    return json.dumps(content, ensure_ascii=False, default=str) if is_object else all_text(content)


def sanitize_json(value: object, text: Callable[[str], str], depth: int = 0) -> JsonValue:
    """Return `value` as storable JSON: strings passed through `text`, only finite numbers, capped depth and width."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, bool | int):
        return value
    if depth >= _MAX_DEPTH:
        return "…"
    if isinstance(value, dict):
        items = list(cast("JsonObject", value).items())[:_MAX_ITEMS]
        return {text(str(key)): sanitize_json(each, text, depth + 1) for key, each in items}
    return [sanitize_json(each, text, depth + 1) for each in as_list(value)[:_MAX_ITEMS]]


Source: TypeAlias = str | Path | IO[str] | IO[bytes]
"""A path, or an open stream of text or bytes."""

MAX_LINE_CHARS = 8_000_000
"""A longer line is skipped and counted; it is never held in memory as a whole."""

MAX_DOCUMENT_CHARS = 32_000_000
"""The longest JSON document of several lines: it must fit in memory, and none of its lines may be too long."""

_SNIFFED_LINES = 50
_CHUNK = 1 << 20


class Records:
    """The JSON objects of a source, in order; what could not be read is counted in `skipped`."""

    def __init__(self, stream: IO[str] | IO[bytes]) -> None:
        self.skipped = 0
        self.chars = 0
        """Characters read so far."""
        if isinstance(stream, io.StringIO):
            stream = io.BytesIO(stream.getvalue().encode("utf-8", "replace"))
        self._stream = cast("IO[bytes]", getattr(stream, "buffer", stream))
        self._lines = self._read_lines()

    def __iter__(self) -> Iterator[JsonDict]:
        head = list(itertools.islice(self._lines, _SNIFFED_LINES))
        opens = bool(head) and head[0][0] in "[{"
        if opens and (head[0] in ("[", "{") or not any(isinstance(parsed(line), dict | list) for line in head)):
            # The lines are pieces of one document: none of them is a record of its own.
            yield from _records_of(self._document(head))
            return
        for line in itertools.chain(head, self._lines):
            value = parsed(line)
            if value is None:
                self.skipped += 1
            else:
                yield from _records_of(value)

    def _document(self, head: list[str]) -> object:
        parts, size = list(head), sum(map(len, head))
        for line in self._lines:
            parts.append(line)
            size += len(line)
            if size > MAX_DOCUMENT_CHARS:
                megabytes = MAX_DOCUMENT_CHARS // 1_000_000
                raise InputError(f"the JSON document is larger than {megabytes} MB: write one record per line")
        value = parsed("\n".join(parts))
        if value is None:
            self.skipped += len(parts)
        return value

    def _read_lines(self) -> Iterator[str]:
        """Yield the lines that are not blank and not too long."""
        while piece := _read_line(self._stream, MAX_LINE_CHARS):
            if len(piece) >= MAX_LINE_CHARS and not piece.endswith(b"\n"):
                self.skipped += 1
                while piece and not piece.endswith(b"\n"):
                    piece = _read_line(self._stream, _CHUNK)
                continue
            line = piece.decode("utf-8", "replace").strip("\ufeff \t\r\n\0")
            self.chars += len(line)
            if line:
                yield line


@contextmanager
def open_source(source: Source) -> Generator[Records]:
    """Open a source and yield its records. Raises `InputError`."""
    if isinstance(source, str | Path):
        with _opened(Path(source)) as stream:
            yield Records(stream)
    else:
        yield Records(source)


def _opened(path: Path) -> IO[bytes]:
    try:
        return path.open("rb")
    except FileNotFoundError:
        raise InputError(f"there is no file {str(path)!r}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{str(path)!r} cannot be opened: {error}") from None


def _read_line(stream: IO[bytes], limit: int) -> bytes:
    try:
        return stream.readline(limit)
    except OSError as error:
        raise InputError(f"the transcript cannot be read to the end: {error}") from error


def first_record(path: Path) -> JsonDict:
    """Return the object in a file's first line; empty if it is too long, not an object, or cannot be read."""
    with suppress(InputError), _opened(path) as file:  # whoever reads the whole file says why
        return as_object(parsed(_read_line(file, 1 << 20).decode("utf-8-sig", "replace")))
    return JsonDict()


def files_in(folder: Path, pattern: str) -> list[Path]:
    """Return the files of a folder. Neither the folder nor a file may be a symbolic link, which could lead anywhere."""
    if folder.is_symlink():
        return []
    return sorted(path for path in folder.glob(pattern) if path.is_file() and not path.is_symlink())


def _records_of(value: object) -> Iterator[JsonDict]:
    """Yield an object itself, an array of messages as one object, any other array's objects one by one."""
    if isinstance(value, dict):
        yield JsonDict(cast("JsonObject", value))
        return
    objects = [JsonDict(cast("JsonObject", each)) for each in as_list(value) if isinstance(each, dict)]
    if objects and "role" in objects[0]:
        yield JsonDict(messages=objects)
        return
    yield from objects


def parsed(text: object) -> object | None:
    """Return the JSON value of a text; None for what is not a text, not strict JSON, or nested too deeply."""
    try:
        return cast("object", json.loads(as_text(text), strict=False, parse_constant=_refuse))
    except (ValueError, RecursionError):
        return None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
