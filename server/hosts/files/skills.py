"""Skills made from memories, in a project's files: reads them, plans changes, writes and records them."""

from collections.abc import Sequence
from pathlib import Path

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.files.promoted import SKILL, SKILLS, skills_of_ours
from swarm_memory.server.hosts.settings_files import FileChange, apply, planned_text
from swarm_memory.tools.promote.marks import find_skill, marked
from swarm_memory.tools.promote.promote import Document, OurSkill, Promotion, plan_demotion, plan_promotion, record
from swarm_memory.tools.toolbox import Toolbox


def path_of(name: str) -> str:
    """Return the path of a skill within a project."""
    return f"{SKILLS}/{name}/{SKILL}"


def our_skills(root: Path) -> list[OurSkill]:
    """Return our skills in a project. Raises `ConfigError` for links."""
    found: list[OurSkill] = []
    for path, text in skills_of_ours(root):
        if (mark := find_skill(text)) is not None:
            _refuse_links(root, root / path)
            found.append(OurSkill(Path(path).parent.name, mark))
    return found


async def plan_promoted(
    toolbox: Toolbox, root: Path, ids: Sequence[str], *, overwrite: bool = False
) -> tuple[Promotion, list[FileChange]]:
    """Return the promotion of memories and what it changes in a project. Raises as `plan_promotion`, `our_skills`."""
    folder = root / SKILLS
    taken = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    done = await plan_promotion(toolbox, ids, our_skills(root), taken=taken, overwrite=overwrite)
    return done, _changes(root, done)


async def plan_demoted(
    toolbox: Toolbox, root: Path, ids: Sequence[str], *, overwrite: bool = False
) -> tuple[Promotion, list[FileChange]]:
    """Return the demotion of memories (without ids: all) and its changes. Raises as `plan_demotion`, `our_skills`."""
    done = await plan_demotion(toolbox, ids or None, our_skills(root), overwrite=overwrite)
    return done, _changes(root, done)


async def write_promotion(
    toolbox: Toolbox, root: Path, done: Promotion, changes: Sequence[FileChange]
) -> tuple[Path, ...]:
    """Write the files one by one, recording each immediately in its memories' history; return the copies like `apply`.

    So if one file cannot be written, those before it are known. Raises `ConfigError` as `apply` does and where a link
    was put in the way since the plan was made, and `StorageError`.
    """
    copies: list[Path] = []
    planned = {change.path: change for change in changes}
    for document in done.documents:
        path = path_of(document.name)
        if (change := planned.get(root / path)) is not None:
            _refuse_links(root, change.path)
            copies += apply([change])
        await record(toolbox, done, document, path)
    return tuple(copies)


def _changes(root: Path, done: Promotion) -> list[FileChange]:
    return [change for document in done.documents if (change := _change(root, document)) is not None]


def _change(root: Path, document: Document) -> FileChange | None:
    path = root / path_of(document.name)
    _refuse_links(root, path)
    text = "" if document.body is None else marked(document.ids, document.source, document.body)
    return planned_text(path, lambda _: text, 0o644)


def _refuse_links(root: Path, path: Path) -> None:
    """Raise `ConfigError` where a file of a project, or a folder on the way to it, is a link: it may lead anywhere."""
    for each in (path, *path.parents[: path.parents.index(root)]):
        if each.is_symlink():
            raise ConfigError(f"{each} is a symbolic link: nothing is written there; name the file that it points to")
