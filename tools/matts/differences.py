"""What parts several attempts at one task: what got any of them past an error, what one side did and none of the other.

A way out that was seen to work holds whoever found it; what one attempt did in vain is not what helped another, and
bystanders show when attempts differ. What the task itself names is no action: that it went through is what success
means.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.distill.drafts import GUARDRAIL, draft_of
from swarm_memory.tools.matts.rollouts import Attempt, Drawn
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.errors import Repair, changes_something, shape
from swarm_memory.tools.trajectory.failures import classify, error_key
from swarm_memory.tools.trajectory.intent import same_intent
from swarm_memory.tools.trajectory.phrasing import show_call, show_command, show_file, show_symptom
from swarm_memory.tools.trajectory.reading import Reading, read

_MAX_OPEN_ACTIONS = 2
"""Of so many actions at most one can still be told which of them made the difference, when attempts agree on them."""

MAX_ACTIONS = 40
"""Distinct actions of one attempt that are compared; the comparison of orders is quadratic in them."""

MIN_SEEN = 2
"""So many attempts of a side must show the same."""

_BY_THE_WAY = frozenset({"error", "missing-file", "bad-arguments"})
"""Met once, such an error may be that of a thing that was only looked at."""

_VERDICTS = frozenset({"assertion", "error"})
"""A check that fails so says that the work is wrong: that is what failure means, not what it came from."""

_LOOKING = frozenset({"search", "read", "print"})
_MAX_PATTERNS, _MAX_VAIN, _MAX_ACTION, _MAX_TITLE = 4, 6, 70, 80


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
    def calls(self) -> tuple[Call, ...]:
        return self.reading.calls

    @property
    def names(self) -> tuple[str, ...]:
        """Names and ids of this task, to be replaced."""
        return self.reading.particulars


@dataclass(frozen=True, slots=True)
class Shared:
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


def look(attempt: Attempt) -> Looked:
    """Return an attempt with the errors in it."""
    looked = Looked(attempt, read(attempt.trajectory))
    for call in looked.calls:
        if call.failed and not looked.reading.is_own_fault(call):
            looked.failed.setdefault((call.name, error_key(call.error)), []).append(call)
    for repair in looked.reading.repairs:
        looked.repaired.setdefault((repair.failed.name, error_key(repair.failed.error)), []).append(repair)
    for mark, failed in looked.failed.items():
        looked.vain[mark] = {shape(call): call for call in _in_vain(failed, looked.calls)}
    return looked


def _in_vain(failed: Sequence[Call], calls: Sequence[Call]) -> Iterator[Call]:
    """Yield what was done between two failures of one kind, where no such call succeeded in between."""
    for one, following in itertools.pairwise(failed):
        between = [call for call in calls if one.end < call.position < following.position]
        if any(not call.failed and same_intent(one, call) for call in between):
            continue
        yield from (call for call in between if changes_something(call))


def shared_repairs(all_: Sequence[Looked]) -> list[Shared]:
    """Return one way past each error that any attempt got past, those that most attempts bear out first.

    Where no attempt that met an error got past it, one that never met it may show why: by the only thing that it did
    before the same call and that none of the others had done.
    """
    found: list[Shared] = []
    for mark in dict.fromkeys(mark for each in all_ for mark in each.failed):
        own = [(each, repair) for each in all_ for repair in each.repaired.get(mark, ())]
        shared = _of_repairs(mark, own, all_) if own else _of_others(mark, all_)
        if shared is not None:
            found.append(shared)
    return sorted(found, key=lambda each: -len(each.borne_out))


def _of_repairs(mark: Mark, own: Sequence[tuple[Looked, Repair]], all_: Sequence[Looked]) -> Shared:
    """Return the way that most attempts went, as the attempt shows it that did the least beside."""
    helpful = _helpful(mark, own, all_)
    kept = [tuple(call for call in repair.actions if shape(call) in helpful) or repair.actions for _, repair in own]
    pruned = [(each, replace(repair, actions=actions)) for (each, repair), actions in zip(own, kept, strict=True)]
    owner, repair = min(pruned, key=lambda pair: (-len(_went(pair[1], own)), *_rank(*pair)))
    borne_out = _went(repair, own)
    way = {shape(call) for call in repair.actions}
    tried = {key: call for each in all_ for key, call in each.vain.get(mark, {}).items() if key not in way}
    vain = {**{shape(call): call for call in repair.vain}, **tried}
    open_in = tuple(each for each in all_ if _ended_with(mark, each))
    told = replace(repair, vain=tuple(call for key, call in vain.items() if key not in way))
    return Shared(mark, owner, told, tuple(borne_out.values()), open_in)


def _ended_with(mark: Mark, looked: Looked) -> bool:
    """Whether an attempt met an error last after it had got past it for the last time, or never got past it."""
    past = max((repair.success.position for repair in looked.repaired.get(mark, ())), default=-1)
    return mark in looked.failed and looked.failed[mark][-1].position > past


def _went(repair: Repair, own: Sequence[tuple[Looked, Repair]]) -> dict[int, Looked]:
    """Return by their numbers the attempts that went a way: they did all of it, or got past the error with none."""
    if shape(repair.failed) == shape(repair.success) and not repair.actions:
        return {}  # it went away by itself, as far as was seen
    way = {shape(call) for call in repair.actions}
    done = ((each, {shape(call) for call in other.actions}) for each, other in own)
    return {each.attempt.number: each for each, actions in done if way <= actions and bool(way) == bool(actions)}


def _rank(looked: Looked, repair: Repair) -> tuple[object, ...]:
    return looked.label != "Success", len(repair.actions), -len(repair.attempts), looked.attempt.number


def _helpful(mark: Mark, own: Sequence[tuple[Looked, Repair]], all_: Sequence[Looked]) -> set[str]:
    """Return the actions that may be what helped: they stand in most repairs, and nowhere were they done in vain."""
    done = Counter(
        key for _, key in {(each.attempt.number, shape(call)) for each, repair in own for call in repair.actions}
    )
    most = max(done.values(), default=0)
    vain = {key for each in all_ for key in each.vain.get(mark, ())}
    return {key for key, count in done.items() if count == most} - vain


def _of_others(mark: Mark, all_: Sequence[Looked]) -> Shared | None:
    """Return what attempts that never met an error did before the same call, and those that met it had not done."""
    met = tuple(each for each in all_ if mark in each.failed)
    free = [(each, call) for each in all_ if mark not in each.failed and (call := _went_through(mark, met, each))]
    if not free:
        return None
    failed = met[0].failed[mark][-1]
    if failed.command is None:
        return None
    had = {shape(call) for each in met for call in each.calls if _is_before(call, each.failed[mark][-1])}
    done = [frozenset(shape(call) for call in each.calls if _is_before(call, goal)) for each, goal in free]
    only = done[0].intersection(*done[1:]) - had
    if not only or len(only) > (_MAX_OPEN_ACTIONS if len(free) > 1 else 1):
        return None
    owner, success = min(free, key=lambda pair: (pair[0].label != "Success", pair[0].attempt.number))
    actions = {shape(call): call for call in owner.calls if _is_before(call, success) and shape(call) in only}
    vain = tuple(call for each in met for call in each.vain.get(mark, {}).values())
    repair = Repair(failed, (), tuple(actions.values()), vain, success, classify(failed.error))
    return Shared(mark, owner, repair, tuple(each for each, _ in free), met)


def _went_through(mark: Mark, met: Sequence[Looked], other: Looked) -> Call | None:
    """Return the first call of an attempt that did what failed in the others, where more than its own test says so."""
    failed = met[0].failed[mark][-1]
    for call in other.calls:
        if same_intent(failed, call) and not call.refused:
            is_seen = call.went_through and not other.reading.is_own(call)
            return call if is_seen and shape(call) == shape(failed) else None
    return None


def _is_before(call: Call, other: Call) -> bool:
    return call.end < other.position and changes_something(call) and not same_intent(other, call)


@dataclass(frozen=True, slots=True)
class _Action:
    """What one call did."""

    shown: str
    position: int
    """Of its first call in the attempt."""
    call: Call


@dataclass(frozen=True, slots=True)
class _Done:
    """An attempt with what it did."""

    looked: Looked
    actions: dict[str, _Action]
    """What succeeded, by its words in lower case."""
    tried: dict[str, int]
    """Where each action was first tried, well or badly."""


def patterns(met: Sequence[Looked], missed: Sequence[Looked]) -> Iterator[Drawn]:
    """Yield one item of the actions and orders of most successes that no failure has.

    Of one success alone only beside one failure, where one action is all that tells them apart: of several nobody knows
    which it was.
    """
    if not met:
        return
    ours, theirs = [_done(each) for each in met], [_done(each) for each in missed]
    shortest = min(ours, key=lambda each: (len(each.looked.calls), each.looked.attempt.number))
    usual = _usual(ours)
    actions = [key for key in usual if not any(key in each.tried for each in theirs)][:_MAX_PATTERNS]
    orders = list(_orders(usual, ours, theirs))[: _MAX_PATTERNS - min(len(actions), 2)]
    alone = len(met) == 1 and (len(missed) != 1 or len(actions) != 1 or len(usual) == 1)
    if alone or not (actions or orders):
        return
    told = {key: next(each.actions[key] for each in (shortest, *ours) if key in each.actions) for key in usual}
    of = f"attempts that met the task, in none of the {len(missed)} that did not"
    lines = [f"Do {told[key].shown}: done in {usual[key]} of {len(met)} {of}." for key in actions]
    lines += [f"Do {first} before {then}: so in {count} of {len(met)} {of}." for first, then, count in orders]
    way = [told[key].shown for key in sorted(usual, key=lambda key: told[key].position)]
    if len(way) > 1 and len(met) > 1:
        lines.append(f"What most attempts that met it did, in order: {'; then '.join(way[:_MAX_VAIN])}.")
    lines += [f"Checked and corrected: {note}" for note in shortest.looked.attempt.notes[:2]]
    lines.append("Check the result before saying that it is done; without that step take it for not done.")
    head = told[actions[0]].shown if actions else f"{orders[0][0]} before {orders[0][1]}"
    calls = [told[key].call for key in actions] or list(shortest.looked.calls[-2:])
    when = _when(calls[0], missed)
    draft = _draft(shortest.looked, f"Do {head} when {when}", when, lines, calls)
    yield Drawn(draft, "Success", shortest.looked.attempt)


def _done(looked: Looked) -> _Done:
    done = _Done(looked, {}, {})
    for position, call in enumerate(looked.calls):
        if call.observation is None or call.refused or len(done.tried) >= MAX_ACTIONS:
            continue
        for shown in _actions(call, looked):
            done.tried.setdefault(shown.lower(), position)
            if not call.failed:
                done.actions.setdefault(shown.lower(), _Action(shown, position, call))
    return done


def _actions(call: Call, looked: Looked) -> Iterator[str]:
    """Yield what a call did in words: each part of a command line that does more than look, or the tool's name."""
    if call.command is not None:
        for part in call.command.parts:
            text = " ".join(part.words)
            if part.purpose not in _LOOKING and text not in looked.attempt.trajectory.task:
                yield f"`{show_command(text, looked.names, _MAX_ACTION)}`"
        return
    if call.ends_task or call.tool in looked.attempt.trajectory.task:
        return
    if call.writes and call.file:
        yield f"`{call.tool}` on `{show_file(call.file, looked.names)}`"
        return
    telling = [
        f"{key} {value}"
        for key, value in call.input.items()
        if isinstance(value, str) and 0 < len(value) <= 30 and value not in looked.names and not _is_particular(value)
    ]
    shown = show_command(", ".join(telling[:2]), looked.names, _MAX_ACTION)
    yield f"`{call.tool}` with `{shown}`" if shown else f"`{call.tool}`"


