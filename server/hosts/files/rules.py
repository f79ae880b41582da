"""Our blocks in files of rules that agents read by themselves, such as AGENTS.md: written on request alone."""

import re
from contextlib import suppress
from pathlib import Path

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.settings_files import FileChange, edited_files, planned_text

BEGIN = "<!-- swarm-memory: from here to the end mark `swarm-memory rules` writes again -->"
END = "<!-- swarm-memory: end -->"
_BEGIN = re.compile(r"<!-- swarm-memory: from here to the end mark [^\n]{1,80} -->")
"""Earlier versions ended it in other words."""

RULES = """\
## What earlier tasks taught

Before you begin a task, call `retrieve_memories` of the MCP server swarm-memory with the task as it was asked, and use
what fits of its answer. When you have found out what the next task needs to know too, call `remember`."""


def plan_block(path: Path, root: Path, notes: str | None) -> list[FileChange]:
    """Return what writing the block changes; nothing where it stands there so. `notes`: the project's surest memories.

    None takes the block out; a file that holds nothing else goes. Raises `ConfigError` for a file that cannot be read,
    that is reached by a symbolic link, or with a begin alone.
    """
    block = None if notes is None else "\n\n".join(filter(None, (f"{BEGIN}\n{RULES}", notes))) + f"\n{END}"
    refuse_links(root, path)

    def edit(text: str) -> str:
        try:
            span = span_of(text, _BEGIN, re.compile(re.escape(END)))
        except ValueError as error:
            raise torn(path, error) from None
        return block_replaced(text, span, lead_of(text) if span is None else 1, block)

    return [] if (change := planned_text(path, edit, 0o644)) is None else [change]


def files_with_rules(root: Path) -> list[Path]:
    """Return the files below a project that we wrote our block into, and that still hold it."""
    found: list[Path] = []
    for path in (path for path in edited_files() if path.is_relative_to(root.resolve())):
        with suppress(OSError):  # whoever may not read it cannot take the block out either
            if path.is_file() and _BEGIN.search(path.read_text(encoding="utf-8", errors="replace")):
                found.append(path)
    return found


def span_of(text: str, begin: re.Pattern[str], end: re.Pattern[str]) -> tuple[int, int] | None:
    """Return where a block stands, its begin and its end included; None where there is neither.

    Raises `ValueError` where one of them is missing, or stands there twice.
    """
    begins, ends = list(begin.finditer(text)), list(end.finditer(text))
    if not begins and not ends:
        return None
    if len(begins) != 1 or len(ends) != 1 or ends[0].start() < begins[0].start():
        raise ValueError("our marks are torn apart or stand there twice")
    return begins[0].start(), ends[0].end()


def lead_of(text: str) -> int:
    """Return how many line ends are put before a block that comes to the end of a text."""
    return 0 if not text else 1 if text.endswith("\n") else 2


def block_replaced(text: str, span: tuple[int, int] | None, lead: int, block: str | None) -> str:
    """Return a text with a block in place of that at `span`, or at its end; the rest is unchanged.

    None takes out what is at `span`, and the line ends that were put around it: `lead` of them before, of any kind.
    """
    line_end = "\r\n" if "\r\n" in text else "\n"
    if span is None:
        return text if block is None else text + ("\n" * lead + block + "\n").replace("\n", line_end)
    before, after = text[: span[0]], text[span[1] :]
    if block is None:
        return re.sub(rf"(?:\r?\n){{0,{lead}}}\Z", "", before) + re.sub(r"\A\r?\n", "", after)
    return before + block.replace("\n", line_end) + after


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
