"""Which files of a folder are read: .gitignore as Git reads it, sane defaults, no symbolic link. It parses none."""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.source import Passage

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

DEFAULT_IGNORED = """
.git/
.hg/
.svn/
.swarm/
.idea/
.vscode/
node_modules/
bower_components/
jspm_packages/
vendor/
.venv/
venv/
site-packages/
__pycache__/
.tox/
.nox/
.eggs/
*.egg-info/
.mypy_cache/
.pytest_cache/
.ruff_cache/
.gradle/
.terraform/
.next/
.nuxt/
.cache/
dist/
build/
target/
coverage/
htmlcov/
""".split()  # noqa: SIM905 - a paragraph of patterns reads better than a list of strings
"""Weaker than every .gitignore: `!vendor/` there brings the folder back."""

MAX_IGNORE_BYTES = 1_000_000


class Group(NamedTuple):
    """A file: its path within the source, a hash of its bytes, and the parsing of it, which may never be asked for.

    `parse` raises `InputError`, saying why, when the file gives no passages, and nothing else for what stands in it.
    """

    group: str
    content_hash: str
    parse: Callable[[], list[Passage]]


@dataclass(frozen=True, slots=True)
class _Rules:
    """The patterns of one .gitignore, and the folder that they are relative to."""

    base: str
    spec: "GitIgnoreSpec"

    def verdict(self, path: str) -> bool | None:
        """Tell whether `path` is ignored (True), kept by a negation (False) or not named (None)."""
        return self.spec.check_file(path[len(self.base) :]).include if path.startswith(self.base) else None


def faulty(name: str, reason: str) -> Group:
    """Return a group whose passages cannot be had: its hash is that of nothing, and parsing it raises `InputError`."""

    def refuse() -> list[Passage]:
        raise InputError(f"{name} {reason}")

    return Group(name, "", refuse)


def walk(root: Path, unlisted: list[Group] | None = None) -> Iterator[tuple[str, Path]]:
    """Yield (path relative to `root` with `/`, file) of every regular file that is not ignored, in the order of names.

    A .gitignore counts from its own folder downwards, deeper ones outweigh, and those above `root` count up to the
    repository that it lies in, unless they ignore `root` itself: what was named is read. A symbolic link is never
    followed. A folder that cannot be listed is added to `unlisted`. Raises `InputError` when `root` is neither a file
    nor a folder.
    """
    if root.is_file():
        yield root.name, root
        return
    if not root.is_dir():
        raise InputError(f"{root} is neither a file nor a folder: name one that exists")
    root = root.resolve()
    top, inherited = _rules_above(root)
    prefix = "" if root == top else root.relative_to(top).as_posix() + "/"
    pending: list[tuple[str, Path, tuple[_Rules, ...]]] = [(prefix, root, inherited)]
    while pending:
        at, folder, rules = pending.pop()
        entries = _entries(folder, at[len(prefix) :], [] if unlisted is None else unlisted)
        rules = (*rules, *_rules_of(folder, at))
        folders: list[tuple[str, Path, tuple[_Rules, ...]]] = []
        for entry in entries:
            path = at + entry.name
            if entry.is_dir(follow_symlinks=False):
                if not _is_ignored(path + "/", rules):
                    folders.append((path + "/", Path(entry.path), rules))
            elif entry.is_file(follow_symlinks=False) and not _is_ignored(path, rules):
                yield path[len(prefix) :], Path(entry.path)
        pending += reversed(folders)


def read_bytes(path: Path, max_bytes: int) -> bytes | str:
    """Return what is in the file, or why it is not read: it cannot be, or has more than `max_bytes`."""
    try:
        with path.open("rb") as stream:
            data = stream.read(max_bytes + 1)
    except OSError as error:
        return f"cannot be read: {error.strerror or error}"
    return data if len(data) <= max_bytes else f"is larger than {max_bytes:,} bytes, the most that is read"


