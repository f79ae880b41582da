"""The folder of a project as operations ask it: what is there, and by Git what lasts and where files went."""

import os
from collections.abc import Callable, Collection, Mapping
from typing import TypeVar

import anyio
import anyio.to_thread

from swarm_memory.server.child_process import run
from swarm_memory.server.project.facts import Facts

T = TypeVar("T")

GIT_S = 5.0
MAX_GIT_BYTES = 2_000_000
MAX_HOPS = 5
"""So often a file may have been renamed."""

_GIT = (
    "git", "--no-optional-locks", "--no-pager", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}",
    "-c", "core.quotePath=false", "-c", "log.showSignature=false",
)  # fmt: skip
"""A repository's own configuration could name programs, which these commands would run."""


class ProjectFolder(Facts):
    """Fills `Project` from a folder."""

    async def looked(self, look: Callable[[], T], limit_s: float) -> T | None:
        """Return what a function gives that looks here, in a thread; None where it takes longer."""
        with anyio.move_on_after(limit_s):
            return await anyio.to_thread.run_sync(look, abandon_on_cancel=True)
        return None

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
