"""Edits other programs' files: plans a change, shows it as a diff, writes it atomically, restores originals."""

import json
import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias, cast

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.location import state_folder, write_private

Json: TypeAlias = dict[str, Any]

KEPT = "edited-files"
"""In the state folder: each file as it was before we wrote to it, a hash of what we wrote, the folders we made."""


class FileChange(NamedTuple):
    """One file as it is and as it will be. None means that there is no such file."""

    path: Path
    before: str | None
    after: str | None
    mode: int = 0o600
    """Permissions of a file that does not exist yet."""

    def diff(self) -> str:
        """Return the change as a unified diff with uniform line ends."""
        old, new = ((text or "").replace("\r\n", "\n").splitlines(keepends=True) for text in (self.before, self.after))
        before, after = ("/dev/null" if text is None else str(self.path) for text in (self.before, self.after))
        import difflib

        lines = [line if line.endswith("\n") else f"{line}\n" for line in difflib.unified_diff(old, new, before, after)]
        return "".join(lines)


def planned_change(path: Path, edit: Callable[[Json], Json], mode: int = 0o600) -> FileChange | None:
    """Return the change that `edit` makes to the file's JSON object, as `planned_text` does. An empty object: no file.

    Raises `ConfigError` when the file exists and is not one JSON object, or when `edit` refuses it.
    """

    def edit_text(text: str) -> str:
        data = read_object(path, text)
        try:
            edited = edit(read_object(path, text))
        except ConfigError as error:
            raise ConfigError(f"{path}: {error}; nothing was changed") from None
        if edited == data:
            return text
        if not edited:
            return ""
        indent = re.search(r"^[\[{]\r?\n([ \t]+)", text)  # the style of the text is kept
        written = json.dumps(edited, indent=indent.group(1) if indent else 2, ensure_ascii=False)
        if not text.strip() or text.endswith("\n"):
            written += "\n"
        return written.replace("\n", "\r\n") if "\r\n" in text else written

    return planned_text(path, edit_text, mode, meaning=lambda text: _pruned(read_object(path, text)))


def planned_text(
    path: Path, edit: Callable[[str], str], mode: int = 0o600, *, meaning: Callable[[str], object] = str.strip
) -> FileChange | None:
    """Return the change that `edit` makes to a file's text (empty without a file); None when it changes nothing.

    If the edit undoes all that we wrote, so that the text has its former `meaning`, and no one else has written since,
    the file is restored byte for byte. Blank text: no file. Raises `ConfigError` as `edit` does.
    """
    before = _read(path)
    after = edit(before or "")
    if after == (before or ""):
        return None
    kept = _Kept(path)
    original = kept.original() if kept.is_ours(before) else None
    if original is not None and meaning(original) == meaning(after):
        return FileChange(path, before, original, mode)
    return FileChange(path, before, after if after.strip() else None, mode)


def apply(changes: Sequence[FileChange]) -> list[Path]:
    """Write the changes, each file atomically, and return the copies made of existing files.

    A copy is the file as it was before our first write, or as somebody else last left it; it is kept in our state
    folder and deleted when the file is restored. Raises `ConfigError` when a file was changed since the plan was made
    or cannot be written; that file is untouched.
    """
    copies: list[Path] = []
    for change in changes:
        path = change.path.resolve()
        if _read(path) != change.before:
            raise ConfigError(f"{change.path} was just changed by another program; run the command again")
        kept = _Kept(path)
        try:
            copies += kept.note(change)
            if change.after is None:
                path.unlink()
                for folder in map(Path, _record(kept.record).get("folders", [])):  # those made for the file
                    if folder.is_dir() and not any(folder.iterdir()):
                        folder.rmdir()
            else:
                _write(path, change.after, change.mode)
            if change.after == kept.original():
                kept.record.unlink()
                kept.copy.unlink(missing_ok=True)
        except OSError as error:
            raise ConfigError(f"{change.path} cannot be written: {error.strerror or error}") from error
    return copies


class _Kept:
    """What is kept for one file that we edit: a copy of the original, if there was one, and a record next to it."""

    def __init__(self, path: Path) -> None:
        self._path = path.resolve()
        import hashlib

        name = hashlib.sha256(os.fsencode(self._path)).hexdigest()[:16]
        self.record = state_folder() / KEPT / f"{name}.json"
        self.copy = self.record.with_name(f"{name}-{self._path.name.lstrip('.')}")

    def is_ours(self, text: str | None) -> bool:
        """Whether the file's `text` is still what we last wrote."""
        return _record(self.record).get("written", "") == _digest(text)

    def original(self) -> str | None:
        """Return the file's original text; None if there was no file or its copy is gone."""
        return _read(self.copy) if _record(self.record).get("existed") else None

    def note(self, change: FileChange) -> list[Path]:
        """Copy the current text, unless we wrote it ourselves, and record the new one; return the copy if one is made.

        The copy is written first, so that a record always describes the copy next to it.
        """
        former, copied = _record(self.record), list[Path]()
        existed = bool(former.get("existed"))
        made = former.get("folders", []) + [str(folder) for folder in self._path.parents if not folder.exists()]
        self.record.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not self.is_ours(change.before):
            existed = change.before is not None
            self.record.unlink(missing_ok=True)
            if change.before is not None:
                _write(self.copy, change.before, 0o600)
                copied = [self.copy]
        record = {"path": str(self._path), "existed": existed, "written": _digest(change.after), "folders": made}
        _write(self.record, json.dumps(record, indent=2) + "\n", 0o600)
        return copied


def _record(path: Path) -> Json:
    """Return one of our records; an empty one if it is missing or was cut off."""
    try:
        return read_object(path, _read(path))
    except ConfigError:
        return {}


def _digest(text: str | None) -> str:
    import hashlib

    return "" if text is None else hashlib.sha256(text.encode("utf-8")).hexdigest()


def _pruned(value: Any) -> Any:
    """Return JSON without empty values, at any depth: removing our entries leaves no empty object behind."""
    if isinstance(value, dict):
        pruned = {key: _pruned(each) for key, each in cast(Json, value).items()}
        return {key: each for key, each in pruned.items() if each not in ({}, [])}
    return [_pruned(each) for each in cast(list[Any], value)] if isinstance(value, list) else value


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error


def object_of(path: Path) -> Json:
    """Return the object that a JSON file holds; an empty one without a file. Raises `ConfigError`."""
    return read_object(path, _read(path))


def read_object(path: Path, text: str | None) -> Json:
    """Return the object that the text of a JSON file holds; an empty one for no text. Raises `ConfigError`."""
    if text is None or not text.strip():
        return {}
    try:
        data = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_unique)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not valid JSON ({error}): fix it first; nothing was changed") from None
    if not isinstance(data, dict):
        raise ConfigError(f"{path} must hold a JSON object; nothing was changed")
    return cast(Json, data)


def _unique(pairs: list[tuple[str, Any]]) -> Json:
    """Refuse an object that has a key twice: writing it back would silently lose one of the values."""
    for key, times in Counter(key for key, _ in pairs).items():
        if times > 1:
            raise ValueError(f"the key {key!r} appears twice in one object")
    return dict(pairs)


def _write(path: Path, text: str, mode: int) -> None:
    """Replace the file atomically, with the permissions it has. `mode` is for a file that is new."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_private(path, text, path.stat().st_mode & 0o777 if path.exists() else mode, flushes=True)
