"""Lessons from how the work went: the user's corrections, loops, look-ups that found nothing, procedures that held."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from swarm_memory.schema.trajectory import Step
from swarm_memory.tools.answer_support import asks_for_answer
from swarm_memory.tools.calls import Call
from swarm_memory.tools.evidence import HOUSEKEEPING
from swarm_memory.tools.intent import varied_words
from swarm_memory.tools.lessons import Lesson, Material, lesson
from swarm_memory.tools.tasks import feedback, is_task_prompt, task_text
from swarm_memory.tools.wording import general, one_line, show_call, show_file, show_symptom

_MAX_RULE = 160
_SHORT_WORDS = 30
"""What a user says after stopping the agent is a rule when it is short; longer, it is the next piece of work."""

_DIRECTIVE = re.compile(
    r"(?i)\b(?:use|don'?t|do not|never|always|instead|must|should(?:n'?t)?|prefer|stick (?:to|with)|rather than|only"
    r"|we use|no need to|avoid|stop \w+ing|nutze|benutze|verwende|immer|niemals|statt)\b|用|不要|必须"
)
_SEARCHING = re.compile(r"(?i)search|look_?up|query|find|wiki")
_VAGUE = re.compile(r"(?i)^\W*(?:this|that|it|you)\b.{0,25}$")
_QUESTION = re.compile(r"\?\s*$")


def corrections(material: Material) -> Iterator[Lesson]:
    """What the user told the agent to do otherwise, in the user's words and marked as such."""
    if not any(call.command is not None or call.input.get("file_path") for call in material.calls):
        return  # a customer who is served says what he wants, not how the work is to be done
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
        title=f"In this project: {one_line(shorter, 60)}",
        when=f'working in this project; the user corrected it with "{one_line(rule, 120)}"',
        lines=lines,
        calls=[*before, *after[:1]],
        value=1.0 if feedback(step.text) == "correction" else 0.6,
        topic=f"user:{rule.lower()[:60]}",
        tags=("user-correction",),
        proven=True,
        steps=(step.id,),
    )


def loops(material: Material) -> Iterator[Lesson]:
    """The same call with the same result: three times where it failed, four where it told nothing new.

    One that went through in the end was no loop, whatever made it do so.
    """
    names = (*material.particulars, *varied_words(material.calls, material.trajectory.task))
    groups: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in material.calls:
        if call.observation is not None and call.output:
            groups[(call.key, call.output[:1000])].append(call)
    for calls in groups.values():
        looking = calls[0].command is not None and calls[0].command.purpose in ("read", "search", "vcs", "print")
        few = len(calls) < (3 if calls[0].failed else 4)
        if few or calls[0].tool in HOUSEKEEPING or (looking and not calls[0].failed):
            continue
        later = [call for call in material.calls if call.key == calls[0].key and call.position > calls[-1].end]
        if calls[0].failed and any(not call.failed for call in later):
            continue
        if any(calls[0].end < c.position < calls[-1].position and c.writes and not c.failed for c in material.calls):
            continue
        then = next((c for c in material.calls if c.position > calls[-1].end and not c.failed and not c.empty), None)
        symptom = show_symptom(calls[0].error or (calls[0].output[:200] if calls[0].empty else ""), names)
        told = f': "{symptom}"' if symptom else ""
        shown = show_call(calls[0], names, 60)
        lines = [f"{shown} was called {len(calls)} times with the same result{told}."]
        lines.append("After the second same result change the arguments or the tool: a third call tells nothing new.")
        if then is not None:
            lines.append(f"What ended it: {show_call(then, names)}.")
        yield lesson(
            material,
            title=f"Do not repeat {show_call(calls[0], names, 40)} unchanged after the same result",
            when=f"{shown} gives the same result twice{told}",
            lines=lines,
            calls=[calls[0], calls[-1]],
            value=0.45 + 0.05 * min(len(calls), 5),
            topic=f"open:{calls[0].command.name if calls[0].command else calls[0].tool}:{symptom}",
            tags=("loop", "guardrail"),
        )


def fruitless_lookups(material: Material) -> Iterator[Lesson]:
    """Look-ups that found nothing, with the wording that did find something."""
    names = material.particulars
    if any(call.command is not None for call in material.calls):
        return
    missed = [call for call in material.calls if call.empty and _SEARCHING.search(call.tool) and call.target]
    if len(missed) < 2:
        return
    found = [
        call for call in material.calls
        if call.tool == missed[-1].tool and call.position > missed[0].position and not call.empty and not call.failed
    ]  # fmt: skip
    tool = missed[-1].tool
    words = [one_line(general(call.target[:400], names), 50).replace('"', "'") for call in missed]
    lines = [f"`{tool}` found nothing for {', '.join(chr(34) + word + chr(34) for word in dict.fromkeys(words[:4]))}."]
    if found:
        good = one_line(general(found[0].target[:400], names), 50).replace('"', "'")
        lines.append(f'It did find "{good}": use the plain name of one thing, or a name that the answer itself offers.')
    lines.append("Search for another thing of the question after two misses, not for a new wording of the same.")
    yield lesson(
        material,
        title=f"Give `{tool}` the plain name of one thing, not a description",
        when=f'`{tool}` finds nothing, as for "{words[0]}"',
        lines=lines,
        calls=[*missed[:2], *found[:1]],
        value=0.42 + 0.04 * min(len(missed), 4),
        topic=f"lookup:{tool}",
        tags=("search",),
    )


