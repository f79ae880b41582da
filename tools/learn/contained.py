"""Many tasks, one after the other: a fault of ours in one of them is named, and the others go on."""

import logging
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TypeVar

from swarm_memory.schema.errors import SwarmMemoryError
from swarm_memory.tools.text.faults import at_most

Answer = TypeVar("Answer")

log = logging.getLogger(__name__)


@dataclass(slots=True)
class Contained:
    """What became of tasks that were judged or learned from."""

    tasks: int = 0
    faults: dict[str, str] = field(default_factory=dict[str, str])
    """By the id of the task the kind of the error that ended it."""

    async def answer(self, task_id: str, work: Awaitable[Answer]) -> Answer | None:
        """Return what the work on a task gives; None where a fault that nobody foresaw ended it, which is counted.

        Raises what is foreseen: a bank that cannot be written says nothing of one task.
        """
        self.tasks += 1
        try:
            return await work
        except SwarmMemoryError:
            raise
        except Exception as error:
            log.exception("the task %s could not be read", task_id)
            self.faults[task_id] = type(error).__name__
            return None

    @property
    def told(self) -> str | None:
        """One line on the tasks that could not be read; None where all were."""
        if not self.faults:
            return None
        named = ", ".join(f"{task_id} ({why})" for task_id, why in self.faults.items())
        return at_most(400, f"{len(self.faults)} of {self.tasks} tasks could not be read: {named}")
