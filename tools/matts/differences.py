"""What parts several attempts at one task: what got any of them past an error, what one side did and none of the other.

A way out that was seen to work holds whoever found it; what one attempt did in vain is not what helped another, and
bystanders show when attempts differ. What the task itself names is no action: that it went through is what success
means.
"""

import itertools
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

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
    """Return one way past each error that any attempt got past, those that most attempts bear out first."""
    found: list[Shared] = []
    for mark in dict.fromkeys(mark for each in all_ for mark in each.failed):
        own = [(each, repair) for each in all_ for repair in each.repaired.get(mark, ())]
        if own:
            found.append(_of_repairs(mark, own, all_))
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


class _Action(NamedTuple):
    """What one call did, in words."""

    shown: str
    call: Call


@dataclass(frozen=True, slots=True)
class _Done:
    """An attempt with what it did."""

    looked: Looked
    actions: dict[str, _Action]
    """What succeeded, by its words in lower case."""
    tried: set[str]
    """Each action that was tried, well or badly."""


def patterns(met: Sequence[Looked], missed: Sequence[Looked]) -> Iterator[Drawn]:
    """Yield one item of the actions of most successes that no failure has.

    Of one success alone only beside one failure, where one action is all that tells them apart: of several nobody knows
    which it was.
    """
    if not met:
        return
    ours, theirs = [_done(each) for each in met], [_done(each) for each in missed]
    shortest = min(ours, key=lambda each: (len(each.looked.calls), each.looked.attempt.number))
    usual = _usual(ours)
    keys = [key for key in usual if not any(key in each.tried for each in theirs)][:_MAX_PATTERNS]
    if not keys or (len(met) == 1 and (len(missed) != 1 or len(keys) != 1 or len(usual) == 1)):
        return
    actions = [next(each.actions[key] for each in (shortest, *ours) if key in each.actions) for key in keys]
    of = f"of {len(met)} attempts that met the task, in none of the {len(missed)} that did not"
    lines = [f"Do {action.shown}: done in {usual[key]} {of}." for key, action in zip(keys, actions, strict=True)]
    lines += [f"Checked and corrected: {note}" for note in shortest.looked.attempt.notes[:2]]
    lines.append("Check the result before saying that it is done; without that step take it for not done.")
    calls = [action.call for action in actions]
    when = _when(calls[0], missed)
    draft = _draft(shortest.looked, f"Do {actions[0].shown} when {when}", when, lines, calls)
    yield Drawn(draft, "Success", shortest.looked.attempt)


def _done(looked: Looked) -> _Done:
    done = _Done(looked, {}, set())
    for call in looked.calls:
        if call.observation is None or call.refused:
            continue
        for shown in _actions(call, looked):
            done.tried.add(shown.lower())
            if not call.failed:
                done.actions.setdefault(shown.lower(), _Action(shown, call))
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
        if isinstance(value, str) and 0 < len(value) <= 30 and value not in looked.names
        # What has many digits or words is of this task alone.
        if sum(char.isdigit() for char in value) <= 2 and len(value.split()) <= 3
    ]
    shown = show_command(", ".join(telling[:2]), looked.names, _MAX_ACTION)
    yield f"`{call.tool}` with `{shown}`" if shown else f"`{call.tool}`"


def _usual(met: Sequence[_Done]) -> dict[str, int]:
    """Return the actions of most attempts, the commonest first, with in how many they stand."""
    counts = Counter(key for each in met for key in each.actions)
    least = min(MIN_SEEN, len(met))
    return {key: count for key, count in counts.most_common() if count >= least and count * 2 > len(met)}


def pitfalls(
    all_: Sequence[Looked], met: Sequence[Looked], missed: Sequence[Looked], resolved: frozenset[Mark]
) -> Iterator[Drawn]:
    """Yield the errors that at least half of the failures, and two of them, ran into and no success."""
    counts = Counter(mark for each in missed for mark, calls in each.failed.items() if _is_pursued(calls))
    for mark, count in counts.most_common():
        is_telling = count >= MIN_SEEN and count * 2 >= len(missed)
        if mark in resolved or not is_telling or any(mark in each.failed for each in met):
            continue
        drawn = _open_error(mark, all_, missed, met)
        if drawn is not None:
            yield drawn


def _is_pursued(failed: Sequence[Call]) -> bool:
    """Whether failures of one kind are of a thing that was wanted: tried again, or with an error of a known kind."""
    return len(failed) > 1 or any(classify(call.error).kind not in _BY_THE_WAY for call in failed)


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
