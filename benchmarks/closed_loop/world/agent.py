"""An agent that explores: it tries plausible actions at random, and takes advice only from text that it is shown.

It knows no rule of any world, no outcome except what it is shown, and not how often anyone has tried before.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random

from swarm_memory.schema.trajectory import Step
from world.advice import Note, meant, read_notes, words
from world.terms import Action, Environment, Seen

STEP_LIMIT = 10

_GOAL, _SETTLED, _REPEATED, _DONE = 4.0, 0.05, 0.2, 0.3
"""Weights, compared with 1 for any other action: what the task asks for; what already succeeded; what just failed, with
nothing changed since; what was done since the last failure."""

_NAMED_IN_ERROR, _ADVISED, _IN_VAIN = 2.0, 8.0, 0.125
"""Factors: the action contains words of the last error; a fitting note advises it, or says that it did not help."""

DONE = "All that was asked for went through."
"""What it says at the end if it believes that it is done."""

_COMMON = frozenset({"error", "is", "the", "a", "to", "not", "of", "in", "bash", "no", "it"})

AtFailure = Callable[[Action, Seen], str]
"""Returns what is shown next to a failed result; empty for nothing."""


@dataclass
class _Mind:
    """What the agent remembers of this one attempt."""

    notes: tuple[Note, ...]
    goals: tuple[str, ...]
    reached: set[str] = field(default_factory=set[str])
    error: str = ""
    """The output of the last goal that failed; kept until a goal succeeds."""
    failed: set[str] = field(default_factory=set[str])
    """The actions that failed, with no success since."""
    done: set[str] = field(default_factory=set[str])
    """The actions that succeeded since the last failure or the last goal that succeeded."""

    def goal_of(self, action: Action) -> str | None:
        return next((goal for goal in self.goals if goal in (action.text, action.tool)), None)

    def learn(self, action: Action, seen: Seen) -> None:
        goal = self.goal_of(action)
        if seen.failed:
            self.failed.add(action.text)
            self.done.clear()
            if goal:
                self.error = seen.text
            return
        self.failed.clear()
        self.done.add(action.text)
        if goal:
            self.reached.add(goal)
            self.error = ""
            self.done.clear()

    def hear(self, text: str, error: str) -> None:
        """Add the notes that are shown next to a failed result: they are about that error."""
        self.notes += tuple(replace(note, symptoms=(words(error),)) for note in read_notes(text))

    def weights(self, actions: Sequence[Action]) -> list[float]:
        advised, in_vain = self._advised(actions), self._in_vain(actions)
        said = words(self.error) - _COMMON
        found: list[float] = []
        for at, action in enumerate(actions):
            weight = self._own(action)
            if said & words(action.text):
                weight *= _NAMED_IN_ERROR
            if at in advised:
                weight *= _ADVISED
            elif at in in_vain:
                weight *= _IN_VAIN
            found.append(weight)
        return found

    def _own(self, action: Action) -> float:
        goal = self.goal_of(action)
        if action.text in self.failed:
            return _REPEATED
        if goal:
            return _SETTLED if goal in self.reached else _GOAL
        return _DONE if action.text in self.done else 1.0

    def _in_vain(self, actions: Sequence[Action]) -> set[int]:
        spans = (span for note in self.notes if self.error and note.meets(self.error) for span in note.in_vain)
        return {at for span in spans for at in meant(span, actions)}

    def _advised(self, actions: Sequence[Action]) -> set[int]:
        """Return the actions that notes advise now: notes without an error, and those that quote the last one."""
        fitting = (note for note in self.notes if note.at_once or (self.error and note.meets(self.error)))
        advised = {at for note in fitting for span in note.advised for at in meant(span, actions)}
        return {at for at in advised if actions[at].text not in self.done | self.failed}


def attempt(
    environment: Environment, prompt: str, rng: Random, at_failure: AtFailure | None = None
) -> tuple[Step, ...]:
    """Try the task within `STEP_LIMIT` calls and return the steps; stop when all that was asked for has succeeded.

    `prompt` is what the agent is shown with the task; `at_failure` returns what it is shown next to a failed result.
    The notes in them are all that it has from earlier tasks.
    """
    goals = tuple(re.findall(r"`([^`]+)`", environment.task))
    mind = _Mind(notes=read_notes(prompt), goals=goals)
    steps: list[Step] = []
    for number in range(1, STEP_LIMIT + 1):
        actions = environment.actions()
        action = rng.choices(actions, mind.weights(actions))[0]
        seen = environment.act(action)
        steps += _steps(number, action, seen)
        mind.learn(action, seen)
        if seen.failed and at_failure is not None:
            mind.hear(at_failure(action, seen), seen.text)
        if mind.reached == set(goals):
            break
    done = mind.reached == set(goals)
    said = DONE if done else "I could not get all of it through."
    return (*steps, Step(id=f"s{len(steps) + 1}", kind="message", role="assistant", text=said))


def _steps(number: int, action: Action, seen: Seen) -> tuple[Step, Step]:
    call_id, at = f"c{number}", 2 * number - 1
    call = Step(
        id=f"s{at}", kind="tool_call", role="assistant", tool_name=action.tool, tool_input=dict(action.input),
        call_id=call_id,
    )  # fmt: skip
    answer = Step(
        id=f"s{at + 1}", kind="observation", role="tool", text=seen.text, call_id=call_id, is_error=seen.failed,
        exit_code=seen.exit_code,
    )  # fmt: skip
    return call, answer
