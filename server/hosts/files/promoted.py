"""Which memories are in skills of a project, which Claude Code reads by itself."""

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
"""Of a file that may have come with a clone, and that each prompt reads."""


def promoted_for(root: str | os.PathLike[str], agent: str | None = None) -> dict[str, str]:
    """Return by id which memories are in skills that an agent, by its name, reads, and the path; None: any agent."""
    is_read = agent is None or (agent in ROOMS and host(agent).reads_skills)
    texts = skills_of_ours(Path(root)) if is_read else ()
    return {memory_id: path for path, text in texts for memory_id in ids_in(text)}


def skills_of_ours(root: Path) -> Iterator[tuple[str, str]]:
    """Yield the files of a project that can be a skill of ours: the path, and what it holds."""
    try:
        folders = sorted(name for name in os.listdir(root / SKILLS) if name.startswith(PREFIX))  # noqa: PTH208
    except OSError:
        folders = []
    for name in (f"{SKILLS}/{folder}/{SKILL}" for folder in folders[:MAX_FOLDERS]):
        yield name, text_of(root / name)


def text_of(path: Path) -> str:
    """Return what a file holds; nothing where it is none, or is too large."""
    with suppress(OSError):  # nobody may read it, or it went just now
        if path.is_file() and path.stat().st_size <= MAX_BYTES:
            return path.read_bytes()[:MAX_BYTES].decode("utf-8", "replace")
    return ""
