"""The mirror of a bank: a project's memories as files in one of its folders, written and read."""

import asyncio
import hashlib
import logging
import os
from collections import Counter
from pathlib import Path

from pydantic import Field, JsonValue, ValidationError

from swarm_memory.schema.base import Model
from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.job import Job, Report
from swarm_memory.schema.memory import MemoryItem
from swarm_memory.server.location import refuse_links, state_folder, write_private
from swarm_memory.server.project.folder import git, read_bounded
from swarm_memory.tools.anchors.handles import listed_handles
from swarm_memory.tools.memories.decide import edit, merge, set_memory_status
from swarm_memory.tools.memories.manage import pages_of_memories
from swarm_memory.tools.mirror.markdown import Page, add, name_of, page_digest, page_text, read_page
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.toolbox import Toolbox

MIRROR = "mirror"
"""The kind of the job, and its key: a project has one."""

DEFAULT = ".swarm/memories"
MAX_BYTES, MAX_FILES = 64_000, 5_000
_MOST_SEEN, _DELETED = 50, "deleted"  # the latter stands among the blobs of a file that a commit of this branch deleted

log = logging.getLogger(__name__)


class Kept(Model):
    """What this machine knows of one file; digests are Git's."""

    id: str
    file: str
    """The digest of the file as last written or read; empty: a commit removed it."""
    bank: str = ""
    """What `page_digest` returned for the memory then; empty: the file is to be written."""
    seen: tuple[str, ...] = ()
    """The digests of what the bank or the user's hand has put in it; none: nothing in it is ours yet."""
    proposals: tuple[str, ...] = ()
    """The ids of what waits, or waited, for review: restored, it replaces the memory's words."""


class Record(Model):
    """What is known of a project's mirror. The record is in the user's own folder, where no clone writes."""

    folder: str | None = None
    """The folder that the command set for this project; None: the setting applies."""
    files: dict[str, Kept] = Field(default_factory=dict[str, Kept])
    has_begun: bool = False
    """Whether the folder was read once: what was there before that may be anybody's."""


def record_file(root: Path) -> Path:
    """Return the path of the record of a project's mirror."""
    return state_folder() / "mirrors" / f"{hashlib.sha256(os.fsencode(os.path.realpath(root))).hexdigest()[:16]}.json"


def record_of(root: Path) -> Record:
    """Return what is known of a project's mirror. Raises `ConfigError`."""
    file = record_file(root)
    try:
        return Record.model_validate_json(file.read_bytes())
    except FileNotFoundError:
        return Record()
    except (OSError, ValidationError) as error:
        raise ConfigError(f"{file} cannot be read: delete it; what the mirror holds then waits for review") from error


def mirror_folder(toolbox: Toolbox) -> str:
    """Return the folder of the mirror within the project; empty: there is none. Raises `ConfigError`."""
    record = record_of(Path(toolbox.root))
    return toolbox.settings.mirror.folder if record.folder is None else record.folder


def switch(root: Path, folder: str) -> None:
    """Mirror a project in one of its folders, or with "" no longer. Raises `InputError`, `ConfigError`."""
    files, _ = _read(_checked(root, folder)) if folder else ({}, set[str]())
    if strange := [name for name, text in files.items() if not text.startswith(b"---\n")]:
        raise InputError(f"{folder} contains {strange[0]}, which is not a memory: name a folder just for the mirror")
    former = record_of(root)
    record = former.model_copy(update={"folder": folder}) if former.folder in (None, folder) else Record(folder=folder)
    write_private(record_file(root), record.model_dump_json())


