"""Finds the files of a folder to read (.gitignore as Git reads it, no symbolic links), and decodes their bytes."""

import codecs
import hashlib
import os
import re
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage
from swarm_memory.tools.text.cleaning import clean

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

MAX_IGNORE_BYTES = 1_000_000


class Group(NamedTuple):
    """A file: its path within the source, a hash of its bytes, and a function to parse it, which may never be called.

    `parse` raises `InputError`, saying why, when the file has no passages; no content makes it raise anything else.
    """

    group: str
    content_hash: str
    parse: Callable[[], list[Passage]]


def bad_group(name: str, reason: str) -> Group:
    """Return a group whose passages are not available: its hash is empty, and parsing it raises `InputError`."""
    return Group(name, "", partial(_refuse, f"{name} {reason}"))


def _refuse(reason: str) -> list[Passage]:
    raise InputError(reason)


def walk(root: Path, unlisted: list[Group]) -> Iterator[tuple[str, Path]]:
    """Yield (path relative to `root` with `/`, file) for every regular file that is not ignored, in order of names.

    A .gitignore applies from its own folder downwards; deeper ones take precedence. Those above `root` apply up to the
    top of its repository, unless they ignore `root` itself: what was named is read. Symbolic links are never followed.
    A folder that cannot be listed is added to `unlisted`. Raises `InputError` if `root` does not exist.
    """
    if root.is_file():
        yield root.name, root
        return
    if not root.is_dir():
        raise InputError(f"{root} is neither a file nor a folder: name one that exists")
    root = root.resolve()
    prefix, inherited = _rules_above(root)
    pending: list[tuple[str, Path, GitIgnoreSpec]] = [(prefix, root, inherited)]
    while pending:
        at, folder, rules = pending.pop()
        try:
            with os.scandir(folder) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        except OSError as error:
            name = to_valid_utf8(at[len(prefix) :]) or "."
            unlisted.append(bad_group(name, f"cannot be listed: {error.strerror or error}"))
            continue
        rules = _with_file(rules, folder / ".gitignore", at)
        folders: list[tuple[str, Path, GitIgnoreSpec]] = []
        for entry in entries:
            path = at + entry.name
            if entry.is_dir(follow_symlinks=False):
                if not rules.match_file(path + "/"):
                    folders.append((path + "/", Path(entry.path), rules))
            elif entry.is_file(follow_symlinks=False) and not rules.match_file(path):
                yield path[len(prefix) :], Path(entry.path)
        pending += reversed(folders)


def read_bytes(path: Path, max_bytes: int) -> bytes:
    """Return the file's bytes. Raises `InputError`, saying why, if it cannot be read or has more than `max_bytes`."""
    try:
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}") from None
    if len(data) > max_bytes:
        raise InputError(f"is larger than {max_bytes:,} bytes, the limit")
    return data


def read_files(
    root: Path, read: Callable[[str, Path, bool], Group | None], allows: Callable[[str], bool] | None
) -> Iterator[Group]:
    """Yield the groups of the files of `root`, a folder or one file, and of folders that cannot be listed.

    `read` gets a file's path within the source, its location, and whether it was named itself; it returns None for a
    file not of its kind, and raises `InputError` for one that cannot be read. `allows` may exclude more of a folder.
    """
    named = root.is_file()
    unlisted: list[Group] = []
    for path, file in walk(root, unlisted):
        name = to_valid_utf8(path)
        if allows is not None and not named and not allows(name):
            continue
        try:
            group = read(name, file, named)
        except InputError as error:
            group = bad_group(name, str(error))
        if group is not None:
            yield group
    yield from unlisted


def read_format(
    reader: str,
    suffixes: Container[str],
    max_bytes: int,
    is_meant: Callable[[bytes], bool],
    parse: Callable[[str, bytes], list[Passage]],
) -> Callable[[str, Path, bool], Group | None]:
    """Return a `read` for `read_files` of a format known by suffix and bytes; a file that was named is always read.

    `reader` is the reader's name and version; `parse` makes the passages of a group and raises `InputError`.
    """

    def read(name: str, file: Path, named: bool) -> Group | None:
        if not named and file.suffix.lower() not in suffixes:
            return None
        data = read_bytes(file, max_bytes)
        if not (named or is_meant(data)):
            return None
        return Group(name, content_hash(reader, name, data), partial(parse, name, data))

    return read


