"""Reads the files that a suite is given."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from swarm_memory.schema.errors import InputError


def read_lines(path: Path) -> Iterator[Any]:
    """Give what each line of a file of JSON lines holds. Raises `InputError`, as `parsed` and `read_text` do."""
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if line.strip():
            yield parsed(line, f"{path.name}: line {number}")


def read_json(path: Path) -> Any:
    """Return what a file of JSON holds. Raises `InputError`."""
    return parsed(read_text(path), path.name)


def parsed(text: str, where: str) -> Any:
    """Return what JSON holds. Raises `InputError` that names the line and column in `where`."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise InputError(
            f"{where}: this is no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from error
    except RecursionError as error:
        raise InputError(f"{where}: it is nested too deep") from error


def read_text(path: Path) -> str:
    """Return the text of a regular file. Raises `InputError`."""
    try:
        if path.exists() and not path.is_file():
            raise InputError(f"{path} is no regular file")  # a pipe or a device may never end
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path.name}: it is not UTF-8 at byte {error.start}") from error
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror}") from error
