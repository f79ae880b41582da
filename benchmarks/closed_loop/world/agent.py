"""An agent that explores: it tries what is plausible, at random, and takes advice from the text of its prompt alone.

It knows no rule of any world, no outcome but what it is shown, and not how often anyone has tried before.
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
"""Weights against 1 for any action: what the task asks for; what went through already; what just failed and nothing
changed since; what was done since the last failure."""

_NAMED_IN_ERROR, _ADVISED, _IN_VAIN = 2.0, 8.0, 0.125
"""Factors: words of the last error are in the action; a fitting note speaks for it, or says that it did not help."""

DONE = "All that was asked for went through."
"""What it says at the end where it believes that."""

_COMMON = frozenset({"error", "is", "the", "a", "to", "not", "of", "in", "bash", "no", "it"})

AtFailure = Callable[[Action, Seen], str]
"""Gives what is shown beside a failed result; empty for nothing."""


@dataclass
class _Mind:
    """What the agent remembers of this one attempt."""

    notes: tuple[Note, ...]
    goals: tuple[str, ...]
    reached: set[str] = field(default_factory=set[str])
    error: str = ""
    """What the last failure said; stays until a goal goes through."""
    failed: set[str] = field(default_factory=set[str])
    """Failed, and nothing went through since."""
    done: set[str] = field(default_factory=set[str])
    """Went through since the last goal that was refused."""

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
        """Take in what is shown beside a failed result: it speaks of that error."""
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
        """Return what fitting notes speak for now: at once, or after the error that they quote."""
        fitting = (note for note in self.notes if note.at_once or (self.error and note.meets(self.error)))
        advised = {at for note in fitting for span in note.advised for at in meant(span, actions)}
        return {at for at in advised if actions[at].text not in self.done | self.failed}


def attempt(
    environment: Environment, prompt: str, rng: Random, at_failure: AtFailure | None = None
) -> tuple[Step, ...]:
    """Try the task within `STEP_LIMIT` calls and return the steps; it stops when all that was asked for went through.

    `prompt` is what the agent is shown beside the task, `at_failure` what it is shown beside a failed result; the
    notes in them are all that it has from earlier tasks.
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
