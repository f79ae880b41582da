"""What the user said, in his own words: what he wants from now on, and what he asked for when he corrected the work."""

import re
from collections.abc import Callable, Iterator, Sequence

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.distill.lessons import Material, Told, draft_of
from swarm_memory.tools.guard.generalize import generalize
from swarm_memory.tools.guard.redact import redact
from swarm_memory.tools.guard.screen import screen
from swarm_memory.tools.text.cleaning import clean, one_line
from swarm_memory.tools.text.pasted import own_words, without_quotations
from swarm_memory.tools.text.requests import (
    asks_each_time,
    asks_to_be_kept,
    begun,
    each_time_from,
    is_meant_once,
    is_question,
    without_request,
)
from swarm_memory.tools.text.tokens import words_as_written
from swarm_memory.tools.trajectory.reading import Said
from swarm_memory.tools.trajectory.tasks import is_task_prompt, task_text

FROM_USER = "user-correction"
"""Tag of what the user said."""

USERS_WORD = "said"
"""Tag of what stands in a prompt as a rule from now on: extraction alone makes it the user's word (`learn.items`)."""

_MAX_RULE = 300
_SHORT_WORDS = 30
"""What a user says after stopping the agent is a rule when it is short; longer, it is the next piece of work."""

_CUSTOM = re.compile(
    r"(?i)\b(?:bei uns|we (?:only|always|never|don'?t|do not|use|run|write|keep)|i (?:always |never )?prefer"
    r"|our convention|in (?:this|our) (?:project|repo|repository|code ?base|team))\b"
)
"""Of a correction: says how it is done each time. Of a prompt that corrects nothing it may tell of a trouble."""

_LEAST_CHARS = 8
_ENDS = ".!?;:,\u3002\uff01\uff1b"

_DIRECTIVE = re.compile(
    r"(?i)\b(?:use|don'?t|do not|instead|stick (?:to|with)|rather than|prefer|avoid|stop \w+ing|put (?:it|them|that)"
    r"|nutze|benutze|verwende|statt)\b|用|不要|必须"
)
"""Of a correction: says how to do it."""

_REFUSES = re.compile(
    r"(?i)^(?:please |no,? )?(?:don'?t|do not|never|stop) (?!worry|bother|forget|mind)\w+"
    r"|\b(?:not acceptable|unacceptable|not allowed|must (?:not )?be|has to be|have to be|should (?:not|never)"
    r"|shouldn'?t|i (?:don'?t|do not) want|not what i want(?:ed)?|keine? \w+ (?:anlegen|erstellen)|不要)"
)
"""How a follow-up begins, or what it says, that takes back what was done and lays down how it is to be."""

_LEAD_OUT = re.compile(r"(?i)^(?:no|nope|stop|wait|actually|please|hey)\b[\s,.:!-]*")
_ASKS_TO_BE_TOLD = re.compile(
    r"(?i)^\W*(?:just |please )*(?:show|tell|give|send|explain|list|print) (?:it |that |this )?(?:to )?(?:me|us)\b"
)
"""Asks for an answer, which is no way of working."""

_PLACE = re.compile(r"(?<![\w.:/])(?:~|/(?:home|Users|root|tmp|var/folders)|[A-Za-z]:\\)[^\s\"'`,;)]*")
_TOO_SHORT = 3
"""Words of a sentence that says nothing beside the one that says how to do it: "Not like that."."""

_VAGUE = re.compile(r"(?i)^\W*(?:this|that|it|you)\b.{0,25}$")


def lasting(material: Material) -> Iterator[MemoryDraft]:
    """Yield what the user wants from now on, as the user's word: of short prompts to a coding agent, the task's too.

    A long prompt may hold what somebody else wrote, and so may one whose wording is that of an attack. What tells a
    secret says nothing without it.
    """
    if material.trajectory.source in ("steps", "messages", "spans", "agent") or material.trajectory.agent_id:
        return  # whoever is served there need not be the user, and a subagent's task is another agent's word
    steps = [step for step in material.trajectory.steps if step.kind == "message" and step.role == "user"]
    corrected = {said.step.text for said in material.reading.said if said.about == "correction" and not said.is_answer}
    prompts = dict([(material.trajectory.task, ""), *((step.text, step.id) for step in steps)])
    for text, step_id in prompts.items():
        said = own_words(task_text(text))
        if is_task_prompt(text) and len(words_as_written(said)) <= _SHORT_WORDS:
            corrects = text in corrected
            told = [part for each in _sentences(said) if (part := _lasting_part(each, corrects=corrects))]
            rule = _worded(told) if told else ""
            if told and corrects:
                rule = _rule(text, _directs)  # what was said with it belongs to it
            if rule and "[secret:" not in rule and not screen(rule):
                yield _word_of_the_user(rule, step_id)


