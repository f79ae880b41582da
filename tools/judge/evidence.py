"""What a trajectory proves without any model: signals, each with a weight and the steps it rests on.

A weight is a log-odds of success against failure at even prior odds (0.7 doubles them, 1.1 trebles them), so that
weights add up. They are set by kind of evidence, in coarse steps, not fitted to a data set: a check that ran last says
most, what a tool answered says something, what the agent says of itself counts only against it.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.tools.judge.answer_support import answer_support, asks_for_answer
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.intent import Goals, goals_of, hands_in, is_about, same_intent
from swarm_memory.tools.trajectory.tasks import feedback

Source = Literal["check", "tool", "user", "agent"]

CHECK_WEIGHT = {"test": 2.0, "build": 1.1, "lint": 0.7}
"""Of the last run of a check. A test outweighs a build, a build a linter."""

FAILED_TEST, STALE = 2.4, 0.5
"""A failed test at the end is surer than a passed one: tests that pass may be the wrong ones. `STALE` is the factor
when files were changed after the run."""

REACHED = 1.2
"""What the task names went through with an exit code of 0, or was taken by a tool that had refused before."""

_MAX_STEPS_NAMED = 6

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
_OFFER = re.compile(
    r"(?i)(?:would you like|want me to|shall i|should i|anything else|do you want|need anything|how else)"
)
_IT_WORKS = re.compile(
    r"(?i)\b(?:works?|worked|fixed|solved|pass(?:es|ed)?|lgtm|ship it|merge it|exactly what"
    r"|did the trick|funktioniert)\b|成功|可以了"
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


@dataclass(frozen=True, slots=True)
class Run:
    """A trajectory with its calls: what every collector of evidence looks at."""

    trajectory: Trajectory
    calls: tuple[Call, ...]
    goals: Goals
    """What the task itself names, and what came of it."""

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.trajectory.steps


def signals_of(trajectory: Trajectory, calls: Sequence[Call]) -> tuple[Signal, ...]:
    """Return all evidence in the trajectory, strongest first; none when no tool was ever called."""
    if not calls:
        return ()
    run = Run(trajectory, tuple(calls), goals_of(trajectory, calls))
    found = [signal for collect in _COLLECTORS for signal in collect(run) if signal.weight]
    return tuple(sorted(found, key=lambda signal: -abs(signal.weight)))


def _ids(calls: Sequence[Call]) -> tuple[str, ...]:
    return tuple(step for call in calls[-_MAX_STEPS_NAMED:] for step in call.ids)


def _checks(run: Run) -> Iterator[Signal]:
    """The last run of each check; one that passed after it had failed is proof of a repair."""
    by_name: dict[str, list[Call]] = defaultdict(list)
    for call in run.calls:
        if call.check is not None and call.check.passed is not None:
            by_name[call.check.name].append(call)
    best = max((call.end for runs in by_name.values() for call in runs), default=0)
    for name, runs in by_name.items():
        last = runs[-1]
        if last.check is None:
            continue
        weight = CHECK_WEIGHT.get(last.check.purpose, 0.5)
        changed = sum(call.writes and not call.failed for call in run.calls if call.position > last.position)
        factor = STALE if changed else 1.0
        if last.check.passed:
            before = [call for call in runs[:-1] if call.check and call.check.passed is False]
            repaired = 0.4 if before else 0.0
            reason = f"{name} passed{' after it had failed' if before else ''} at the end"
            yield Signal("check_passed", (weight + repaired) * factor, reason, _ids([*before[-1:], last]), "check")
        else:
            weight = FAILED_TEST if last.check.purpose == "test" else weight + 0.3
            replaced = any(
                call.check and call.check.passed and call.check.purpose == last.check.purpose
                for call in run.calls
                if last.end < call.position <= best
            )
            weight *= 0.3 if replaced else factor
            reason = f"{name} failed and was not seen to pass afterwards"
            yield Signal("check_failed", -weight, reason, _ids([last]), "check")


def _goals(run: Run) -> Iterator[Signal]:
    """What the task itself names to be run or called: all of it went through at the end, or not.

    Where it names nothing, a last act about its object that was refused first and then went through says a little.
    """
    goals = run.goals
    if goals.met:
        last = max(call.end for call in goals.reached)
        changed = any(call.writes and not call.failed and call.position > last for call in run.calls)
        shown = ", ".join(dict.fromkeys(_name(call) for call in goals.reached))
        weight = REACHED * (STALE if changed else 1.0)
        yield Signal("goal_reached", weight, f"what the task names went through: {shown}", _ids(goals.reached), "tool")
    elif goals.refused:
        shown = ", ".join(dict.fromkeys(_name(call) for call in goals.refused))
        yield Signal(
            "goal_refused", -1.0, f"what the task names failed at the end: {shown}", _ids(goals.refused), "tool"
        )
    elif goals.reached and goals.missing:
        reason = f"of what the task names {len(goals.missing)} was never called"
        yield Signal("goal_missed", -0.8, reason, _ids(goals.reached), "tool")
    elif (ended := _ended_well(run)) is not None:
        yield Signal("last_repaired", 0.3, f"the last act had failed before and went through: {_name(ended)}",
                     _ids([ended]), "tool")  # fmt: skip


def _name(call: Call) -> str:
    return call.command.name if call.command else call.tool


def _ended_well(run: Run) -> Call | None:
    """Return the last call that did something, where it went through, had failed before, and is about the task."""
    acts = [call for call in run.calls if call.writes or (call.command and call.command.purpose in ("run", "other"))]
    if not acts or not acts[-1].went_through or hands_in(acts[-1]) or not is_about(acts[-1], run.trajectory.task):
        return None
    refused = any(call.failed and same_intent(call, acts[-1]) for call in run.calls if call.end < acts[-1].position)
    return acts[-1] if refused else None


def _errors(run: Run) -> Iterator[Signal]:
    """Calls that failed: resolved by a later call of the same kind, or open at the end.

    A refusal that the agent then reported may have been the right end. Where all that the task names went through in
    the end, errors before that were exploration and say nothing.
    """
    failed = [call for call in run.calls if call.failed and call.check is None and call.tool not in HOUSEKEEPING]
    if not failed:
        if len(run.calls) >= 2 and not any(call.failed for call in run.calls):
            yield Signal("no_errors", 0.15, "no call failed", (), "tool")
        return
    open_errors = [call for call in failed if resolution_of(call, run.calls) is None]
    tail = max(1, len(run.calls) // 5)
    late = [call for call in open_errors if call in run.calls[-min(tail, 3) :]]
    if run.calls[-1] in late:
        told = run.calls[-1].end < len(run.steps) - 1
        weight = -0.7 if told else -1.1
        yield Signal("last_call_failed", weight, f"the last call failed: {run.calls[-1].tool}", _ids(late), "tool")
    elif late:
        yield Signal("late_error", -0.6, "an error near the end was not resolved", _ids(late), "tool")
    early = [call for call in open_errors if call not in late]
    if run.goals.met:
        return
    if early:
        weight = -min(0.15 * len(early), 0.45)
        yield Signal("open_errors", weight, f"{len(early)} error(s) were not resolved", _ids(early), "tool")
    if len(failed) >= 3 and _ended_well(run) is None:
        share = len(failed) / len(run.calls)
        yield Signal(
            "many_errors",
            -0.8 if share >= 0.25 else -0.3,
            f"{len(failed)} of {len(run.calls)} calls failed",
            _ids(failed),
            "tool",
        )
    if not open_errors:
        yield Signal("errors_resolved", 0.2, "every error was resolved by a later call", _ids(failed), "tool")


def resolution_of(failed: Call, calls: Sequence[Call]) -> Call | None:
    """Return the first later call that did what `failed` did not: the same intent, and no error."""
    for call in calls:
        done = call.observation is not None and not call.failed and not call.refused
        if call.position > failed.end and done and same_intent(failed, call):
            return call
    return None


def _misses(run: Run) -> Iterator[Signal]:
    """Look-ups that found nothing."""
    missed = [call for call in run.calls if call.empty and not call.writes and call.command is None and call.output]
    if missed and len(missed) / len(run.calls) >= 0.2:
        weight = -min(0.25 * len(missed), 1.0)
        yield Signal("misses", weight, f"{len(missed)} look-up(s) found nothing", _ids(missed), "tool")


def _loops(run: Run) -> Iterator[Signal]:
    """The same call with the same result, again and again; looking at a thing twice after a change is no loop.

    Nor is trying until it works.
    """
    done = {call.key for call in run.calls if call.went_through}
    seen: Counter[tuple[str, str]] = Counter()
    repeated: dict[tuple[str, str], list[Call]] = defaultdict(list)
    for call in run.calls:
        if call.writes and not call.failed:
            seen.clear()
        mark = (call.key, call.output[:2000])
        seen[mark] += 1
        if seen[mark] > 1 and call.observation is not None and not (call.failed and call.key in done):
            repeated[mark].append(call)
    if not repeated:
        return
    mark, worst = max(repeated.items(), key=lambda pair: len(pair[1]))
    if len(worst) >= 2:
        weight = -1.2 if run.calls[-1] in worst else -0.8
        reason = f"the same call gave the same result {len(worst) + 1} times: {worst[0].tool}"
        yield Signal("loop", weight, reason, _ids(worst), "tool")
    elif not worst[0].command or worst[0].failed:
        yield Signal("repeated_call", -0.35, f"a call was repeated in vain: {worst[0].tool}", _ids(worst), "tool")


def _runs(run: Run) -> Iterator[Signal]:
    """What was made was run afterwards, and the exit code says that it ran."""
    last_change = max((call.position for call in run.calls if call.writes and not call.failed), default=None)
    if last_change is None:
        return
    ran = [
        call for call in run.calls
        if call.position > last_change and call.command and call.command.purpose == "run"
        and not call.failed and call.observation and (call.exit_code == 0 or call.observation.is_error is False)
    ]  # fmt: skip
    if ran:
        yield Signal("ran", 0.2, "what was changed was run afterwards without an error", _ids(ran[-1:]), "tool")


def _changes(run: Run) -> Iterator[Signal]:
    """Changes that nothing looked at afterwards: each is a chance to be wrong, none proves it.

    A file can be edited again; a booked record stands.
    """
    changes = [call for call in run.calls if call.writes and not call.failed and not call.ends_task]
    if len(changes) < 2:
        return
    last = changes[-1]
    verified = any(call.position > last.position and call.check is not None for call in run.calls)
    if not verified:
        records = any(call.command is None and not call.input.get("file_path") for call in changes)
        weight = -min(0.15 * len(changes), 0.35 if records else 0.15)
        yield Signal("unverified", weight, f"{len(changes)} changes were not checked afterwards", _ids(changes), "tool")


def _ending(run: Run) -> Iterator[Signal]:
    """How it ended: by the agent's own act, by its last words, or in the middle.

    Where something was to be done the world may end the task; where an answer was asked for, none is a failure.
    """
    last_step = run.steps[-1]
    last_call = run.calls[-1]
    tail = [step for step in run.steps[-3:] if step.role in ("system", "tool", "user") or step.kind == "observation"]
    spent = [step for step in tail if _OUT_OF_BUDGET.search(step.text[-1500:])]
    if spent:
        yield Signal("out_of_budget", -1.5, "it ran out of steps or budget", (spent[-1].id,), "tool")
    if last_call.ends_task and not last_call.failed:
        yield Signal("own_end", 0.2, f"the agent ended the task itself: {last_call.tool}", _ids([last_call]), "tool")
    elif run.goals.met and last_call in run.goals.reached:
        pass
    elif any(call.ends_task for call in run.calls) is False and last_step.kind in ("observation", "tool_call"):
        weight = -1.0 if asks_for_answer(run.trajectory, run.calls) else -0.3
        yield Signal("cut_off", weight, "it stops after a tool call, with no conclusion", (last_step.id,), "tool")
    said = [step for step in run.steps if step.kind == "message" and step.role == "assistant" and step.text.strip()]
    if not said or said[-1] not in run.steps[last_call.position :]:
        return
    words = said[-1].text[-1500:]
    if _INABILITY.search(words):
        yield Signal("says_unable", -0.8, "the last message says that it was not done", (said[-1].id,), "agent")
    elif last_step is said[-1] and words.rstrip().endswith("?") and not _OFFER.search(words[-200:]):
        yield Signal("asks", -0.4, "it ends with a question to the user", (said[-1].id,), "agent")


def _user(run: Run) -> Iterator[Signal]:
    """What the user said of the work: the last word counts. A thank-you is a courtesy and not a test."""
    positions = {step.id: index for index, step in enumerate(run.steps)}
    first = run.calls[0].position
    said = [
        (step, feedback(step.text))
        for before, step in pairwise(run.steps)
        if step.kind == "message" and step.role == "user" and not step.interrupted
        and positions[step.id] > first and not _answers(before, step)
    ]  # fmt: skip
    opinions = [(step, kind) for step, kind in said if kind]
    corrected = [step for step, kind in opinions if kind == "correction"]
    if not opinions:
        return
    last, kind = opinions[-1]
    if kind == "correction":
        worked_on = any(call.position > positions[last.id] and not call.failed for call in run.calls)
        weight, after = (-0.5, "; work went on after it") if worked_on else (-1.4, "")
        yield Signal("user_corrects", weight, f"the user's last word on it is a correction{after}", (last.id,), "user")
        corrected = corrected[:-1]
    elif _IT_WORKS.search(last.text[:400]) and len(last.text) < 1500:
        yield Signal("user_approves", 0.8, "the user says that it works", (last.id,), "user")
    elif _PRAISE.search(last.text[:400]):
        yield Signal("user_praises", 0.25, "the user is content", (last.id,), "user")
    else:
        yield Signal("user_thanks", 0.1, "the user says thanks", (last.id,), "user")
    if corrected:
        weight = -min(0.3 * len(corrected), 0.6)
        ids = tuple(step.id for step in corrected[-_MAX_STEPS_NAMED:])
        yield Signal("corrected_before", weight, f"the user corrected it {len(corrected)} time(s)", ids, "user")


def _answers(before: Step, step: Step) -> bool:
    """Whether a message is the reply to a question of the agent, where "no" is an answer and no correction."""
    asked = before.kind == "message" and before.role == "assistant" and "?" in before.text[-400:]
    return asked and bool(re.match(r"(?i)\W*(?:no|nope|nah|not|don't|do not|stop)\b", step.text))


def _interruptions(run: Run) -> Iterator[Signal]:
    """The user stopped the agent: at the end it is a no, before that a change of course."""
    stopped = [index for index, step in enumerate(run.steps) if step.interrupted]
    stopped += [call.end for call in run.calls if call.refused]
    if not stopped:
        return
    last = max(stopped)
    went_on = any(call.position > last for call in run.calls)
    ids = tuple(run.steps[index].id for index in sorted(set(stopped))[-_MAX_STEPS_NAMED:])
    if went_on:
        yield Signal("redirected", -0.2, "the user stopped it and it went on", ids, "user")
    else:
        yield Signal("stopped", -1.2, "the user stopped it and nothing was done after that", ids, "user")


def _answer(run: Run) -> Iterator[Signal]:
    """Whether what was read carries the answer that was given."""
    support = answer_support(run.trajectory, run.calls)
    if support is None:
        return
    if not run.calls[-1].ends_task:
        yield Signal("own_end", 0.2, "it came to an answer", support.steps[:1], "tool")
    for weight, reason in support.findings:
        yield Signal("answer", weight, reason, support.steps, "tool")


_COLLECTORS: tuple[Callable[[Run], Iterator[Signal]], ...] = (
    _checks, _goals, _errors, _misses, _loops, _runs, _changes, _ending, _user, _interruptions, _answer,
)  # fmt: skip
