"""The name that a team uses for a project: the one agreed at joining, else host and path of its git remote, which are
the same in everybody's clone.
"""

import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlsplit

from swarm_memory.schema.base import GLOBAL_PROJECT
from swarm_memory.schema.settings import TeamSettings
from swarm_memory.schema.team.sharing import MAX_TEAM_PROJECT_CHARS
from swarm_memory.tools.ports.team import CacheState
from swarm_memory.tools.text.cleaning import clean

MAX_CONFIG_BYTES = 200_000
_SECTION = re.compile(r'^\s*\[remote "origin"\]\s*$(?P<body>.*?)(?=^\s*\[|\Z)', re.MULTILINE | re.DOTALL)
_URL = re.compile(r"^\s*url\s*=\s*(?P<url>\S+)\s*$", re.MULTILINE)
_SCP = re.compile(r"(?:[^@/:]+@)?(?P<host>[A-Za-z0-9.-]+):(?!/)(?P<path>.+)")


def team_project(root: Path, settings: TeamSettings, caches: Sequence[CacheState]) -> str | None:
    """Return the team's name for the project in a folder; None if it has no name.

    It is the setting, else the name under which the bank already reads that team's memories, else host and path of the
    remote `origin`, such as `github.com/acme/shop` (never with a user or password).
    """
    agreed = (each.project for each in caches if each.url == settings.url and each.project != GLOBAL_PROJECT)
    return settings.project or next(agreed, None) or origin_repository(root)


def origin_repository(root: Path) -> str | None:
    """Return host and path of the remote `origin` of the clone or worktree in a folder; None without one."""
    git = root / ".git"
    try:
        if not git.is_dir():
            pointer = git.read_text("utf-8", "replace")[:4096].strip() if git.is_file() else ""
            if not pointer:
                return None
            git = root / pointer.removeprefix("gitdir:").strip()
            if (common := git / "commondir").is_file():
                git /= common.read_text("utf-8", "replace").strip()
        config = git / "config"
        if not config.is_file() or config.stat().st_size > MAX_CONFIG_BYTES:
            return None
        section = _SECTION.search(config.read_text("utf-8", "replace"))
        found = _URL.search(section["body"]) if section else None
        return None if found is None else _name(found["url"])
    except (OSError, ValueError):  # ValueError: what looks like an address is none
        return None


def _name(url: str) -> str | None:
    parts = urlsplit(url) if "://" in url else None
    short = _SCP.fullmatch(url)
    if parts is not None and parts.scheme != "file" and parts.hostname:
        host, path = parts.hostname, parts.path
    elif parts is None and short is not None:
        host, path = short["host"], short["path"]
    else:
        return None  # a folder on this machine
    name = f"{host.lower()}/{path.strip('/').removesuffix('.git')}"
    return name if clean(name) == name and len(name) <= MAX_TEAM_PROJECT_CHARS else None