def _lasting_part(sentence: str, *, corrects: bool) -> str:
    """Return what of a sentence is asked to be kept, wanted each time, or corrects what was done for good; or empty."""
    if _is_vague(sentence) or is_meant_once(sentence):
        return ""
    if asks_to_be_kept(sentence) and (kept := without_request(sentence)) != sentence:
        return kept
    if corrects:
        return sentence if _for_good(sentence) else ""
    at = each_time_from(without_quotations(sentence))
    return "" if at is None else begun(sentence[at:])


def _for_good(sentence: str) -> bool:
    """Of a sentence that corrects: whether it says how it is to be done each time."""
    plain = without_quotations(sentence)
    return asks_each_time(plain) or _CUSTOM.search(plain) is not None


def _directs(sentence: str) -> bool:
    """Of a sentence that corrects: whether it says how to do it, and not this time only."""
    plain = without_quotations(sentence)
    return not is_meant_once(plain) and (_for_good(sentence) or _DIRECTIVE.search(plain) is not None)


def _word_of_the_user(rule: str, step_id: str) -> MemoryDraft:
    shorter = begun(_LEAD_OUT.sub("", rule) or rule)
    words = Told(shorter, "working in this project", [shorter], (FROM_USER, USERS_WORD))
    return draft_of(words, steps=(step_id,) if step_id else ())


def corrections(material: Material) -> Iterator[MemoryDraft]:
    """Yield what the user wants from now on; and what he asked for in a follow-up that corrects what was done.

    In his own words, and the latter only as what he asked for.
    """
    kept = [*lasting(material)]
    yield from kept
    if not any(call.command is not None or call.input.get("file_path") for call in material.calls):
        return  # whoever is served says what he wants, not how the work is to be done
    told = {step for draft in kept for step in draft.evidence}
    for said in (each for each in material.reading.said if each.step.id not in told):
        words = own_words(task_text(said.step.text))
        is_short = len(words_as_written(words)) <= _SHORT_WORDS
        corrects = (said.about == "correction" and not said.is_answer) or said.stopped
        rule = _rule(said.step.text, _directs) if corrects and is_short else ""
        if not rule and is_short and not said.is_answer and not _ASKS_TO_BE_TOLD.search(words):
            rule = _rule(said.step.text, _refuses)
        if rule and "[secret:" not in rule:
            yield _asked_for(said, rule)


def _refuses(sentence: str) -> bool:
    plain = without_quotations(sentence)
    return _REFUSES.search(plain) is not None and not is_meant_once(plain)


def _rule(text: str, is_told: Callable[[str], bool]) -> str:
    """Return what a prompt says in its own words where a sentence of it says how to do it; else nothing."""
    sentences = [each for each in _sentences(own_words(task_text(text))) if each and not is_question(each)]
    is_one = any(is_told(each) and not _is_vague(each) and not _ASKS_TO_BE_TOLD.search(each) for each in sentences)
    return (
        _worded([each for each in sentences if is_told(each) or len(_LEAD_OUT.sub("", each).split()) > _TOO_SHORT])
        if is_one
        else ""
    )


def _sentences(text: str) -> list[str]:
    return [each.strip(" -*>\t") for each in re.split(r"(?<=[.!?;])\s+|\n+", text[:1500])]


def _is_vague(sentence: str) -> bool:
    return bool(_VAGUE.match(sentence) or is_question(sentence)) or len(sentence) < _LEAST_CHARS


def _worded(told: Sequence[str]) -> str:
    """The sentences in one line, as they were said but for secrets, personal data and places of one machine."""
    text = " ".join(each if each[-1] in _ENDS else f"{each}." for each in told)
    kept = _PLACE.sub(lambda match: generalize(match[0]), redact(clean(text)).text)
    return one_line(kept, _MAX_RULE).replace('"', "'").rstrip(".")


def _asked_for(said: Said, rule: str) -> MemoryDraft:
    words = Told(
        title=f"The user asked: {one_line(begun(_LEAD_OUT.sub('', rule) or rule), 62)}",
        when="a task in this project is like the one in which the user asked for it",
        lines=[
            f'The user said of what was done: "{rule}"',
            "Do it so from the start; where a task needs it otherwise, ask.",
        ],
        tags=(FROM_USER,),
    )
    return draft_of(words, steps=(said.step.id,))
