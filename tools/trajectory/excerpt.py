"""A trajectory as compact text for a model, within a budget of tokens: whole steps, and the ends of huge ones.

Each step begins at the left margin with its id and kind; whatever was said, called or observed stands indented below,
so that no text of a step can look like a step of its own.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.text.cleaning import clean, shorten
from swarm_memory.tools.text.tokens import count_tokens

HEAD_SHARE = 0.25
"""Of the budget for the beginning: how it ended tells more than how it began."""

HUGE_SHARE, KEPT_SHARE = 0.5, 0.25
"""A step with a larger share of the budget is shown by its head and its tail, so that it does not push out all others;
both together have `KEPT_SHARE`."""

TASK_TOKENS = 2_000
"""A longer task is shown with its middle left out."""

_INDENT = "  "
_MAX_NAME_CHARS = 80
_NO_BRACKETS = str.maketrans("[]", "()")
_NOTES_TOKENS = 60
"""What the two lines in brackets take at most, without the ids in them."""


@dataclass(frozen=True, slots=True)
class Shortened:
    """What a model gets to see of a trajectory."""

    text: str
    shown: tuple[str, ...]
    """Ids of the steps that stand in it, of huge ones head and tail, in order."""
    left_out: int
    """Steps that do not, those included that the trajectory itself had lost before."""


@dataclass(frozen=True, slots=True)
class _Block:
    """One step as text."""

    step: Step
    text: str
    tokens: int


def shorten_trajectory(trajectory: Trajectory, budget_tokens: int) -> Shortened:
    """Return the trajectory's steps as text of at most `budget_tokens` tokens, as `tools.text.count_tokens` counts.

    When it is longer, steps are left out of the middle, and a line in their place says how many. Of a step that alone
    would fill half of the budget the middle is left out. Less than 200 tokens count as 200.
    """
    budget_tokens = max(budget_tokens, 200)
    blocks = [_block(step, budget_tokens) for step in trajectory.steps]
    notes = _NOTES_TOKENS + 2 * max((count_tokens(_id(step)) for step in trajectory.steps), default=0)
    head, tail = _ends([block.tokens for block in blocks], budget_tokens - notes)
    parts = [block.text for block in blocks[:head]]
    if trajectory.dropped_steps:
        parts.insert(0, f"[… {trajectory.dropped_steps} steps of the middle were not recorded …]")
    if tail > head:
        first, last = _id(blocks[head].step), _id(blocks[tail - 1].step)
        parts.append(f"[… {tail - head} steps left out here: {first} to {last} …]")
    parts += [block.text for block in blocks[tail:]]
    shown = tuple(block.step.id for block in (*blocks[:head], *blocks[tail:]))
    return Shortened("\n".join(parts), shown, len(blocks) - len(shown) + trajectory.dropped_steps)


def shown_task(trajectory: Trajectory, most_tokens: int = TASK_TOKENS) -> str:
    """Return the task's words as a model gets to see them, with the middle of a very long one left out."""
    return _within(trajectory.task, min(most_tokens, TASK_TOKENS))


def _within(text: str, most_tokens: int) -> str:
    while (tokens := count_tokens(text)) > most_tokens:
        text = shorten(clean(text), len(text) * most_tokens // (tokens + most_tokens // 10 + 1))
    return text


def _ends(costs: Sequence[int], room: int) -> tuple[int, int]:
    """Return how many are kept from the beginning, and the index from which on the rest is kept."""
    if sum(costs) <= room:
        return len(costs), len(costs)
    head, used = _fitting(costs, int(room * HEAD_SHARE))
    length, of_tail = _fitting(costs[head:][::-1], room - used)
    more, _ = _fitting(costs[head : len(costs) - length], room - used - of_tail)
    return head + more, len(costs) - length


def _fitting(costs: Sequence[int], room: int) -> tuple[int, int]:
    """Return how many of the first ones fit into the room, and what they cost."""
    used = 0
    for count, cost in enumerate(costs):
        if used + cost > room:
            return count, used
        used += cost
    return len(costs), used


def _block(step: Step, budget_tokens: int) -> _Block:
    head, body = _headline(step), "\n".join(_body(step))
    text = f"{head}\n{body}" if body else head
    tokens = count_tokens(f"{text}\n")
    if tokens > int(budget_tokens * HUGE_SHARE):
        head += f" [the middle of about {tokens} tokens is left out]"
        kept = _within(body, max(int(budget_tokens * KEPT_SHARE) - count_tokens(head), 20))
        # Where the text was cut, a line may have lost the indent that tells it from a step.
        text = "\n".join([head, *(line if line.startswith(_INDENT) else _INDENT + line for line in kept.splitlines())])
        tokens = count_tokens(f"{text}\n")
    return _Block(step, text, tokens)


def _headline(step: Step) -> str:
    """Return what the recorder, not the agent or a tool, says of the step."""
    name = _one_line(step.tool_name or "")
    if step.kind == "tool_call":
        said = f"tool call {name}".rstrip()
    elif step.kind == "observation":
        said = f"result of {name}" if name else "result"
    else:
        said = f"{step.kind} of the {step.role}"
    marks = [f"exit code {step.exit_code}"] if step.exit_code is not None else []
    marks += ["reported as an error"] if step.is_error else []
    marks += ["interrupted by the user"] if step.interrupted else []
    return f"[{_id(step)}] {', '.join([said, *marks])}"


def _body(step: Step) -> Iterator[str]:
    """Yield the indented lines of what was said, called or observed."""
    for key, value in (step.tool_input or {}).items():
        said = clean(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))
        lines = said.splitlines() or [""]
        yield f"{_INDENT}{_one_line(key)}: {lines[0]}".rstrip()
        yield from (f"{_INDENT * 2}{line}".rstrip() for line in lines[1:])
    yield from (f"{_INDENT}{line}".rstrip() for line in clean(step.text).strip("\n").splitlines())


def _id(step: Step) -> str:
    return _one_line(step.id)


def _one_line(text: str) -> str:
    return " ".join(clean(text[:_MAX_NAME_CHARS]).translate(_NO_BRACKETS).split())
