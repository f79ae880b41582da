"""What is asked in a message that a harness wrote around it."""

from swarm_memory.server.hosts.plain.words import TASK_FRAMES, TASK_LEADS

_MIN_QUOTED = 60
"""A shorter task may stand in another sentence by chance."""


def task_in(text: str) -> str:
    """Return the part of a first message that a tag marks as the task; the whole where nothing marks it."""
    for opening, closing in TASK_FRAMES:
        start = text.find(opening)
        end = text.find(closing, start + len(opening)) if start >= 0 else -1
        if end >= 0 and text[start + len(opening) : end].strip():
            return _without_lead(text[start + len(opening) : end].strip())
    return text


def tells_again(text: str, task: str) -> bool:
    """Tell whether a message is the task once more, perhaps within a template."""
    asked, told = " ".join(task.split()), " ".join(text.split())
    return told == asked or (len(asked) >= _MIN_QUOTED and asked in told)


def _without_lead(text: str) -> str:
    first, _, rest = text.partition("\n")
    return rest.strip() if first.strip().lower() in TASK_LEADS and rest.strip() else text
