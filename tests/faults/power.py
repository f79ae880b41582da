"""Disks as power cuts may leave them, built from the log of `recording_disk.c`. It knows files and folders, no bank.

It assumes only what POSIX promises: a file's content is safe once the file is flushed, its name once the folder is. Of
what was not flushed, any part may be on the disk, or nothing.
"""

import random
import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

SECTOR = 512
"""The unit that a disk writes as a whole or not at all."""

_HEAD = struct.Struct("=IIIIQq")


class Step(NamedTuple):
    """One call that a process made."""

    kind: str
    """One of o(pened), w(ritten), t(runcated), f(lushed), r(enamed), l(inked), u(nlinked), m(ade a folder)."""
    path: str
    other: str
    data: bytes
    inode: int
    place: int
    """Offset of a write, size of a truncated file, 1 for an open that created the file."""


def read_steps(log: Path) -> list[Step]:
    """Return what processes did, in the order in which they did it."""
    record, at, steps = memoryview(log.read_bytes()), 0, list[Step]()
    while at < len(record):
        kind, path, other, data, inode, place = _HEAD.unpack_from(record, at)
        at += _HEAD.size
        names = bytes(record[at : at + path + other]).decode()
        at += path + other
        steps.append(Step(chr(kind), names[:path], names[path:], bytes(record[at : at + data]), inode, place))
        at += data
    return steps


@dataclass(slots=True, eq=False)
class File:
    """The part of a file that is certainly on the disk, and what was written since."""

    flushed: bytearray = field(default_factory=bytearray)
    waiting: list[tuple[int, bytes | None]] = field(default_factory=list[tuple[int, bytes | None]])
    """(offset, data) of each write; data None: the file was truncated, or extended with zeros, to the size `offset`."""

    def flush(self) -> None:
        """Put all of the file on the disk."""
        for place, data in self.waiting:
            _put(self.flushed, place, data)
        self.waiting.clear()


@dataclass(slots=True, eq=False)
class Folder:
    """The names in a folder: those certainly on the disk, those that processes see, and the changes since the flush."""

    flushed: "dict[str, Node]" = field(default_factory=dict[str, "Node"])
    seen: "dict[str, Node]" = field(default_factory=dict[str, "Node"])
    waiting: "list[Change]" = field(default_factory=list["Change"])

    def change(self, **names: "Node | None") -> None:
        """Give names to files, or remove them, atomically."""
        _rename(self.seen, names)
        self.waiting.append(names)

    def flush(self) -> None:
        """Put all names on the disk."""
        self.flushed = dict(self.seen)
        self.waiting.clear()


Node: TypeAlias = File | Folder
Change: TypeAlias = dict[str, File | Folder | None]


