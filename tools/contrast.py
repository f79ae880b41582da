"""What tells attempts that met a task from those that did not, by their calls alone; no model, and nothing is stored.

A deed is what a call did, an order is one deed before another, a fault is how a call failed; each in words that may be
kept. What counts is in how many attempts it stands, not how often.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from swarm_memory.schema.memory import MemoryDraft, Outcome
from swarm_memory.schema.settings import Settings
from swarm_memory.schema.trajectory import Step, Trajectory
from swarm_memory.schema.verdict import Verdict
from swarm_memory.tools.calls import Call, calls_of
from swarm_memory.tools.distill import distill_by_extraction
from swarm_memory.tools.failures import classify
from swarm_memory.tools.lessons import Material, lesson
from swarm_memory.tools.wording import one_line, particulars_of, show_command, show_file, show_symptom

MAX_DEEDS = 40
"""Distinct deeds of one attempt that are compared; the comparison of orders is quadratic in them."""

_VERDICTS = frozenset({"assertion", "error"})
"""A check that fails so says that the work is wrong: that is what failure means, not what it came from."""

_LOOKING = frozenset({"search", "read", "print"})
_MAX_PATTERNS, _MAX_PITFALLS, _MAX_WAY, _MAX_DEED = 4, 3, 6, 70
_REPEATED = 3
"""The same call so often in one attempt is a loop."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One rollout as it is compared: its steps are called `r2-s4`, so that ids of several stand beside each other."""

    number: int
    trajectory_id: str
    trajectory: Trajectory
    verdict: Verdict
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The label as the prompt gives it."""
        sure = "" if self.verdict.label == "Undecided" else f" ({self.verdict.confidence:.2f})"
        return f"== attempt {self.number}: {self.verdict.label}{sure} =="


@dataclass(frozen=True, slots=True)
class Drawn:
    """One item that the comparison gave."""

    draft: MemoryDraft
    outcome: Outcome
    attempt: int
    """The attempt that shows it best."""


def numbered(
    number: int, trajectory_id: str, trajectory: Trajectory, verdict: Verdict, notes: tuple[str, ...] = ()
) -> Attempt:
    """Return an attempt whose steps and calls carry its number."""
    steps = tuple(_numbered(step, number) for step in trajectory.steps)
    evidence = tuple(f"r{number}-{step}" for step in verdict.evidence)
    told = verdict.model_copy(update={"evidence": evidence})
    return Attempt(number, trajectory_id, trajectory.model_copy(update={"steps": steps}), told, notes)


def _numbered(step: Step, number: int) -> Step:
    call_id = f"r{number}-{step.call_id}" if step.call_id else None
    return step.model_copy(update={"id": f"r{number}-{step.id}", "call_id": call_id})


def merged(attempts: Sequence[Attempt]) -> Trajectory:
    """Return one trajectory of all attempts: what an item may name as its evidence."""
    steps = tuple(step for attempt in attempts for step in attempt.trajectory.steps)
    return attempts[0].trajectory.model_copy(update={"steps": steps})


def contrast_by_extraction(
    attempts: Sequence[Attempt], best: int, settings: Settings, max_items: int
) -> tuple[tuple[Drawn, ...], str | None]:
    """Return at most `max_items` items and, where there are none, why.

    First the patterns of most successes that no failure has, then the pitfalls of at least half of the failures that
    no success has; what room is left is filled with what the best attempt, or the surest failure, teaches by itself.
    """
    looked = [_look(attempt) for attempt in attempts]
    met = [each for each in looked if each.attempt.verdict.label == "Success"]
    missed = [each for each in looked if each.attempt.verdict.label == "Failure"]
    drawn: list[Drawn] = []
    if met and missed:
        drawn += _patterns(looked, met, missed)
    if missed:
        drawn += _pitfalls(looked, met, missed)
    drawn += _alone(looked, met, missed, best, settings)
    if drawn:
        return tuple(drawn[:max_items]), None
    if not met and not missed:
        return (), "no attempt was decided, and none proves anything within itself: nothing to contrast"
    return (), "the attempts differ in nothing that would help with another task"


@dataclass(frozen=True, slots=True)
class _Deed:
    """What one call did."""

    shown: str
    position: int
    """Of its first call in the attempt."""
    call: Call


@dataclass(frozen=True, slots=True)
class _Looked:
    """An attempt with what it did, in order, and how its calls failed."""

    attempt: Attempt
    calls: tuple[Call, ...]
    particulars: tuple[str, ...]
    deeds: dict[str, _Deed] = field(default_factory=dict[str, _Deed])
    """What succeeded, by its words in lower case."""
    tried: dict[str, int] = field(default_factory=dict[str, int])
    """Where each deed was first tried, well or badly."""
    faults: dict[tuple[str, str, str], Call] = field(default_factory=dict[tuple[str, str, str], Call])
    """By what was called, kind of error and its subject."""

    @property
    def way(self) -> list[str]:
        """What it did, shortly, without looking around."""
        return [deed.shown for deed in sorted(self.deeds.values(), key=lambda deed: deed.position)][:_MAX_WAY]


def _look(attempt: Attempt) -> _Looked:
    calls = calls_of(attempt.trajectory)
    looked = _Looked(attempt, calls, particulars_of(attempt.trajectory, calls))
    seen: dict[str, int] = {}
    for position, call in enumerate(calls):
        seen[call.key] = seen.get(call.key, 0) + 1
        if seen[call.key] == _REPEATED:
            looked.faults.setdefault((_name(call), "loop", ""), call)
        failure = classify(call.error) if call.failed else None
        if failure is not None and not (call.check is not None and failure.kind in _VERDICTS):
            looked.faults.setdefault((_name(call), failure.kind, failure.subject.lower()), call)
        if call.observation is None or call.refused or len(looked.tried) >= MAX_DEEDS:
            continue
        for shown in _deeds(call, looked.particulars):
            looked.tried.setdefault(shown.lower(), position)
            if not call.failed:
                looked.deeds.setdefault(shown.lower(), _Deed(shown, position, call))
    return looked


def _name(call: Call) -> str:
    return call.command.name if call.command else call.tool


def _deeds(call: Call, particulars: Sequence[str]) -> Iterator[str]:
    """Yield what a call did in words: each part of a command line that does more than look, or the tool's name."""
    if call.command is not None:
        for part in call.command.parts:
            if part.purpose not in _LOOKING:
                yield f"`{show_command(' '.join(part.words), particulars, _MAX_DEED)}`"
        return
    if call.ends_task:
        return
    if call.writes and call.target:
        yield f"`{call.tool}` on `{show_file(call.target, particulars)}`"
        return
    telling = [
        f"{key} {value}"
        for key, value in call.input.items()
        if isinstance(value, str) and 0 < len(value) <= 30 and value not in particulars and not _is_particular(value)
    ]
    shown = show_command(", ".join(telling[:2]), particulars, _MAX_DEED)
    yield f"`{call.tool}` with `{shown}`" if shown else f"`{call.tool}`"


