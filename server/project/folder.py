"""Answers what a project's folder has: files, targets, packages, and which files Git keeps.

All of it may have come with a clone: it is read as data, and only from regular files.
"""

import os
import re
import stat
from collections.abc import Collection
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

import anyio

from swarm_memory.server.child_process import Finished, run

MAX_BYTES = 2_000_000
"""A longer file is treated as missing."""

_KEPT_TEXTS = 16
GIT_S = 5.0
MAX_GIT_BYTES = 2_000_000
_GIT = ("git", "--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")
_APART = {"LC_ALL": "C", "GIT_LITERAL_PATHSPECS": "1", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}
"""A repository's own configuration could name programs, which Git would run, and remotes, which it would contact."""

_RUNNERS = {
    "make": (("Makefile", "makefile", "GNUmakefile"), r"(?m)^{name}\s*:(?!=)"),
    "just": (("justfile", "Justfile", ".justfile"), r"(?m)^@?{name}(?:\s[^:\n]*)?:(?!=)"),
    "task": (("Taskfile.yml", "Taskfile.yaml"), r"(?m)^\s+{name}:"),
    "poe": (("pyproject.toml",), r"(?m)^{name}\s*=|^\[tool\.poe\.tasks\.{name}\]"),
    "run": (("package.json",), r'"{name}"\s*:'),
}
"""By the last word of the runner: the files that define its targets, and the pattern of a definition."""

_MANIFESTS = (
    "package.json", "pyproject.toml", "requirements.txt", "requirements-dev.txt", "setup.cfg", "setup.py", "Pipfile",
    "Cargo.toml", "go.mod", "Gemfile", "composer.json", "mix.exs", "build.gradle", "build.gradle.kts", "pom.xml",
)  # fmt: skip
_DECLARED = r"(?im)(?:^|[\"'>:])\s*{name}(?=[\"'<>=~!@;:,\[\s]|$)"


class ProjectFolder:
    """What exists in a project now, and which of its files Git keeps."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def has(self, anchor: str) -> bool:
        """Whether an anchor exists now; always true for a kind that is not checked, such as earlier versions noted."""
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
        named = re.compile(pattern.format(name="[-_]".join(map(re.escape, re.split("[-_]", name)))))
        for path in (self.root / file for file in files):
            with suppress(OSError):
                found = os.lstat(path)
                if named.search(_text(path, (found.st_ino, found.st_mtime_ns, found.st_size))):
                    return True
        return False

    async def tracked_by_git(self, files: Collection[str]) -> frozenset[str]:
        """Return those of the files that Git keeps; none if it does not answer.

        Return all of them if the folder is not a Git working tree.
        """
        if not files or not (self.root / ".git").exists():
            return frozenset(files)
        ended = await git(self.root, "ls-files", "-z", "--", *files)
        kept = [] if ended is None or ended.code else ended.output.decode("utf-8", "replace").split("\0")
        return frozenset(file for file in files if any(f"{path}/".startswith(f"{file}/") for path in kept))


async def git(folder: Path, *words: str, stdin: bytes = b"") -> Finished | None:
    """Run Git in a folder and return how it ended; None if it cannot run, takes too long or prints too much."""
    environment = {name: os.environ[name] for name in ("PATH", "HOME", "SYSTEMROOT") if name in os.environ} | _APART
    with anyio.move_on_after(GIT_S):
        try:
            ended = await run(
                (*_GIT, *words), stdin=stdin, cwd=folder, environment=environment, max_output_bytes=MAX_GIT_BYTES
            )
        except OSError:
            return None
        return None if ended.is_cut else ended
    return None


@lru_cache(_KEPT_TEXTS)
def _text(path: Path, stamp: tuple[int, int, int]) -> str:
    """Return the text of a regular file, empty for any other; `stamp` changes when the file does."""
    return (read_bounded(path, MAX_BYTES) or b"").decode("utf-8", "replace")


def read_bounded(path: Path, most: int) -> bytes | None:
    """Return the bytes of a regular file; None if it is missing, a link, larger than `most` or unreadable."""
    with suppress(OSError):
        descriptor = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(descriptor, "rb") as file:
            if stat.S_ISREG((status := os.fstat(descriptor)).st_mode) and status.st_size <= most:
                return file.read(most)
    return None
