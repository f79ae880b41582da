"""Which file a caller may name as a transcript."""

# ruff: noqa: PTH111, PTH113, PTH117, PTH118
import os
from collections.abc import Iterable

from swarm_memory.schema.errors import InputError

DATABASES = (f"{os.sep}opencode.db", f"{os.sep}store.db")
"""The databases of OpenCode and Cursor."""

SUFFIXES = (".jsonl", ".json", *DATABASES)

_NAMED = 2
"""At most this many allowed folders, the last ones, are named in the error for a path outside them."""


def session_transcript(session_id: str, transcript: str, folders: Iterable[str | os.PathLike[str]]) -> str | None:
    """Return the checked path of a session's transcript; None where there is none. Raises `InputError`."""
    if not session_id.replace("-", "").replace("_", "").isalnum() or len(session_id) > 128:
        raise InputError(f"not a session id: {session_id[:40]!r}")
    return checked_transcript(transcript, folders) if os.path.lexists(transcript) else None


def checked_transcript(text: str, folders: Iterable[str | os.PathLike[str]]) -> str:
    """Return the real path of the transcript that an event names: a `.jsonl` or database below one of `folders`.

    Raises an `InputError` that names the reason.
    """
    if "\0" in text or not os.path.isabs(text):
        raise InputError(f"transcript_path must be an absolute path: {text[:200]!r}")
    return checked_file(text, folders, (".jsonl", *DATABASES))


def checked_file(text: str, folders: Iterable[str | os.PathLike[str]], suffixes: tuple[str, ...] = SUFFIXES) -> str:
    """Return the real path of a file with one of `suffixes`, below one of `folders`.

    A caller's path is untrusted, and so is where a link leads. Raises `InputError` for anything else.
    """
    try:
        path = os.path.realpath(os.path.expanduser(text))
    except (OSError, ValueError):
        raise InputError(f"transcript_path is not a valid path: {text[:200]!r}") from None
    if not path.endswith(suffixes):
        raise InputError(f"transcript_path must end in {' or '.join(suffixes)}: {path[:500]}")
    check_place(path, folders)
    if not os.path.isfile(path):
        raise InputError(f"transcript_path is not a file: {path[:500]}")
    return path


def check_place(path: str, folders: Iterable[str | os.PathLike[str]]) -> None:
    """Raise `InputError` unless a file or a folder, links resolved, is one of `folders` or below one."""
    allowed = [os.path.realpath(folder) for folder in folders]
    if not any(os.path.join(os.path.realpath(path), "").startswith(os.path.join(folder, "")) for folder in allowed):
        where = " or ".join(allowed[-_NAMED:]) + (", or in an agent's own folder" if len(allowed) > _NAMED else "")
        raise InputError(f"transcript_path must be in {where}: {path[:500]}")
