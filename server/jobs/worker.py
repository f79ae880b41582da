"""The worker that takes due jobs and works them off; what a job of a kind does is given to it.

Short jobs are done one at a time. Long ones, which report how far they are, are done one at a time beside them.
"""

import logging
import math
import os
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TypeAlias, cast

import anyio
from pydantic import JsonValue

from swarm_memory.schema.base import new_id
from swarm_memory.schema.errors import ConfigError, InputError, QuotaReached, StorageError, SwarmMemoryError
from swarm_memory.schema.job import Job, JobEnd, Progress, Report
from swarm_memory.server.jobs.reembed import queue_reembedding
from swarm_memory.server.jobs.team import queue_sync
from swarm_memory.tools.retrieve.embed import REEMBED
from swarm_memory.tools.toolbox import Toolbox

RECHECK_S = 30.0
"""How often a worker looks for jobs that another process queued while the server is used, or the database fails it."""

MIN_REST_S = 0.05
"""Between two looks that nobody asked for: another worker may be about to take what is due."""

REPORT_S = 0.3
"""Progress is written at most so often; a long job looks as often whether it was cancelled."""

LONG_TIMEOUT_S, MAX_RETRY_S = 21_600.0, 3600.0  # the first one of scaling, consolidation, imports, benchmarks

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Toolbox, Job], Awaitable[Mapping[str, JsonValue]]]
"""Does one job and returns its result. Raises `SwarmMemoryError`; `InputError`, `ConfigError` are not tried again.

A short job that met `QuotaReached` is tried again when the next day begins."""

LongHandler: TypeAlias = Callable[[Toolbox, Job, Report], Awaitable[Mapping[str, JsonValue]]]
"""Does one long job; as `Handler`."""


class _Rest:
    """The rest of one lane between two looks: ended by a queued job, by use of the server, by time, or by nothing."""

    def __init__(self) -> None:
        self._event = anyio.Event()
        self._used = True
        self._looks_again = False

    def end(self) -> None:
        """End the rest at once."""
        self._event.set()

    def note_use(self) -> None:
        """End the rest of a lane that does not look again by itself; have it look once more after the next look."""
        self._used = True
        if not self._looks_again:
            self._event.set()

    def begin_look(self) -> None:
        """From here on an end counts for the next rest; use before the look asks for one more after it."""
        self._event = anyio.Event()
        self._looks_again, self._used = self._used, False

    async def take(self, due_s: float | None, recheck_s: float | None) -> None:
        """Rest until somebody ends it, or for the shortest of the times that are given."""
        limits = [recheck_s, due_s, RECHECK_S if self._looks_again else None]
        with anyio.move_on_after(min((limit for limit in limits if limit is not None), default=math.inf)):
            await self._event.wait()


