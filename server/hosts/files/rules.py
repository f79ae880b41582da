"""Our blocks in files of rules that agents read by themselves, such as AGENTS.md: written on request alone."""

import re
from pathlib import Path
from typing import NamedTuple

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.settings_files import FileChange, edited_files, planned_text
from swarm_memory.tools.promote.marks import span_of

BEGIN = "<!-- swarm-memory: from here to the end mark `swarm-memory rules` writes again -->"
END = "<!-- swarm-memory: end -->"
_BEGIN = re.compile(r"<!-- swarm-memory: from here to the end mark [^\n]{1,80} -->")
"""Earlier versions ended it in other words."""

RULES = """\
## What earlier tasks taught

Before you begin a task, call `retrieve_memories` of the MCP server swarm-memory with the task as it was asked, and use
what fits of its answer. When you have found out what the next task needs to know too, call `remember`."""


def plan_rules(path: Path, root: Path, notes: str) -> list[FileChange]:
    """Return what writing the block changes; nothing where it stands there so. `notes`: the project's surest memories.

    Raises `ConfigError` for a file that cannot be read, that is reached by a symbolic link, or with a begin alone.
    """
    block = "\n\n".join(filter(None, (f"{BEGIN}\n{RULES}", notes))) + f"\n{END}"
    return _planned(path, root, block)


def plan_removal(path: Path, root: Path) -> list[FileChange]:
    """Return what taking the block out changes; a file that holds nothing else goes. Raises as `plan_rules`."""
    return _planned(path, root, None)


def files_with_rules(root: Path) -> list[Path]:
    """Return the files below a project that we wrote our block into, and that still hold it."""
    return [path for path in edited_files() if path.is_relative_to(root.resolve()) and _holds_block(path)]


def _holds_block(path: Path) -> bool:
    try:
        return path.is_file() and _BEGIN.search(path.read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:  # whoever may not read it cannot take the block out either
        return False


def _planned(path: Path, root: Path, block: str | None) -> list[FileChange]:
    refuse_links(root, path)

    def edit(text: str) -> str:
        try:
            span = span_of(text, _BEGIN, re.compile(re.escape(END)))
        except ValueError as error:
            raise torn(path, error) from None
        former = None if span is None else Span(*span, lead=1)
        return without_block(text, former) if block is None else with_block(text, former, block)

    return [] if (change := planned_text(path, edit, 0o644)) is None else [change]


class Span(NamedTuple):
    """Where a block stands in a text."""

    start: int
    end: int
    lead: int
    """Line ends that were put before it."""


def lead_of(text: str, former: Span | None) -> int:
    """Return how many line ends there are before a block: the former one, or one that comes to the end of the text."""
    if former is not None:
        return former.lead
    return 0 if not text else 1 if text.endswith("\n") else 2


def with_block(text: str, former: Span | None, block: str) -> str:
    """Return a text with a block in place of the former one, or at its end; the rest is unchanged."""
    line_end = "\r\n" if "\r\n" in text else "\n"
    if former is None:
        return text + ("\n" * lead_of(text, None) + block + "\n").replace("\n", line_end)
    return text[: former.start] + block.replace("\n", line_end) + text[former.end :]


def without_block(text: str, former: Span | None) -> str:
    """Return a text without our block and the line ends that were put around it, of whatever kind."""
    if former is None:
        return text
    before = re.sub(rf"(?:\r?\n){{0,{former.lead}}}\Z", "", text[: former.start])
    return before + re.sub(r"\A\r?\n", "", text[former.end :])


def torn(path: Path, error: ValueError) -> ConfigError:
    """Return the error for a file in which our marks are torn apart."""
    return ConfigError(f"{path}: {error}: mend it by hand; nothing was changed")


def refuse_links(root: Path, path: Path) -> None:
    """Raise `ConfigError` where a file of a project, or a folder on the way to it, is a link: it may lead anywhere."""
    root, path = root.absolute(), path.absolute()
    if not path.is_relative_to(root):
        return
    for each in (path, *path.parents):
        if each == root:
            return
        if each.is_symlink():
            raise ConfigError(f"{each} is a symbolic link: nothing is written there; name the file that it leads to")
