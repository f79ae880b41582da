"""What a trajectory proves without any model: signals, each with a weight and the steps it rests on.

A weight is a log-odds of success against failure at even prior odds (0.7 doubles them, 1.1 trebles them), so that
weights add up. They are set by kind of evidence, in coarse steps, not fitted to a data set: a check that ran last says
most, what a tool answered says something, what the agent says of itself counts only against it.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from swarm_memory.schema.base import counted
from swarm_memory.schema.trajectory import Trajectory
from swarm_memory.tools.judge.answer_support import answer_support, asks_for_answer
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.check_runs import CheckRun
from swarm_memory.tools.trajectory.errors import Error, changes_something
from swarm_memory.tools.trajectory.intent import hands_in, is_about, same_intent
from swarm_memory.tools.trajectory.reading import Reading, read

Source = Literal["check", "tool", "user", "agent"]

HINT, HINTS = 0.35, 0.4
"""A signal of at most `HINT` is a hint. All hints that speak for one side count for at most `HINTS` together: that
nothing went wrong, that it came to an end, that the user was polite, that the agent's own test passed prove nothing."""

PASSED = {"test": 2.0, "build": 1.1, "lint": 0.7}
"""Of a check that proves what the task asks for: the task names it, or it failed before anything was changed."""

FAILED = {"test": 2.4, "build": 1.4, "lint": 0.7}
"""A check that fails at the end is surer than one that passes: what passes may look at something else."""

NOT_BROKEN = {"test": 0.8, "build": 0.3, "lint": 0.3}
"""Of a whole suite that passes and may have passed before as well; of a part of one it is a hint."""

NAMED_FAILED, OWN_FAILED, OWN_PASSED = 2.4, 0.8, 0.0
"""Of a check that the task names, whatever else passes; of one that the agent wrote itself.

Tasks in which its own check passed were met as often as others, so that this weighs nothing, nor between two attempts.
"""

UNPROVEN = 0.3
"""What the task names went through, and nothing shows that it could have failed."""

STALE, STALE_NAMED = 0.5, 0.6
"""Factors when files were changed after the run; a failed check that the task names stays hard even then."""

REACHED = 1.2
"""What the task names went through with an exit code of 0, or was taken by a tool that had refused before."""

_MAX_STEPS_NAMED, _MAX_WORDS = 6, 2500

HOUSEKEEPING = frozenset(
    {"TodoWrite", "KillShell", "BashOutput", "ExitPlanMode", "EnterPlanMode", "Skill", "think", "AskUserQuestion"}
)
"""Tools by which an agent keeps its own house: an error of theirs says nothing of the task."""

_OUT_OF_BUDGET = re.compile(
    r"(?i)\b(?:max(?:imum)?(?: number of)?[ _](?:steps|turns|iterations|rounds)|out of (?:steps|turns|budget)"
    r"|(?:step|turn|iteration|cost|context)(?: length| window)? (?:limit )?(?:reached|exceeded)"
    r"|exceeded the (?:maximum|step|cost|context))"
)
_INABILITY = re.compile(
    r"(?i)\b(?:i(?:'m| am| was)?(?: \w+)? (?:unable|not able) to (?!find any (?:errors|issues))"
    r"|i (?:could not|couldn't|cannot|can't|failed to|did not manage|didn't manage)"
    r"|(?:is|are|was|were|remains?|tests?) still (?:failing|broken|not working)|ran out of|gave up|giving up"
    r"|not (?:fully |yet )?(?:working|resolved|fixed|complete)\b|without success|unsuccessful)"
)
_ADMITS = re.compile(
    r"(?i)\b(?:mock(?:ed)? (?:data|implementation|version|responses?|results?|server|api)|place-?holders?|dummy"
    r"|stub(?:bed)?|simulat(?:ed|es|ing|ion)|synthetic|made-?up|faked?|hard-?cod(?:ed?|ing)|substitut(?:ed?|es|ing|ion)"
    r"|as a (?:stand-in|workaround|fallback)|instead of the (?:real|actual|original|requested)"
    r"|partly|partial(?:ly)? (?:\w+ )?(?:solution|success\w*|complet\w+|implement\w+|work\w*|fix\w*|done|met|solved)"
    r"|would (?:still )?(?:need|require)|(?:need|remain)s? to be (?:done|implemented|fixed|tested|verified|completed)"
    r"|(?:could|can|was|were)(?: ?not|n't) (?:be )?(?:able to )?(?:fully )?"
    r"(?:verif\w+|test(?:ed)?|confirm(?:ed)?|run|check(?:ed)?)"
    r"|(?:un|not )(?:verified|tested)|not (?:fully |yet )?implemented|in a (?:real|production) (?:environment|system)"
    r"|best[- ]effort)\b"
)
"""What an agent says at the end that did something else than was asked for, or less."""

