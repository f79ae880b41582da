"""The folder of a project as operations ask it: files, targets, packages; by Git what lasts and where files went.

All of it may have come with a clone: it is read as data, and from regular files only.
"""

import os
import re
import stat
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread

from swarm_memory.server.child_process import run

T = TypeVar("T")

MAX_BYTES = 16_000_000
"""A longer file is taken as not there."""

GIT_S = 5.0
MAX_GIT_BYTES = 2_000_000
MAX_HOPS = 5
"""So often a file may have been renamed."""

_GIT = (
    "git", "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.quotePath=false", "-c", "log.showSignature=false",
)  # fmt: skip
"""A repository's own configuration could name programs, which these commands would run."""


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


class ProjectFolder:
    """What is there of a project now, and by its Git."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._answers: dict[str, tuple[list[object], bool]] = {}

    async def looked(self, look: Callable[[], T], limit_s: float) -> T | None:
        """Return what a function gives that looks here, in a thread; None where it takes longer."""
        with anyio.move_on_after(limit_s):
            return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
        return None

    def has(self, anchor: str) -> bool:
        """Return whether it is there now; always of a kind that is not looked for, as earlier versions noted some."""
        kind, _, name = anchor.partition(":")
        if kind == "file":
            is_inside = not Path(name).is_absolute() and ".." not in Path(name).parts
            return is_inside and os.path.lexists(self.root / name)
        if kind == "script":
            runner, _, name = name.rpartition(" ")
            files, pattern = _RUNNERS.get(runner.rpartition(" ")[2], ((), ""))
        elif kind == "package":
            files, pattern = _MANIFESTS, _DECLARED
        else:
            return True
        paths = [self.root / file for file in files]
        seen = [_stamp(path) for path in paths]
        known = self._answers.get(anchor)
        if known is None or known[0] != seen:
            named = re.compile(pattern.format(name="[-_]".join(map(re.escape, re.split("[-_]", name)))))
            known = self._answers[anchor] = (seen, any(named.search(_text(path)) for path in paths))
        return known[1]

    async def lasting(self, files: Collection[str]) -> frozenset[str]:
        """Return those of the files that Git keeps; all of them where the folder is no working tree of Git's."""
        if not files or not (self.root / ".git").exists():
            return frozenset(files)
        kept = (await self._git("ls-files", "-z", "--", *files)).split("\0")
        return frozenset(file for file in files if any(path == file or path.startswith(f"{file}/") for path in kept))

    async def moved(self, files: Collection[str]) -> Mapping[str, str]:
        """Return where Git says that files went which are there no more, by their former paths."""
        if not (self.root / ".git").exists():
            return {}
        return {file: at for file in files if (at := await self._moved(file)) is not None}

    async def _moved(self, file: str) -> str | None:
        at = file
        for _ in range(MAX_HOPS):
            commit = (await self._git("log", "-1", "--diff-filter=D", "--format=%H", "--", at)).strip()
            if not commit:
                return None
            shown = await self._git("show", "-M", "-z", "--diff-filter=R", "--name-status", "--format=", commit)
            fields = shown.strip("\0\n").split("\0")
            renamed = dict(zip(fields[1::3], fields[2::3], strict=False))
            if at not in renamed:
                return None
            at = renamed[at]
            if self.has(f"file:{at}"):
                return at
        return None

    async def _git(self, *arguments: str) -> str:
        """Return what Git prints; nothing where it fails, or is not there."""
        environment = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ}
        with anyio.move_on_after(GIT_S):
            try:
                ended = await run(
                    (*_GIT, *arguments),
                    stdin=b"",
                    cwd=self.root,
                    environment=environment | {"LC_ALL": "C", "GIT_LITERAL_PATHSPECS": "1"},
                    max_output_bytes=MAX_GIT_BYTES,
                )
            except OSError:
                return ""
            return "" if ended.code or ended.is_cut else ended.output.decode("utf-8", "replace")
        return ""


def _stamp(path: Path) -> object:
    """Return what changes when a file does; None where there is none."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


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