def unsupported_answer(material: Material) -> Iterator[Lesson]:
    """A failed look-up task whose answer nothing carried, or that never came to one."""
    if not material.failed or not material.calls:
        return
    reasons = " ".join(material.verdict.reasons)
    looked = [call for call in material.calls if call.command is None and not call.writes and not call.ends_task]
    if (
        not asks_for_answer(material.trajectory, material.calls)
        or len(looked) < 2
        or not ("stands in nothing" in reasons or "no conclusion" in reasons)
    ):
        return
    tool = looked[-1].tool
    bare = "stands in nothing" in reasons
    found = sum(not call.empty and not call.failed for call in looked)
    title = f"Read a page that holds the answer with `{tool}` before answering" if bare else (
        f"Come to an answer before the calls of `{tool}` run out"
    )  # fmt: skip
    lines = [f"Of {len(looked)} look-ups {found} found something; the answer stood in none of them."] if bare else [
        f"{len(looked)} look-ups were made, {found} found something, and no answer was given."
    ]  # fmt: skip
    lines.append("Name the two things that the question joins, and look up each by its own name.")
    lines.append("Before answering, find the sentence that says it; without one, look up the thing nearest to it.")
    yield lesson(
        material,
        title=title,
        when=f"a question has to be answered from what `{tool}` finds",
        lines=lines,
        calls=[*looked[-2:], material.calls[-1]],
        value=0.41,
        topic=f"answer:{bare}",
        tags=("question-answering", "guardrail"),
    )


def procedures(material: Material) -> Iterator[Lesson]:
    """The order of steps of a success that was checked, or that ran through several tools without an error."""
    if material.verdict.label != "Success" or any(call.failed for call in material.calls):
        return
    done = [call for call in material.calls if call.observation is not None and not call.refused and not call.empty]
    checked = [call for call in done if call.check is not None and call.check.passed]
    changed = [call for call in done if call.writes]
    if checked and changed:
        yield _checked_procedure(material, changed, checked)
    elif len({call.tool for call in done if call.command is None}) >= 3 and changed:
        yield _tool_procedure(material, done, changed[-1])


def _checked_procedure(material: Material, changed: Sequence[Call], checked: Sequence[Call]) -> Lesson:
    """How changes of this kind are checked here: the commands that were seen to pass, tests first."""
    names = material.particulars
    last = {call.command.name: call for call in checked if call.command}
    order = sorted(
        last.values(), key=lambda call: ("test", "build", "lint").index(call.check.purpose) if call.check else 3
    )
    files = dict.fromkeys(
        show_file(str(call.input["file_path"]), names) for call in changed if call.input.get("file_path")
    )
    lines = (
        [f"Make the change; in a task like this one it was in {', '.join(f'`{name}`' for name in list(files)[:5])}."]
        if files
        else []
    )
    needed = [call for call in material.calls if call.command and call.command.purpose == "install"]
    lines += [f"Before the first check run {show_call(call, names)}." for call in needed[:2]]
    for call in order[:4]:
        summary = show_symptom(call.check.summary, names, 80) if call.check else ""
        lines.append(f"Run {show_call(call, names)}" + (f' and look for a line like "{summary}".' if summary else "."))
    shown = " and ".join(f"`{name}`" for name in list(dict.fromkeys(c.command.name for c in order if c.command))[:2])
    return lesson(
        material,
        title=f"Check changes here with {shown}",
        when=f"a change in this project has to be checked; {shown} passed",
        lines=lines,
        calls=[*changed[-2:], *order[:4]],
        value=0.4 + 0.05 * min(len(lines), 4),
        topic="procedure",
        tags=("procedure",),
        proven=True,
    )


def _tool_procedure(material: Material, done: Sequence[Call], last: Call) -> Lesson:
    order = list(dict.fromkeys(call.tool for call in done if call.command is None))[:7]
    lines = [f"Call `{tool}`{_arguments(tool, done)}." for tool in order]
    return lesson(
        material,
        title=f"Look up first, then `{last.tool}`",
        when=f"a task ends with `{last.tool}`",
        lines=lines,
        calls=done[-4:],
        value=0.42,
        topic="procedure",
        tags=("procedure",),
    )


def _arguments(tool: str, done: Sequence[Call]) -> str:
    keys = list(dict.fromkeys(key for call in done if call.tool == tool for key in call.input))[:4]
    return f" with {', '.join(f'`{key}`' for key in keys)}" if keys else ""
