"""When each rollout of a run is done: side by side or one after the other, saved as it ends, until all have ended."""

import logging
from dataclasses import dataclass, field

import anyio

from swarm_memory.schema.errors import StorageError, SwarmMemoryError
from swarm_memory.schema.job import Progress, Report
from swarm_memory.schema.rollout import MattsRun
from swarm_memory.tools.matts.rollouts import Former, do_rollout
from swarm_memory.tools.ports.outside import AgentRunner
from swarm_memory.tools.toolbox import Toolbox

CANCEL_LOOK_S = 0.5
"""How often a running run looks whether another process cancelled it."""

log = logging.getLogger(__name__)


@dataclass
class Scaling:
    """One call's work on a run: `run` grows with every rollout that has ended."""

    toolbox: Toolbox
    runner: AgentRunner
    run: MattsRun
    on_progress: Report | None
    is_cancelled: bool = False
    fault: SwarmMemoryError | None = None
    _done: set[int] = field(init=False)
    """Numbers of the rollouts that need not be done."""

    def __post_init__(self) -> None:
        self._done = {each.number for each in self.run.summary.rollouts if each.status != "failed"}

    async def work(self) -> None:
        """Do the rollouts that are missing, until all have ended or the run is cancelled. Raises what one raises."""
        await self.tell("begun")
        async with anyio.create_task_group() as group:
            group.start_soon(self._watch, group.cancel_scope)
            if self.run.mode == "parallel":
                await self._parallel(group.cancel_scope)
            else:
                await self._sequential(group.cancel_scope)
            group.cancel_scope.cancel()
        if self.fault is not None:
            raise self.fault

    async def _watch(self, work: anyio.CancelScope) -> None:
        """End the work soon after somebody cancelled the run."""
        while True:
            await anyio.sleep(CANCEL_LOOK_S)
            try:
                stands = await self.toolbox.store.get_run(self.run.scope, self.run.run_id)
            except StorageError as error:
                log.warning("it was not seen whether run %s is cancelled: %s", self.run.run_id, error)
                continue
            if stands is not None and stands.status == "cancelled":
                self.is_cancelled = True
                work.cancel()

    async def _parallel(self, work: anyio.CancelScope) -> None:
        limiter = anyio.CapacityLimiter(self.toolbox.settings.matts.max_concurrency)

        async def one(number: int) -> None:
            async with limiter:
                await self._rollout(number, None, work)

        async with anyio.create_task_group() as rollouts:
            for number in range(1, self.run.total + 1):
                if number not in self._done:
                    rollouts.start_soon(one, number)

    async def _sequential(self, work: anyio.CancelScope) -> None:
        """Refine until the end, or until hard evidence says that the task is met; a failed attempt is tried once."""
        former: Former | None = None
        for number in range(1, self.run.total + 1):
            if number not in self._done:
                await self._rollout(number, former, work)
            ended = self.run.rollout(number)
            if ended is None or (ended.is_hard and ended.label == "Success"):
                return
            former = await self._former(ended.trajectory_id) or former

    async def _former(self, trajectory_id: str | None) -> Former | None:
        if trajectory_id is None:
            return None
        kept = await self.toolbox.store.get_trajectory(self.run.scope, trajectory_id)
        return None if kept is None else Former(*kept)

    async def _rollout(self, number: int, former: Former | None, work: anyio.CancelScope) -> None:
        """Do one rollout and save it at once. An error ends all of the run's work."""
        try:
            ended = await do_rollout(self.toolbox, self.run, number, self.runner, former)
            kept = await self.toolbox.store.save_rollout(
                self.run.scope, self.run.run_id, ended.rollout, ended.trajectory, ended.verdict
            )
            if kept and ended.audit is not None:
                await self.toolbox.store.add_event(self.run.scope, ended.audit)
        except SwarmMemoryError as error:
            self.fault = self.fault or error
            work.cancel()
            return
        if not kept:
            self.is_cancelled = True
            work.cancel()
            return
        self.run = self.run.with_rollout(ended.rollout)
        self._done.add(number)
        told = ended.rollout.label or ended.rollout.status.replace("_", " ")
        await self.tell(f"rollout {number}: {told}")

    async def tell(self, message: str, done: int | None = None) -> None:
        """Say how far the run is; comparing the rollouts counts as one more."""
        if self.on_progress is not None:
            done = len(self._done) if done is None else done
            await self.on_progress(Progress(done=done, total=self.run.total + 1, message=message))
