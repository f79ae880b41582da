"""A trajectory as it may be kept: cleaned, redacted and of bounded size; nothing else of it is ever stored."""

from collections.abc import Mapping
from typing import cast

from pydantic import JsonValue

from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.text.cleaning import clean

_MAX_DEPTH = 20
_MAX_TASK_CHARS = 20_000


def archivable(trajectory: Trajectory, settings: Settings) -> Trajectory:
    """Return the trajectory with every text of it cleaned and redacted, long texts cut and the middle left out.

    At most `settings.learn.max_steps` steps of at most `max_step_chars` characters; doing it twice changes nothing.
    """
    pii, limit = settings.distill.redact_pii, settings.learn.max_step_chars
    kept, dropped = _ends(trajectory.steps, settings.learn.max_steps)
    steps = tuple(_step(step, limit, pii=pii) for step in kept)
    task = _text(trajectory.task, _MAX_TASK_CHARS, pii=pii)
    changed = {"task": task, "steps": steps, "dropped_steps": trajectory.dropped_steps + dropped}
    return trajectory.model_copy(update=changed)


def _ends(steps: tuple[Step, ...], limit: int) -> tuple[tuple[Step, ...], int]:
    """The end tells how it went and weighs more than the beginning."""
    if len(steps) <= limit:
        return steps, 0
    head = limit // 4
    return steps[:head] + steps[len(steps) - (limit - head) :], len(steps) - limit


def _step(step: Step, limit: int, *, pii: bool) -> Step:
    changed: dict[str, object] = {"text": _text(step.text, limit, pii=pii)}
    if step.tool_input is not None:
        changed["tool_input"] = _value(step.tool_input, limit, _MAX_DEPTH, pii=pii)
    return step.model_copy(update=changed)


def _text(text: str, limit: int, *, pii: bool) -> str:
    """Redacted before it is cut: half a secret would not be known as one."""
    return clean(redact(clean(text), pii=pii).text, limit)


def _value(value: JsonValue, limit: int, depth: int, *, pii: bool) -> JsonValue:
    if isinstance(value, str):
        return _text(value, limit, pii=pii)
    if depth <= 0:
        return None
    if isinstance(value, Mapping):
        fields = cast(Mapping[str, JsonValue], value)
        return {_text(key, 200, pii=pii): _value(field, limit, depth - 1, pii=pii) for key, field in fields.items()}
    if isinstance(value, list):
        return [_value(part, limit, depth - 1, pii=pii) for part in value]
    return value