async def mirror(toolbox: Toolbox, job: Job, report: Report) -> dict[str, JsonValue]:
    """Write each changed memory into its file; if the payload has `reads`, first take in what was changed by hand.

    Raises `InputError` if there is no mirror, `ConfigError`, `StorageError`.
    """
    root = Path(toolbox.root)
    if not (folder := mirror_folder(toolbox)):
        raise InputError(f"there is no mirror: `swarm-memory mirror` creates one in {DEFAULT}")
    record = record_of(root)
    run = _Run(toolbox, _checked(root, folder), record)
    try:
        await run.go(reads=job.payload.get("reads") is True)
    except OSError as error:
        raise ConfigError(f"{folder}: {error.strerror or error}") from error
    finally:
        after = Record(folder=record.folder, files=run.kept, has_begun=record.has_begun or run.has_read)
        if after != record:
            write_private(record_file(root), after.model_dump_json())
    notices = [one_line(clean(notice), 800) for notice in run.notices]
    for notice in notices:
        log.warning("mirror: %s", notice)
    return {"folder": folder, **run.count, "notices": [*notices]}


class _Run:
    """One run over a folder."""

    def __init__(self, toolbox: Toolbox, folder: Path, record: Record) -> None:
        self._toolbox, self._folder = toolbox, folder
        self._files, self._left_out = dict[str, bytes](), set[str]()
        self.kept = dict(record.files) if folder.is_dir() else {}  # removing the whole folder removes no memories
        self.count, self.notices = Counter[str](), list[str]()
        self._has_begun, self.has_read = record.has_begun, False
        self._items: dict[str, MemoryItem] = {}

    async def go(self, *, reads: bool) -> None:
        """Take in what was changed by hand, if `reads`, then write."""
        self._files, self._left_out = await asyncio.to_thread(_read, self._folder)
        kept, files = self.kept, self._files
        changed = [name for name, text in files.items() if name not in kept or _digest(text) != kept[name].file]
        gone = [name for name in kept if name not in files and name not in self._left_out]
        await self._look()
        if reads:
            if out := self._left_out:
                limits = f"{MAX_BYTES // 1000} KB, {MAX_FILES:,} files, printable names, no links"
                self.notices.append(f"not read: {one_line(', '.join(map(repr, sorted(out))), 400)} ({limits})")
            try:
                seen = {each for one in kept.values() for each in one.seen}  # ours, even if Git has it
                new = "".join(f"{now} ={name}\n" for name in changed if (now := _digest(files[name])) not in seen)
                blobs = await _in_git(self._folder, new) if changed or gone else {}
                for name in changed:
                    try:
                        page = read_page(files[name].decode("utf-8"))
                        if former := next((each for each in gone if name not in kept and kept[each].id == page.id), ""):
                            kept[name] = kept.pop(former)  # the file was renamed
                            gone.remove(former)
                        await self._take_in(name, page, blobs.get(name, set()))
                    except (InputError, UnicodeDecodeError) as error:
                        self.notices.append(f"{name} is left unchanged: {error}")
                for name in gone:
                    await self._gone(name, blobs.get(name, set()))
                self.has_read = True
            except ConfigError as error:
                self.notices.append(str(error))
            await self._look()
        await self._accept()
        await self._write()

    async def _look(self) -> None:
        pages = pages_of_memories(self._toolbox, (self._toolbox.scope,))
        self._items = {item.id: item async for page in pages for item in page}

    def _note(self, name: str, item: MemoryItem, *waiting: str, is_written: bool = True, is_ours: bool = True) -> None:
        """Note a file as it is now, with what is `waiting`; `is_written`: the bank has nothing more to write."""
        now, before = _digest(self._files[name]), self.kept.get(name, Kept(id=item.id, file=""))
        seen = tuple(dict.fromkeys((*before.seen, now) if is_ours else before.seen))[-_MOST_SEEN:]
        bank, waits = page_digest(item) if is_written else "", tuple(dict.fromkeys((*before.proposals, *waiting)))
        self.kept[name] = Kept(id=item.id, file=now, bank=bank, seen=seen, proposals=waits)

    async def _take_in(self, name: str, page: Page, blobs: set[str]) -> None:
        """Bring what a file says into the bank; `blobs`: the digests that Git has of the file."""
        kept, now = self.kept.get(name), _digest(self._files[name])
        item = self._items.get(kept.id if kept else page.id)
        seen = {*(kept.seen if kept else ())}
        is_by_hand = self._has_begun and now not in blobs and blobs <= seen
        listed = listed_handles(item) if item else ()
        own = {each.partition(":")[2] for each in (item.provenance.handles if item else ())}
        if is_by_hand and ({*listed} - own - {*page.handles} or len({*page.handles}) < len(page.handles)):
            self.notices.append(f"{name}: the handles come from its text, too: those are always listed, each once")
        if item is not None and page.says(item):
            is_same = not is_by_hand or sorted(page.handles) == sorted(listed)
            self._note(name, item, is_written=is_same, is_ours=item.status == "active")
        elif kept and now in blobs & seen:  # as it was on another branch
            self.kept[name] = kept.model_copy(update={"file": now})
        elif is_by_hand and item is None:
            self._note(name, await add(self._toolbox, page, name), is_written=False)
            self.count["added"] += 1
        elif is_by_hand and item and kept and kept.bank == page_digest(item):
            done = await edit(self._toolbox, item.id, page.change, f"edited in {name}", handles=page.given(item))
            self._note(name, done.items[0], is_written=False)
            self.count["edited"] += 1
        else:
            why = "the bank now says something else" if is_by_hand else "it came with a commit, or nobody knows how"
            why += f"; once restored, it replaces {item.id}" if item else ""
            proposal = await add(self._toolbox, page, name, why, item)
            # In a conflict the bank's text is written into the file; what a commit brought stays there as it is.
            waiting = {proposal.id} - {item.id} if item and proposal.status == "quarantined" else ()
            self._note(name, item or proposal, *waiting, is_written=not is_by_hand, is_ours=is_by_hand)
            self.notices.append(f"{name}: {why}; its text waits for review as {proposal.id}")
            self.count["proposed"] += 1

    async def _accept(self) -> None:
        """Give each memory the words of the proposal for its file that the user restored, and keep them in the file."""
        for name, proposal in [(name, each) for name, kept in self.kept.items() for each in kept.proposals]:
            kept, restored = self.kept[name], self._items.get(proposal)
            if restored and restored.status == "active" and kept.id in self._items:
                item, self._items[proposal] = (await merge(self._toolbox, kept.id, proposal, takes_words=True)).items
                self._items[kept.id], text = item, self._files.get(name, b"")
                others = tuple(each for each in kept.proposals if each != proposal)
                is_said = _digest(text) == kept.file and read_page(text.decode("utf-8")).says(item)
                seen, bank = ((*kept.seen, kept.file), page_digest(item)) if is_said else (kept.seen, "")
                self.kept[name] = kept.model_copy(update={"proposals": others, "seen": seen, "bank": bank})
                self.count["accepted"] += 1

    async def _gone(self, name: str, blobs: set[str]) -> None:
        """Archive the memory of a file that was deleted by hand, but not of one that a commit removed, or of a copy."""
        kept = self.kept[name]
        if not kept.file or not blobs <= {*kept.seen}:
            self.kept[name] = kept.model_copy(update={"file": ""})
            with_file = {each.id for each in self.kept.values() if each.file}
            active = {each.id for each in self._items.values() if each.status == "active"} - with_file
            if _DELETED in blobs and kept.id in active:
                archive = f"`swarm-memory memories quarantine --archive {kept.id}`"
                self.notices.append(f"{name}: a commit deleted it, but its memory stays; {archive} archives that too")
            return
        del self.kept[name]
        if kept.seen and kept.id in self._items and all(each.id != kept.id for each in self.kept.values()):
            await set_memory_status(self._toolbox, [kept.id], "archived", f"its file {name} was deleted")
            self.count["archived"] += 1

    async def _write(self) -> None:
        """Write what the bank says into files that do not say it yet, and remove the files of inactive memories."""
        active = {key: each for key, each in self._items.items() if each.status == "active"}
        names = {each.id: name for name, each in self.kept.items()}
        for item in (each for each in active.values() if each.provenance.suspect is None):
            await self._toolbox.give_way()
            name = names.get(item.id) or name_of(item)
            kept = self.kept.get(name)
            if kept and kept.bank == page_digest(item):
                if not kept.seen:  # the user accepted it, and its file with it
                    self.kept[name] = kept.model_copy(update={"seen": (kept.file,)})
                continue
            text, found = page_text(item).encode(), read_bounded(self._folder / name, MAX_BYTES)
            if found != text:
                if name in self._left_out or (found is not None and (kept is None or _digest(found) != kept.file)):
                    continue  # changed by hand: it must be read before it is written
                mode = 0o600 if found is None else (self._folder / name).lstat().st_mode & 0o777
                write_private(self._folder / name, text.decode(), mode)
                self.count["written"] += 1
            self._files[name] = text
            self._note(name, item)
        for name, kept in [(name, each) for name, each in self.kept.items() if each.bank and each.id not in active]:
            found = read_bounded(self._folder / name, MAX_BYTES)
            if name not in self._left_out and (found is None or _digest(found) == kept.file in kept.seen):
                (self._folder / name).unlink(missing_ok=True)
                self.count["removed"] += 1
                del self.kept[name]


