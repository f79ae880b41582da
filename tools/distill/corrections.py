"""Lessons from the user's own words: how the work is to be done, a file pointed to, a change rejected."""

import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from swarm_memory.schema.trajectory import Step
from swarm_memory.tools.distill.lessons import Lesson, Material, Told, lesson
from swarm_memory.tools.judge.evidence import HOUSEKEEPING
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.phrasing import general, show_call, show_file
from swarm_memory.tools.trajectory.tasks import feedback, is_task_prompt, task_text

_NEXT = 3
"""So many calls after the user's word belong to it."""

_MAX_SAID = 140
_FILE = re.compile(r"[\w.-]+\.[A-Za-z]\w{0,5}$")


_MAX_RULE = 160
_SHORT_WORDS = 30
"""What a user says after stopping the agent is a rule when it is short; longer, it is the next piece of work."""

_DIRECTIVE = re.compile(
    r"(?i)\b(?:use|don'?t|do not|never|always|instead|must|should(?:n'?t)?|prefer|stick (?:to|with)|rather than|only"
    r"|we use|no need to|avoid|stop \w+ing|nutze|benutze|verwende|immer|niemals|statt)\b|用|不要|必须"
)
_VAGUE = re.compile(r"(?i)^\W*(?:this|that|it|you)\b.{0,25}$")
_QUESTION = re.compile(r"\?\s*$")


def corrections(material: Material) -> Iterator[Lesson]:
    """What the user told the agent to do otherwise, in the user's words and marked as such."""
    if not any(call.command is not None or call.input.get("file_path") for call in material.calls):
        return  # whoever is served says what he wants, not how the work is to be done
    first = material.calls[0].position
    steps = material.trajectory.steps
    for index, step in enumerate(steps):
        if index <= first or step.kind != "message" or step.role != "user" or not is_task_prompt(step.text):
            continue
        stopped = any(earlier.interrupted for earlier in steps[max(0, index - 2) : index])
        short = len(task_text(step.text).split()) <= _SHORT_WORDS
        if feedback(step.text) != "correction" and not (stopped and short):
            continue
        rule = _rule(step.text, material.particulars)
        if rule:
            yield _correction_lesson(material, step, index, rule)


def _rule(text: str, names: Sequence[str]) -> str:
    """Return the sentences of a correction that say how to do it; empty when it only complains."""
    told: list[str] = []
    for sentence in re.split(r"(?<=[.!?;])\s+|\n+", task_text(text)[:1500]):
        plain = sentence.strip(" -*>\t")
        if _DIRECTIVE.search(plain) and not _VAGUE.match(plain) and not _QUESTION.search(plain) and len(plain) >= 8:
            told.append(plain)
    return one_line(general(" ".join(told), names), _MAX_RULE).replace('"', "'").rstrip(".")


def _correction_lesson(material: Material, step: Step, index: int, rule: str) -> Lesson:
    names = material.particulars
    before = [
        call for call in material.calls
        if call.position < index and (call.command is not None or call.writes) and call.tool not in HOUSEKEEPING
    ][-1:]  # fmt: skip
    after = [
        call for call in material.calls
        if call.position > index and not call.failed and (call.command is not None or call.writes)
    ]  # fmt: skip
    shorter = re.sub(r"(?i)^(?:no|nope|stop|wait|actually|please|hey)\b[\s,.:!-]*", "", rule) or rule
    lines = [f'In this project the user asked for it: "{rule}"']
    if before:
        lines.append(f"Before that the agent had used {show_call(before[0], names, 80)}.")
    if after:
        lines.append(f"What was done then, and went through: {show_call(after[0], names, 80)}.")
    lines.append("Do it so from the start; when a task seems to need otherwise, ask.")
    return lesson(
        material,
        Told(
            title=f"In this project: {one_line(shorter, 60)}",
            when=f'working in this project; the user corrected it with "{one_line(rule, 120)}"',
            lines=lines,
            topic=f"user:{rule.lower()[:60]}",
            tags=("user-correction",),
        ),
        calls=[*before, *after[:1]],
        value=1.0 if feedback(step.text) == "correction" else 0.6,
        proven=True,
        steps=(step.id,),
    )


def pointers(material: Material) -> Iterator[Lesson]:
    """A file that the user stopped the agent for to name, and that was read next."""
    for index, step in _users_words(material):
        stopped = any(earlier.interrupted for earlier in material.trajectory.steps[max(0, index - 2) : index])
        after = [call for call in material.calls if call.position > index][:_NEXT]
        read = next((call for call in after if _path(call) and _path(call).rsplit("/", 1)[-1] in step.text), None)
        if not stopped or read is None or read.writes or read.failed:
            continue
        name = _shown_file(_path(read), material.particulars)
        lines = [
            f'The user stopped the work to point to `{name}`: "{_said(material, step)}"',
            f"Read `{name}` before looking elsewhere for how it is done here.",
        ]
        yield lesson(
            material,
            Told(
                title=f"In this project: read `{name}` first",
                when=f"a task touches what `{name}` does already",
                lines=lines,
                topic=f"pointer:{name}",
                tags=("user-correction",),
            ),
            calls=[read],
            value=0.7,
            proven=True,
            steps=(step.id,),
        )


def reworked(material: Material) -> Iterator[Lesson]:
    """A file that was changed, rejected by the user, looked into by a run, and only then changed again."""
    for index, step in _users_words(material):
        if feedback(step.text) != "correction":
            continue
        before = {_path(call) for call in material.calls if call.position < index and call.writes and not call.failed}
        after = [call for call in material.calls if call.position > index and not call.failed and not call.refused]
        again = next((call for call in after if call.writes and _path(call) and _path(call) in before), None)
        probes = [call for call in after if again and call.position < again.position and _is_probe(call)]
        if again is None or not probes:
            continue
        name, probe = _shown_file(_path(again), material.particulars), show_call(probes[-1], material.particulars, 80)
        lines = [
            f"The user rejected the first change of `{name}`.",
            f"What it has to deal with was seen only when {probe} was run, after that.",
            f"Run something that shows the real data before the first change of `{name}`; do not guess its shape.",
        ]
        yield lesson(
            material,
            Told(
                title=f"Look at the real data before changing `{name}`",
                when=f"`{name}` or what it reads has to be changed",
                lines=lines,
                topic=f"rework:{name}",
                tags=("user-correction", "guardrail"),
            ),
            calls=[probes[-1], again],
            value=0.6,
            proven=True,
            steps=(step.id,),
        )


def _users_words(material: Material) -> Iterator[tuple[int, Step]]:
    """What the user said after the work had begun, with its place."""
    first = material.calls[0].position
    for index, step in enumerate(material.trajectory.steps):
        if index > first and step.kind == "message" and step.role == "user" and is_task_prompt(step.text):
            yield index, step


def _path(call: Call) -> str:
    return next((str(call.input[key]) for key in ("file_path", "path", "notebook_path") if call.input.get(key)), "")


def _is_probe(call: Call) -> bool:
    return call.command is not None and call.command.purpose == "run" and call.observation is not None


def _said(material: Material, step: Step) -> str:
    return one_line(general(task_text(step.text)[:1500], material.particulars), _MAX_SAID).replace('"', "'")


def _shown_file(path: str, names: Sequence[str]) -> str:
    """The file with its folder: the last part alone is often the same in many folders."""
    pure = PurePosixPath(path.replace("\\", "/"))
    folder = show_file(pure.parent.name, names) if pure.parent.name else ""
    last = show_file(pure.name, names)
    return f"{folder}/{last}" if folder and _FILE.fullmatch(last) else last
