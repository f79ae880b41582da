"""The worker that claims due jobs and runs them; it is given a handler for each kind of job.

Short jobs run one at a time. Long ones, which report progress, run one at a time alongside them.
"""

import logging
import math
import os
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from typing import TypeAlias, cast

import anyio
from pydantic import JsonValue

from swarm_memory.schema.base import new_id
from swarm_memory.schema.errors import ConfigError, InputError, QuotaReached, StorageError, StoreBusy, SwarmMemoryError
from swarm_memory.schema.job import Job, JobEnd, Progress
from swarm_memory.server.jobs.reembed import queue_reembedding
from swarm_memory.server.jobs.team import queue_sync
from swarm_memory.server.mirror.mirror import MIRROR, mirror_folder
from swarm_memory.server.sources.indexing import REFRESH
from swarm_memory.tools.retrieve.embed import EMBED, REEMBED
from swarm_memory.tools.toolbox import Toolbox

RECHECK_S = 30.0
"""Seconds between checks for jobs of other processes, while the server is in use or after the database failed."""

USED_S = 60.0
"""Seconds that a worker keeps checking after a use of its server; after that, nothing in an idle server wakes up."""

MIN_REST_S = 0.05
"""The least pause between checks that nothing triggered: another worker may be about to claim what is due."""

REPORT_S = 0.3
"""Seconds between writes of a long job's progress, and between checks whether the job was cancelled."""

BUSY_S, PUT_BACK_S = 2.0, 1.0  # before a busy bank is tried again; to requeue a job as the worker ends
LONG_TIMEOUT_S, MAX_RETRY_S = 21_600.0, 3600.0  # the first: the time limit of every long job

log = logging.getLogger(__name__)

Handler: TypeAlias = Callable[[Toolbox, Job], Awaitable[Mapping[str, JsonValue]]]
"""Runs one job and returns its result. Raises `SwarmMemoryError`; `InputError` and `ConfigError` are not retried.

A short job that raised `QuotaReached` is retried when the next day begins."""


class ProgressReporter:
    """The progress of a long job, as its handler last reported it; the worker writes it to the bank now and then."""

    def __init__(self, show: Callable[[Progress], object] = lambda _: None) -> None:
        self._show = show
        self.progress: Progress | None = None

    async def __call__(self, progress: Progress) -> None:
        """Report progress."""
        self.progress = progress
        self._show(progress)

    def counts(self, message: str = "") -> Callable[..., None]:
        """Return a callback (done, total) for work that reports without awaiting; the total may be left out."""

        def count(done: int, total: int | None = None) -> None:
            self.progress = Progress(done=done, total=total, message=message)
            self._show(self.progress)

        return count


LongHandler: TypeAlias = Callable[[Toolbox, Job, ProgressReporter], Awaitable[Mapping[str, JsonValue]]]
"""Runs one long job, as `Handler` does a short one."""


