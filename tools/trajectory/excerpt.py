"""A trajectory as compact text for a model, within a token budget: whole steps, and the head and tail of huge ones.

Each step begins at the left margin with its id and kind. Whatever was said, called or observed is indented below it,
so that no text inside a step can look like another step.
"""

import json
from bisect import bisect_right
from dataclasses import dataclass
from itertools import accumulate

from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.text.tokens import count_tokens

TASK_TOKENS = 2_000
"""A task of more tokens is shown with its middle left out."""

_SHARE = 4
"""A single step, and the beginning as a whole, get at most 1/4 of the budget each: how it ended matters more."""

_INDENT = "  "
_NO_BRACKETS = str.maketrans("[]", "()")
_MAX_NAME_CHARS, _NOTES_TOKENS = 80, 60
"""The length limit of a name, and the tokens reserved for the two lines in brackets."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """What a model is shown of a trajectory."""

    text: str
    shown: tuple[str, ...]
    """Ids of the steps in the text, in order; of a huge step the text has head and tail."""
    left_out: int
    """The number of steps left out, including those that the trajectory itself had already lost."""


def shorten_trajectory(trajectory: Trajectory, budget_tokens: int) -> Shortened:
    """Return the trajectory's steps as text of at most `budget_tokens` tokens, as `tools.text.tokens` counts them.

    When it is longer, steps are left out of the middle, and a line in their place says how many. A step of more than
    a quarter of the budget has its own middle left out. A budget below 200 tokens counts as 200.
    """
    budget_tokens = max(budget_tokens, 200)
    texts = [_shown(step, budget_tokens // _SHARE) for step in trajectory.steps]
    costs, room = [count_tokens(f"{text}\n") for text in texts], budget_tokens - _NOTES_TOKENS
    head = bisect_right([*accumulate(costs)], room // _SHARE)
    tail = len(costs) - bisect_right([*accumulate(costs[head:][::-1])], room - sum(costs[:head]))
    parts = [*texts[:head], *texts[tail:]]
    if tail > head:
        parts.insert(head, f"[… {tail - head} steps left out here …]")
    if trajectory.dropped_steps:
        parts.insert(0, f"[… {trajectory.dropped_steps} steps of the middle were not recorded …]")
    shown = tuple(step.id for step in (*trajectory.steps[:head], *trajectory.steps[tail:]))
    return Shortened("\n".join(parts), shown, tail - head + trajectory.dropped_steps)


def shown_task(trajectory: Trajectory, most_tokens: int = TASK_TOKENS) -> str:
    """Return the task as a model is shown it, with the middle of a very long one left out."""
    return _within(trajectory.task, min(most_tokens, TASK_TOKENS))


def _within(text: str, most_tokens: int) -> str:
    while (tokens := count_tokens(text)) > most_tokens:
        text = shorten(clean(text), len(text) * most_tokens // (tokens + most_tokens // 10 + 1))
    return text


def _shown(step: Step, most_tokens: int) -> str:
    said: list[str] = []
    for key, value in (step.tool_input or {}).items():
        given = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        said.append(f"{_one_line(key)}: " + clean(given).replace("\n", f"\n{_INDENT}"))
    if step.text:
        said.append(clean(step.text).strip("\n"))
    body = _within("\n".join(said), most_tokens)
    return "\n".join((_headline(step), *(f"{_INDENT}{line}".rstrip() for line in body.splitlines())))


def _headline(step: Step) -> str:
    """Return what the recorder, not the agent or a tool, says about the step."""
    name = _one_line(step.tool_name or "")
    said = {"tool_call": f"tool call {name}".rstrip(), "observation": f"result of {name}" if name else "result"}.get(
        step.kind, f"{step.kind} of the {step.role}"
    )
    code = "" if step.exit_code is None else f", exit code {step.exit_code}"
    marks = ", reported as an error" * bool(step.is_error) + ", interrupted by the user" * step.interrupted
    return f"[{_one_line(step.id)}] {said}{code}{marks}"


def _one_line(text: str) -> str:
    return " ".join(clean(text[:_MAX_NAME_CHARS]).translate(_NO_BRACKETS).split())
