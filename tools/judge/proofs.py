"""What a trajectory proves without any model: a success or failure that no reader can doubt.

A failure needs as much proof as a success. Failed calls on the way, loops, and checks not seen to pass prove nothing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from swarm_memory.schema.trajectory import Label, Trajectory
from swarm_memory.tools.text.intent import is_question
from swarm_memory.tools.text.tokens import code_spans
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import CheckRun
from swarm_memory.tools.trajectory.checks import LOOKS_ONLY
from swarm_memory.tools.trajectory.errors import may_have_effect, same_intent
from swarm_memory.tools.trajectory.reading import Reading, read
from swarm_memory.tools.trajectory.shell import CHECKS, Command, Part, parse_command

SAID, MENDED, ASKED, REACHED = 0.9, 0.9, 0.85, 0.8
"""How often each kind of proof is right: the user's word, a check that failed before, a check that the task asks for,
and a command that the task names and that went through."""

_NO_GOAL = CHECKS | {"print", "search", "read", "wait"}
_MAX_TASK_WORDS, _MIN_WORDS = 40, 2
_MAX_STEPS_NAMED, _MAX_OPINION = 6, 1500
_ASKS_TO_LOOK = re.compile(
    r"(?i)\W*(?:(?:please|can you|could you) )?(?:run|check|verify|test|show|list|explain|what|why|how|does|do|is|are"
    r"|find|tell|count|describe|review|analy[sz]e|look|who|when|where|which|summari[sz]e|print|display|report)\b"
)
_IT_WORKS = re.compile(
    r"(?i)(?:^|[,.!:;()\u2013\u2014])\s*(?:(?:and|but|yes|ok|now|great|perfect|thanks|thank you)\s+)*"
    r"(?:(?:(?:it|that|this)(?:['\u2019]s)?|they|both|all|everything"
    r"|(?:all )?(?:(?:the|my|our)(?: (?!not|never|still|should|must)[\w-]+){1,2}|tests?|checks?))\s+)?"
    r"(?:(?:is|are|was|has|have|been|do|does|seems? to|now|all|finally|really|exactly)\s+)*"
    r"(?:works|worked|(?<=do )work|(?<=does )work|fixed|solved|pass(?:es|ed)?|lgtm|ship it|merge it"
    r"|exactly what|did the trick|funktioniert)\b(?! for (?:me|us))|成功|可以了"
)
"""A clause that states that it works, which "make sure that it works" or "if all tests pass" does not."""
_SENTENCE = re.compile(r"(?<=[.!?;])\s+|(?<=[\u3002\uff01\uff1f\uff1b])|\n")


class Proof(NamedTuple):
    """One proof of success or failure."""

    label: Label
    confidence: float
    reason: str
    steps: tuple[str, ...]


def proofs_of(given: Trajectory | Reading) -> tuple[Proof, ...]:
    """Return the proofs that a task succeeded or failed, the surest first: the user's word, then what was observed.

    Empty when no tool was called. Observed proofs that contradict each other are all left out.
    """
    run = read(given)
    if not run.calls:
        return ()
    said = (*_by_user(run), *_by_stop(run))
    seen = (*_by_checks(run), *_by_goals(run))
    return (*said[:1], *(seen if len({proof.label for proof in seen}) == 1 else ()))


def _ids(calls: Sequence[Call]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(step for call in calls[-_MAX_STEPS_NAMED:] for step in call.ids))


def _states_that_it_works(sentence: str) -> bool:
    return not is_question(sentence) and _IT_WORKS.search(sentence) is not None


def _by_user(run: Reading) -> Iterator[Proof]:
    """Yield the user's last word on the work, if no call followed it; thanks, praise and questions prove nothing."""
    opinions = [said for said in run.said if said.about and not said.is_answer and not said.step.interrupted]
    last = opinions[-1] if opinions else None
    if last is None or run.calls[-1].position > last.index:
        return
    if last.about == "correction":
        yield Proof("Failure", SAID, "the user's last word on it is a correction", (last.step.id,))
    elif len(last.step.text) < _MAX_OPINION and any(map(_states_that_it_works, _SENTENCE.split(last.step.text[:400]))):
        yield Proof("Success", SAID, "the user says that it works", (last.step.id,))


