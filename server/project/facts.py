"""What is in a project's folder: its files, what its manifests declare, its lock files pin, and Git's branches.

All of it may have come with a clone: it is read as data, and from regular files only.
"""

import os
import re
import stat
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MAX_BYTES = 16_000_000
"""A longer file is taken as not there."""

_RUNNERS = {
    "make": (("Makefile", "makefile", "GNUmakefile"), r"(?m)^{name}\s*:(?!=)"),
    "just": (("justfile", "Justfile", ".justfile"), r"(?m)^@?{name}(?:\s[^:\n]*)?:(?!=)"),
    "task": (("Taskfile.yml", "Taskfile.yaml"), r"(?m)^\s+{name}:"),
    "poe": (("pyproject.toml",), r"(?m)^{name}\s*=|^\[tool\.poe\.tasks\.{name}\]"),
    "run": (("package.json",), r'"{name}"\s*:'),
}
"""By the last word of the runner: where its targets stand, and how."""

_MANIFESTS = (
    "package.json", "pyproject.toml", "requirements.txt", "requirements-dev.txt", "setup.cfg", "setup.py", "Pipfile",
    "Cargo.toml", "go.mod", "Gemfile", "composer.json", "mix.exs", "build.gradle", "build.gradle.kts", "pom.xml",
)  # fmt: skip
_DECLARED = r"(?im)(?:^|[\"'>:])\s*{name}(?=[\"'<>=~!@;:,\[\s]|$)"

_PINNED = (
    ("uv.lock", r'name = "{name}"\s+version = "([^"]+)"'),
    ("poetry.lock", r'name = "{name}"\s+version = "([^"]+)"'),
    ("Cargo.lock", r'name = "{name}"\s+version = "([^"]+)"'),
    ("package-lock.json", r'"node_modules/{name}": \{{\s*"version": "([^"]+)"'),
    ("yarn.lock", r'(?m)^"?{name}@[^\n]*:\n\s+version:? "?([\w.+-]+)'),
    ("pnpm-lock.yaml", r"(?m)^\s*'?/?{name}@([\w.+-]+)"),
    ("go.mod", r"(?m)^\s*(?:require )?{name} v?([\w.+-]+)"),
    ("requirements.txt", r"(?m)^{name}==([\w.+-]+)"),
    (".tool-versions", r"(?m)^{name} ([\w.+-]+)"),
)
_RUNTIMES = {
    "python": (
        (".python-version", r"^\s*([\d.]+)"),
        ("pyproject.toml", r"requires-python\s*=\s*[\"'][^\d\"']*([\d.]+)"),
    ),
    "node": (
        (".nvmrc", r"^\s*v?([\d.]+)"),
        (".node-version", r"^\s*v?([\d.]+)"),
        ("package.json", r'"node":\s*"[^\d"]*([\d.]+)'),
    ),
    "go": (("go.mod", r"(?m)^go ([\d.]+)"),),
    "ruby": ((".ruby-version", r"^\s*(?:ruby-)?([\d.]+)"),),
    "rust": (("rust-toolchain", r"^\s*([\d.]+)"), ("Cargo.toml", r"rust-version\s*=\s*\"([\d.]+)")),
}


class Facts:
    """What of a project is there. A hook that has no time asks it too: it needs nothing but the standard library."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._answers: dict[str, tuple[tuple[object, ...], bool]] = {}

    async def looked(self, look: Callable[[], T], limit_s: float) -> T | None:
        """Return what a function gives that looks here, without an event loop; None where it takes longer."""
        found: list[T] = []
        thread = threading.Thread(target=lambda: found.append(look()), daemon=True)
        thread.start()
        thread.join(limit_s)
        return found[0] if found else None

    def has(self, anchor: str) -> bool:
        """Return whether it is there now."""
        kind, _, name = anchor.partition(":")
        if kind == "file":
            return self._inside(name) and os.path.lexists(self.root / name)
        if kind == "branch":
            return self._has_branch(name)
        seen = tuple(map(self._stamp, _files(kind, name)))
        known = self._answers.get(anchor)
        if known is None or known[0] != seen:
            known = self._answers[anchor] = (seen, self._stands(kind, name))
        return known[1]

    def _stands(self, kind: str, name: str) -> bool:
        """Return whether the files that say so name it."""
        if kind == "script":
            runner, _, target = name.rpartition(" ")
            files, pattern = _RUNNERS.get(runner.rpartition(" ")[2], ((), ""))
            return any(self._found(file, pattern, target) for file in files)
        if kind == "package":
            return any(self._found(file, _DECLARED, name) for file in _MANIFESTS)
        what, _, version = name.rpartition(" ")
        pinned = next(filter(None, (self._found(*where, what) for where in _pinned(what))), None)
        return pinned is not None and f"{pinned[1]}.".startswith(f"{version}.")

    def _found(self, file: str, pattern: str, name: str) -> re.Match[str] | None:
        text = self._read(file)
        same = "[-_]".join(map(re.escape, re.split("[-_]", name)))
        return re.search(pattern.format(name=same), text) if text else None

    def _has_branch(self, name: str) -> bool:
        """Return whether a branch, here or of a remote, has that name."""
        git = self._git_folder()
        if git is None or not self._inside(name):
            return False
        refs = git / "refs"
        loose = (refs / "heads" / name, *(remote / name for remote in _entries(refs / "remotes")))
        if any(os.path.lexists(path) for path in loose):
            return True
        packed = _text(git / "packed-refs")
        return re.search(rf"(?m)^\w+ refs/(?:heads|remotes/[^/\s]+)/{re.escape(name)}$", packed) is not None

    def _git_folder(self) -> Path | None:
        """Return where the refs are kept: a working tree beside the first one says it in files."""
        git = self.root / ".git"
        if git.is_dir():
            return git
        named = _text(git).strip().removeprefix("gitdir: ")
        if not named:
            return None
        folder = self.root / named
        return folder / (_text(folder / "commondir").strip() or ".")

    def _inside(self, name: str) -> bool:
        return not Path(name).is_absolute() and ".." not in Path(name).parts

    def _stamp(self, file: str) -> object:
        try:
            found = os.lstat(self.root / file)
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self, file: str) -> str:
        return _text(self.root / file)


def _files(kind: str, name: str) -> Sequence[str]:
    """Return the files that say whether it is there."""
    what = name.rpartition(" ")[0]
    if kind == "script":
        return _RUNNERS.get(what.rpartition(" ")[2], ((), ""))[0]
    return [file for file, _ in _pinned(what)] if kind == "version" else _MANIFESTS


def _pinned(name: str) -> Iterator[tuple[str, str]]:
    """Yield where the version of something stands, and how, the surest first."""
    yield from _RUNTIMES.get(name, ())
    yield from _PINNED


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []


def _text(path: Path) -> str:
    """Return the text of a regular file; nothing for any other, or where it cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
    except OSError:
        return ""
    with os.fdopen(descriptor, "rb") as file:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
            return ""
        return file.read(MAX_BYTES).decode("utf-8", "replace")
