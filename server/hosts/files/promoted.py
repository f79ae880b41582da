"""Which memories are in files of a project that agents read by themselves."""

import os
import stat
from collections.abc import Collection, Iterator

from swarm_memory.server.hosts.host import ROOMS, host
from swarm_memory.tools.promote.marks import PLACES, PREFIX, Place, ids_in

SKILLS = ".claude/skills"
SKILL = "SKILL.md"
RULES: tuple[tuple[Place, str], ...] = (("claude-md", "CLAUDE.md"), ("agents-md", "AGENTS.md"))

MAX_FOLDERS = 200
MAX_BYTES = 500_000
"""Of a file that may have come with a clone, and that each prompt reads."""


def promoted_for(root: str | os.PathLike[str], agent: str | None = None) -> dict[str, str]:
    """Return by id which memories are in files that an agent, by its name, reads, and the path; None: in any file."""
    if agent is None:
        return promoted_in(root)
    reads = host(agent).reads if agent in ROOMS else ()
    return promoted_in(root, reads) if reads else {}


def promoted_in(root: str | os.PathLike[str], reads: Collection[str] = PLACES) -> dict[str, str]:
    """Return by id which memories are in files of some places, and the path of the file within the project.

    Claude Code reads AGENTS.md too where there is no CLAUDE.md, or one that names it.
    """
    found: dict[str, str] = {}
    reads = set(reads)
    for place, name in files_of_ours(root):
        text = _read(os.path.join(root, name))  # noqa: PTH118 - a person waits for a hook
        if place == "claude-md" and place in reads and (not text or "@AGENTS.md" in text):
            reads.add("agents-md")
        if place in reads:
            found |= dict.fromkeys(ids_in(text), name)
    return found


def files_of_ours(root: str | os.PathLike[str]) -> Iterator[tuple[Place, str]]:
    """Yield the files of a project that can hold a text of ours; those of rules may not be there."""
    yield from RULES
    try:
        folders = os.listdir(os.path.join(root, SKILLS))  # noqa: PTH118, PTH208
    except OSError:
        return
    for name in sorted(each for each in folders if each.startswith(PREFIX))[:MAX_FOLDERS]:
        yield "skill", f"{SKILLS}/{name}/{SKILL}"


def _read(path: str) -> str:
    """Return what a file holds; nothing of what is no file, or is too large."""
    try:
        status = os.stat(path)  # noqa: PTH116
        if not stat.S_ISREG(status.st_mode) or status.st_size > MAX_BYTES:
            return ""
        with open(path, encoding="utf-8", errors="replace", newline="") as file:  # noqa: PTH123
            return file.read(MAX_BYTES)
    except OSError:
        return ""
