"""Skills and blocks of rules in the files of a project: read, planned as changes that can be shown and given back."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from swarm_memory.schema.errors import ConfigError
from swarm_memory.server.hosts.files.promoted import MAX_BYTES, RULES, SKILL, SKILLS, files_of_ours
from swarm_memory.server.hosts.settings_files import FileChange, apply, planned_text
from swarm_memory.tools.promote.documents import Standing
from swarm_memory.tools.promote.marks import BEGIN, Marked, Place, find_block, find_document, marked
from swarm_memory.tools.promote.promote import Document, Promotion, plan_demotion, plan_promotion, record
from swarm_memory.tools.toolbox import Toolbox

_FILES = dict(RULES)


def path_of(place: Place, name: str) -> str:
    """Return the path within a project of a skill, or of the file of a block."""
    return f"{SKILLS}/{name}/{SKILL}" if place == "skill" else _FILES[place]


def standing_in(root: Path) -> list[Standing]:
    """Return what stands of ours in a project. Raises `ConfigError`: links, torn marks, files that cannot be read."""
    found: list[Standing] = []
    for place, name in files_of_ours(root):
        if (mark := _marked(root, place, name)) is not None:
            found.append(Standing(place, Path(name).parent.name if place == "skill" else "", mark))
    return found


async def plan_promoted(
    toolbox: Toolbox, root: Path, ids: Sequence[str], place: Place, *, overwrite: bool = False
) -> tuple[Promotion, list[FileChange]]:
    """Return what promoting memories to a place of a project changes. Raises as `plan_promotion` and `standing_in`."""
    folder = root / SKILLS
    taken = [each.name for each in folder.iterdir()] if folder.is_dir() else []
    done = await plan_promotion(toolbox, ids, place, standing_in(root), taken=taken, overwrite=overwrite)
    return done, list(_changes(root, done.documents))


async def plan_demoted(
    toolbox: Toolbox, root: Path, ids: Sequence[str], place: Place | None, *, overwrite: bool = False
) -> tuple[Promotion, list[FileChange]]:
    """Return what taking memories out changes; without ids all. Raises as `plan_demotion` and `standing_in`."""
    done = await plan_demotion(toolbox, ids or None, place, standing_in(root), overwrite=overwrite)
    return done, list(_changes(root, done.documents))


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


def _changes(root: Path, documents: Sequence[Document]) -> Iterator[FileChange]:
    for document in documents:
        path = root / path_of(document.place, document.name)
        _refuse_links(root, path)

        def write(text: str, document: Document = document, path: Path = path) -> str:
            return _skill(document) if document.place == "skill" else _with_block(path, text, document)

        if (change := planned_text(path, write, 0o644)) is not None:
            yield change


def _skill(document: Document) -> str:
    return "" if document.body is None else marked(document.ids, document.source, document.body)


def _with_block(path: Path, text: str, document: Document) -> str:
    """Return the text of a file with the block in its place, or at the end; nothing around it changes."""
    former = _block(path, text)
    line_end = "\r\n" if "\r\n" in text else "\n"
    if former is None:
        start, end, after = len(text), len(text), 0 if not text else 1 if text.endswith("\n") else 2
        before = line_end * after
    else:
        (start, end), after, before = former.span, former.after, ""
    if document.body is None:
        start -= len(line_end) * after if text[:start].endswith(line_end * after) else 0
        end += len(line_end) if text.startswith(line_end, end) else 0
        return text[:start] + text[end:]
    block = f"{BEGIN}\n{marked(document.ids, document.source, document.body, after)}".replace("\n", line_end)
    return text[:start] + before + (block if former is None else block.removesuffix(line_end)) + text[end:]


def _marked(root: Path, place: Place, name: str) -> Marked | None:
    path = root / name
    try:
        if not path.is_file() or path.stat().st_size > MAX_BYTES:
            return None
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
    found = find_document(text) if place == "skill" else _block(path, text)
    if found is not None:
        _refuse_links(root, path)
    return found


def _block(path: Path, text: str) -> Marked | None:
    try:
        return find_block(text)
    except ValueError as error:
        raise ConfigError(f"{path}: {error}: mend it by hand; nothing was changed") from None


def _refuse_links(root: Path, path: Path) -> None:
    """Raise `ConfigError` where a file, or a folder on the way to it, is a link: it may lead anywhere."""
    for each in (path, *path.parents):
        if each == root:
            return
        if each.is_symlink():
            raise ConfigError(f"{each} is a symbolic link: nothing is written there; name the file that it leads to")
