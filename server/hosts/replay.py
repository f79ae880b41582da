"""A conversation that a transcript holds twice, as hosts write it when a session is resumed: only the first counts."""

from collections.abc import Sequence

from swarm_memory.schema.trajectory import Step

_MIN_MESSAGES = 3
"""So many messages in the same order are no coincidence."""


def without_replay(steps: tuple[Step, ...], task: str) -> tuple[Step, ...]:
    """Return the steps without a second telling of their own messages: the calls were made only once.

    The second telling begins where the user's first words stand again, `task` or the first message of the user in the
    steps. It is one only as far as each message stands in the first too, in the same order, and no call is among them.
    What comes after it stays.
    """
    opening = Step(id="task", kind="message", role="user", text=task)
    told = (opening, *steps)
    said = _said(told)
    users = [at for at, step in enumerate(told) if step.kind == "message" and step.role == "user"][:2]
    for start in range(1, len(told)):
        for first in users:
            if first < start and said[start] == said[first]:
                end = _end_of_replay(told, said, first, start)
                if end is not None:
                    return (*told[1:start], *told[end:])
    return steps


def _said(steps: tuple[Step, ...]) -> list[int]:
    """Return a number for each step, the same for the same words: long texts are compared once."""
    numbers: dict[tuple[str, str, str], int] = {}
    spoken = ((step.kind, step.role, " ".join(step.text.split())) for step in steps)
    return [numbers.setdefault(words, len(numbers)) for words in spoken]


def _end_of_replay(steps: tuple[Step, ...], said: Sequence[int], first: int, start: int) -> int | None:
    """Return where the second telling ends; None where it is none."""
    told = iter(said[first:start])
    end = start
    messages = 0
    while end < len(steps) and steps[end].kind in ("message", "thought"):
        is_message = steps[end].kind == "message"
        if is_message and said[end] not in told:  # goes on in the first telling behind what was found before
            break
        messages += is_message
        end += 1
    return end if messages >= _MIN_MESSAGES else None
