"""A runner whose agent is a command of the user's, such as `claude -p`; it runs only what the settings allow.

Each rollout has a fresh copy of the working folder and a process group of its own, which ends with it. The agent is not
caged: it is a program of the user's that may do what the user may.
"""

import os
import shlex
import shutil
import stat
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio
import anyio.to_thread

from swarm_memory.schema.errors import ConfigError, InputError
from swarm_memory.schema.rollout import RolloutRequest, RolloutStatus, RunnerAnswer
from swarm_memory.schema.settings import LearnSettings, MattsSettings
from swarm_memory.server.child_process import OUTER_SESSION, Finished, run
from swarm_memory.server.config import CHILD_VARIABLE, ENV_PREFIX
from swarm_memory.server.runners.output import CheckResult, read_output
from swarm_memory.tools.redact import redact
from swarm_memory.tools.wording import one_line

PROMPT_WORD = "{prompt}"
"""Stands in a command for the prompt; without it the prompt goes to the standard input."""

MAX_OUTPUT_BYTES = 50_000_000
MAX_COPY_BYTES, MAX_COPY_FILES = 2_000_000_000, 200_000
"""A larger working folder is refused: it would be copied for each rollout."""

_NOT_COPIED = frozenset({".swarm"})
_MAX_PROMPT_WORD = 100_000
"""Systems bound the length of an argument; a longer prompt must go to the standard input."""

_FINISH_S, _CHECK_S = 1.0, 120.0


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


def scratch_folder(environ: Mapping[str, str]) -> Path:
    """Return where copies are made: outside of every project, so that no tool takes the project around for its own."""
    base = environ.get("XDG_CACHE_HOME") or ""
    cache = Path(base) if Path(base).is_absolute() else Path.home() / ".cache"
    return cache / "swarm-memory" / "matts"


class CommandRunner:
    """Runs `command` for each rollout in a copy of `folder`, and then `check`, whose result is evidence.

    Both must be allowed by `settings`. No shell is involved. The command finds `MATTS_ROLLOUT`, `MATTS_SEED`,
    `MATTS_TEMPERATURE` and `MATTS_TASK_ID` in its environment. Copies lie in `scratch/<run>/<number>`; that of the best
    rollout stays.
    """

    takes_notes = True

    def __init__(
        self,
        command: str,
        *,
        folder: Path,
        scratch: Path,
        settings: MattsSettings,
        limits: LearnSettings,
        check: str | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        self._words = permitted(command, settings)
        self._check = permitted(check, settings) if check else None
        self._folder, self._scratch, self._limits = folder, scratch, limits
        self._environ = dict(os.environ if environ is None else environ)
        self.name = f"command:{one_line(redact(command).text, 100)}"

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Copy, run, check, read. Raises `InputError` when the folder cannot be copied."""
        place = self._place(request.run_id, request.number)
        await anyio.to_thread.run_sync(self._copy, request, place)
        printed = bytearray()
        finished: Finished | None = None
        try:
            with anyio.move_on_after(request.timeout_s):
                finished = await run(
                    self._filled(request),
                    stdin=b"" if PROMPT_WORD in self._words else request.prompt.encode("utf-8", "replace"),
                    cwd=place,
                    environment=self._environment(request),
                    max_output_bytes=MAX_OUTPUT_BYTES,
                    printed=printed,
                )
        except OSError as error:
            return RunnerAnswer(status="failed", error=f"{self._words[0]} could not be started: {error.strerror}")
        check = await self._checked(request, place)
        return await anyio.to_thread.run_sync(self._read, request, finished, bytes(printed), check)

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Delete the copies of all rollouts but the best one's, and return where that is."""
        return await anyio.to_thread.run_sync(self._clear, run_id, best)

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

    def _copy(self, request: RolloutRequest, place: Path) -> None:
        """Make the rollout's folder anew: in a refinement from what the former rollout left."""
        former = self._place(request.run_id, request.number - 1)
        goes_on = request.mode == "sequential" and request.number > 1 and former.is_dir()
        source = former if goes_on else self._folder
        shutil.rmtree(place, ignore_errors=True)
        _measure(source)
        place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            shutil.copytree(source, place, symlinks=True, ignore=_left_out)
        except (OSError, shutil.Error) as error:
            raise InputError(f"the folder {source} cannot be copied: {one_line(str(error), 300)}") from error

    def _filled(self, request: RolloutRequest) -> list[str]:
        if PROMPT_WORD in self._words and len(request.prompt.encode("utf-8", "replace")) > _MAX_PROMPT_WORD:
            raise InputError(f"the prompt is too long for {PROMPT_WORD}: leave it out, so that it goes to the input")
        prompt = request.prompt.replace("\0", "")
        return [prompt if word == PROMPT_WORD else word for word in self._words]

    def _environment(self, request: RolloutRequest) -> dict[str, str]:
        """Return the user's environment; what belongs to an outer session, and our own settings, are not for it."""
        kept = {
            name: value
            for name, value in self._environ.items()
            if name not in OUTER_SESSION and not name.upper().startswith(ENV_PREFIX)
        }
        return kept | {
            CHILD_VARIABLE: "1",
            "MATTS_ROLLOUT": str(request.number),
            "MATTS_SEED": str(request.seed),
            "MATTS_TEMPERATURE": f"{request.temperature:g}",
            "MATTS_TASK_ID": request.task_id.replace("\0", ""),
        }

    async def _checked(self, request: RolloutRequest, place: Path) -> CheckResult | None:
        """Run the check in the rollout's folder; one that takes too long has no result."""
        if self._check is None:
            return None
        limit = min(_CHECK_S, request.timeout_s)
        printed = bytearray()
        try:
            with anyio.move_on_after(limit):
                finished = await run(
                    self._check,
                    stdin=b"",
                    cwd=place,
                    environment=self._environment(request),
                    max_output_bytes=MAX_OUTPUT_BYTES,
                    printed=printed,
                )
                text = (finished.output + finished.error).decode("utf-8", "replace")
                return CheckResult(shlex.join(self._check), text, finished.code)
        except OSError as error:
            raise InputError(f"the check {self._check[0]} could not be started: {error.strerror}") from error
        text = printed.decode("utf-8", "replace")
        return CheckResult(shlex.join(self._check), f"{text}\nended after {limit:g} s", None)

    def _read(
        self, request: RolloutRequest, finished: Finished | None, printed: bytes, check: CheckResult | None
    ) -> RunnerAnswer:
        trajectory = read_output(
            request, shlex.join(self._words), printed, None if finished is None else finished, check, self._limits
        )
        status: RolloutStatus = "timed_out" if finished is None else "finished"
        error = f"ended by its time limit of {request.timeout_s:g} s" if finished is None else _fault(finished)
        if not trajectory.steps:
            return RunnerAnswer(
                status="timed_out" if finished is None else "failed", error=error or "it printed nothing"
            )
        return RunnerAnswer(status=status, trajectory=trajectory, error=error)


def _fault(finished: Finished) -> str | None:
    if finished.is_cut:
        return f"ended because it printed more than {MAX_OUTPUT_BYTES:,} bytes"
    if finished.code == 0:
        return None
    said = one_line(finished.error.decode("utf-8", "replace")[-2_000:], 200)
    return f"ended with exit code {finished.code}" + (f": {said}" if said else "")


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