def _checked(root: Path, folder: str) -> Path:
    """Return the path of a mirror within the project, if no link leads to it. Raises `InputError`, `ConfigError`."""
    parts = Path(folder).parts
    if Path(folder).is_absolute() or not parts or {"..", ".git"} & {*parts}:
        raise InputError(f"{folder!r} is not a folder within the project: name one such as {DEFAULT}")
    try:
        refuse_links(*(root.joinpath(*parts[:count]) for count in range(1, len(parts) + 1)))
    except OSError as error:
        raise ConfigError(str(error)) from error
    if (root / folder).exists() and not (root / folder).is_dir():
        raise InputError(f"{folder} is a file: name a folder such as {DEFAULT}")
    return root / folder


def _read(folder: Path) -> tuple[dict[str, bytes], set[str]]:
    """Return a mirror's files by name, and those left out; remove what a killed process left half written."""
    found, left_out = dict[str, bytes](), set[str]()
    for path in sorted(folder.iterdir()) if folder.is_dir() else ():
        is_half = path.name.startswith(".") and path.stem.endswith(".md") and len(path.suffix) == 17
        is_one = is_half or (path.suffix == ".md" and not path.name.startswith(".") and path.name != "README.md")
        is_read = is_one and path.name.isprintable() and len(found) < MAX_FILES  # `_in_git` knows only UTF-8 names
        if is_half and not path.is_dir():
            path.unlink(missing_ok=True)
        elif is_read and (text := read_bounded(path, MAX_BYTES)) is not None:
            found[path.name] = text
        elif is_one:
            left_out.add(path.name)
    return found, left_out


