"""The files of hooks: the transcript an event may name, where events wait, where faults and settings stand.

Hook commands import this while a person waits: it needs `os` and little else; `pathlib` alone would cost them as much
as all their work.
"""

# ruff: noqa: PTH103, PTH105, PTH111, PTH114, PTH116, PTH117, PTH118, PTH123
import json
import os
import re
import stat
import time
from collections.abc import Mapping

from swarm_memory.schema.errors import InputError

SPOOL = "spool"
"""Folder beside the database in which events wait that found it busy."""

CHILD_VARIABLE = "SWARM_MEMORY_CHILD"
"""Set to 1 in an agent that we start ourselves: our hooks do nothing where it is set. It is no setting."""

MAX_CONFIG_CHARS = 1_000_000
LOG = "log"
MAX_LOG_BYTES = 1_000_000


def host_folder() -> str:
    """Return the folder in which Claude Code keeps its transcripts."""
    config = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "projects")


def checked_transcript(text: str, root: str | os.PathLike[str] | None = None) -> str:
    """Return the real path of a transcript: a regular `.jsonl` file in the host's folder, or below `root`.

    A path in an event is untrusted, and so is where a link leads. Raises `InputError` that names the reason.
    """
    if "\0" in text or not os.path.isabs(text):
        raise InputError(f"transcript_path must be an absolute path: {text[:200]!r}")
    path = os.path.realpath(text)
    if not path.endswith(".jsonl"):
        raise InputError(f"transcript_path must end in .jsonl: {path[:500]}")
    allowed = [os.path.realpath(folder) for folder in (host_folder(), root) if folder is not None]
    if not any(path.startswith(os.path.join(folder, "")) for folder in allowed):
        raise InputError(f"transcript_path must lie in {' or '.join(allowed)}: {path[:500]}")
    try:
        is_file = stat.S_ISREG(os.stat(path).st_mode)
    except OSError:
        is_file = False
    if not is_file:
        raise InputError(f"transcript_path is not a file: {path[:500]}")
    return path


def whole_number_setting(section: str, name: str, default: int, root: str | os.PathLike[str]) -> int:
    """Return a setting as `server.config` resolves it: environment, the user's file, the project's file, default.

    The files are searched for the one line `name: number`, because a YAML library takes longer to import than a hook
    may run. What stands there otherwise is told by every other command.
    """
    found = _setting(section, name, r"\d{1,9}", (_user_folder(), os.path.join(root, ".swarm")))
    return default if found is None else int(found)


def own_number_setting(section: str, name: str, default: float) -> float:
    """Return a setting that a project's file may not set: environment, the user's file, default."""
    found = _setting(section, name, r"-?\d{1,9}(?:\.\d{0,9})?", (_user_folder(),))
    return default if found is None else float(found)


def _user_folder() -> str:
    config = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(config, "swarm-memory")


def _setting(section: str, name: str, number: str, folders: tuple[str, ...]) -> str | None:
    given = os.environ.get(f"SWARM_MEMORY_{section}__{name}".upper())
    if given:
        return given
    for folder in folders:
        try:
            with open(os.path.join(folder, "config.yaml"), encoding="utf-8", errors="replace") as file:
                found = re.search(rf"^[ \t]*{name}:[ \t]*({number})[ \t]*(?:#.*)?$", file.read(MAX_CONFIG_CHARS), re.M)
        except OSError:
            continue
        if found:
            return found.group(1)
    return None


def spool_event(folder: str, event: Mapping[str, str]) -> None:
    """Write an event into the spool of `folder`: a reader sees all of it or nothing, and only the user can read it."""
    spool = os.path.join(folder, SPOOL)
    _refuse_links(folder, spool)
    os.makedirs(spool, mode=0o700, exist_ok=True)
    path = os.path.join(spool, f"{time.time_ns()}-{os.getpid()}")
    descriptor = os.open(f"{path}.part", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        json.dump(event, file)
    os.replace(f"{path}.part", f"{path}.json")


def log_line(folder: str, text: str) -> None:
    """Add one line to the log in `folder`; a log that has grown large is put aside once."""
    path = os.path.join(folder, LOG)
    _refuse_links(folder)
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
    with os.fdopen(descriptor, "a", encoding="utf-8", errors="replace") as file:
        file.write(f"{time.strftime('%Y-%m-%d %H:%M:%S')} hooks {' '.join(text.split())[:1000]}\n")
        size = file.tell()
    if size > MAX_LOG_BYTES:
        os.replace(path, f"{path}.1")


def _refuse_links(*folders: str) -> None:
    """Raise `OSError` for a folder that is a symbolic link: one that comes with a cloned repository leads anywhere."""
    for folder in folders:
        if os.path.islink(folder):
            raise OSError(f"{folder} is a symbolic link: nothing is written there")
