"""Our block in a file of rules that agents read by themselves, such as AGENTS.md: written on request alone."""

import json
import re
from collections.abc import Callable
from pathlib import Path

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.entries import leads_out, real_path
from swarm_memory.server.hosts.settings_files import KEPT, FileChange, planned_text
from swarm_memory.server.location import state_folder

BEGIN = "<!-- swarm-memory: from here to the end mark `swarm-memory rules` writes again -->"
END = "<!-- swarm-memory: end -->"
_BEGIN = r"<!-- swarm-memory: from here to the end mark [^\n]{1,80} -->"
"""Earlier versions ended it in other words."""

_BLOCK = re.compile(rf"\n{{0,2}}{_BEGIN}.*?{re.escape(END)}\n?", re.S)

RULES = """\
## What earlier tasks taught

Before you begin a task, call `retrieve_memories` of the MCP server swarm-memory with the task as it was asked, and use
what fits of its answer. When you have found out what the next task needs to know too, call `remember`."""


def plan_rules(path: Path, root: Path, notes: str) -> list[FileChange]:
    """Return what writing the block changes; nothing where it stands there so. `notes`: the project's surest memories.

    Raises `ConfigError` for a file that cannot be read, that a link leads out of the project, or with a begin alone.
    """
    block = "\n\n".join(filter(None, (f"{BEGIN}\n{RULES}", notes))) + f"\n{END}\n"

    def write(text: str) -> str:
        if _BLOCK.search(text):
            return _BLOCK.sub(lambda found: _lead(found[0]) + block, text, count=1)
        return f"{text.rstrip()}\n\n{block}" if text.strip() else block

    return _planned(path, root, write)


def plan_removal(path: Path, root: Path) -> list[FileChange]:
    """Return what taking the block out changes; a file that holds nothing else goes. Raises as `plan_rules`."""
    return _planned(path, root, lambda text: _BLOCK.sub(lambda found: _lead(found[0])[:1], text))


def files_with_rules(root: Path) -> list[Path]:
    """Return the files below a project that we wrote our block into, and that still hold it."""
    found: list[Path] = []
    for record in sorted((state_folder() / KEPT).glob("*.json")):
        try:
            path = Path(str(json.loads(record.read_text(encoding="utf-8"))["path"]))
            holds = path.is_relative_to(real_path(root)) and re.search(_BEGIN, path.read_text(encoding="utf-8"))
        except (OSError, ValueError, KeyError, TypeError):
            continue  # a record that was cut off, or a file that is gone
        found += [path] if holds else []
    return found


def _planned(path: Path, root: Path, edit: Callable[[str], str]) -> list[FileChange]:
    if leads_out(path, root):
        raise ConfigError(f"{path} leads out of the project by a symbolic link; nothing was changed")

    def checked(text: str) -> str:
        begun = len(re.findall(_BEGIN, text))
        if begun > 1 or begun != text.count(END):
            raise ConfigError(f"{path} has our marks torn apart or twice: mend it by hand; nothing was changed")
        return edit(text)

    change = planned_text(path, checked, 0o644)
    return [] if change is None else [change]


def _lead(block: str) -> str:
    return block[: len(block) - len(block.lstrip("\n"))]
