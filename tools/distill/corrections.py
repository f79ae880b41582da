"""Lessons from the user's own words: how the work is to be done, and a file pointed to."""

import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePosixPath

from swarm_memory.tools.distill.lessons import Lesson, Material, Told, lesson
from swarm_memory.tools.distill.repairs import can_be_told
from swarm_memory.tools.guard.screen import screen
from swarm_memory.tools.judge.evidence import HOUSEKEEPING
from swarm_memory.tools.text.cleaning import one_line
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
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.phrasing import general, show_call, show_file
from swarm_memory.tools.trajectory.reading import Said
from swarm_memory.tools.trajectory.tasks import is_task_prompt, task_text

FROM_USER = "user-correction"
"""Tag of what the user said."""

USERS_WORD = "said"
"""Tag of what stands in a prompt as a rule from now on: extraction alone makes it the user's word (`learn.items`)."""

_NEXT = 3
"""So many calls after the user's word belong to it."""

_MAX_SAID = 140
_FILE = re.compile(r"[\w.-]+\.[A-Za-z]\w{0,5}$")

_MAX_RULE = 160
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
    r"(?i)\b(?:use|don'?t|do not|instead|stick (?:to|with)|rather than|prefer|no need to|avoid|stop \w+ing"
    r"|nutze|benutze|verwende|statt)\b|用|不要|必须"
)
"""Of a correction: says how to do it."""

_ASKS_TO_BE_TOLD = re.compile(
    r"(?i)\b(?:show|tell|give|send|explain|list|print) (?:it |that |this )?(?:to )?(?:me|us)\b"
)
"""Asks for an answer, which is no way of working unless it is wanted each time."""

_LEAD_OUT = re.compile(r"(?i)^(?:no|nope|stop|wait|actually|please|hey)\b[\s,.:!-]*")
_VAGUE = re.compile(r"(?i)^\W*(?:this|that|it|you)\b.{0,25}$")


def lasting(material: Material) -> Iterator[Lesson]:
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
            rule = _worded(told, material.particulars)
            if told and corrects:
                rule = _rule(text, material.particulars, _directs)  # what was said with it belongs to it
            if rule and "[secret:" not in rule and not screen(rule):
                yield _word_of_the_user(material, rule, step_id)


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


def _word_of_the_user(material: Material, rule: str, step_id: str) -> Lesson:
    shorter = begun(_LEAD_OUT.sub("", rule) or rule)
    words = Told(
        title=shorter,
        when="working in this project",
        lines=[shorter],
        topic=f"user:{rule.lower()[:60]}",
        tags=(FROM_USER, USERS_WORD),
    )
    return lesson(material, words, calls=(), value=1.1, proven=True, steps=(step_id,) if step_id else ())


def corrections(material: Material) -> Iterator[Lesson]:
    """Yield what the user told the agent to do otherwise, or always, in the user's words and marked as such."""
    yield from lasting(material)
    if not any(call.command is not None or call.input.get("file_path") for call in material.calls):
        return  # whoever is served says what he wants, not how the work is to be done
    for said in material.reading.said:
        short = len(own_words(task_text(said.step.text)).split()) <= _SHORT_WORDS
        corrects = (said.about == "correction" and not said.is_answer) or (said.stopped and short)
        rule = _rule(said.step.text, material.particulars, _directs if corrects else _for_good)
        if rule:
            yield _correction_lesson(material, said, rule)
        elif said.stopped:
            yield from _pointer(material, said)


def _rule(text: str, names: Sequence[str], is_told: Callable[[str], bool]) -> str:
    """Return the sentences of a correction that say how to do it; empty when it only complains."""
    told: list[str] = []
    for plain in _sentences(own_words(task_text(text))):
        once = _ASKS_TO_BE_TOLD.search(plain) and not _for_good(plain)
        if is_told(plain) and not once and not _is_vague(plain):
            told.append(plain)
    return _worded(told, names)


def _sentences(text: str) -> list[str]:
    return [each.strip(" -*>\t") for each in re.split(r"(?<=[.!?;])\s+|\n+", text[:1500])]


def _is_vague(sentence: str) -> bool:
    return bool(_VAGUE.match(sentence) or is_question(sentence)) or len(sentence) < _LEAST_CHARS


def _worded(told: Sequence[str], names: Sequence[str]) -> str:
    """The sentences in one line; those that stood in lines of their own end as sentences do."""
    text = " ".join(each if each[-1] in _ENDS else f"{each}." for each in told)
    return one_line(general(text, names), _MAX_RULE).replace('"', "'").rstrip(".")


def _correction_lesson(material: Material, said: Said, rule: str) -> Lesson:
    names = material.particulars
    before = [
        call for call in material.calls
        if call.position < said.index and (call.command is not None or call.writes) and call.tool not in HOUSEKEEPING
    ][-1:]  # fmt: skip
    shorter = _LEAD_OUT.sub("", rule) or rule
    lines = [f'In this project the user asked for it: "{rule}"']
    if before and can_be_told(before[0]):
        lines.append(f"It was said after {show_call(before[0], names, 80)}.")
    lines.append("Do it so from the start; when a task seems to need otherwise, ask.")
    return lesson(
        material,
        Told(
            title=f"In this project: {one_line(shorter, 60)}",
            when=f'working in this project; the user said "{one_line(rule, 120)}"',
            lines=lines,
            topic=f"user:{rule.lower()[:60]}",
            tags=(FROM_USER,),
        ),
        calls=before,
        value=0.6 if said.stopped else 1.0,
        proven=True,
        steps=(said.step.id,),
    )


def _pointer(material: Material, said: Said) -> Iterator[Lesson]:
    """A file that the user stopped the agent for to name, and that was read next."""
    after = [call for call in material.calls if call.position > said.index][:_NEXT]
    read = next((call for call in after if _path(call) and _path(call).rsplit("/", 1)[-1] in said.step.text), None)
    if read is None or read.writes or read.failed:
        return
    name = _shown_file(_path(read), material.particulars)
    words = one_line(general(task_text(said.step.text)[:1500], material.particulars), _MAX_SAID).replace('"', "'")
    yield lesson(
        material,
        Told(
            title=f"In this project: read `{name}` first",
            when=f"a task touches what `{name}` does already",
            lines=[
                f'The user stopped the work to point to `{name}`: "{words}"',
                f"Read `{name}` before looking elsewhere for how it is done here.",
            ],
            topic=f"pointer:{name}",
            tags=(FROM_USER,),
        ),
        calls=[read],
        value=0.7,
        proven=True,
        steps=(said.step.id,),
    )


def _path(call: Call) -> str:
    return next((str(call.input[key]) for key in ("file_path", "path", "notebook_path") if call.input.get(key)), "")


def _shown_file(path: str, names: Sequence[str]) -> str:
    """The file with its folder: the last part alone is often the same in many folders."""
    pure = PurePosixPath(path.replace("\\", "/"))
    folder = show_file(pure.parent.name, names) if pure.parent.name else ""
    last = show_file(pure.name, names)
    return f"{folder}/{last}" if folder and _FILE.fullmatch(last) else last
