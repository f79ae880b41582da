"""What a finder draws from a trajectory, put together as a draft."""

from collections.abc import Sequence

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call

MAX_TITLE, MAX_LINE, MAX_LINES = 80, 240, 8

GUARDRAIL = "guardrail"
"""Tag of a lesson on what did not work."""


def draft_of(
    title: str,
    when: str,
    lines: Sequence[str],
    tags: Sequence[str] = (),
    *,
    calls: Sequence[Call] = (),
    steps: Sequence[str] = (),
) -> MemoryDraft:
    """Put a lesson together: `when` continues "Of use when …", the lines become the numbered steps.

    `calls`, and the ids of `steps`, are what it rests on.
    """
    program = next((call.command.main.program for call in reversed(calls) if call.command and call.command.main), "")
    tools = [call.tool for call in calls if call.command is None]
    domain = f"shell.{program}" if program else f"tool.{tools[0].lower()}" if tools else None
    shown = [one_line(line, MAX_LINE) for line in lines[:MAX_LINES]]
    return MemoryDraft(
        title=title[:1].upper() + one_line(title, MAX_TITLE)[1:],
        description=one_line(f"Of use when {when}.", 300),
        content="\n".join(f"{number}. {line}" for number, line in enumerate(shown, 1)),
        tags=tuple(dict.fromkeys(one_line(tag.lower(), 40) for tag in (*tags, *tools, program) if tag))[:8],
        domain=domain and domain[:100],
        evidence=tuple(dict.fromkeys([*steps, *(step for call in calls for step in call.ids)]))[:20],
    )
