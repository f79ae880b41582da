"""Which memories are in files of a project that agents read by themselves."""

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from swarm_memory.server.hosts.host import ROOMS, host
from swarm_memory.tools.promote.marks import PLACES, PREFIX, Place, ids_in

SKILLS = ".claude/skills"
SKILL = "SKILL.md"
RULES: tuple[tuple[Place, str], ...] = (("claude-md", "CLAUDE.md"), ("agents-md", "AGENTS.md"))

MAX_FOLDERS = 200
MAX_BYTES = 500_000
"""Of a file that may have come with a clone, and that each prompt reads."""


def promoted_for(root: str | os.PathLike[str], agent: str | None = None) -> dict[str, str]:
    """Return by id which memories are in files that an agent, by its name, reads, and the path; None: in any file.

    Claude Code reads AGENTS.md too where there is no CLAUDE.md, or one that names it.
    """
    known = PLACES if agent is None else host(agent).reads if agent in ROOMS else ()
    reads = set[Place](place for place in PLACES if place in known)
    found: dict[str, str] = {}
    for place, name, text in texts_of_ours(Path(root)) if reads else ():
        if place == "claude-md" and place in reads and (not text or "@AGENTS.md" in text):
            reads.add("agents-md")
        if place in reads:
            found |= dict.fromkeys(ids_in(text), name)
    return found


def texts_of_ours(root: Path) -> Iterator[tuple[Place, str, str]]:
    """Yield the files of a project that can hold a text of ours: where they are, by place and path, and what they hold.

    What is no file, or is too large, holds nothing.
    """
    try:
        folders = sorted(name for name in os.listdir(root / SKILLS) if name.startswith(PREFIX))  # noqa: PTH208
    except OSError:
        folders = []
    skills: list[tuple[Place, str]] = [("skill", f"{SKILLS}/{name}/{SKILL}") for name in folders[:MAX_FOLDERS]]
    for place, name in (*RULES, *skills):
        path, text = root / name, ""
        with suppress(OSError):  # nobody may read it, or it went just now
            if path.is_file() and path.stat().st_size <= MAX_BYTES:
                text = path.read_bytes()[:MAX_BYTES].decode("utf-8", "replace")
        yield place, name, text
