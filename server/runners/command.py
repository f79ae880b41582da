"""A runner whose agent is a command of the user's, such as `claude -p`; it runs only what the settings allow.

Each rollout has a fresh copy of the working folder and a process group of its own, which ends with it. The agent is not
caged: it is a program of the user's that may do what the user may.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path

import anyio
import anyio.to_thread

from swarm_memory.schema.errors import InputError
from swarm_memory.schema.rollout import RolloutRequest, RolloutStatus, RunnerAnswer
from swarm_memory.schema.settings import LearnSettings, MattsSettings
from swarm_memory.server.child_process import Finished, run
from swarm_memory.server.runners.output import CheckResult, read_output
from swarm_memory.server.runners.permission import child_environment, permitted
from swarm_memory.server.runners.working_copy import WorkingCopies
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import one_line

PROMPT_WORD = "{prompt}"
"""Stands in a command for the prompt; without it the prompt goes to the standard input."""

MAX_OUTPUT_BYTES = 50_000_000
_MAX_PROMPT_WORD = 100_000
"""Systems bound the length of an argument; a longer prompt must go to the standard input."""

_FINISH_S, _CHECK_S = 1.0, 120.0


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
        self._copies, self._limits = WorkingCopies(folder, scratch), limits
        self._environ = dict(os.environ if environ is None else environ)
        self.name = f"command:{one_line(redact(command).text, 100)}"

    async def run(self, request: RolloutRequest) -> RunnerAnswer:
        """Copy, run, check, read. Raises `InputError` when the folder cannot be copied."""
        place = await anyio.to_thread.run_sync(self._copies.make, request)
        printed = bytearray()
        finished: Finished | None = None
        try:
            with anyio.move_on_after(request.timeout_s):
                finished = await run(
                    self._filled(request),
                    stdin=b"" if PROMPT_WORD in self._words else request.prompt.encode("utf-8", "replace"),
                    cwd=place,
                    environment=child_environment(self._environ, request),
                    max_output_bytes=MAX_OUTPUT_BYTES,
                    printed=printed,
                )
        except OSError as error:
            return RunnerAnswer(status="failed", error=f"{self._words[0]} could not be started: {error.strerror}")
        check = await self._checked(request, place)
        return await anyio.to_thread.run_sync(self._read, request, finished, bytes(printed), check)

    async def settle(self, run_id: str, best: int | None) -> str | None:
        """Delete the copies of all rollouts but the best one's, and return where that is."""
        return await anyio.to_thread.run_sync(self._copies.clear, run_id, best)

    def _filled(self, request: RolloutRequest) -> list[str]:
        if PROMPT_WORD in self._words and len(request.prompt.encode("utf-8", "replace")) > _MAX_PROMPT_WORD:
            raise InputError(f"the prompt is too long for {PROMPT_WORD}: leave it out, so that it goes to the input")
        prompt = request.prompt.replace("\0", "")
        return [prompt if word == PROMPT_WORD else word for word in self._words]

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
                    environment=child_environment(self._environ, request),
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