@dataclass(frozen=True, slots=True)
class Format:
    """How the files of one format are known and read."""

    reader: str
    """Name and version of what reads them."""
    suffixes: frozenset[str]
    max_bytes: int
    is_meant: Callable[[bytes], bool]
    """Whether a file that was not named, only found, looks like one of them."""
    parse: Callable[[str, bytes], list[Passage]]
    """Makes the passages of a group of this name. Raises `InputError`."""


def read_files(root: Path, form: Format, allows: Callable[[str], bool] | None) -> Iterator[Group]:
    """Yield one group for each file of a format, `root` itself or those below it.

    In a folder a file that does not look like one, or that `allows` (given its path) refuses, is left alone.
    """
    named = root.is_file()
    for name, path in walk(root):
        if not named and (path.suffix.lower() not in form.suffixes or (allows is not None and not allows(name))):
            continue
        data = read_bytes(path, form.max_bytes)
        group = storable(name)
        if isinstance(data, str):
            yield faulty(group, data)
        elif named or form.is_meant(data):
            yield Group(group, content_hash(form.reader, group, data), partial(form.parse, group, data))


def content_hash(reader: str, name: str, data: bytes) -> str:
    """Return the hash of a file as `reader` (its name and version) sees it: a new version reads all files again."""
    digest = hashlib.blake2b(f"{reader}\0{name}\0".encode(errors="surrogatepass"), digest_size=20)
    digest.update(data)
    return digest.hexdigest()


def storable(name: str) -> str:
    """Return a file's name as valid UTF-8: what a file system holds beside that becomes U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def _entries(folder: Path, name: str, unlisted: list[Group]) -> list["os.DirEntry[str]"]:
    try:
        with os.scandir(folder) as found:
            return sorted(found, key=lambda entry: entry.name)
    except OSError as error:
        unlisted.append(faulty(storable(name) or ".", f"cannot be listed: {error.strerror or error}"))
        return []


def _is_ignored(path: str, rules: tuple[_Rules, ...]) -> bool:
    for each in reversed(rules):
        if (verdict := each.verdict(path)) is not None:
            return verdict
    return False


def _rules_above(root: Path) -> tuple[Path, tuple[_Rules, ...]]:
    """Return the top of the repository that holds `root` (itself when none does) and the rules from there to `root`."""
    top = next((folder for folder in (root, *root.parents) if (folder / ".git").exists()), root)
    between = [folder for folder in reversed(root.parents) if folder.is_relative_to(top)]
    own = "" if root == top else root.relative_to(top).as_posix() + "/"
    rules = [_Rules(own, _defaults())]
    if top != root or (root / ".git").exists():
        rules += _rules_of(top / ".git" / "info", "", "exclude")
    for folder in between:
        at = "" if folder == top else folder.relative_to(top).as_posix() + "/"
        rules += _rules_of(folder, at)
    return top, tuple(each for each in rules if not _hides(each, own))


def _hides(rules: _Rules, folder: str) -> bool:
    """Tell whether the rules ignore a folder or one above it."""
    parts = folder.split("/")[:-1]
    return any(rules.verdict("/".join(parts[: count + 1]) + "/") is True for count in range(len(parts)))


def _rules_of(folder: Path, at: str, name: str = ".gitignore") -> list[_Rules]:
    from pathspec import GitIgnoreSpec

    path = folder / name
    try:
        if path.is_symlink() or not path.is_file():
            return []
        with path.open("rb") as stream:
            text = stream.read(MAX_IGNORE_BYTES).decode("utf-8", "replace")
    except OSError:
        return []  # Git, too, goes on without an ignore file that it cannot read
    return [_Rules(at, GitIgnoreSpec.from_lines(_valid(text.removeprefix("\ufeff").splitlines())))]


def _valid(lines: Iterable[str]) -> list[str]:
    """Leave out what is no pattern, as Git does."""
    from pathspec import GitIgnoreSpec

    kept: list[str] = []
    for line in lines:
        try:
            GitIgnoreSpec.from_lines([line])
        except ValueError:
            continue
        kept.append(line)
    return kept


@cache
def _defaults() -> "GitIgnoreSpec":
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(DEFAULT_IGNORED)
