"""What a task is: which prompts begin, continue or comment on one; of hosts it knows only how they wrap text."""

import re
from typing import Literal

from swarm_memory.tools.text.frame import NOTES_CLOSE, NOTES_OPEN, parse_ids
from swarm_memory.tools.trajectory.task_phrases import (
    ANAPHORA,
    APPROVAL,
    CONTINUES_START,
    CORRECTION_ANYWHERE,
    CORRECTION_START,
    EXPLETIVE_IT,
    INTRODUCED,
    NEGATED_TROUBLE,
    NEW_TASK,
    NOW_LEAD,
    RELATIVE_THAT,
    THANKS_LEAD,
    YOUR_DOING,
)

_MAX_NOTES_CHARS = 12_000
"""Longer than any preamble: a frame that was opened and never closed is cut no further than this."""

_NOTED_ID = re.compile(r"(?<![A-Za-z0-9_])rm_[0-9A-HJKMNP-TV-Z]{26}(?![A-Za-z0-9])")
_OWN_TOOL = re.compile(r"mcp__[A-Za-z0-9_-]{0,100}?swarm[-_]memory[A-Za-z0-9-]{0,40}__")
_HOST_BLOCKS = ("system-reminder", "ide_opened_file", "ide_selection", "ide_diagnostics", "task-notification")
_HOST_TEXT = re.compile(
    r"\s*(?:<(?:command-(?:name|message|args)|local-command-(?:stdout|stderr|caveat)|bash-(?:input|stdout|stderr)"
    r"|user-memory-input|task-notification|teammate-message|system-reminder)\b|\[Request interrupted\b)"
)
_SLASH_COMMAND = re.compile(r"/[A-Za-z][\w:.-]{0,80}(?:\s|$)")

_LEAD_CHARS = 600
"""What a prompt is about is said at its beginning; the rest is not looked at."""


def session_task_id(session_id: str, number: int) -> str:
    """Return the id of a task of a host's session; the first has number 1."""
    return f"{session_id}:{number}"


def strip_notes(text: str) -> tuple[str, tuple[str, ...]]:
    """Return `text` without the notes that we injected, and the ids of the memories that they named."""
    if NOTES_OPEN not in text:
        return text, ()
    kept: list[str] = []
    ids: dict[str, None] = {}
    position = 0
    while (start := text.find(NOTES_OPEN, position)) >= 0:
        kept.append(text[position:start])
        end = text.find(NOTES_CLOSE, start, start + _MAX_NOTES_CHARS)
        position = start + _MAX_NOTES_CHARS if end < 0 else end + len(NOTES_CLOSE)
        ids.update(dict.fromkeys(parse_ids(text[start:position])))
    kept.append(text[position:])
    return "".join(kept), tuple(ids)


def noted_ids(text: str) -> tuple[str, ...]:
    """Return the distinct ids of memories in `text`, wherever they stand, in order."""
    return tuple(dict.fromkeys(_NOTED_ID.findall(text)))


def is_own_tool(tool_name: str) -> bool:
    """Tell whether a tool, as the host names it, is one of this server's."""
    return _OWN_TOOL.match(tool_name) is not None


def task_text(prompt: str) -> str:
    """Return what the person said: the prompt without injected notes and the host's own blocks."""
    text, _ = strip_notes(prompt)
    for name in _HOST_BLOCKS:
        text = _without_blocks(text, f"<{name}>", f"</{name}>")
    return text.strip()


def is_task_prompt(prompt: str) -> bool:
    """Tell whether a prompt asks for something: not empty, no slash command, not written by the host."""
    text = task_text(prompt)
    return bool(text) and not _SLASH_COMMAND.match(text) and not _HOST_TEXT.match(text)


def _without_blocks(text: str, opening: str, closing: str) -> str:
    if opening not in text:
        return text
    kept: list[str] = []
    position = 0
    while (start := text.find(opening, position)) >= 0:
        end = text.find(closing, start)
        if end < 0:
            break
        kept.append(text[position:start])
        position = end + len(closing)
    kept.append(text[position:])
    return "".join(kept)


_CJK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


def feedback(text: str) -> Literal["correction", "approval"] | None:
    """Tell what a prompt says of the work done so far; None where it says nothing of it.

    A correction weighs more than thanks in the same prompt. A long prompt speaks of the past only at its beginning.
    """
    lead = _lead(text)
    if _corrects(lead):
        return "correction"
    opening = lead if _word_count(lead) <= 25 else lead[:80]
    return "approval" if APPROVAL.search(opening) or NEGATED_TROUBLE.match(lead) else None


def continues(prompt: str, task: str) -> bool:
    """Tell whether `prompt` corrects or continues the running `task`; False: it begins a new one.

    In doubt a prompt that stands on its own begins a new task. The answer depends on the words of the prompt only,
    and on `task` only when the prompt repeats it, so that hooks and transcripts, which see the task redacted or not,
    divide a session alike.
    """
    lead = _lead(prompt)
    if not lead or lead == _lead(task):
        return True
    if NEW_TASK.match(THANKS_LEAD.sub("", lead, count=1) or lead) or NEW_TASK.match(lead):
        return False
    if _corrects(lead):
        return True
    led = THANKS_LEAD.match(lead)
    rest = lead[led.end() :] if led else lead
    return (
        not rest or (CONTINUES_START.match(lead) is not None and _is_short(lead, 60)) or _follows(rest, led is not None)
    )


def _follows(rest: str, after_lead: bool) -> bool:
    """Tell whether what is left after thanks or an "ok" leans on what was done before."""
    if CONTINUES_START.match(rest) or _is_short(rest, 2, cjk=6):
        return True
    if NOW_LEAD.match(rest) and _is_short(rest, 12, cjk=20):
        return True
    if after_lead and _is_short(rest, 6, cjk=12):
        return True
    if YOUR_DOING.search(rest) and _is_short(rest, 40):
        return True
    return _is_short(rest, 12, cjk=15) and _points_back(rest)


def _points_back(text: str) -> bool:
    """Tell whether a pronoun stands for something outside `text`."""
    for inner in (EXPLETIVE_IT, RELATIVE_THAT, INTRODUCED):
        text = inner.sub(" ", text)
    return ANAPHORA.search(text) is not None


def _corrects(lead: str) -> bool:
    calm = NEGATED_TROUBLE.sub(" ", lead)
    if CORRECTION_START.match(calm):
        return True
    opening = calm if _word_count(calm) <= 25 else calm[:80]
    return CORRECTION_ANYWHERE.search(opening) is not None


def _lead(text: str) -> str:
    head = task_text(text[: 4 * _LEAD_CHARS] if NOTES_OPEN not in text and "<" not in text else text)[:_LEAD_CHARS]
    return re.sub(r"\s+", " ", head.replace("\u2019", "'")).strip().lower()


def _word_count(text: str) -> int:
    return len(text.split()) + len(_CJK.findall(text)) // 2


def _is_short(text: str, words: int, *, cjk: int | None = None) -> bool:
    characters = len(_CJK.findall(text))
    if characters:
        return characters <= (words * 2 if cjk is None else cjk)
    return len(text.split()) <= words