_TAKEN_AWAY = re.compile(
    r"(?i)\b(?:replac|remov|fix|eliminat|no |not |without|rather than|instead of|avoid|delet)[\w ]*$"
)
"""Before such a word: it is gone, or was never there."""

_ASKS_TO_LOOK = re.compile(
    r"(?i)\W*(?:(?:please|can you|could you) )?(?:run|check|verify|test|show|list|explain|what|why|how|does|do|is|are"
    r"|find|tell|count|describe|review|analy[sz]e|look|who|when|where|which|summari[sz]e|print|display|report)\b"
)
_OFFER = re.compile(
    r"(?i)(?:would you like|want me to|shall i|should i|anything else|do you want|need anything|how else)"
)
_IT_WORKS = re.compile(
    r"(?i)\b(?:works?|worked|fixed|solved|pass(?:es|ed)?|lgtm|ship it|merge it|exactly what"
    r"|did the trick|funktioniert)\b(?! for (?:me|us))|成功|可以了"
)
_PRAISE = re.compile(
    r"(?i)\b(?:perfect|excellent|awesome|amazing|looks (?:good|great|perfect)|great|well done|perfekt|super)\b"
    r"|完美|很好"
)


@dataclass(frozen=True, slots=True)
class Signal:
    """One piece of evidence."""

    name: str
    weight: float
    """Log-odds; above 0 it speaks for success."""
    reason: str
    steps: tuple[str, ...]
    source: Source


def signals_of(given: Trajectory | Reading) -> tuple[Signal, ...]:
    """Return all evidence in the trajectory, strongest first; none when no tool was ever called."""
    run = read(given)
    found = [signal for collect in _COLLECTORS for signal in collect(run)] if run.calls else []
    told = [signal for signal in found if signal.weight or signal.name == "own_check"]
    return tuple(sorted(told, key=lambda signal: -abs(signal.weight)))


def _ids(calls: Sequence[Call]) -> tuple[str, ...]:
    return tuple(step for call in calls[-_MAX_STEPS_NAMED:] for step in call.ids)


def _checks(run: Reading) -> Iterator[Signal]:
    """What the checks showed at the end, of each the strongest run that failed and the strongest that passed.

    A pass is proof where the task names the check or asks for it, or where it failed before anything was changed, and
    rests on nothing that the agent wrote; else it only says that nothing else broke. It repairs what it looks at.
    """
    last = {(each.name, each.selection): each for each in run.checks}
    own = [each.call for each in last.values() if each.is_own and each.passed]
    if own:
        yield Signal("own_check", OWN_PASSED, f"a check that the agent wrote itself passed: {own[-1].name}",
                     _ids(own), "check")  # fmt: skip
    failed = [each for each in last.values() if not each.passed and not any(r.repairs(each) for r in run.checks)]
    is_refuted = any(each.named or each.wanted for each in failed if not each.is_own)
    for name in dict.fromkeys(each.name for each in last.values()):
        found = [_of_failed(run, each) for each in failed if each.name == name]
        passed = [each for each in last.values() if each.name == name and each.passed and not each.is_own]
        standing = [each for each in passed if not any(_overrules(other, each) for other in failed)]
        proofs = [_of_passed(run, each, is_refuted) for each in standing]
        yield from sorted(found, key=lambda signal: signal.weight)[:1]
        yield from sorted(proofs, key=lambda signal: -signal.weight)[:1]


