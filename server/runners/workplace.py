"""Where a rollout works: a fresh copy of a folder, and the command lines that it may run there."""

import os
import shlex
import shutil
import stat
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import anyio

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.rollout import RolloutRequest
from swarm_memory.schema.settings import MattsSettings
from swarm_memory.server.child_process import OUTER_SESSION, Finished, run
from swarm_memory.server.folders import CHILD_VARIABLE, ENV_PREFIX
from swarm_memory.tools.text.cleaning import one_line

MAX_COPY_BYTES, MAX_COPY_FILES = 2_000_000_000, 200_000
"""A larger working folder is refused: it would be copied for each rollout."""

MAX_OUTPUT_BYTES = 50_000_000

TIMED_OUT = 124
"""The exit code of a command that was ended by its time limit, as from `timeout`."""


def _words(line: str, where: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise ConfigError(f"{where}: {line.strip()!r} is not a valid command line ({error})") from error


def parse_allowed(line: str, settings: MattsSettings) -> tuple[str, ...]:
    """Return the words of a command line. Raises `ConfigError` unless the user allows exactly this one."""
    words = _words(line, "the command")
    if not words:
        raise InputError("command is empty: give the agent's command line")
    if words not in [_words(allowed, "matts.allowed_commands") for allowed in settings.allowed_commands]:
        raise ConfigError(
            f"the command `{one_line(line, 120)}` is not allowed: add exactly this line to matts.allowed_commands in "
            "your own settings file (a project's file cannot)"
        )
    return words


def child_environment(environ: Mapping[str, str], request: RolloutRequest) -> dict[str, str]:
    """Return the user's environment for a rollout, without what belongs to an outer session and our own settings."""
    kept = {
        name: value
        for name, value in environ.items()
        if name not in OUTER_SESSION and not name.upper().startswith(ENV_PREFIX)
    }
    return kept | {
        CHILD_VARIABLE: "1",
        "MATTS_ROLLOUT": str(request.number),
        "MATTS_SEED": str(request.seed),
        "MATTS_TEMPERATURE": f"{request.temperature:g}",
        "MATTS_TASK_ID": request.task_id.replace("\0", ""),
    }


def scratch_folder(environ: Mapping[str, str]) -> Path:
    """Return the folder for copies: outside every project, so that no tool takes a surrounding project for its own."""
    base = environ.get("XDG_CACHE_HOME") or ""
    cache = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return cache / "swarm-memory" / "matts"


class RolloutWorkspaces:
    """Copies of `folder` in `scratch/<run>/<number>`, where command lines are run; the best rollout's copy is kept."""

    def __init__(self, folder: Path, scratch: Path, settings: MattsSettings) -> None:
        self._folder, self._scratch = folder, scratch
        self.settings = settings

    async def run(
        self, words: Sequence[str], request: RolloutRequest, *, limit_s: float, stdin: bytes = b""
    ) -> Finished:
        """Run a command line in the rollout's copy, without a shell, and return how it ended.

        If it timed out, its code is `TIMED_OUT`, its output what it printed. Raises `OSError` if it cannot start.
        """
        printed = bytearray()
        with anyio.move_on_after(limit_s):
            return await run(
                words,
                stdin=stdin,
                cwd=self._place(request.run_id, request.number),
                environment=child_environment(os.environ, request),
                max_output_bytes=MAX_OUTPUT_BYTES,
                printed=printed,
            )
        return Finished(TIMED_OUT, bytes(printed), b"", is_cut=False)

    def make(self, request: RolloutRequest) -> Path:
        """Recreate the rollout's folder, in a refinement from what the previous rollout left, and return it.

        Raises `InputError` when the folder cannot be copied. Blocks, as `settle` does.
        """
        place, former = self._place(request.run_id, request.number), self._place(request.run_id, request.number - 1)
        goes_on = request.mode == "sequential" and request.number > 1 and former.is_dir()
        source = former if goes_on else self._folder
        shutil.rmtree(place, ignore_errors=True)
        if not source.is_dir():
            raise InputError(f"folder {source} does not exist: name the folder that the agent works in")
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            shutil.copytree(source, place, symlinks=True, ignore=_left_out(source))
        except (OSError, shutil.Error) as error:
            raise InputError(f"the folder {source} cannot be copied: {one_line(str(error), 300)}") from error
        return place

    def settle(self, run_id: str, best: int | None) -> str | None:
        """Delete the copies of all rollouts but the best one's, and return the path of that copy."""
        root = self._place(run_id, 0).parent
        kept = self._place(run_id, best) if best is not None else None
        for folder in sorted(root.iterdir()) if root.is_dir() else ():
            if folder != kept:
                shutil.rmtree(folder, ignore_errors=True)
        if kept is not None and kept.is_dir():
            return str(kept)
        shutil.rmtree(root, ignore_errors=True)
        return None

    def _place(self, run_id: str, number: int) -> Path:
        if not run_id.replace("_", "").replace("-", "").isalnum():
            raise InputError("run_id may contain only letters, digits, `_` and `-`")
        return self._scratch / run_id / str(number)


def _left_out(source: Path) -> Callable[[str, list[str]], Sequence[str]]:
    """Tell what is not copied: our own bank, and all but files, folders and links (a pipe would block for ever)."""
    files = size = 0
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)

    def ignored(folder: str, names: list[str]) -> Sequence[str]:
        nonlocal files, size
        found = {name: (Path(folder) / name).lstat() for name in names}
        regular = [each.st_size for each in found.values() if stat.S_ISREG(each.st_mode)]
        files, size = files + len(regular), size + sum(regular)
        if size > MAX_COPY_BYTES or files > MAX_COPY_FILES:
            most = f"{MAX_COPY_FILES:,} files or {MAX_COPY_BYTES:,} bytes"
            raise InputError(f"{source} has more than {most}: name a smaller folder")
        return [name for name in names if name == ".swarm" or not any(kind(found[name].st_mode) for kind in kinds)]

    return ignored
