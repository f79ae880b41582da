"""Text in the ReAct form (Thought, Action, Observation) as steps; it knows nothing of files or messages."""

import re

from swarm_memory.server.hosts.steps import Draft

_LABEL = re.compile(
    r"^[ \t]{0,8}(thought|action input|action|observation|final answer|answer)(?: (\d{1,4}))?[ \t]*:[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_CALL = re.compile(r"([A-Za-z_][\w.-]{0,100})[ \t]*[\[(](.*)[\])][ \t]*$", re.DOTALL)


def read_react(draft: Draft, text: str) -> None:
    """Append the steps of a text; what stands before the first label is a message, unless it is the task."""
    marks = list(_LABEL.finditer(text))
    opening = text[: marks[0].start() if marks else len(text)].strip()
    if opening and not draft.task:
        draft.task, opening = opening, ""
    if opening != draft.task.strip():
        draft.add("message", "assistant", opening)
    call: tuple[str, str] | None = None
    for mark, following in zip(marks, [*marks[1:], None], strict=False):
        body = text[mark.end() : following.start() if following else len(text)].strip()
        label = mark[1].lower()
        if label == "action input" and call is not None:
            call = (call[0], body)
            continue
        if call is not None:
            _add_call(draft, *call)
            call = None
        if label == "action":
            call = _call_of(body)
        else:
            _add(draft, label, body)
    if call is not None:
        _add_call(draft, *call)


def _call_of(body: str) -> tuple[str, str]:
    match = _CALL.match(body)
    return (match[1], match[2]) if match else (body[:200], "")


def _add_call(draft: Draft, name: str, argument: str) -> None:
    """Append a call; one that finishes is the final message."""
    if name.lower() == "finish":
        draft.add("message", "assistant", argument)
    else:
        draft.add("tool_call", "assistant", tool_name=name, tool_input={"input": argument})


def _add(draft: Draft, label: str, body: str) -> None:
    if label == "thought":
        draft.add("thought", "assistant", body)
    elif label == "observation":
        draft.add("observation", "tool", body)
    else:
        draft.add("message", "assistant", body)