class Worker:
    """Runs the jobs of its project, and those of others that need no folder; many workers may share a database.

    When idle, it sleeps until a job that it knows of is due, or until it is told of work or of use.
    """

    def __init__(
        self,
        toolbox: Toolbox,
        handlers: Mapping[str, Handler],
        long_handlers: Mapping[str, LongHandler] | None = None,
        is_off: Callable[[], bool] = lambda: False,
        elsewhere: Sequence[str] = (),
    ) -> None:
        """`is_off`: whether background work is switched off now; `elsewhere`: kinds run for other projects too."""
        self._toolbox = toolbox
        self._whose = toolbox.scope, tuple(elsewhere)
        self._handlers = dict(handlers)
        self._long = dict(long_handlers or {})
        lanes = (self._handlers, {EMBED} & self._long.keys(), self._long.keys() - {EMBED, REFRESH})
        self._lanes = [tuple(kinds) for kinds in lanes if kinds]
        """The jobs of each lane run one at a time. A vector is made immediately, however long other work takes."""
        self._is_off = is_off
        self._name = f"{socket.gethostname()}:{os.getpid()}:{new_id('wk')}"
        self._rests: dict[tuple[str, ...], anyio.Event] = {}
        """For each lane, the event that ends its rest."""
        self._used_until = 0.0
        self._copied: date | None = None
        self._mirrored = ""
        """The state of the memories when the mirror was last queued; empty: its files are to be read too."""

    def wake(self) -> None:
        """Check for due jobs immediately."""
        for rest in self._rests.values():
            rest.set()

    def note_use(self) -> None:
        """Note a use of the server: as other processes may now queue jobs, check every `RECHECK_S` for a while."""
        now = anyio.current_time()
        if now >= self._used_until:
            self.wake()
        self._used_until = now + USED_S

    async def run(self, *, is_served: bool = False) -> None:
        """Work until cancelled; a server's worker checks for jobs while the server is in use, any other one always.

        A busy database is tried again after `BUSY_S`, one that is gone after `RECHECK_S`.
        """
        self._used_until = anyio.current_time() + USED_S if is_served else math.inf
        if is_served and REFRESH in self._long:
            self._lanes.append((REFRESH,))  # a worker that hooks start leaves this to a server
        try:
            if REEMBED in self._long and not self._is_off():
                await queue_reembedding(self._toolbox)
                await queue_sync(self._toolbox)
                await self._copy_of_the_day()
                settings, store = self._toolbox.settings, self._toolbox.store
                is_asked = is_served and settings.sources.refresh and settings.storage.url is None  # not when shared
                if is_asked and await store.sources.list_sources(self._toolbox.scope):
                    await self._toolbox.queue(REFRESH, REFRESH)
        except (SwarmMemoryError, OSError) as error:
            log.warning("the automatic work at the start failed: %s", error)
        async with anyio.create_task_group() as lanes:
            for kinds in self._lanes:
                lanes.start_soon(self._lane, kinds)

    async def _lane(self, kinds: tuple[str, ...]) -> None:
        while True:
            rest = self._rests[kinds] = anyio.Event()  # from here on, a wake-up ends the next rest
            rest_s = RECHECK_S
            await self._toolbox.give_way()
            try:
                if not self._is_off():
                    if MIRROR in kinds:
                        await self._follow_changes()
                    if await self._work_off(kinds):
                        self.wake()  # what was done may have queued work for another lane
                    # A job that runs elsewhere may be taken over when its lease has ended.
                    due = await self._toolbox.store.next_due(kinds, self._toolbox.settings.jobs.lease_s, *self._whose)
                    rest_s = RECHECK_S if anyio.current_time() < self._used_until else math.inf
                    if due is not None:
                        rest_s = min(rest_s, max(MIN_REST_S, (due - self._now()).total_seconds()))
            except (SwarmMemoryError, OSError) as error:
                log.warning("jobs wait: %s", error)
                rest_s = BUSY_S if isinstance(error, StoreBusy) else RECHECK_S
            with anyio.move_on_after(rest_s):
                await rest.wait()

    async def _follow_changes(self) -> None:
        """Queue the mirror to be written if memories changed, in any process, and to be read when the worker begins."""
        toolbox = self._toolbox
        try:
            if not toolbox.root or not mirror_folder(toolbox):
                return
        except ConfigError as error:  # this must not hold up other jobs
            log.warning("no files are mirrored: %s", error)
            return
        if (now := await toolbox.store.state_of_memories(toolbox.scope)) != self._mirrored:
            await toolbox.queue(MIRROR, MIRROR, {"reads": not self._mirrored})
            self._mirrored = now

    async def _copy_of_the_day(self) -> None:
        """Copy the bank once a day (UTC): as a worker begins, or after the first jobs of the next day."""
        if (today := self._now().astimezone(UTC).date()) != self._copied:
            self._copied = today
            try:
                await self._toolbox.store.back_up_day(self._toolbox.settings.storage.daily_backups)
            except (SwarmMemoryError, OSError) as error:  # this must not hold up the jobs
                log.warning("the bank was not copied today: %s", error)

    async def work_off_due(self) -> int:
        """Run every job that is due now; return how many ran, successfully or not."""
        return sum([await self._work_off(kinds) for kinds in self._lanes])

    async def _work_off(self, kinds: tuple[str, ...]) -> int:
        done, job, lease_s = 0, None, self._toolbox.settings.jobs.lease_s
        while True:
            with anyio.CancelScope(shield=True):  # a job claimed just as this is cancelled would be run by nobody
                job = await self._toolbox.store.claim(self._name, self._now(), lease_s, kinds, *self._whose)
            if job is None:
                if done and EMBED not in kinds:
                    await self._copy_of_the_day()
                return done
            try:
                if (end := await self._do(job)) is not None:
                    await self._finish(job, end)
            except anyio.get_cancelled_exc_class():
                with anyio.move_on_after(PUT_BACK_S, shield=True), suppress(StorageError):
                    await self._toolbox.store.finish(job.id, self._name, JobEnd("queued", tried=False))
                raise
            done += 1

    async def _finish(self, job: Job, end: JobEnd) -> None:
        """Record how a job ended; try three times if the bank is busy (each try waits), or the job would run again."""
        for _ in range(2):
            with suppress(StoreBusy):
                await self._toolbox.store.finish(job.id, self._name, end)
                return
        await self._toolbox.store.finish(job.id, self._name, end)

    async def work_off_all(self) -> int:
        """Run every queued job of the toolbox's project, due or not; return how many ran."""
        await self._toolbox.store.release(self._toolbox.scope, "", self._now())
        return await self.work_off_due()

    async def _do(self, job: Job) -> JobEnd | None:
        """Run one job under its time limit and lease; return how it ended, None when it is no longer this worker's."""
        limits = self._toolbox.settings.jobs
        if job.attempts > limits.max_attempts:
            return self._failed(job, "its worker died each time it was tried", again=False)
        limit_s = LONG_TIMEOUT_S if job.kind in self._long else limits.timeout_s
        try:
            with anyio.fail_after(limit_s):
                outcome = await self._leased(job)
        except TimeoutError:
            return self._failed(job, f"took longer than {limit_s:g} s", again=True)
        if isinstance(outcome, QuotaReached) and job.kind in self._handlers:
            # It waits for the next day (UTC): not being able to begin, however often, uses up none of its attempts.
            midnight = self._now().astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
            end = JobEnd("queued", error=str(outcome), run_after=midnight + timedelta(days=1), tried=False)
            log.warning("job %s (%s) waits until %s: %s", job.id, job.kind, end.run_after, outcome)
            return end
        if isinstance(outcome, Exception):
            again = isinstance(outcome, SwarmMemoryError) and not isinstance(outcome, InputError | ConfigError)
            return self._failed(job, str(outcome) or repr(outcome), again=again)
        return None if outcome is None else JobEnd("completed", outcome)

    async def _leased(self, job: Job) -> Mapping[str, JsonValue] | Exception | None:
        """Return the job's result, or the error that ended it; None when it was taken over or cancelled meanwhile."""
        outcome: Mapping[str, JsonValue] | Exception | None = None
        store, reported = self._toolbox.store, ProgressReporter()
        written: Progress | None = None

        async def write_down() -> None:
            nonlocal written
            if (progress := reported.progress) is not None and progress != written:
                written = progress  # once, even if it fails: the next step checks for cancellation
                await store.report(job.id, self._name, progress)

        async def keep_lease() -> bool:
            kept = await store.heartbeat(job.id, self._name, self._now())
            if not kept:
                log.warning("job %s was taken over or cancelled", job.id)
            return kept

        async def is_running() -> bool:
            await write_down()
            stands = await store.get_job(job.scope, job.id)
            return stands is not None and stands.status == "running"

        async with anyio.create_task_group() as group:
            group.start_soon(_watch, job, self._toolbox.settings.jobs.lease_s / 3, keep_lease, group.cancel_scope)
            if job.kind in self._long:
                group.start_soon(_watch, job, REPORT_S, is_running, group.cancel_scope)
            try:
                toolbox = self._toolbox.in_project(job.scope.project)
                if job.person_id is not None:
                    toolbox = replace(toolbox, store=toolbox.store.by(job.person_id))
                if job.kind in self._handlers:
                    outcome = await self._handlers[job.kind](toolbox, job)
                else:
                    outcome = await self._long[job.kind](toolbox, job, reported)
                    await write_down()
            except Exception as error:  # the worker's main: a fault in one job must not end the others
                sole = _sole(error)
                outcome = sole if isinstance(sole, Exception) else error
                if not isinstance(outcome, SwarmMemoryError):
                    log.exception("job %s (%s) ended with an unexpected error", job.id, job.kind)
            group.cancel_scope.cancel()
        return outcome

    def _failed(self, job: Job, reason: str, *, again: bool) -> JobEnd:
        limits = self._toolbox.settings.jobs
        retry = again and job.attempts < limits.max_attempts
        log.warning("job %s (%s) %s: %s", job.id, job.kind, "will be tried again" if retry else "failed", reason)
        wait = timedelta(seconds=min(MAX_RETRY_S, limits.retry_s * 2 ** (job.attempts - 1)))
        later = self._now() + wait if retry else None
        return JobEnd("queued" if retry else "failed", error=reason, run_after=later)

    def _now(self) -> datetime:
        return self._toolbox.clock.now()


async def _watch(job: Job, every_s: float, is_ours: Callable[[], Awaitable[bool]], work: anyio.CancelScope) -> None:
    """Check regularly whether a job is still this worker's, and cancel its work once it is not."""
    while True:
        await anyio.sleep(every_s)
        try:
            if await is_ours():
                continue
        except StorageError as error:
            log.warning("could not check whether job %s still runs here: %s", job.id, error)
            continue
        work.cancel()


def _sole(error: BaseException) -> BaseException:
    """Return the error that was raised within a handler's task groups, which wrap even a single error."""
    if not isinstance(error, BaseExceptionGroup):
        return error
    within = cast("BaseExceptionGroup[BaseException]", error).exceptions
    return _sole(within[0]) if len(within) == 1 else cast(BaseException, error)