def content_hash(reader: str, name: str, data: bytes) -> str:
    """Return the hash of a file for `reader` (its name and version): with a new version all files are read again."""
    digest = hashlib.blake2b(f"{reader}\0{name}\0".encode(errors="surrogatepass"), digest_size=20)
    digest.update(data)
    return digest.hexdigest()


def to_valid_utf8(name: str) -> str:
    """Return a file's name as valid UTF-8: bytes that are not UTF-8 become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _rules_above(root: Path) -> "tuple[str, GitIgnoreSpec]":
    """Return the prefix of paths in `root`, seen from the top of its repository, and the rules from there to it."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    prefix = _prefix(root, top)
    rules = _with_file(_defaults(prefix), top / ".git" / "info" / "exclude", "", prefix)
    for folder in reversed(root.parents):
        if folder.is_relative_to(top):
            rules = _with_file(rules, folder / ".gitignore", _prefix(folder, top), prefix)
    return prefix, rules


def _prefix(folder: Path, top: Path) -> str:
    return "" if folder == top else folder.relative_to(top).as_posix() + "/"


def _with_file(rules: "GitIgnoreSpec", path: Path, at: str, named: str = "") -> "GitIgnoreSpec":
    """Return `rules` and, overriding them, those of an ignore file, unless the latter ignore the folder `named`."""
    try:
        if path.is_symlink() or not path.is_file():
            return rules
        with path.open("rb") as stream:
            text = stream.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
    except OSError:
        return rules  # Git, too, goes on without an ignore file that it cannot read
    own = _rules_of(text.removeprefix("\ufeff").splitlines(), at)
    return rules if named and own.match_file(named) else rules + own


def _rules_of(lines: Iterable[str], at: str) -> "GitIgnoreSpec":
    """Return the patterns of an ignore file in the folder `at` as seen from the top."""
    from pathspec import GitIgnoreSpec

    base = re.sub(r"[\\*?\[\]]", r"\\\g<0>", at)
    patterns: list[str] = []
    for line in lines:
        negation, pattern = ("!", line[1:]) if line.startswith("!") else ("", line)
        if not pattern.strip() or line.startswith("#"):
            continue
        anywhere = "" if "/" in pattern.rstrip().rstrip("/") else "**/"
        with suppress(ValueError):  # Git, too, skips what is not a pattern
            whole = f"{negation}/{base}{anywhere}{pattern.removeprefix('/')}"
            GitIgnoreSpec.from_lines([whole])
            patterns.append(whole)
    return GitIgnoreSpec.from_lines(patterns)


@cache
def _defaults(at: str) -> "GitIgnoreSpec":
    """Return the default patterns, which every .gitignore overrides, for the folder `at`."""
    return _rules_of(Path(__file__).with_name("ignored.txt").read_text(encoding="utf-8").splitlines(), at)


_MARKS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
"""Byte order marks, with their encodings."""

_SAMPLE_BYTES = 8192
_MAX_CONTROL_SHARE = 0.1
_CONTROL = bytes(set(range(0x20)) - {0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1B}) + b"\x7f"
_SPACES = str.maketrans({**dict.fromkeys("\x0b\x1c\x1d\x1e\x85\u2028\u2029", " "), "\x0c": None})
"""What Python takes as a line end but an editor does not becomes a space, so that both count the same lines; a form
feed, which comes before code that is not indented, is removed."""


class Decoded(NamedTuple):
    """A file's text, its lines divided by `\\n`, and the encoding it was read in."""

    text: str
    encoding: str


def is_binary(data: bytes) -> bool:
    """Whether the bytes are not text: they have no byte order mark, but a NUL or over a tenth of control characters."""
    if data.startswith(tuple(_MARKS)):
        return False
    sample = data[:_SAMPLE_BYTES]
    controls = len(sample) - len(sample.translate(None, _CONTROL))
    return b"\0" in sample or controls > _MAX_CONTROL_SHARE * len(sample)


def decode(data: bytes) -> Decoded:
    """Return the text, decoded by byte order mark, as UTF-8, or else as Windows-1252 or Latin-1.

    Never fails. Control characters are removed; lines keep their numbers. Linear in the length.
    """
    for mark, encoding in (*_MARKS.items(), (b"", "utf-8"), (b"", "cp1252")):
        if data.startswith(mark):
            with suppress(UnicodeError):
                text, used = data.decode(encoding, "replace" if mark else "strict"), encoding.removesuffix("-sig")
                break
    else:
        text, used = data.decode("latin-1"), "latin-1"
    return Decoded(clean(text.translate(_SPACES)), used)
