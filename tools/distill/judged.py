"""A trajectory judged and what it would teach, for those who look before anything is learned.

It is cleaned first, and kept where an agent judged.
"""

import anyio.to_thread

from swarm_memory.schema.base import TRAJECTORY, new_id
from swarm_memory.schema.memory import Distillation
from swarm_memory.schema.trajectory import Trajectory, Verdict
from swarm_memory.tools.distill.distill import distill_by_extraction
from swarm_memory.tools.distill.model import distill_with_fallback
from swarm_memory.tools.guard.redact import archivable
from swarm_memory.tools.judge.judge import judge
from swarm_memory.tools.toolbox import Toolbox


async def judged(toolbox: Toolbox, given: Trajectory, agent_verdict: Verdict | None) -> tuple[Trajectory, Verdict]:
    """Return the trajectory as it may be kept, and the verdict on it.

    An agent's verdict is stored with its trajectory; nothing counts as learned from it. Raises as `judge`.
    """
    kept = await anyio.to_thread.run_sync(archivable, given, toolbox.settings)
    verdict = await judge(toolbox, kept, agent_verdict=agent_verdict)
    if agent_verdict is not None:
        await toolbox.store.save_verdict(toolbox.scope, new_id(TRAJECTORY), kept, verdict)
    return kept, verdict


async def drawn(toolbox: Toolbox, kept: Trajectory, verdict: Verdict) -> Distillation:
    """Return what a judged trajectory teaches, by the toolbox's chat model; by extraction without one."""
    if toolbox.chat is not None:
        return await distill_with_fallback(toolbox.chat, kept, verdict, toolbox.settings)
    return await anyio.to_thread.run_sync(distill_by_extraction, kept, verdict, toolbox.settings)
