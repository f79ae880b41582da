"""Skills and blocks of memories in the files of a project: read, planned as changes, written and noted."""

import re
from collections.abc import Sequence
from pathlib import Path

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.files.promoted import RULES, SKILL, SKILLS, texts_of_ours
from swarm_memory.server.hosts.settings_files import FileChange, apply, planned_text
from swarm_memory.tools.promote.marks import BEGIN, Marked, Place, find_block, find_document, marked
from swarm_memory.tools.promote.promote import Document, Promotion, Standing, plan_demotion, plan_promotion, record
from swarm_memory.tools.toolbox import Toolbox


def path_of(place: Place, name: str) -> str:
    """Return the path within a project of a skill, or of the file of a block."""
    return f"{SKILLS}/{name}/{SKILL}" if place == "skill" else dict(RULES)[place]


def standing_in(root: Path) -> list[Standing]:
    """Return what stands of ours in a project. Raises `ConfigError`: links, torn marks."""
    found: list[Standing] = []
    for place, name, text in texts_of_ours(root):
        mark = find_document(text) if place == "skill" else _block(root / name, text)
        if mark is not None:
            _refuse_links(root, root / name)
            found.append(Standing(place, Path(name).parent.name if place == "skill" else "", mark))
    return found


async def plan_promoted(
    toolbox: Toolbox, root: Path, ids: Sequence[str], place: Place, *, overwrite: bool = False
) -> tuple[Promotion, list[FileChange]]:
    """Return what promoting memories to a place of a project changes. Raises as `plan_promotion` and `standing_in`."""
    folder = root / SKILLS
    taken = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    done = await plan_promotion(toolbox, ids, place, standing_in(root), taken=taken, overwrite=overwrite)
    return done, _changes(root, done)


async def plan_demoted(
    toolbox: Toolbox, root: Path, ids: Sequence[str], place: Place | None, *, overwrite: bool = False
) -> tuple[Promotion, list[FileChange]]:
    """Return what taking memories out changes; without ids all. Raises as `plan_demotion` and `standing_in`."""
    done = await plan_demotion(toolbox, ids or None, place, standing_in(root), overwrite=overwrite)
    return done, _changes(root, done)


async def write_promotion(
    toolbox: Toolbox, root: Path, done: Promotion, changes: Sequence[FileChange]
) -> tuple[Path, ...]:
    """Write the files one by one, each noted in the history of its memories at once; return the copies as `apply` does.

    So what was written before a file that cannot be is known. Raises `ConfigError` as `apply` does and where a link was
    put in the way since the plan was made, and `StorageError`.
    """
    copies: list[Path] = []
    planned = {change.path: change for change in changes}
    for document in done.documents:
        path = path_of(document.place, document.name)
        if (change := planned.get(root / path)) is not None:
            _refuse_links(root, change.path)
            copies += apply([change])
        await record(toolbox, done, document, path)
    return tuple(copies)


def _changes(root: Path, done: Promotion) -> list[FileChange]:
    return [change for document in done.documents if (change := _change(root, document)) is not None]


def _change(root: Path, document: Document) -> FileChange | None:
    path = root / path_of(document.place, document.name)
    _refuse_links(root, path)

    def edit(text: str) -> str:
        if document.place == "skill":
            return "" if document.body is None else f"{marked(document.ids, document.source, document.body, 0)}\n"
        former = _block(path, text)
        lead = _lead_of(text) if former is None else former.after
        block = None
        if document.body is not None:
            block = f"{BEGIN}\n{marked(document.ids, document.source, document.body, lead)}"
        return _block_replaced(text, former and former.span, lead, block)

    return planned_text(path, edit, 0o644)


def _block(path: Path, text: str) -> Marked | None:
    try:
        return find_block(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}: mend it by hand; nothing was changed") from None


def _lead_of(text: str) -> int:
    """Return how many line ends are put before a block that comes to the end of a text."""
    return 0 if not text else 1 if text.endswith("\n") else 2


def _block_replaced(text: str, span: tuple[int, int] | None, lead: int, block: str | None) -> str:
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


def _refuse_links(root: Path, path: Path) -> None:
    """Raise `ConfigError` where a file of a project, or a folder on the way to it, is a link: it may lead anywhere."""
    root, path = root.absolute(), path.absolute()
    if not path.is_relative_to(root):
        return
    for each in (path, *path.parents):
        if each == root:
            return
        if each.is_symlink():
            raise ConfigError(f"{each} is a symbolic link: nothing is written there; name the file that it leads to")
