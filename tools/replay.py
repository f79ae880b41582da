"""A conversation that a transcript holds twice, as hosts write it when a session is resumed: only the first counts."""

from swarm_memory.schema.trajectory import Step, Trajectory

_MIN_MESSAGES = 3
"""So many messages in the same order are no coincidence."""


def without_replay(trajectory: Trajectory) -> Trajectory:
    """Return the trajectory without a second telling of its own messages: their calls were made only once.

    The second telling begins where the first message of the user stands again, and is one only as far as each message
    stands in the first too, in the same order, and no call is among them. What comes after it stays.
    """
    steps = trajectory.steps
    first = next((index for index, step in enumerate(steps) if _is_message(step) and step.role == "user"), None)
    if first is None:
        return trajectory
    for start in range(first + 1, len(steps)):
        if _said(steps[start]) == _said(steps[first]):
            end = _end_of_replay(steps[first:start], steps, start)
            if end is not None:
                return trajectory.model_copy(update={"steps": (*steps[:start], *steps[end:])})
    return trajectory


def _end_of_replay(told: tuple[Step, ...], steps: tuple[Step, ...], start: int) -> int | None:
    """Return where the second telling ends; None where it is none."""
    rest = iter(told)
    end = start
    messages = 0
    while end < len(steps) and steps[end].kind in ("message", "thought"):
        step = steps[end]
        if _is_message(step) and not any(_said(step) == _said(other) for other in rest):
            break
        messages += _is_message(step)
        end += 1
    return end if messages >= _MIN_MESSAGES else None


def _is_message(step: Step) -> bool:
    return step.kind == "message"


def _said(step: Step) -> tuple[str, str, str]:
    return step.kind, step.role, " ".join(step.text.split())
