"""Finds the memories in a project's skills, which Claude Code reads by itself."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from swarm_memory.server.hosts.host import ROOMS, host
from swarm_memory.tools.promote.marks import PREFIX, ids_in

SKILLS = ".claude/skills"
SKILL = "SKILL.md"

MAX_FOLDERS = 200
MAX_BYTES = 500_000
"""The largest skill that is read: the file may have come with a clone, and is read at each prompt."""


def skill_paths_by_memory(root: str | os.PathLike[str], agent: str | None = None) -> dict[str, str]:
    """Return the ids of the memories in skills that the named agent (None: any) reads, each with the skill's path."""
    is_read = agent is None or (agent in ROOMS and host(agent).reads_skills)
    texts = skills_of_ours(Path(root)) if is_read else ()
    return {memory_id: path for path, text in texts for memory_id in ids_in(text)}


def skills_of_ours(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the path and text of each file of a project that may be one of our skills."""
    try:
        folders = sorted(name for name in os.listdir(root / SKILLS) if name.startswith(PREFIX))  # noqa: PTH208
    except OSError:
        folders = []
    for name in (f"{SKILLS}/{folder}/{SKILL}" for folder in folders[:MAX_FOLDERS]):
        yield name, read_skill(root / name)


def read_skill(path: Path) -> str:
    """Return the text of a file; empty if it is not a file or is too large."""
    with suppress(OSError):  # it may not be read, or was deleted just now
        if path.is_file() and path.stat().st_size <= MAX_BYTES:
            return path.read_bytes()[:MAX_BYTES].decode("utf-8", "replace")
    return ""
