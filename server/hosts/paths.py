"""Where a host keeps its transcripts, and which file a caller may name as one.

Hook commands import this while a person waits: it needs `os` and little else.
"""

# ruff: noqa: PTH111, PTH113, PTH117, PTH118
import os
import re
from collections.abc import Iterable
from pathlib import Path

from swarm_memory.schema.errors import InputError

SUFFIXES = (".jsonl", ".json", ".jsonl.gz", ".json.gz")


def host_folder() -> str:
    """Return the folder in which Claude Code keeps the transcripts of all projects."""
    config = os.environ.get("CLAUDE_CONFIG_DIR") or os.path.join(os.path.expanduser("~"), ".claude")
    return os.path.join(config, "projects")


def transcript_folders(root: Path) -> list[Path]:
    """Return the folders in which Claude Code keeps the transcripts of a project: `/` and other signs become `-`."""
    names = {re.sub(r"[^A-Za-z0-9]", "-", str(root)), str(root).replace("/", "-")}
    return [folder for folder in (Path(host_folder(), name) for name in sorted(names)) if folder.is_dir()]


def checked_transcript(text: str, root: str | os.PathLike[str] | None = None) -> str:
    """Return the real path of the transcript that an event names: a `.jsonl` file in the host's folder or below `root`.

    Raises `InputError` that names the reason.
    """
    if "\0" in text or not os.path.isabs(text):
        raise InputError(f"transcript_path must be an absolute path: {text[:200]!r}")
    return checked_file(text, [folder for folder in (host_folder(), root) if folder is not None], (".jsonl",))


def checked_file(
    text: str, folders: Iterable[str | os.PathLike[str]] | None = None, suffixes: tuple[str, ...] = SUFFIXES
) -> str:
    """Return the real path of a file with such a suffix, below one of `folders` where they are given.

    A caller's path is untrusted, and so is where a link leads. Raises `InputError` for anything that is no such file.
    """
    try:
        path = os.path.realpath(os.path.expanduser(text))
    except (OSError, ValueError):
        raise InputError(f"transcript_path is no path: {text[:200]!r}") from None
    if not path.endswith(suffixes):
        raise InputError(f"transcript_path must end in {' or '.join(suffixes)}: {path[:500]}")
    allowed = None if folders is None else [os.path.realpath(folder) for folder in folders]
    if allowed is not None and not any(path.startswith(os.path.join(folder, "")) for folder in allowed):
        raise InputError(f"transcript_path must lie in {' or '.join(allowed)}: {path[:500]}")
    if not os.path.isfile(path):
        raise InputError(f"transcript_path is not a file: {path[:500]}")
    return path