def _overrules(failed: CheckRun, passed: CheckRun) -> bool:
    """Whether a later run of the same check that failed looks at what had passed."""
    same = failed.name == passed.name and failed.call.position > passed.call.end
    return same and (failed.selection.covers(passed.selection) or passed.selection.covers(failed.selection))


def _of_failed(run: Reading, failed: CheckRun) -> Signal:
    purpose, reason = failed.result.purpose, f"{failed.name} failed and was not seen to pass afterwards"
    weight = FAILED.get(purpose, 1.0)
    later = (each for each in run.checks if each.passed and each.call.position > failed.call.end and not each.is_own)
    is_stale = _changed_after(run, failed.call)
    if failed.is_own:
        weight, reason = OWN_FAILED * (STALE if is_stale else 1.0), f"{reason}; the agent wrote it"
    elif failed.named or failed.wanted:
        weight, reason = NAMED_FAILED * (STALE_NAMED if is_stale else 1.0), f"{reason}; the task asks for it"
    elif any(_says_same(each, failed) for each in _before_changes(run)):
        weight, reason = HINT, f"{failed.name} failed as it had before anything was changed"
    elif any(each.result.purpose == purpose and each.name != failed.name and each.selection.is_whole for each in later):
        weight *= 0.3
    elif is_stale:
        weight *= STALE
    return Signal("check_failed", -weight, reason, _ids([failed.call]), "check")


def _of_passed(run: Reading, passed: CheckRun, is_refuted: bool) -> Signal:
    """Weigh a pass; nothing is proven by one where a check that the task names failed, or nothing was changed."""
    purpose, by_user = passed.result.purpose, passed.call.step.role == "user"
    before = [each for each in _before_changes(run) if passed.repairs(each) and not each.passed and not each.is_own]
    asked = passed.named or (passed.wanted and passed.selection.is_whole)
    is_repair = bool(before) and (asked or purpose == "test")
    is_rewritten = passed.changed_at >= 0 and not by_user
    weight = NOT_BROKEN.get(purpose, HINT) if passed.selection.is_whole else HINT
    reason = f"{passed.name} passed at the end; it may have passed before as well"
    if is_refuted or (_is_idle(run) and not is_repair and not by_user):
        weight = 0.0
    elif (asked or is_repair) and not is_rewritten:
        weight = PASSED.get(purpose, 0.5) + (0.4 if is_repair else 0.0)
        reason = f"{passed.name} passed{' after it had failed' if is_repair else ''} at the end"
    weight *= STALE if _changed_after(run, passed.call) else 1.0
    return Signal("check_passed", weight, reason, _ids([*(each.call for each in before[-1:]), passed.call]), "check")


def _before_changes(run: Reading) -> list[CheckRun]:
    first = run.changes[0].position if run.changes else len(run.trajectory.steps)
    return [each for each in run.checks if each.call.position < first]


def _changed_after(run: Reading, call: Call) -> bool:
    return any(change.position > call.position for change in run.changes)


def _says_same(before: CheckRun, failed: CheckRun) -> bool:
    """Whether an earlier run of the same check failed with the same summary but for the time that it took."""
    told = [re.sub(r"\bin [\d.]+ ?s.*", "", each.result.summary) for each in (before, failed)]
    return bool(told[0]) and before.call != failed.call and (before.name, told[0]) == (failed.name, told[1])


def _is_idle(run: Reading) -> bool:
    """Whether more was asked for than to look at something or to run it, and nothing was done but that."""
    done = (call for call in run.calls if changes_something(call) and call.check is None)
    spoken = (call.command.main.words for call in done if call.command and call.command.main and not call.waits)
    acts = any(words[1:2] not in (("-c",), ("-e",), ("-",)) for words in spoken)
    return not (acts or run.changes or _ASKS_TO_LOOK.match(run.trajectory.task))