def _by_stop(run: Reading) -> Iterator[Proof]:
    """Yield a failure if the user stopped the agent and nothing was done or said after that."""
    steps = run.trajectory.steps
    stopped = [index for index, step in enumerate(steps) if step.interrupted]
    stopped += [call.end for call in run.calls if call.refused]
    after = steps[max(stopped) + 1 :] if stopped else ()
    if stopped and not any(step.kind == "tool_call" or (step.role != "system" and step.text.strip()) for step in after):
        reason = "the user stopped it and nothing was done after that"
        yield Proof("Failure", SAID, reason, (steps[max(stopped)].id,))


def _by_checks(run: Reading) -> Iterator[Proof]:
    """Yield what the last run of each check proves: a failure as `_needed` says, a pass as `_of_passed` says."""
    checks = [each for each in run.checks if not each.is_own]
    last = list({(each.name, each.selection): each for each in checks}.values())
    failed = [each for each in last if not each.passed and not any(other.repairs(each) for other in checks)]
    for each in failed:
        if not _changed_after(run, each) and (why := _needed(run, each, checks)):
            yield Proof("Failure", ASKED, f"{each.name} failed at the end; {why}", _ids([each.call]))
    for each in last if not failed else ():
        if each.passed and not _changed_after(run, each):
            yield from _of_passed(run, each, checks)


def _of_passed(run: Reading, passed: CheckRun, checks: Sequence[CheckRun]) -> Iterator[Proof]:
    """Yield a success for a check that failed without the work and passes with it, or that the task asks for."""
    before = [each for each in checks if not each.passed and passed.repairs(each)]
    without = [each for each in before if passed.changed_at < each.call.position and not _worked_before(run, each.call)]
    acts = [call.position for call in (*run.changes, *filter(may_have_effect, run.calls))]
    mended = [each for each in without if any(each.call.end < at <= passed.call.position for at in acts)]
    if mended or (passed.result.was_mended and not _worked_before(run, passed.call)):
        reason = f"{passed.name} passed at the end, and had failed before the work began"
        yield Proof("Success", MENDED, reason, _ids([*(each.call for each in mended[-1:]), passed.call]))
    elif passed.is_asked_for and passed.changed_at < 0 and (passed.call.step.role == "user" or not _is_idle(run)):
        yield Proof("Success", ASKED, f"{passed.name} passed at the end; the task asks for it", _ids([passed.call]))


def _worked_before(run: Reading, check: Call) -> bool:
    """Whether something had been changed before a check ran and was not stashed for it."""
    earlier = [change for change in run.changes if change.position < check.position]
    is_away = any(call.command and call.command.puts_away for call in (*earlier[-1:], check))
    return bool(earlier) and not is_away


def _needed(run: Reading, failed: CheckRun, checks: Sequence[CheckRun]) -> str:
    """Return why a failed check should have passed; empty when it may have failed before the work as well."""
    before = [each for each in checks if each.call.position < failed.call.position and each.name == failed.name]
    if failed.is_asked_for:
        return "the task asks for it"
    if any(each.passed and each.selection.covers(failed.selection) for each in before):
        return "it had passed before"
    changes = [call.position for call in run.changes]
    tried = [each for each in before if any(each.call.position < at < failed.call.position for at in changes)]
    is_of_the_work = bool(tried) and any(at < tried[0].call.position for at in changes)
    return "the changes made for it did not help" if is_of_the_work and failed.result.purpose == "test" else ""