class Worker:
    """Works off the jobs of every project in one database; many workers may share a database.

    At rest it sleeps until a job that it knows of is due, or until it hears of work or of use.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        handlers: Mapping[str, Handler],
        long_handlers: Mapping[str, LongHandler] | None = None,
        is_off: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_off` says whether nothing is to be done by itself now."""
        self._toolbox = toolbox
        self._handlers = dict(handlers)
        self._long = dict(long_handlers or {})
        self._is_off = is_off
        self._name = f"{socket.gethostname()}:{os.getpid()}:{new_id('wk')}"
        self._rests: dict[tuple[str, ...], _Rest] = {}

    def wake(self) -> None:
        """Look for due jobs at once."""
        for rest in self._rests.values():
            rest.end()

    def note_use(self) -> None:
        """The server was used: look whether another process left jobs, but not at every use."""
        for rest in self._rests.values():
            rest.note_use()

    async def run(self, recheck_s: float | None = None) -> None:
        """Work until cancelled; look at least every `recheck_s` where it is given, for a worker that nobody wakes.

        A database that is busy or gone is tried again after `RECHECK_S`.
        """
        if REEMBED in self._long and not self._is_off():
            try:
                await queue_reembedding(self._toolbox)
                await queue_sync(self._toolbox)
            except (SwarmMemoryError, OSError) as error:
                log.warning("what is to be done by itself could not be seen: %s", error)
        async with anyio.create_task_group() as lanes:
            lanes.start_soon(self._toolbox.store.watch_jobs, self.wake)
            for kinds in (tuple(self._handlers), tuple(self._long)):
                if kinds:
                    lanes.start_soon(self._lane, kinds, self._rests.setdefault(kinds, _Rest()), recheck_s)

    async def _lane(self, kinds: tuple[str, ...], rest: _Rest, recheck_s: float | None) -> None:
        while True:
            rest.begin_look()
            try:
                if self._is_off():
                    due_s = RECHECK_S
                else:
                    if await self._work_off(kinds):  # what was done may have queued work for another lane
                        for other in self._rests.values():
                            if other is not rest:
                                other.end()
                    due_s = await self._seconds_to_next(kinds)
            except (SwarmMemoryError, OSError) as error:
                log.warning("jobs wait: %s", error)
                due_s = RECHECK_S
            await rest.take(due_s, recheck_s)

    async def work_off_due(self) -> int:
        """Do every job that is due now; return how many were done, well or badly."""
        return await self._work_off(tuple(self._handlers)) + await self._work_off(tuple(self._long))

    async def _work_off(self, kinds: tuple[str, ...]) -> int:
        done = 0
        while kinds and (
            job := await self._toolbox.store.claim(self._name, self._now(), self._toolbox.settings.jobs.lease_s, kinds)
        ):
            await self._do(job)
            done += 1
        return done

    async def work_off_all(self) -> int:
        """Do every queued job of the toolbox's project, due or not; return how many were done."""
        await self._toolbox.store.release(self._toolbox.scope, "", self._now())
        return await self.work_off_due()

    async def _do(self, job: Job) -> None:
        """Run one job under its time limit and lease, and write down how it ended."""
        limits = self._toolbox.settings.jobs
        if job.attempts > limits.max_attempts:
            await self._failed(job, "its worker died each time it was tried", again=False)
            return
        limit_s = LONG_TIMEOUT_S if job.kind in self._long else limits.timeout_s
        try:
            with anyio.fail_after(limit_s):
                outcome = await self._leased(job)
        except TimeoutError:
            await self._failed(job, f"took longer than {limit_s:g} s", again=True)
            return
        if isinstance(outcome, QuotaReached) and job.kind in self._handlers:
            await self._postpone(job, str(outcome), _next_day(self._now()))
        elif isinstance(outcome, Exception):
            again = isinstance(outcome, SwarmMemoryError) and not isinstance(outcome, InputError | ConfigError)
            await self._failed(job, str(outcome) or repr(outcome), again=again)
        elif outcome is not None:
            await self._toolbox.store.finish(job.id, self._name, JobEnd("completed", outcome))

    async def _leased(self, job: Job) -> Mapping[str, JsonValue] | Exception | None:
        """Return the job's result, or the error that ended it; None when another worker took it over meanwhile."""
        outcome: Mapping[str, JsonValue] | Exception | None = None
        async with anyio.create_task_group() as group:
            group.start_soon(self._keep_lease, job, group.cancel_scope)
            if job.kind in self._long:
                group.start_soon(self._watch, job, group.cancel_scope)
            try:
                outcome = await self._handle(self._toolbox.for_job(job), job)
            except Exception as error:  # the worker's main: a fault in one job must not end the others
                sole = _sole(error)
                outcome = sole if isinstance(sole, Exception) else error
                if not isinstance(outcome, SwarmMemoryError):
                    log.exception("job %s (%s) ended by a fault", job.id, job.kind)
            group.cancel_scope.cancel()
        return outcome

    async def _handle(self, toolbox: Toolbox, job: Job) -> Mapping[str, JsonValue]:
        if job.kind in self._handlers:
            return await self._handlers[job.kind](toolbox, job)
        written = -REPORT_S

        async def report(progress: Progress) -> None:
            nonlocal written
            if time.monotonic() - written >= REPORT_S or progress.done == progress.total:
                await toolbox.store.report(job.id, self._name, progress)
                written = time.monotonic()

        return await self._long[job.kind](toolbox, job, report)

    async def _watch(self, job: Job, work: anyio.CancelScope) -> None:
        """End a long job soon after somebody cancelled it."""
        while True:
            await anyio.sleep(REPORT_S)
            try:
                stands = await self._toolbox.store.get_job(job.scope, job.id)
            except StorageError as error:
                log.warning("it was not seen whether job %s is cancelled: %s", job.id, error)
                continue
            if stands is None or stands.status != "running":
                work.cancel()

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

    async def _postpone(self, job: Job, reason: str, until: datetime) -> None:
        """Put a job back that could not begin: however often that happens, its attempts are not used up."""
        log.warning("job %s (%s) waits until %s: %s", job.id, job.kind, until, reason)
        end = JobEnd("queued", error=reason, run_after=until, tried=False)
        await self._toolbox.store.finish(job.id, self._name, end)

    async def _failed(self, job: Job, reason: str, *, again: bool) -> None:
        limits = self._toolbox.settings.jobs
        retry = again and job.attempts < limits.max_attempts
        log.warning("job %s (%s) %s: %s", job.id, job.kind, "will be tried again" if retry else "failed", reason)
        wait = timedelta(seconds=min(MAX_RETRY_S, limits.retry_s * 2 ** (job.attempts - 1)))
        later = self._now() + wait if retry else None
        end = JobEnd("queued" if retry else "failed", error=reason, run_after=later)
        await self._toolbox.store.finish(job.id, self._name, end)

    async def _seconds_to_next(self, kinds: tuple[str, ...]) -> float | None:
        """Return after how long a job is due, or one that runs elsewhere may be taken over; None without any."""
        due = await self._toolbox.store.next_due(kinds, self._toolbox.settings.jobs.lease_s)
        return None if due is None else max(MIN_REST_S, (due - self._now()).total_seconds())

    def _now(self) -> datetime:
        return self._toolbox.clock.now()


def _next_day(now: datetime) -> datetime:
    """Return when the next day begins (UTC), with the day's quota."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)


def _sole(error: BaseException) -> BaseException:
    """Return what was raised within a handler's task groups: they wrap even a single error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    within = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return _sole(within[0]) if len(within) == 1 else cast(BaseException, error)