def _goals(run: Reading) -> Iterator[Signal]:
    """What the task itself names to be run or called: all of it went through at the end, or not.

    Where it names nothing, a last act about its object that was refused first and then went through says a little.
    """
    goals = run.goals
    if goals.met:
        last = max(goals.reached, key=lambda call: call.end)
        shown = ", ".join(dict.fromkeys(call.name for call in goals.reached))
        weight = REACHED if any(_proves(run, call) for call in goals.reached) else UNPROVEN
        weight *= STALE if _changed_after(run, last) else 1.0
        yield Signal("goal_reached", weight, f"what the task names went through: {shown}", _ids(goals.reached), "tool")
    elif goals.refused:
        shown = ", ".join(dict.fromkeys(call.name for call in goals.refused))
        yield Signal(
            "goal_refused", -1.0, f"what the task names failed at the end: {shown}", _ids(goals.refused), "tool"
        )
    elif goals.reached and goals.missing:
        reason = f"of what the task names {len(goals.missing)} was never called"
        yield Signal("goal_missed", -0.8, reason, _ids(goals.reached), "tool")
    elif (ended := _ended_well(run)) is not None:
        yield Signal("last_repaired", 0.3, f"the last act had failed before and went through: {ended.name}",
                     _ids([ended]), "tool")  # fmt: skip


def _proves(run: Reading, reached: Call) -> bool:
    """Whether a call that the task names shows more than that it can be run.

    It does where no file was written, or where it had failed before; not where it runs what the agent wrote itself, nor
    where it failed for want of that.
    """
    if reached.command is None:
        return True
    made = [file.path.rpartition("/")[2] for file in run.files.written if file.is_own]
    words = {word.rpartition("/")[2] for part in reached.command.parts for word in part.words}
    if words & {*made, *(name.partition(".")[0] for name in made)}:
        return False
    before = (call for call in run.calls if call.end < reached.position and call.failed and not run.is_own(call))
    return not run.files.written or any(same_intent(call, reached) for call in before)


def _ended_well(run: Reading) -> Call | None:
    """Return the last call that did something, where it went through, had failed before, and is about the task."""
    acts = [call for call in run.calls if call.writes or (call.command and call.command.purpose in ("run", "other"))]
    if not acts or not acts[-1].went_through or hands_in(acts[-1]) or not is_about(acts[-1], run.trajectory.task):
        return None
    refused = any(call.failed and same_intent(call, acts[-1]) for call in run.calls if call.end < acts[-1].position)
    return acts[-1] if refused else None


