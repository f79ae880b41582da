"""What parts several attempts at one task: what got any of them past an error, and what only failures ran into.

A fix that was seen to work holds whoever found it; what one attempt did in vain is not what helped another, and
bystanders show when attempts differ.
"""

import itertools
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace

from swarm_memory.tools.distill.drafts import GUARDRAIL, draft_of
from swarm_memory.tools.matts.rollouts import Attempt, Lesson
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, changes_something, same_intent, shape
from swarm_memory.tools.trajectory.failures import classify, error_key
from swarm_memory.tools.trajectory.phrasing import show_call, show_symptom
from swarm_memory.tools.trajectory.reading import Reading, read

_VERDICTS = frozenset({"assertion", "error"})
"""A check that fails so says that the work is wrong: that is what failure means, not what it came from."""

_MIN_SEEN, _MAX_VAIN, _MAX_TITLE = 2, 6, 80


Mark = tuple[str, tuple[str, str]]
"""What failed, and with which error: each is a lesson of its own."""


@dataclass(frozen=True, slots=True)
class Looked:
    """One attempt with its calls, the errors it met and how it got past them."""

    attempt: Attempt
    reading: Reading
    failed: dict[Mark, list[Call]] = field(default_factory=dict[Mark, list[Call]])
    repaired: dict[Mark, list[Repair]] = field(default_factory=dict[Mark, list[Repair]])
    vain: dict[Mark, dict[str, Call]] = field(default_factory=dict[Mark, dict[str, Call]])
    """What was done after an error, by its shape, when the next such call ended with the same error."""

    @property
    def label(self) -> str:
        return self.attempt.verdict.label

    @property
    def names(self) -> tuple[str, ...]:
        """Names and ids of this task, to be replaced."""
        return self.reading.particulars


@dataclass(frozen=True, slots=True)
class Fix:
    """A way past an error, with the attempts that bear it out."""

    mark: Mark
    owner: Looked
    """The attempt that shows it best."""
    repair: Repair
    """Without what the other attempts show to be a bystander, and with what they tried in vain."""
    borne_out: tuple[Looked, ...]
    """The attempts that went this way."""
    open_in: tuple[Looked, ...]
    """Those that met the error and had not got past it in the end."""

    @property
    def failures(self) -> int:
        """How many failures it would have helped."""
        return sum(each.label == "Failure" for each in self.open_in)


def look(attempt: Attempt) -> Looked:
    """Return an attempt with the errors in it."""
    looked = Looked(attempt, read(attempt.trajectory))
    for call in looked.reading.calls:
        if call.failed and not looked.reading.is_own_fault(call):
            looked.failed.setdefault((call.name, error_key(call.error)), []).append(call)
    for repair in looked.reading.repairs:
        looked.repaired.setdefault((repair.failed.name, error_key(repair.failed.error)), []).append(repair)
    for mark, failed in looked.failed.items():
        looked.vain[mark] = {shape(call): call for call in _in_vain(failed, looked.reading.calls)}
    return looked


def _in_vain(failed: Sequence[Call], calls: Sequence[Call]) -> Iterator[Call]:
    """Yield what was done between two failures of one kind, where no such call succeeded in between."""
    for one, following in itertools.pairwise(failed):
        between = [call for call in calls if one.end < call.position < following.position]
        if any(not call.failed and same_intent(one, call) for call in between):
            continue
        yield from (call for call in between if changes_something(call))


def fixes_of(every: Sequence[Looked]) -> list[Fix]:
    """Return one way past each error that any attempt got past: first those that failures lacked most."""
    found: list[Fix] = []
    for mark in dict.fromkeys(mark for each in every for mark in each.failed):
        repairs = [(each, repair) for each in every for repair in each.repaired.get(mark, ())]
        if repairs:
            found.append(_fix(mark, repairs, every))
    return sorted(found, key=lambda each: (each.failures, len(each.borne_out)), reverse=True)


