"""One reading of a trajectory: its calls, errors, files, checks and the user's word, each extracted only once."""

import re
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Literal

from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.trajectory.calls import Call, calls_of
from swarm_memory.tools.trajectory.check_runs import CheckRun, File, check_runs, files_of, rests_on_own
from swarm_memory.tools.trajectory.errors import Error, Repair, errors_of
from swarm_memory.tools.trajectory.failures import BY_WORDS, classify
from swarm_memory.tools.trajectory.phrasing import particulars_of
from swarm_memory.tools.trajectory.tasks import feedback, is_task_prompt

_NO = re.compile(r"(?i)\W*(?:no|nope|nah|not|don't|do not|stop)\b")


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What the user said after the work had begun."""

    index: int
    """Index of the step in the trajectory."""
    step: Step
    about: Literal["correction", "approval"] | None
    """What it says about the work so far; None: nothing."""
    is_answer: bool
    """Whether it is a "no" to the agent's question, which corrects nothing that was done."""
    stopped: bool
    """Whether the user had stopped the agent to say it."""


@dataclass(frozen=True, eq=False)
class Reading:
    """What happened in a trajectory. Each part is computed on first access and cached."""

    trajectory: Trajectory

    @cached_property
    def calls(self) -> tuple[Call, ...]:
        return calls_of(self.trajectory)

    @cached_property
    def errors(self) -> tuple[Error, ...]:
        return errors_of(self.calls)

    @property
    def repairs(self) -> tuple[Repair, ...]:
        """The repairs of all errors that something ended, without those that may be the agent's own fault."""
        found = (error.repair for error in self.errors if not self.is_own_fault(error.calls[0]))
        return tuple(repair for repair in found if repair is not None)

    def is_own_fault(self, failed: Call) -> bool:
        """Whether a call may have failed only because of the agent's own test or script: no lesson for others."""
        return self.is_own(failed) and classify(failed.error).kind in BY_WORDS

    @cached_property
    def files(self) -> tuple[File, ...]:
        return files_of(self.calls)

    @cached_property
    def checks(self) -> tuple[CheckRun, ...]:
        return check_runs(self.trajectory.task, self.calls, self.files)

    def is_own(self, call: Call) -> bool:
        """Whether what a check or a script reports may rest only on what the agent itself wrote."""
        before = [each for each in self.calls if each.position < call.position and each.name == call.name]
        return any(each.is_own for each in self.checks if each.call is call) or rests_on_own(call, self.files, before)

    @cached_property
    def changes(self) -> tuple[Call, ...]:
        """The calls that changed something; a line of several commands may have done so even if its last one failed."""
        wrote = {call.position for file in self.files for how, call in file.touches if how != "read"}

        def changed(call: Call) -> bool:
            if call.refused or call.observation is None:
                return False
            if call.command is not None and len(call.command.parts) > 1:
                return any(map(call.command.changes, call.command.parts))
            return call.writes and not call.failed

        return tuple(call for call in self.calls if call.position in wrote or changed(call))

    @cached_property
    def said(self) -> tuple[FollowUp, ...]:
        """The user's messages after the agent had begun to act."""
        steps, found = self.trajectory.steps, list[FollowUp]()
        begun = self.calls[0].position if self.calls else len(steps)
        for index, (before, step) in enumerate(pairwise(steps), 1):
            if index <= begun or step.kind != "message" or step.role != "user" or not is_task_prompt(step.text):
                continue
            asked = before.kind == "message" and before.role == "assistant" and "?" in before.text[-400:]
            is_answer = asked and bool(_NO.match(step.text))
            stopped = any(earlier.interrupted for earlier in steps[max(0, index - 2) : index])
            found.append(FollowUp(index, step, feedback(step.text), is_answer, stopped))
        return tuple(found)

    @cached_property
    def particulars(self) -> tuple[str, ...]:
        """Names and ids of this task, which a memory must not contain."""
        return particulars_of(self.calls)


def read(given: Trajectory | Reading) -> Reading:
    """Return the reading of a trajectory; a `Reading` is returned unchanged."""
    return given if isinstance(given, Reading) else Reading(given)
