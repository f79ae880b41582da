"""What the user said, in his own words: what he wants from now on, and what he asked for when he corrected the work."""

import re
from collections.abc import Callable, Iterator, Sequence

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.distill.drafts import draft_of
from swarm_memory.tools.guard.generalize import generalize
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import by_wording, screen_prompt
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.text.intent import (
    asks_each_time,
    asks_to_be_kept,
    blank_quotations,
    capitalized,
    each_time_start,
    is_meant_once,
    is_question,
    own_words,
    without_request,
)
from swarm_memory.tools.text.tokens import words_as_written
from swarm_memory.tools.trajectory.reading import Reading
from swarm_memory.tools.trajectory.tasks import is_task_prompt, task_text

FROM_USER = "user-correction"
"""Tag of what the user said."""

USERS_WORD = "said"
"""Tag of a lasting rule from a prompt. Set by extraction alone, it makes the rule the user's word (`learn.learn`)."""

_MAX_WORDS, _SHORT_WORDS, _MAX_RULE = 150, 60, 300
"""A longer prompt may contain text by somebody else; a correction longer than the second is the next task."""

_LIKE = "a task in this project is like the one in which the user asked for it"
_ASK = "Do it this way from the start; if a task needs it done differently, ask."

_CUSTOM = re.compile(
    r"(?i)\b(?:bei uns|we (?:only|always|never|don'?t|do not|use|run|write|keep)|i (?:always |never )?prefer"
    r"|our convention|in (?:this|our) (?:project|repo|repository|code ?base|team))\b"
)
"""In a correction, says how things are always done. In any other prompt it may just describe a problem."""

_REFUSES = re.compile(
    r"(?i)^(?:please |no,? )?(?:don'?t|do not|never|stop) (?!worry|bother|forget|mind)\w+|不要"
    r"|\b(?:not acceptable|must (?:not )?be|ha(?:s|ve) to be|should(?: not|n'?t| never)|i (?:don'?t|do not) want)\b"
)
"""Wording of a follow-up that rejects what was done and lays down how it should be."""

_DIRECTS = re.compile(
    r"(?i)\b(?:use|don'?t|do not|instead|stick (?:to|with)|rather than|prefer|avoid|stop \w+ing|put (?:it|them|that)"
    r"|nutze|benutze|verwende|statt)\b|用|不要|必须"
)
"""In a correction, says how to do it."""

_LEAD_OUT = re.compile(r"(?i)^(?:no|nope|stop|wait|actually|please|hey)\b[\s,.:!-]*")
_ASKS_TO_SEE = re.compile(
    r"(?i)^\W*(?:just |please )*(?:show|tell|give|send|explain|list|print) (?:it |that |this )?(?:to )?(?:me|us)\b"
)
"""Asks for an answer, which is not a way of working."""

_PLACE = re.compile(r"(?<![\w.:/])(?:~|/(?:home|Users|root|tmp|var/folders)|[A-Za-z]:\\)[^\s\"'`,;)]*")
_VAGUE = re.compile(r"(?i)^\W*(?:this|that|it|you)\b.{0,25}$|^.{0,7}$")


def corrections(reading: Reading) -> Iterator[MemoryDraft]:
    """Yield what the user wants from now on, as the user's word; then what he asked for when he corrected the work.

    Only short prompts count, in his own words. Not taken as the user's word: what a subagent was given, what comes from
    a source where the speaker need not be the user, and what is worded like an attack.
    """
    trajectory, said = reading.trajectory, {each.step.id: each for each in reading.said}
    is_users = not (trajectory.source in ("steps", "messages", "spans", "agent") or trajectory.agent_id)
    is_work = any(call.command is not None or call.input.get("file_path") for call in reading.calls)
    steps = [step for step in trajectory.steps if step.kind == "message" and step.role == "user"]
    asked: list[MemoryDraft] = []
    for text, step_id in {trajectory.task: "", **{step.text: step.id for step in steps}}.items():
        own = own_words(task_text(text)) if is_task_prompt(text) else ""
        spoken, words = said.get(step_id), len(words_as_written(own))
        sentences = _sentences(own) if words <= _MAX_WORDS else []
        is_follow_up = spoken is not None and (spoken.stopped or not spoken.is_answer) and words <= _SHORT_WORDS
        corrects = spoken is not None and is_follow_up and (spoken.stopped or spoken.about == "correction")
        kept = _for_good(sentences, corrects=corrects) if is_users else ""
        if kept and not (screen_prompt(kept) or by_wording(kept)):
            tags, evidence = (FROM_USER, USERS_WORD), (step_id,) if step_id else ()
            yield draft_of(_begun(kept), "working in this project", [_begun(kept)], tags, steps=evidence)
        elif is_work and is_follow_up and (rule := _rule(sentences, _directs if corrects else _REFUSES.search)):
            lines = [f'The user said about what was done: "{rule}"', _ASK]
            title = f"The user asked: {one_line(_begun(rule), 62)}"
            asked.append(draft_of(title, _LIKE, lines, (FROM_USER,), steps=(step_id,)))
    yield from asked


def _for_good(sentences: Sequence[str], *, corrects: bool) -> str:
    """Return what a prompt asks to be kept or wants each time; in a correction, together with what was said with it."""
    kept_ones: list[str] = []
    for sentence in filter(_holds, sentences):
        plain = blank_quotations(sentence)
        if asks_to_be_kept(sentence) and (kept := without_request(sentence)) != sentence:
            kept_ones.append(kept)
        elif (at := each_time_start(plain)) is not None:
            kept_ones.append(capitalized(sentence[at:]))
        elif corrects and _CUSTOM.search(plain):
            kept_ones.append(sentence)
    return _rule(sentences, _directs) if kept_ones and corrects else _worded(kept_ones)


def _directs(plain: str) -> bool:
    """Whether a sentence of a correction says how to do it."""
    return asks_each_time(plain) or any(pattern.search(plain) for pattern in (_REFUSES, _DIRECTS, _CUSTOM))


def _rule(sentences: Sequence[str], is_rule: Callable[[str], object]) -> str:
    """Return what a prompt says, without a mere "Not like that.", if a sentence says how to do it; else empty."""
    said = [each for each in sentences if not is_question(each)]
    rules = [each for each in said if is_rule(blank_quotations(each))]
    if any(map(_ASKS_TO_SEE.match, said)) or any(map(is_meant_once, rules)) or not any(map(_holds, rules)):
        return ""
    return _worded([each for each in said if each in rules or _LEAD_OUT.sub("", each).count(" ") > 2])


def _sentences(text: str) -> list[str]:
    parts = (each.strip(" -*>\t") for each in re.split(r"(?<=[.!?;])\s+|\n+", text[:1500]))
    return [each for each in parts if each]


def _holds(sentence: str) -> bool:
    """Whether a sentence asks for something, and not only for this time."""
    return not (_VAGUE.match(sentence) or is_question(sentence) or is_meant_once(sentence))


def _worded(sentences: Sequence[str]) -> str:
    """Return the sentences in one line, without personal data and places; empty when one contains a secret."""
    text = redact(clean(". ".join(each.rstrip(".!;:,") for each in sentences))).text
    kept = _PLACE.sub(lambda match: generalize(match[0]), text)
    return "" if "[secret:" in kept else one_line(kept, _MAX_RULE).replace('"', "'")


def _begun(rule: str) -> str:
    return capitalized(_LEAD_OUT.sub("", rule) or rule)