def _is_particular(value: str) -> bool:
    return sum(char.isdigit() for char in value) > 2 or len(value.split()) > 3


def _usual(met: Sequence[_Done]) -> dict[str, int]:
    """Return the actions of most attempts, the commonest first, with in how many they stand."""
    counts = Counter(key for each in met for key in each.actions)
    least = min(MIN_SEEN, len(met))
    return {key: count for key, count in counts.most_common() if count >= least and count * 2 > len(met)}


def _orders(usual: dict[str, int], met: Sequence[_Done], missed: Sequence[_Done]) -> Iterator[tuple[str, str, int]]:
    """Yield (first, then, in how many successes) of actions that both sides did, only the successes in this order."""
    shared = [key for key in usual if any(key in each.tried for each in missed)]
    for then in shared:
        for first in shared:
            if first == then or any(_tried_before(each, first, then) for each in missed):
                continue
            kept = [each for each in met if _before(each, first, then)]
            both = any(first in each.tried and then in each.tried for each in missed)
            if both and len(kept) >= MIN_SEEN and len(kept) * 2 > len(met):
                yield kept[0].actions[first].shown, kept[0].actions[then].shown, len(kept)


def _before(done: _Done, first: str, then: str) -> bool:
    one, other = done.actions.get(first), done.actions.get(then)
    return one is not None and other is not None and one.position < other.position


