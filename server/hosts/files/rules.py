"""Our blocks in files of rules that agents read by themselves, such as AGENTS.md: written on request alone."""

import re
from collections.abc import Callable
from pathlib import Path

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

_LEAD = 1
"""Line ends before the block of rules that go with it."""


def plan_rules(path: Path, root: Path, notes: str) -> list[FileChange]:
    """Return what writing the block changes; nothing where it stands there so. `notes`: the project's surest memories.

    Raises `ConfigError` for a file that cannot be read, that is reached by a symbolic link, or with a begin alone.
    """
    block = "\n\n".join(filter(None, (f"{BEGIN}\n{RULES}", notes))) + f"\n{END}"
    return _planned(path, root, lambda lead: block)


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


def _planned(path: Path, root: Path, block: Callable[[int], str] | None) -> list[FileChange]:
    refuse_links(root, path)

    def edit(text: str) -> str:
        try:
            span = span_of(text, _BEGIN, re.compile(re.escape(END)))
        except ValueError as error:
            raise torn(path, error) from None
        return with_block(text, None if span is None else (span, _LEAD), block)

    change = planned_text(path, edit, 0o644)
    return [] if change is None else [change]


def with_block(text: str, former: tuple[tuple[int, int], int] | None, block: Callable[[int], str] | None) -> str:
    """Return the text of a file with a block in place of the former one, or at its end; None: without the former one.

    `former`: where it stands, and the line ends that were put before it; `block` is given those. Around it not a byte
    changes.
    """
    line_end = "\r\n" if "\r\n" in text else "\n"
    if former is None:
        if block is None:
            return text
        lead = 0 if not text else 1 if text.endswith("\n") else 2
        return text + line_end * lead + f"{block(lead)}\n".replace("\n", line_end)
    (start, end), lead = former
    if block is not None:
        return text[:start] + block(lead).replace("\n", line_end) + text[end:]
    # An earlier version put its block with `\n` into any file.
    return re.sub(rf"(?:\r?\n){{0,{lead}}}\Z", "", text[:start]) + re.sub(r"\A\r?\n", "", text[end:])


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
