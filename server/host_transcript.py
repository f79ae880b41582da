"""Which transcript a hook may name: a file of the host, or of the project; nothing that a link leads out to.

A path in an event is untrusted. This module is imported by hook commands and needs nothing but the standard library.
"""

import os
import stat
from pathlib import Path

from swarm_memory.schema.errors import InputError

SUFFIX = ".jsonl"


def host_folder() -> Path:
    """Return the folder in which Claude Code keeps its transcripts."""
    return Path(os.environ.get("CLAUDE_CONFIG_DIR") or Path.home() / ".claude") / "projects"


def checked_transcript(text: str, root: Path | None = None) -> Path:
    """Return the real path of a transcript: a regular `.jsonl` file in the host's folder, or below `root`.

    Raises `InputError` that names the reason.
    """
    if "\0" in text or not Path(text).is_absolute():
        raise InputError(f"transcript_path must be an absolute path: {text[:200]!r}")
    path = Path(os.path.realpath(text))
    if path.suffix != SUFFIX:
        raise InputError(f"transcript_path must end in {SUFFIX}: {path}")
    allowed = [Path(os.path.realpath(folder)) for folder in (host_folder(), root) if folder is not None]
    if not any(path.is_relative_to(folder) for folder in allowed):
        raise InputError(f"transcript_path must lie in {' or '.join(map(str, allowed))}: {path}")
    try:
        is_file = stat.S_ISREG(path.stat().st_mode)
    except (OSError, ValueError):
        is_file = False
    if not is_file:
        raise InputError(f"transcript_path is not a file: {path}")
    return path