def _is_particular(value: str) -> bool:
    return sum(char.isdigit() for char in value) > 2 or len(value.split()) > 3


def _done(key: str, among: Sequence[_Looked]) -> int:
    return sum(key in each.deeds for each in among)


def _tried(key: str, among: Sequence[_Looked]) -> int:
    """In how many attempts it was tried: that a test passes at the end is what success means, not what it came from."""
    return sum(key in each.tried for each in among)


def _patterns(all_: Sequence[_Looked], met: Sequence[_Looked], missed: Sequence[_Looked]) -> Iterator[Drawn]:
    """One item of the deeds and orders of most successes that no failure has."""
    shortest = min(met, key=lambda each: (len(each.calls), each.attempt.number))
    keys = dict.fromkeys(key for each in met for key in each.deeds)
    deeds = [key for key in keys if _done(key, met) * 2 > len(met) and not _tried(key, missed)]
    deeds.sort(key=lambda key: (-_done(key, met), key not in shortest.deeds))
    orders = list(_orders(met, missed))[: _MAX_PATTERNS - min(len(deeds), 2)]
    if not deeds and not orders:
        return
    told = {key: next(each.deeds[key] for each in (shortest, *met) if key in each.deeds) for key in deeds}
    of = f"attempts that met the task, in none of the {len(missed)} that did not"
    lines = [f"Do {told[key].shown}: done in {_done(key, met)} of {len(met)} {of}." for key in deeds[:_MAX_PATTERNS]]
    lines += [f"Do {first} before {second}: so in {count} of {len(met)} {of}." for first, second, count in orders]
    if len(shortest.way) > 1:
        lines.append(f"The shortest way that met it: {'; then '.join(shortest.way)}.")
    lines += [f"Checked and corrected: {note}" for note in shortest.attempt.notes[:2]]
    if len(lines) < 3:
        lines.append("Check the result before saying that it is done; without that step take it for not done.")
    head = told[deeds[0]].shown if deeds else f"{orders[0][0]} before {orders[0][1]}"
    calls = [deed.call for deed in told.values()] or list(shortest.calls[-2:])
    when = _when(calls[0], missed)
    title = f"Do {head} when {when}"
    yield Drawn(_draft(all_, shortest, title, when, lines, calls), "Success", shortest.attempt.number)


