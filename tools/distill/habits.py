"""Lessons from how the work went: the user's corrections, loops, look-ups that found nothing, procedures that held."""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from swarm_memory.schema.trajectory import Step
from swarm_memory.tools.distill.lessons import Lesson, Material, lesson
from swarm_memory.tools.distill.repairs import find_repairs, mark_of
from swarm_memory.tools.judge.evidence import HOUSEKEEPING
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import LOOKING_TOOL, Call
from swarm_memory.tools.trajectory.intent import varied_words
from swarm_memory.tools.trajectory.phrasing import general, show_call, show_file, show_symptom
from swarm_memory.tools.trajectory.tasks import feedback, is_task_prompt, task_text

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
    repaired = {mark_of(repair.failed) for repair in find_repairs(material.calls)}
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
        if calls[0].failed and (mark_of(calls[0]) in repaired or any(not call.failed for call in later)):
            continue
        if any(calls[0].end < c.position < calls[-1].position and c.writes and not c.failed for c in material.calls):
            continue
        then = next((c for c in material.calls if c.position > calls[-1].end and not c.failed and not c.empty), None)
        symptom = show_symptom(calls[0].error or (calls[0].output[:200] if calls[0].empty else ""), names)
        told = f': "{symptom}"' if symptom else ""
        shown = show_call(calls[0], names, 60)
        lines = [f"{shown} was called {len(calls)} times with the same result{told}."]
        lines.append("After the second same result change the arguments or the tool: a third call tells nothing new.")
        if then is not None and (then.command is not None or then.tool != calls[0].tool):
            lines.append(f"What ended it: {show_call(then, names)}.")
        yield lesson(
            material,
            title=f"Do not repeat {show_call(calls[0], names, 40)} unchanged after the same result",
            when=f"{shown} gives the same result twice{told}",
            lines=lines,
            calls=[calls[0], calls[-1]],
            value=0.45 + 0.05 * min(len(calls), 5) if symptom else 0.42,
            topic=f"open:{calls[0].command.name if calls[0].command else calls[0].tool}:{symptom}",
            tags=("loop", "guardrail"),
        )


def fruitless_lookups(material: Material) -> Iterator[Lesson]:
    """Wordings that found nothing, where fewer words of the same then found something: what to look up is a name."""
    names = material.particulars
    if any(call.command is not None for call in material.calls):
        return
    missed = [call for call in material.calls if call.empty and LOOKING_TOOL.search(call.tool) and call.target]
    pairs = [(miss, hit) for miss in missed if (hit := _shortened(miss, material.calls)) is not None]
    if not pairs:
        return
    tool = pairs[0][0].tool
    shown = [
        tuple(one_line(general(each.target[:400], names), 50).replace('"', "'") for each in pair) for pair in pairs
    ]
    lines = [f'`{tool}` found nothing for "{miss}", and did find "{hit}".' for miss, hit in dict.fromkeys(shown[:3])]
    lines.append(
        "Look up the plain name of one thing; what is asked about it goes into the next look-up, not into this."
    )
    yield lesson(
        material,
        title=f"Give `{tool}` the plain name of one thing, not a description",
        when=f'`{tool}` finds nothing, as for "{shown[0][0]}"',
        lines=lines,
        calls=[each for pair in pairs[:2] for each in pair],
        value=0.42 + 0.04 * min(len(pairs), 4),
        topic=f"lookup:{tool}",
        tags=("search",),
    )


def _shortened(missed: Call, calls: Sequence[Call]) -> Call | None:
    """Return the later look-up that found something with a part of the words of one that found nothing."""
    words = set(missed.target.lower().split())
    for call in calls:
        fewer = set(call.target.lower().split())
        found = call.tool == missed.tool and call.position > missed.position and not call.empty and not call.failed
        if found and fewer and fewer < words:
            return call
    return None


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
