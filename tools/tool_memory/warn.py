"""One line of warning before a call that looks like one that failed in an earlier session, with what resolved that.

It never blocks and decides nothing. Where nothing is known to resolve the failure there is nothing to say.
"""

from collections.abc import Sequence
from datetime import timedelta

from swarm_memory.schema.tool_memory import KeptCall
from swarm_memory.tools.text.cleaning import harmless, one_line
from swarm_memory.tools.text.tokens import count_tokens
from swarm_memory.tools.tool_memory.advise import name_of
from swarm_memory.tools.tool_memory.evaluate import resolving_call, symptom_of, went_well
from swarm_memory.tools.tool_memory.inputs import difference, similarity
from swarm_memory.tools.toolbox import Toolbox

MAX_TOKENS = 200
SO_ALIKE = 0.85
"""A call that has so much in common with a failed one looks like it."""

_MAX_FIX_CHARS = 300


async def warn_before_call(toolbox: Toolbox, tool_name: str, told: str, session_id: str | None) -> str:
    """Return the warning; empty for most calls, and for `hooks.warn_every_minutes` after one of the same tool.

    `told` is the input as it would be kept. Raises `StorageError`.
    """
    store, now = toolbox.store.tool_memory, toolbox.clock.now()
    since = now - timedelta(minutes=toolbox.settings.hooks.warn_every_minutes)
    last = await store.last_warning(toolbox.scope, tool_name)
    if last is not None and last > since:
        return ""
    window = toolbox.settings.tool_memory.max_history_tool_call_cnt
    calls = await store.recent_calls(toolbox.scope, tool_name, window)
    text = warning_of(tool_name, told, [each for each in calls if each.call.session_id != session_id])
    if not text or not await store.claim_warning(toolbox.scope, tool_name, now, since):
        return ""
    return text


def warning_of(tool_name: str, told: str, calls: Sequence[KeptCall]) -> str:
    """Return the warning for a call of a tool from its earlier calls, newest first; empty when there is none to give.

    The newest call that looks like it decides: where that one went well, what failed before is no concern.
    """
    alike = [each for each in calls if similarity(told, each.call.input) >= SO_ALIKE]
    if not alike or went_well(alike[0]):
        return ""
    by_arrival = sorted(calls, key=lambda each: each.seq)
    for failed in (each for each in alike if not went_well(each)):
        good = resolving_call(failed, by_arrival)
        fix = difference(failed.call.input, good.call.input) if good is not None else ""
        if fix:
            return _line(tool_name, sum(not went_well(each) for each in alike), symptom_of(failed.call), fix)
    return ""


def _line(tool_name: str, times: int, error: str, fix: str) -> str:
    often = "before" if times == 1 else f"{times} times before"
    said = f' with "{error}"' if error else ""
    text = f"Note from earlier calls: {name_of(tool_name)} failed {often} with arguments like these{said}."
    text += f" What worked next: the call {one_line(fix, _MAX_FIX_CHARS)}."
    while count_tokens(text) > MAX_TOKENS:
        text = one_line(text, len(text) * 3 // 4)
    return harmless(text)
