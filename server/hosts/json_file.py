"""JSON files that belong to other programs: read strictly, changed in their style, replaced at once with a backup."""

import difflib
import json
import os
import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias, cast

from swarm_memory.schema.errors import ConfigError

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file as it is and as it will be. None: there is no such file."""

    path: Path
    before: str | None
    after: str | None

    def diff(self) -> str:
        """Return the change as a unified diff."""
        old, new = (text.splitlines(keepends=True) if text else [] for text in (self.before, self.after))
        names = (
            ("/dev/null" if self.before is None else str(self.path)),
            ("/dev/null" if self.after is None else str(self.path)),
        )
        lines = [line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(old, new, *names)]
        return "".join(lines)


def planned_change(path: Path, edit: Callable[[Json], Json]) -> FileChange | None:
    """Return what `edit` makes of the file's object; None when it changes nothing. An empty object: no file.

    Raises `ConfigError` when the file is there and is not one JSON object, or when `edit` refuses it.
    """
    before = _read(path)
    data, edited = _parse(path, before), _parse(path, before)
    try:
        edited = edit(edited)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}; nothing was changed") from None
    if edited == data:
        return None
    return FileChange(path, before, _render(edited, before) if edited else None)


def apply(changes: Sequence[FileChange]) -> list[Path]:
    """Write the changes, each file at once, and return the backups made of the files that were there and still are.

    Raises `ConfigError` when a file was changed since the plan was made or cannot be written; that file is untouched.
    """
    backups: list[Path] = []
    for change in changes:
        path = change.path.resolve()
        if _read(path) != change.before:
            raise ConfigError(f"{change.path} was changed by another program just now; run the command again")
        try:
            if change.before is not None and change.after is not None:
                backups.append(_back_up(path, change.before))
            if change.after is None:
                path.unlink()
            else:
                _write(path, change.after)
        except OSError as error:
            raise ConfigError(f"{change.path} cannot be written: {error.strerror or error}") from error
    return backups


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def _parse(path: Path, text: str | None) -> Json:
    if text is None or not text.strip():
        return {}
    try:
        data = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON ({error}); mend it first, nothing was changed") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a JSON object; nothing was changed")
    return cast(Json, data)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    """Refuse an object that has a key twice: writing it back would lose one of the values in silence."""
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise ValueError(f"the key {twice!r} stands twice in one object")
    return found


def _render(data: Json, before: str | None) -> str:
    """Return `data` as JSON in the style of the text before: its indentation, line ends and last line end."""
    indent = re.search(r"^[\[{]\r?\n([ \t]+)", before or "")
    text = json.dumps(data, indent=indent.group(1) if indent else 2, ensure_ascii=False)
    if before is None or not before.strip() or before.endswith("\n"):
        text += "\n"
    return text.replace("\n", "\r\n") if before and "\r\n" in before else text


def _back_up(path: Path, text: str) -> Path:
    """Copy the file beside itself, readable by whoever can read the file."""
    backup = path.with_name(f"{path.name}.{datetime.now():%Y%m%d-%H%M%S-%f}.bak")
    descriptor = os.open(backup, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path.stat().st_mode & 0o777)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text.encode("utf-8"))
    return backup


def _write(path: Path, text: str) -> None:
    """Replace the file at once: a reader sees the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(mode)
        Path(name).replace(path)
    except OSError:
        Path(name).unlink(missing_ok=True)
        raise