class Disk:
    """The disk under a folder; the folder and everything in it when the recording began are certainly on it."""

    def __init__(self, root: Path, begin: dict[str, bytes] | None = None, *, lies: bool = False) -> None:
        self._root_path = str(root)
        self._lies = lies
        self._root = Folder()
        self._nodes: dict[int, Node] = {}
        for name, content in (begin or {}).items():
            *folders, last = name.split("/")
            folder = self._root
            for each in folders:
                below = folder.seen.setdefault(each, Folder())
                assert isinstance(below, Folder)
                folder.flush()
                folder = below
            folder.change(**{last: File(bytearray(content))})
            folder.flush()

    def do(self, step: Step) -> None:
        """Repeat what a process did. A disk that lies reports a flush without doing it."""
        if step.kind == "o":
            self._open(step)
        elif step.kind in "wt":
            file = self._nodes[step.inode]
            assert isinstance(file, File)
            file.waiting.append((step.place, step.data if step.kind == "w" else None))
        elif step.kind == "f":
            if not self._lies:
                self._nodes[step.inode].flush()
        else:
            self._rename(step)

    def _open(self, step: Step) -> None:
        folder, name = self._find(step.path)
        if step.place:
            file = File()
            folder.change(**{name: file})
            self._nodes[step.inode] = file
        else:
            self._nodes[step.inode] = folder.seen[name] if name else folder

    def _rename(self, step: Step) -> None:
        folder, name = self._find(step.path)
        if step.kind == "m":
            folder.change(**{name: Folder()})
        elif step.kind == "u":
            folder.change(**{name: None})
        else:
            to, other = self._find(step.other)
            assert to is folder, "a file is moved to another folder: not modelled"
            folder.change(**{other: folder.seen[name], **({name: None} if step.kind == "r" else {})})

    def _find(self, path: str) -> tuple[Folder, str]:
        """Return the folder of a path and the name there; the name is empty for the root."""
        *folders, last = path.removeprefix(self._root_path).strip("/").split("/")
        folder = self._root
        for each in folders:
            below = folder.seen[each]
            assert isinstance(below, Folder)
            folder = below
        return folder, last

    def seen_files(self) -> dict[str, bytes]:
        """Return every file as processes see it, by path."""
        return {name: _whole(file) for name, file in self._seen()}

    def seen(self, name: str) -> bytes:
        """Return a file as processes see it; empty if there is none."""
        return next((_whole(file) for path, file in self._seen() if path == name), b"")

    def is_written(self, name: str) -> bool:
        """Return whether part of a file is not flushed yet."""
        return any(file.waiting for path, file in self._seen() if path == name)

    def _seen(self) -> Iterator[tuple[str, File]]:
        return _files(self._root, lambda folder: folder.seen)

    def dropped(self) -> dict[str, bytes]:
        """Return every file as it is if only what was flushed reached the disk."""
        return {name: bytes(file.flushed) for name, file in _files(self._root, lambda folder: folder.flushed)}

    def torn(self, chance: random.Random) -> dict[str, bytes]:
        """Return every file as it may be if any part of what was not flushed reached the disk, in any order.

        That is any sectors of each write, and any changes of names in each folder. The gap between the end of a file
        and a write beyond it is filled with zeros or garbage.
        """

        def names(folder: Folder) -> dict[str, Node]:
            kept, share = dict(folder.flushed), chance.choice((0.5, _share(chance)))
            for change in folder.waiting:
                if chance.random() < share:
                    _rename(kept, change)
            return kept

        return {name: _torn(file, chance) for name, file in _files(self._root, names)}


def _files(folder: Folder, names: Callable[[Folder], dict[str, Node]], above: str = "") -> Iterator[tuple[str, File]]:
    for name, node in sorted(names(folder).items()):
        if isinstance(node, Folder):
            yield from _files(node, names, f"{above}{name}/")
        else:
            yield f"{above}{name}", node


def _rename(names: dict[str, Node], change: Change) -> None:
    for name, node in change.items():
        if node is None:
            names.pop(name, None)
        else:
            names[name] = node


def _whole(file: File) -> bytes:
    content = bytearray(file.flushed)
    for place, data in file.waiting:
        _put(content, place, data)
    return bytes(content)


def _torn(file: File, chance: random.Random) -> bytes:
    content, share, rubbish = bytearray(file.flushed), _share(chance), chance.random() < 0.5
    for place, data in file.waiting:
        if data is None or chance.random() < 0.5:
            if chance.random() < share:
                _put(content, place, data, chance if rubbish else None)
            continue
        for begin, end in _sectors(place, len(data)):
            if chance.random() < share:
                _put(content, place + begin, data[begin:end], chance if rubbish else None)
    return bytes(content)


def _share(chance: random.Random) -> float:
    """Return the share of unflushed data that reaches the disk: nearly nothing, nearly all, or anything between."""
    return chance.choice((0.0, 0.02, 0.5, 0.98, 1.0, chance.random()))


def _sectors(place: int, size: int) -> Iterable[tuple[int, int]]:
    """Return (begin, end) of the parts of a write that are in one sector each, as offsets in the write."""
    begin = 0
    while begin < size:
        end = min(size, begin + SECTOR - (place + begin) % SECTOR)
        yield begin, end
        begin = end


def _put(content: bytearray, place: int, data: bytes | None, rubbish: random.Random | None = None) -> None:
    gap = place - len(content)
    if gap > 0:
        content.extend(rubbish.randbytes(gap) if rubbish and data is not None else bytes(gap))
    if data is None:
        del content[place:]
    else:
        content[place : place + len(data)] = data
