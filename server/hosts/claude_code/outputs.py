"""What a tool gave, as PostToolUse tells it and may be answered: cut where it is too long, its shape as it was.

Claude Code (from 2.1.121 on) takes `updatedToolOutput` only where it has the shape of what the tool itself gives.
"""

import copy
from collections.abc import Iterator, Mapping
from typing import Any, cast

from swarm_memory.tools.text.capping import cap, estimate

_TEXTS = frozenset({"stdout", "stderr", "content", "text", "result", "output"})
"""The names of what a model reads, in answers of Bash, WebFetch, Grep, Task and servers of MCP."""

_OTHER_KINDS = frozenset({"image", "audio", "document", "resource_link"})
_LEFT_ALONE = frozenset({"Read", "Edit", "MultiEdit", "Write", "NotebookEdit"})
"""Of these the host counts lines or shows a difference: cut, they would say what is not so."""
_MAX_DEPTH = 6


def capped_output(event: Mapping[str, Any], max_tokens: int) -> dict[str, Any]:
    """Return the answer to a PostToolUse event, empty where its tool gave no more than so many tokens."""
    given: Any = event.get("tool_response")
    if event.get("tool_name") in _LEFT_ALONE or (isinstance(given, dict) and "persistedOutputPath" in given):
        return {}  # what the host has put into a file itself, the model sees the beginning of
    answer: dict[str, Any] = {"result": given}
    sizes = sorted(estimate(holder[key]) for holder, key in _texts(answer, 0))
    limit = _limit(sizes, max_tokens)
    if limit is None:
        return {}
    answer = copy.deepcopy(answer)
    for holder, key in list(_texts(answer, 0)):
        holder[key] = cap(holder[key], limit)
    return {"hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": answer["result"]}}


def _limit(sizes: list[int], max_tokens: int) -> int | None:
    """Return how many tokens each text may have, so that all together have no more; None where they have not.

    `sizes` are in order: what short ones leave goes to the long ones.
    """
    left = max_tokens
    for place, size in enumerate(sizes):
        share = left // (len(sizes) - place)
        if size > share:
            return share
        left -= size
    return None


def _texts(value: Any, depth: int) -> Iterator[tuple[Any, Any]]:
    """Yield where the texts stand that a model reads: what holds each, and its key there."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, list):
        for part in cast("list[Any]", value):
            yield from _texts(part, depth + 1)
    elif isinstance(value, dict) and cast("dict[str, Any]", value).get("type") not in _OTHER_KINDS:
        held = cast("dict[str, Any]", value)
        if held.get("isImage") is True:
            return
        for key, part in held.items():
            if isinstance(part, str):
                if key in _TEXTS:
                    yield held, key
            else:
                yield from _texts(part, depth + 1)
