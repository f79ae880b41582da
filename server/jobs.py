"""The worker that takes due jobs one at a time and works them off; what a job of a kind does is given to it."""

import logging
import os
import socket
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import TypeAlias

import anyio
from pydantic import JsonValue

from swarm_memory.schema.errors import InputError, StorageError, SwarmMemoryError
from swarm_memory.schema.ids import new_id
from swarm_memory.schema.job import Job
from swarm_memory.tools.toolbox import Toolbox

RECHECK_S = 30.0
"""How often a resting worker looks for jobs that another process queued, or whose worker died."""

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Toolbox, Job], Awaitable[Mapping[str, JsonValue]]]
"""Does one job and returns its result. Raises `SwarmMemoryError`; an `InputError` is not tried again."""

Drain: TypeAlias = Callable[[Toolbox], Awaitable[int]]
"""Takes in what other processes left outside the database; returns how much."""


class Worker:
    """Works off the jobs of every project in one database. One job at a time; many workers may share a database."""

    def __init__(self, toolbox: Toolbox, handlers: Mapping[str, Handler], drain: Drain | None = None) -> None:
        self._toolbox = toolbox
        self._handlers = dict(handlers)
        self._drain = drain
        self._name = f"{socket.gethostname()}:{os.getpid()}:{new_id('wk')}"
        self._wake = anyio.Event()

    def wake(self) -> None:
        """Look for due jobs at once."""
        self._wake.set()

    async def run(self) -> None:
        """Work until cancelled. A database that is busy or gone is tried again at the next look."""
        while True:
            self._wake = anyio.Event()
            delay = RECHECK_S
            try:
                await self.work_off_due()
                delay = await self._seconds_to_next()
            except (SwarmMemoryError, OSError) as error:
                log.warning("jobs wait: %s", error)
            with anyio.move_on_after(delay):
                await self._wake.wait()

    async def work_off_due(self) -> int:
        """Do every job that is due now; return how many were done, well or badly."""
        if self._drain is not None:
            await self._drain(self._toolbox)
        done = 0
        while job := await self._toolbox.store.claim(
            self._name, self._now(), self._toolbox.settings.jobs.lease_s, tuple(self._handlers)
        ):
            await self._do(job)
            done += 1
        return done

    async def work_off_all(self) -> int:
        """Do every queued job of the toolbox's project, due or not; return how many were done."""
        if self._drain is not None:
            await self._drain(self._toolbox)
        await self._toolbox.store.release(self._toolbox.scope, "", self._now())
        return await self.work_off_due()

    async def _do(self, job: Job) -> None:
        """Run one job under its time limit and lease, and write down how it ended."""
        limits = self._toolbox.settings.jobs
        if job.attempts > limits.max_attempts:
            await self._failed(job, "its worker died each time it was tried", again=False)
            return
        try:
            with anyio.fail_after(limits.timeout_s):
                outcome = await self._leased(job)
        except TimeoutError:
            await self._failed(job, f"took longer than {limits.timeout_s:g} s", again=True)
            return
        if isinstance(outcome, Exception):
            again = isinstance(outcome, SwarmMemoryError) and not isinstance(outcome, InputError)
            await self._failed(job, str(outcome) or repr(outcome), again=again)
        elif outcome is not None:
            await self._toolbox.store.finish(job.id, self._name, "completed", outcome, None)

    async def _leased(self, job: Job) -> Mapping[str, JsonValue] | Exception | None:
        """Return the job's result, or the error that ended it; None when another worker took it over meanwhile."""
        outcome: Mapping[str, JsonValue] | Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_lease, job, group.cancel_scope)
            try:
                outcome = await self._handlers[job.kind](self._toolbox.in_project(job.scope.project), job)
            except SwarmMemoryError as error:
                outcome = error
            except Exception as error:  # the worker's main: a fault in one job must not end the others
                log.exception("job %s (%s) ended by a fault", job.id, job.kind)
                outcome = error
            group.cancel_scope.cancel()
        return outcome

    async def _keep_lease(self, job: Job, work: anyio.CancelScope) -> None:
        while True:
            await anyio.sleep(self._toolbox.settings.jobs.lease_s / 3)
            try:
                kept = await self._toolbox.store.heartbeat(job.id, self._name, self._now())
            except StorageError as error:
                log.warning("the lease of job %s was not renewed: %s", job.id, error)
                continue
            if not kept:
                log.warning("job %s was taken over or cancelled", job.id)
                work.cancel()

    async def _failed(self, job: Job, reason: str, *, again: bool) -> None:
        retry = again and job.attempts < self._toolbox.settings.jobs.max_attempts
        log.warning("job %s (%s) %s: %s", job.id, job.kind, "will be tried again" if retry else "failed", reason)
        await self._toolbox.store.finish(job.id, self._name, "queued" if retry else "failed", None, reason)

    async def _seconds_to_next(self) -> float:
        due = await self._toolbox.store.next_due(tuple(self._handlers))
        return RECHECK_S if due is None else min(RECHECK_S, max(0.0, (due - self._now()).total_seconds()))

    def _now(self) -> datetime:
        return self._toolbox.clock.now()
