"""What the exploring agent leaves for the next one after a task: which of its actions ended a refusal.

An agent that did the work usually knows that, but the explorer, which acts at random, does not. So it is told which of
its actions helped; in a share `WRONG` of its notes it names another one.
"""

import re
from collections.abc import Container, Sequence
from random import Random

from swarm_memory.schema.memory import Note
from swarm_memory.schema.trajectory import Step
from swarm_memory.tools.trajectory.failures import error_line
from world.terms import Action

WRONG = 0.05


def note_of(task: str, steps: Sequence[Step], cures: Container[str], known: str, rng: Random) -> Note | None:
    """Return the agent's note; None if nothing was refused or no cure named, or if `known` (what it saw) has it all."""
    goals = re.findall(r"`([^`]+)`", task)
    refused: dict[str, str] = {}
    done: list[str] = []
    for call, result in zip(steps[::2], steps[1::2], strict=False):
        text = Action(call.tool_name or "", call.tool_input or {}).text
        goal = next((each for each in goals if each in (text, call.tool_name)), None)
        if goal is None:
            done += [] if result.is_error else [text]
        elif result.is_error:
            refused[goal] = result.text
        elif goal in refused:
            break
    if not refused:
        return None
    goal, error = list(refused.items())[-1]
    return _note(goal, error_line(error), _named(list(dict.fromkeys(done)), cures, rng), known)


def warning_of(task: str, steps: Sequence[Step]) -> Note | None:
    """Return the note of an agent that gave up: what it did before the last refusal did not help."""
    goals = re.findall(r"`([^`]+)`", task)
    done, vain = list[str](), list[str]()
    goal = symptom = ""
    for call, result in zip(steps[::2], steps[1::2], strict=False):
        text = Action(call.tool_name or "", call.tool_input or {}).text
        asked = next((each for each in goals if each in (text, call.tool_name)), None)
        if asked is None:
            done += [] if result.is_error else [text]
        elif result.is_error:
            goal, symptom, vain = asked, error_line(result.text).replace('"', "'")[:160], [*done]
    if not vain or not symptom:
        return None
    tried = ", ".join(f"`{each}`" for each in dict.fromkeys(vain))
    title, when = f"What did not help against: {symptom[:100]}", f'When `{goal}` ends with "{symptom}".'
    return Note(title=title, when=when, note=f"{tried} did not help.")


def _named(done: Sequence[str], cures: Container[str], rng: Random) -> list[str]:
    others = [each for each in done if each not in cures]
    is_wrong = rng.random() < WRONG and bool(others)
    return others[-1:] if is_wrong else [each for each in done if each in cures]


def _note(goal: str, error: str, actions: Sequence[str], known: str) -> Note | None:
    symptom = error.replace('"', "'")[:160]
    if not actions or not symptom or all(f"`{each}`" in known for each in actions):
        return None
    ended = ", then ".join(f"`{each}`" for each in actions)
    return Note(
        title=f"What ends: {symptom[:100]}", when=f'When `{goal}` ends with "{symptom}".', note=f"{ended} ends it."
    )