def _changed_after(run: Reading, check: CheckRun) -> bool:
    command = check.call.command
    in_line = command is not None and command.check is not None and command.changes_after(command.check)
    return in_line or any(change.position > check.call.position for change in run.changes)


def _is_idle(run: Reading) -> bool:
    """Whether the task asked for more than looking at or running something, and nothing more was done."""
    if run.changes or _ASKS_TO_LOOK.match(run.trajectory.task):
        return False
    done = (call for call in run.calls if may_have_effect(call) and call.check is None and not call.waits)
    return all(call.command.main.is_inline for call in done if call.command and call.command.main)


def passed_task_commands(run: Reading) -> tuple[Call, ...]:
    """Return the last call of each command that the task names in backticks, if all of them went through.

    When none was called, a short task may instead name a program and what it is run on in plain words.

    A named command that was never called counts as failed if another one of its program was called. Checks are left
    out: their results are separate evidence.
    """
    last: dict[str, Call] = {}
    named = {span: parse_command(span).main for span in code_spans(run.trajectory.task)}
    for call in run.calls:
        for name in (name for name, wanted in named.items() if call.command and _does(call.command, wanted)):
            if call.went_through or (call.failed and not _still_holds(last.get(name), call, run.calls)):
                last[name] = call
    if not last and len(run.trajectory.task.split()) <= _MAX_TASK_WORDS:
        return tuple([call for call in run.calls if _uses_named_program(call, run.trajectory.task)][-1:])
    programs = {name.split()[0] for name in last}
    missing = any(name not in last and " " in name and name.split()[0] in programs for name in named)
    return () if missing or any(call.failed for call in last.values()) else tuple(last.values())


def _uses_named_program(call: Call, task: str) -> bool:
    """Whether a program that a task names was run with at least two arguments that it names, and exited with 0."""
    named = set(re.findall(r"[\w.-]*\w", task))
    for part in call.command.parts if call.command else ():
        given = {word for each in part.words[1:] for word in re.findall(r"[A-Za-z]\w{3,}|\d+(?:\.\d+)+", each)}
        is_named = part.purpose in ("run", "other") and len(part.program) > 2 and part.program in named
        if call.command and is_named and len(given & named) >= _MIN_WORDS:
            return call.command.code_of(part, call.output, call.reported) is False
    return False


def _still_holds(before: Call | None, failed: Call, calls: Sequence[Call]) -> bool:
    """Whether an earlier call went through, and nothing was written between it and the call that failed."""
    if before is None or not before.went_through:
        return False
    return not any(call.writes and not call.failed for call in calls if before.end < call.position < failed.position)


def _does(command: Command, wanted: Part | None) -> bool:
    """Whether a part of the command line is the wanted one, perhaps with more options, and the exit code is its own."""
    if wanted is None or wanted.purpose in _NO_GOAL:
        return False
    for part in command.parts:
        more = set(part.words) - set(wanted.words)
        same = part.program == wanted.program and set(wanted.words) <= set(part.words)
        if same and command.exit_code_is_of(part) and not any(LOOKS_ONLY.fullmatch(word) for word in more):
            return True
    return False


def _by_goals(run: Reading) -> Iterator[Proof]:
    """Yield a success if what the task itself names to be run went through at the end."""
    reached = passed_task_commands(run)
    is_stale = any(change.position > call.end for call in reached[-1:] for change in run.changes)
    if not is_stale and any(_proves(run, call) for call in reached):
        shown = ", ".join(dict.fromkeys(call.name for call in reached))
        yield Proof("Success", REACHED, f"the commands that the task names succeeded: {shown}", _ids(reached))


def _proves(run: Reading, reached: Call) -> bool:
    """Whether a call that the task names shows more than that it can be run: it had failed, or no file was written."""
    if run.is_own(reached):
        return False
    before = (call for call in run.calls if call.end < reached.position and call.failed and not run.is_own(call))
    return not any(file.writes for file in run.files) or any(same_intent(call, reached) for call in before)
