"""Skills and blocks of memories in the files of a project: read, planned as changes, written and noted."""

from collections.abc import Sequence
from pathlib import Path

from swarm_memory.server.hosts.files.promoted import RULES, SKILL, SKILLS, texts_of_ours
from swarm_memory.server.hosts.files.rules import block_replaced, lead_of, refuse_links, torn
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
            refuse_links(root, root / name)
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
            refuse_links(root, change.path)
            copies += apply([change])
        await record(toolbox, done, document, path)
    return tuple(copies)


def _changes(root: Path, done: Promotion) -> list[FileChange]:
    return [change for document in done.documents if (change := _change(root, document)) is not None]


def _change(root: Path, document: Document) -> FileChange | None:
    path = root / path_of(document.place, document.name)
    refuse_links(root, path)

    def edit(text: str) -> str:
        if document.place == "skill":
            return "" if document.body is None else f"{marked(document.ids, document.source, document.body, 0)}\n"
        former = _block(path, text)
        lead = lead_of(text) if former is None else former.after
        block = None
        if document.body is not None:
            block = f"{BEGIN}\n{marked(document.ids, document.source, document.body, lead)}"
        return block_replaced(text, former and former.span, lead, block)

    return planned_text(path, edit, 0o644)


def _block(path: Path, text: str) -> Marked | None:
    try:
        return find_block(text)
    except ValueError as error:
        raise torn(path, error) from None
