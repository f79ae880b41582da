"""Where a rollout works: a fresh copy of a folder, and the command lines that it may run there."""

import os
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.rollout import RolloutRequest
from swarm_memory.schema.settings import MattsSettings
from swarm_memory.server.child_process import OUTER_SESSION, Finished, run
from swarm_memory.server.folders import CHILD_VARIABLE, ENV_PREFIX
from swarm_memory.tools.text.cleaning import one_line

MAX_COPY_BYTES, MAX_COPY_FILES = 2_000_000_000, 200_000
"""A larger working folder is refused: it would be copied for each rollout."""

TIMED_OUT = 124
"""The exit code of a command that its time limit ended, as of `timeout`."""

_NOT_COPIED = frozenset({".swarm"})


def allowed_commands(settings: MattsSettings) -> tuple[tuple[str, ...], ...]:
    """Return the command lines that the user allows, each as its words. Raises `ConfigError` for one without end."""
    lines = settings.allowed_commands.replace(";;", "\n").splitlines()
    return tuple(_words(line, "matts.allowed_commands") for line in lines if line.strip())


def _words(line: str, where: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(line))
    except ValueError as error:
        raise ConfigError(f"{where}: {line.strip()!r} is no command line ({error})") from error


def permitted(line: str, settings: MattsSettings) -> tuple[str, ...]:
    """Return the words of a command line. Raises `ConfigError` unless the user allows exactly this one."""
    words = _words(line, "the command")
    if not words:
        raise InputError("command is empty: give the agent's command line")
    if words not in allowed_commands(settings):
        raise ConfigError(
            f"the command `{one_line(line, 120)}` is not allowed: add exactly this line to matts.allowed_commands in "
            "your own settings file (a project's file cannot)"
        )
    return words


def child_environment(environ: Mapping[str, str], request: RolloutRequest) -> dict[str, str]:
    """Return the user's environment; what belongs to an outer session, and our own settings, are not for a rollout."""
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
    """Return where copies are made: outside of every project, so that no tool takes the project around for its own."""
    base = environ.get("XDG_CACHE_HOME") or ""
    cache = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return cache / "swarm-memory" / "matts"


class Workplace:
    """Copies of `folder` in `scratch/<run>/<number>`, where command lines are run; that of the best rollout stays.

    `environ` is what a command finds as the user's environment.
    """

    def __init__(
        self, folder: Path, scratch: Path, settings: MattsSettings, environ: Mapping[str, str] | None = None
    ) -> None:
        self._folder, self._scratch = folder, scratch
        self.settings = settings
        self._environ = dict(os.environ if environ is None else environ)

    async def run(
        self,
        words: Sequence[str],
        place: Path,
        request: RolloutRequest,
        *,
        limit_s: float,
        max_output_bytes: int,
        stdin: bytes = b"",
    ) -> tuple[Finished, bool]:
        """Run a command line in a copy, without a shell; return how it ended, and whether its time limit ended it.

        Its code is 124 then, its output what it printed until then. Raises `OSError` when it cannot be started.
        """
        printed = bytearray()
        environment = child_environment(self._environ, request)
        with anyio.move_on_after(limit_s):
            finished = await run(
                words,
                stdin=stdin,
                cwd=place,
                environment=environment,
                max_output_bytes=max_output_bytes,
                printed=printed,
            )
            return finished, False
        return Finished(TIMED_OUT, bytes(printed), b"", is_cut=False), True

    async def make(self, request: RolloutRequest) -> Path:
        """Make the rollout's folder again, in a refinement from what the former rollout left, and return it.

        Raises `InputError` when the folder cannot be copied.
        """
        return await anyio.to_thread.run_sync(self._make, request)

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Delete the copies of all rollouts but the best one's, and return where that is."""
        return await anyio.to_thread.run_sync(self._clear, run_id, best)

    def _make(self, request: RolloutRequest) -> Path:
        place, former = self._place(request.run_id, request.number), self._place(request.run_id, request.number - 1)
        goes_on = request.mode == "sequential" and request.number > 1 and former.is_dir()
        source = former if goes_on else self._folder
        shutil.rmtree(place, ignore_errors=True)
        _measure(source)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            shutil.copytree(source, place, symlinks=True, ignore=_left_out)
        except (OSError, shutil.Error) as error:
            raise InputError(f"the folder {source} cannot be copied: {one_line(str(error), 300)}") from error
        return place

    def _clear(self, run_id: str, best: int | None) -> str | None:
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
            raise InputError("run_id may hold letters, digits, `_` and `-` only")
        return self._scratch / run_id / str(number)


def _left_out(folder: str, names: list[str]) -> Sequence[str]:
    """Return what is not copied: our own bank, and what is no file, folder or link (a pipe would block for ever)."""
    kinds = (stat.S_ISREG, stat.S_ISDIR, stat.S_ISLNK)
    special: list[str] = []
    for name in names:
        mode = (Path(folder) / name).lstat().st_mode
        if name in _NOT_COPIED or not any(is_kind(mode) for is_kind in kinds):
            special.append(name)
    return special


def _measure(source: Path) -> None:
    """Refuse a folder that is too large to be copied for each rollout."""
    total = files = 0
    for folder, names, found in os.walk(source):
        names[:] = [name for name in names if name not in _NOT_COPIED]
        for name in found:
            files += 1
            total += (Path(folder) / name).lstat().st_size
        if total > MAX_COPY_BYTES or files > MAX_COPY_FILES:
            raise InputError(
                f"{source} has more than {MAX_COPY_FILES:,} files or {MAX_COPY_BYTES:,} bytes: name a smaller folder"
            )
    if not source.is_dir():
        raise InputError(f"folder {source} is not there: name the folder that the agent works in")