def _orders(met: Sequence[_Looked], missed: Sequence[_Looked]) -> Iterator[tuple[str, str, int]]:
    """Yield (first, second, in how many successes) of deeds that both sides did, only the successes in this order."""
    shared = [key for key in met[0].deeds if _done(key, met) * 2 > len(met) and _tried(key, missed)]
    for second in shared:
        for first in shared:
            if first == second or any(_tried_before(each, first, second) for each in missed):
                continue
            count = sum(_before(each, first, second) for each in met)
            both = any(first in each.tried and second in each.tried for each in missed)
            if both and count * 2 > len(met):
                yield met[0].deeds[first].shown, met[0].deeds[second].shown, count


def _before(looked: _Looked, first: str, second: str) -> bool:
    one, other = looked.deeds.get(first), looked.deeds.get(second)
    return one is not None and other is not None and one.position < other.position


def _tried_before(looked: _Looked, first: str, second: str) -> bool:
    one, other = looked.tried.get(first), looked.tried.get(second)
    return one is not None and other is not None and one < other


def _pitfalls(all_: Sequence[_Looked], met: Sequence[_Looked], missed: Sequence[_Looked]) -> Iterator[Drawn]:
    """One guardrail of the faults of at least half of the failures that no success has."""
    counts: dict[tuple[str, str, str], int] = {}
    for each in missed:
        for key in each.faults:
            counts[key] = counts.get(key, 0) + 1
    only = [
        key for key, count in counts.items() if count * 2 >= len(missed) and not any(key in each.faults for each in met)
    ]
    only.sort(key=lambda key: -counts[key])
    lines: list[str] = []
    calls: list[Call] = []
    for key in only[:_MAX_PITFALLS]:
        owner = next(each for each in missed if key in each.faults)
        told = _fault(key, owner)
        if told:
            none = f", in none of the {len(met)} that did" if met else ""
            lines.append(f"{told}: so in {counts[key]} of {len(missed)} attempts that did not meet the task{none}.")
            first = classify(owner.faults[key].error).first
            lines += [f"Before that call {first}."] if first else []
            calls.append(owner.faults[key])
    if not calls:
        return
    if met and met[0].way:
        lines.append(f"What met the task instead: {'; then '.join(met[0].way[:3])}.")
    lines.append("At the second such result stop, look for its cause and take another way; never report it as done.")
    owner = next(each for each in missed if only[0] in each.faults)
    head = f"Do not go on after this: {lines[0].split(': so in')[0]}"
    yield Drawn(_draft(all_, owner, head, _when(calls[0], missed), lines, calls), "Failure", owner.attempt.number)


def _fault(key: tuple[str, str, str], owner: _Looked) -> str:
    name, kind, _ = key
    if kind == "loop":
        return f"`{name}` was called {_REPEATED} times with the same arguments"
    symptom = show_symptom(owner.faults[key].error, owner.particulars)
    return f'`{name}` failed with "{symptom}"' if symptom else ""


def _alone(
    all_: Sequence[_Looked], met: Sequence[_Looked], missed: Sequence[_Looked], best: int, settings: Settings
) -> Iterator[Drawn]:
    """What the best attempt, or else the surest failure, teaches by itself."""
    shown = [each for each in all_ if each.attempt.number == best and each not in missed]
    if not met and missed:
        shown.append(max(missed, key=lambda each: each.attempt.verdict.confidence))
    for each in shown:
        found = distill_by_extraction(each.attempt.trajectory, each.attempt.verdict, settings)
        outcome: Outcome = "Failure" if each.attempt.verdict.label == "Failure" else "Success"
        for draft in found.drafts:
            yield Drawn(draft, outcome, each.attempt.number)


def _when(call: Call, missed: Sequence[_Looked]) -> str:
    """Return the situation: the error that most failures met, else what is called."""
    counts: dict[tuple[str, str, str], int] = {}
    for each in missed:
        for key in each.faults:
            counts[key] = counts.get(key, 0) + 1
    for key in sorted((key for key, count in counts.items() if count * 2 > len(missed)), key=lambda key: -counts[key]):
        told = _fault(key, next(each for each in missed if key in each.faults))
        if told and key[1] != "loop":
            return told.replace("` failed with", "` fails with")
    name = _name(call)
    return f"`{name}` is used" if name else "several ways are open"


def _draft(
    all_: Sequence[_Looked], owner: _Looked, title: str, when: str, lines: Sequence[str], calls: Sequence[Call]
) -> MemoryDraft:
    particulars = tuple(dict.fromkeys(name for each in all_ for name in each.particulars))
    label: Literal["Success", "Failure"] = "Failure" if owner.attempt.verdict.label == "Failure" else "Success"
    verdict = owner.attempt.verdict.model_copy(update={"label": label})
    material = Material(owner.attempt.trajectory, verdict, owner.calls, particulars)
    made = lesson(
        material,
        title=one_line(title, 200),
        when=when,
        lines=lines,
        calls=calls,
        value=1.0,
        topic="contrast",
        tags=("contrast", "guardrail" if label == "Failure" else "strategy"),
    )
    return made.draft