def _errors(run: Reading) -> Iterator[Signal]:
    """Errors: got past by a later call, or open at the end.

    A refusal that the agent then reported may have been the right end, of a tool in a conversation even more so. Where
    all that the task names went through in the end, errors before that were exploration and say nothing. One that the
    task quotes is what was asked for, until something was changed.
    """
    errors = [error for error in run.errors if _counts(run, error)]
    failed = sorted((call for error in errors for call in error.calls), key=lambda call: call.position)
    if not errors:
        if len(run.calls) >= 2 and not any(call.failed for call in run.calls):
            yield Signal("no_errors", 0.15, "no call failed", (), "tool")
        return
    is_open = [error for error in errors if error.is_open]
    last = run.calls[-1]
    tail = run.calls[-min(max(1, len(run.calls) // 5), 3) :]
    late = [error.calls[-1] for error in is_open if error.calls[-1] in tail]
    is_refusal = bool(run.said) and all(call.command is None for call in late)
    if last in late:
        weight = -1.1 if last.end == len(run.trajectory.steps) - 1 else -HINT if is_refusal else -0.7
        yield Signal("last_call_failed", weight, f"the last call failed: {last.tool}", _ids(late), "tool")
    elif late:
        weight = -HINT if is_refusal else -0.6
        yield Signal("late_error", weight, "an error near the end was not resolved", _ids(late), "tool")
    if run.goals.met:
        return
    early = [error.calls[-1] for error in is_open if error.calls[-1] not in late]
    if early:
        weight = -min(0.15 * len(early), 0.45)
        yield Signal("open_errors", weight, f"{counted(len(early), 'error')} not resolved", _ids(early), "tool")
    if len(failed) >= 3 and _ended_well(run) is None:
        weight = -0.8 if is_open and len(failed) / len(run.calls) >= 0.25 else -0.3
        reason = f"{len(failed)} of {len(run.calls)} calls failed"
        yield Signal("many_errors", weight, reason, _ids(failed), "tool")
    if not is_open:
        yield Signal("errors_resolved", 0.2, "every error was resolved by a later call", _ids(failed), "tool")


def _counts(run: Reading, error: Error) -> bool:
    """Whether an error says something beside what checks say of themselves."""
    last = error.calls[-1]
    is_check = last.check is not None and last.check.passed is not None
    is_wanted = error.asked_for and not any(change.position < last.position for change in run.changes)
    return not is_check and not is_wanted and last.tool not in HOUSEKEEPING


def _misses(run: Reading) -> Iterator[Signal]:
    """Look-ups that found nothing."""
    missed = [call for call in run.calls if call.empty and not call.writes and call.command is None and call.output]
    if missed and len(missed) / len(run.calls) >= 0.2:
        weight = -min(0.25 * len(missed), 1.0)
        yield Signal("misses", weight, f"{counted(len(missed), 'look-up')} found nothing", _ids(missed), "tool")


def _loops(run: Reading) -> Iterator[Signal]:
    """The same call with the same result, again and again."""
    loops = [loop for loop in run.loops if loop.calls[0].tool not in HOUSEKEEPING]
    if not loops:
        return
    worst = max(loops, key=lambda loop: len(loop.calls)).calls
    times = len(worst)
    if times >= 3:
        weight = -1.2 if run.calls[-1] in worst else -0.8
        reason = f"the same call gave the same result {times} times: {worst[0].tool}"
        yield Signal("loop", weight, reason, _ids(worst), "tool")
    elif not worst[0].command or worst[0].failed:
        yield Signal("repeated_call", -HINT, f"a call was repeated in vain: {worst[0].tool}", _ids(worst), "tool")


def _runs(run: Reading) -> Iterator[Signal]:
    """What was made was run afterwards, and the exit code says that it ran: the weakest of the agent's own checks."""
    if not run.changes or any(each.is_own and each.passed for each in run.checks):
        return
    last = run.changes[-1].position
    ran = [
        call for call in run.calls
        if call.position > last and call.command and call.command.purpose == "run" and call.went_through
    ]  # fmt: skip
    if ran:
        yield Signal("ran", 0.2, "what was changed was run afterwards without an error", _ids(ran[-1:]), "tool")


def _changes(run: Reading) -> Iterator[Signal]:
    """Changes that nothing looked at afterwards: each is a chance to be wrong, none proves it.

    A file can be edited again; a booked record stands.
    """
    changes = [call for call in run.calls if call.writes and not call.failed and not call.ends_task]
    if len(changes) < 2:
        return
    last = changes[-1]
    verified = any(
        call.position > last.position and call.check is not None and not run.is_own(call) for call in run.calls
    )
    if not verified:
        records = any(call.command is None and not call.input.get("file_path") for call in changes)
        weight = -min(0.15 * len(changes), 0.35 if records else 0.15)
        yield Signal("unverified", weight, f"{len(changes)} changes were not checked afterwards", _ids(changes), "tool")


def _ending(run: Reading) -> Iterator[Signal]:
    """How it ended: by the agent's own act, by its last words, or in the middle.

    Where something was to be done the world may end the task; where an answer was asked for, none is a failure.
    """
    steps, last_call = run.trajectory.steps, run.calls[-1]
    tail = [step for step in steps[-3:] if step.role in ("system", "tool", "user") or step.kind == "observation"]
    spent = [step for step in tail if _OUT_OF_BUDGET.search(step.text[-1500:])]
    if spent:
        yield Signal("out_of_budget", -1.5, "it ran out of steps or budget", (spent[-1].id,), "tool")
    if run.ends_itself and not last_call.hands_over:
        yield Signal("own_end", 0.2, f"the agent ended the task itself: {last_call.tool}", _ids([last_call]), "tool")
    elif run.goals.met and last_call in run.goals.reached:
        pass
    elif any(call.ends_task for call in run.calls) is False and steps[-1].kind in ("observation", "tool_call"):
        weight = -1.0 if asks_for_answer(run.trajectory, run.calls) else -0.3
        yield Signal("cut_off", weight, "it stops after a tool call, with no conclusion", (steps[-1].id,), "tool")
    handed_in = " ".join(value for value in last_call.input.values() if isinstance(value, str))
    step = run.last_words or (last_call.step if run.ends_itself else None)
    words = (run.last_words.text if run.last_words else handed_in)[-_MAX_WORDS:]
    if step is None:
        return
    if _INABILITY.search(words):
        yield Signal("says_unable", -0.8, "the last message says that it was not done", (step.id,), "agent")
    elif admitted := _admission(words, run.trajectory.task):
        reason = f"the last message admits that it was not done as asked: {admitted}"
        yield Signal("admits", -0.8, reason, (step.id,), "agent")
    elif steps[-1] is step and words.rstrip().endswith("?") and not _OFFER.search(words[-200:]):
        yield Signal("asks", -HINT, "it ends with a question to the user", (step.id,), "agent")


def _admission(words: str, task: str) -> str | None:
    """Return the words that admit something; what the task itself speaks of is its subject."""
    for found in _ADMITS.finditer(words):
        is_gone = _TAKEN_AWAY.search(words[max(0, found.start() - 30) : found.start()])
        if found[0].lower() not in task.lower() and not is_gone:
            return found[0]
    return None


def _user(run: Reading) -> Iterator[Signal]:
    """What the user said of the work: the last word counts. A thank-you is a courtesy and not a test."""
    opinions = [said for said in run.said if said.about and not said.is_answer and not said.step.interrupted]
    if not opinions:
        return
    corrected = [said.step.id for said in opinions if said.about == "correction"]
    last = opinions[-1]
    ids, text = (last.step.id,), last.step.text
    if last.about == "correction":
        worked_on = any(call.position > last.index and not call.failed for call in run.calls)
        weight, after = (-0.5, "; work went on after it") if worked_on else (-1.4, "")
        yield Signal("user_corrects", weight, f"the user's last word on it is a correction{after}", ids, "user")
        corrected = corrected[:-1]
    elif _IT_WORKS.search(text[:400]) and len(text) < 1500 and not _accepts(run, last.index):
        yield Signal("user_approves", 0.8, "the user says that it works", ids, "user")
    elif _PRAISE.search(text[:400]):
        yield Signal("user_praises", 0.25, "the user is content", ids, "user")
    else:
        yield Signal("user_thanks", 0.1, "the user says thanks", ids, "user")
    if corrected:
        weight = -min(0.3 * len(corrected), 0.6)
        reason = f"the user corrected it {counted(len(corrected), 'time')}"
        yield Signal("corrected_before", weight, reason, tuple(corrected[-_MAX_STEPS_NAMED:]), "user")


def _accepts(run: Reading, index: int) -> bool:
    """Whether words of the user's accept what was offered and test nothing: something was changed only after them."""
    return any(call.position > index for call in run.changes)


def _interruptions(run: Reading) -> Iterator[Signal]:
    """The user stopped the agent: at the end it is a no, before that a change of course."""
    stopped = [index for index, step in enumerate(run.trajectory.steps) if step.interrupted]
    stopped += [call.end for call in run.calls if call.refused]
    if not stopped:
        return
    last = max(stopped)
    went_on = any(call.position > last for call in run.calls)
    ids = tuple(run.trajectory.steps[index].id for index in sorted(set(stopped))[-_MAX_STEPS_NAMED:])
    if went_on:
        yield Signal("redirected", -0.2, "the user stopped it and it went on", ids, "user")
    else:
        yield Signal("stopped", -1.2, "the user stopped it and nothing was done after that", ids, "user")


def _answer(run: Reading) -> Iterator[Signal]:
    """Whether what was read carries the answer that was given."""
    support = answer_support(run.trajectory, run.calls)
    if support is None:
        return
    if not run.calls[-1].ends_task:
        yield Signal("own_end", 0.2, "it came to an answer", support.steps[:1], "tool")
    for weight, reason in support.findings:
        yield Signal("answer", weight, reason, support.steps, "tool")


_COLLECTORS: tuple[Callable[[Reading], Iterator[Signal]], ...] = (
    _checks, _goals, _errors, _misses, _loops, _runs, _changes, _ending, _user, _interruptions, _answer,
)  # fmt: skip