def _digest(text: bytes) -> str:
    """Return the id that Git gives to a file's content."""
    return hashlib.sha1(b"blob %d\0" % len(text) + text, usedforsecurity=False).hexdigest()


async def _in_git(folder: Path, new: str) -> dict[str, set[str]]:
    """Return, by file name, the ids of blobs in the index, in HEAD, and of those in `new` ("id =name") that Git has."""
    blobs: dict[str, set[str]] = {}
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return blobs
    names = ("--no-renames", "--format=", "--name-only", "--relative", "-z", "--", ".")
    held = await git(folder, "cat-file", "--batch-check=%(objectname)\t%(rest)", stdin=new.encode())
    past = await git(folder, "log", "--all", "--reflog", *names)
    deleted = await git(folder, "log", "--diff-filter=D", *names)
    staged, last = await git(folder, "ls-files", "-sz"), await git(folder, "ls-tree", "-z", "HEAD")
    if last is not None and b"Not a valid object name" in last.error:  # nothing was committed yet
        last = deleted = past
    for each in (held, staged, last, past, deleted):
        if each is None or each.code:
            raise ConfigError("Git does not say what came with a commit: no file was read")
        for line in filter(None, each.output.decode("utf-8", "replace").split("\n" if each is held else "\0")):
            about, _, name = line.rpartition("\t=" if each is held else "\t")  # behind "=" a leading blank stays
            found = blobs.setdefault(name, set())
            found.update(word for word in about.split() if len(word) >= 40)  # no mode, kind or stage
            found.update(() if found else (name,))  # its name instead: Git had it once
            found.update((_DELETED,) if each is deleted and found == {name} else ())
    return blobs