def _fix(mark: Mark, repairs: Sequence[tuple[Looked, Repair]], every: Sequence[Looked]) -> Fix:
    """Return the way that most attempts went, as the attempt shows it that did the least beside."""
    helpful = _helpful(mark, repairs, every)
    pruned: list[tuple[Looked, Repair]] = []
    for each, repair in repairs:
        actions = tuple(call for call in repair.actions if shape(call) in helpful)
        pruned.append((each, replace(repair, actions=actions or repair.actions)))

    def rank(pair: tuple[Looked, Repair]) -> tuple[int, ...]:
        looked, repair = pair
        is_success = looked.label == "Success"
        return -len(_went(repair, repairs)), not is_success, len(repair.actions), -len(repair.attempts)

    owner, repair = min(pruned, key=lambda pair: (rank(pair), pair[0].attempt.number))
    way = {shape(call) for call in repair.actions}
    vain = {shape(call): call for call in repair.vain}
    for each in every:
        vain |= each.vain.get(mark, {})
    repair = replace(repair, vain=tuple(call for key, call in vain.items() if key not in way))
    open_in = tuple(each for each in every if _ended_with(mark, each))
    return Fix(mark, owner, repair, tuple(_went(repair, repairs).values()), open_in)


def _ended_with(mark: Mark, looked: Looked) -> bool:
    """Whether an attempt met an error last after it had got past it for the last time, or never got past it."""
    past = max((repair.success.position for repair in looked.repaired.get(mark, ())), default=-1)
    return mark in looked.failed and looked.failed[mark][-1].position > past


def _went(repair: Repair, repairs: Sequence[tuple[Looked, Repair]]) -> dict[int, Looked]:
    """Return by their numbers the attempts that went a way: they did all of it, or got past the error with none."""
    if shape(repair.failed) == shape(repair.success) and not repair.actions:
        return {}  # it went away by itself, as far as was seen
    way = {shape(call) for call in repair.actions}
    done = ((each, {shape(call) for call in other.actions}) for each, other in repairs)
    return {each.attempt.number: each for each, actions in done if way <= actions and bool(way) == bool(actions)}


def _helpful(mark: Mark, repairs: Sequence[tuple[Looked, Repair]], every: Sequence[Looked]) -> set[str]:
    """Return the actions that may be what helped: they stand in most repairs, and nowhere were they done in vain."""
    done = Counter(
        key for _, key in {(each.attempt.number, shape(call)) for each, repair in repairs for call in repair.actions}
    )
    most = max(done.values(), default=0)
    vain = {key for each in every for key in each.vain.get(mark, ())}
    return {key for key, count in done.items() if count == most} - vain


def pitfalls(
    every: Sequence[Looked], met: Sequence[Looked], missed: Sequence[Looked], fixed: Collection[Mark]
) -> Iterator[Lesson]:
    """Yield the errors that at least half of the failures, and two of them, ran into again and again, and no success.

    Each is a guardrail, with all that anybody tried against it in vain.
    """
    counts = Counter(mark for each in missed for mark, calls in each.failed.items() if len(calls) > 1)
    for mark, count in counts.most_common():
        owner = max((each for each in missed if mark in each.failed), key=lambda each: len(each.failed[mark]))
        call = owner.failed[mark][-1]
        failure, symptom = classify(call.error), show_symptom(call.error, owner.names)
        is_usual = count >= _MIN_SEEN and 2 * count >= len(missed) and not any(mark in each.failed for each in met)
        if mark in fixed or not is_usual or not symptom or (call.check is not None and failure.kind in _VERDICTS):
            continue
        vain = dict.fromkeys(
            show_call(done, each.names, 80) for each in every for done in each.vain.get(mark, {}).values()
        )
        remedies = [text for text in vain if text != show_call(call, owner.names, 80)][:_MAX_VAIN]
        lines = [f'When {show_call(call, owner.names)} ends with "{symptom}", do not repeat it unchanged.']
        if remedies:
            lines.append(f"What did not help: {', '.join(remedies)}.")
        none = f", in none of the {len(met)} that did" if met else ""
        lines.append(f"So in {count} of {len(missed)} attempts that did not meet the task{none}.")
        lines.append("No fix was seen: try what stands in none of these lines, or report it as open instead of done.")
        heading = "What did not help against" if remedies else "No way was found past"
        title = f'{heading} "{one_line(symptom, _MAX_TITLE - len(heading) - 3)}"'
        calls = [each.failed[mark][-1] for each in missed if mark in each.failed]
        tags = ("contrast", failure.kind, GUARDRAIL)
        draft = draft_of(title, f'`{mark[0]}` fails with "{symptom}"', lines, tags, calls=calls)
        yield Lesson(draft, "Failure", owner.attempt)