def _tried_before(done: _Done, first: str, then: str) -> bool:
    one, other = done.tried.get(first), done.tried.get(then)
    return one is not None and other is not None and one < other


def pitfalls(
    all_: Sequence[Looked], met: Sequence[Looked], missed: Sequence[Looked], resolved: frozenset[Mark]
) -> Iterator[Drawn]:
    """Yield the errors that at least half of the failures, and two of them, ran into and no success."""
    counts = Counter(mark for each in missed for mark, calls in each.failed.items() if _is_pursued(calls))
    for mark, count in counts.most_common():
        if mark in resolved or not _is_telling(count, missed) or any(mark in each.failed for each in met):
            continue
        drawn = _open_error(mark, all_, missed, met)
        if drawn is not None:
            yield drawn


def _is_pursued(failed: Sequence[Call]) -> bool:
    """Whether failures of one kind are of a thing that was wanted: tried again, or with an error of a known kind."""
    return len(failed) > 1 or any(classify(call.error).kind not in _BY_THE_WAY for call in failed)


def _is_telling(count: int, missed: Sequence[Looked]) -> bool:
    return count >= MIN_SEEN and count * 2 >= len(missed)


def _open_error(mark: Mark, all_: Sequence[Looked], missed: Sequence[Looked], met: Sequence[Looked]) -> Drawn | None:
    """Return the guardrail of an error that nobody got past, with all that anybody tried against it in vain."""
    having = [each for each in missed if _is_pursued(each.failed.get(mark, ()))]
    owner = max(having, key=lambda each: (len(each.failed[mark]), -each.attempt.number))
    call = owner.failed[mark][-1]
    failure = classify(call.error)
    symptom = show_symptom(call.error, owner.names)
    if not symptom or (call.check is not None and failure.kind in _VERDICTS):
        return None
    vain = {show_call(done, each.names, 80): None for each in all_ for done in each.vain.get(mark, {}).values()}
    remedies = [text for text in vain if text != show_call(call, owner.names, 80)][:_MAX_VAIN]
    again = "run it" if call.command else "call it"
    lines = [f'When {show_call(call, owner.names)} ends with "{symptom}", do not {again} again unchanged.']
    if remedies:
        lines.append(f"What did not help: {', '.join(remedies)}.")
    none = f", in none of the {len(met)} that did" if met else ""
    lines.append(f"So in {len(having)} of {len(missed)} attempts that did not meet the task{none}.")
    lines.append("No way out was seen: try what stands in none of these lines, or report it as open instead of done.")
    told = "What did not help against" if remedies else "No way was found past"
    title = f'{told} "{one_line(symptom, _MAX_TITLE - len(told) - 3)}"'
    calls = [each.failed[mark][-1] for each in having]
    draft = _draft(owner, title, f'`{mark[0]}` fails with "{symptom}"', lines, calls, failure.kind)
    return Drawn(draft, "Failure", owner.attempt)


def _when(call: Call, missed: Sequence[Looked]) -> str:
    """Return the situation: the error that most failures met, else what is called."""
    counts = Counter(mark for each in missed for mark in each.failed)
    for mark, count in counts.most_common():
        owner = next(each for each in missed if mark in each.failed)
        symptom = show_symptom(owner.failed[mark][-1].error, owner.names)
        if count * 2 > len(missed) and symptom:
            return f'`{mark[0]}` fails with "{symptom}"'
    name = call.name
    return f"`{name}` is used" if name else "several ways are open"


def _draft(
    owner: Looked, title: str, when: str, lines: Sequence[str], calls: Sequence[Call], *kinds: str
) -> MemoryDraft:
    tags = ("contrast", *kinds, GUARDRAIL if owner.label == "Failure" else "strategy")
    return draft_of(one_line(title, 200), when, lines, tags, calls=calls)
