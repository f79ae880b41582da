"""What most attempts of one side did or ran into and none of the other: deeds, orders, open errors and loops.

Two attempts at least must show it. What the task itself names is no deed: that it went through is what success means.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from swarm_memory.schema.memory import MemoryDraft
from swarm_memory.tools.distill.lessons import GUARDRAIL, Material, Told, lesson
from swarm_memory.tools.distill.waste import is_pursued
from swarm_memory.tools.matts.attempts import Drawn
from swarm_memory.tools.matts.contrast_repairs import Looked, Mark
from swarm_memory.tools.text.cleaning import one_line
from swarm_memory.tools.trajectory.calls import Call
from swarm_memory.tools.trajectory.failures import classify
from swarm_memory.tools.trajectory.phrasing import bare, show_call, show_command, show_file, show_symptom

MAX_DEEDS = 40
"""Distinct deeds of one attempt that are compared; the comparison of orders is quadratic in them."""

MIN_SEEN = 2
"""So many attempts of a side must show the same."""

_VERDICTS = frozenset({"assertion", "error"})
"""A check that fails so says that the work is wrong: that is what failure means, not what it came from."""

_LOOKING = frozenset({"search", "read", "print"})
_MAX_PATTERNS, _MAX_VAIN, _MAX_DEED, _MAX_TITLE = 4, 6, 70, 80
_REPEATED = 3
"""The same call so often in one attempt is a loop."""


@dataclass(frozen=True, slots=True)
class _Deed:
    """What one call did."""

    shown: str
    position: int
    """Of its first call in the attempt."""
    call: Call


@dataclass(frozen=True, slots=True)
class _Done:
    """An attempt with what it did."""

    looked: Looked
    deeds: dict[str, _Deed]
    """What succeeded, by its words in lower case."""
    tried: dict[str, int]
    """Where each deed was first tried, well or badly."""


def patterns(met: Sequence[Looked], missed: Sequence[Looked]) -> Iterator[Drawn]:
    """Yield one item of the deeds and orders of most successes, and of two at least, that no failure has."""
    if not met:
        return
    ours, theirs = [_done(each) for each in met], [_done(each) for each in missed]
    shortest = min(ours, key=lambda each: (len(each.looked.calls), each.looked.attempt.number))
    usual = _usual(ours)
    deeds = [key for key in usual if not any(key in each.tried for each in theirs)][:_MAX_PATTERNS]
    orders = list(_orders(usual, ours, theirs))[: _MAX_PATTERNS - min(len(deeds), 2)]
    if not deeds and not orders:
        return
    told = {key: next(each.deeds[key] for each in (shortest, *ours) if key in each.deeds) for key in usual}
    of = f"attempts that met the task, in none of the {len(missed)} that did not"
    lines = [f"Do {told[key].shown}: done in {usual[key]} of {len(met)} {of}." for key in deeds]
    lines += [f"Do {first} before {then}: so in {count} of {len(met)} {of}." for first, then, count in orders]
    way = [told[key].shown for key in sorted(usual, key=lambda key: told[key].position)]
    if len(way) > 1:
        lines.append(f"What most attempts that met it did, in order: {'; then '.join(way[:_MAX_VAIN])}.")
    lines += [f"Checked and corrected: {note}" for note in shortest.looked.attempt.notes[:2]]
    lines.append("Check the result before saying that it is done; without that step take it for not done.")
    head = told[deeds[0]].shown if deeds else f"{orders[0][0]} before {orders[0][1]}"
    calls = [told[key].call for key in deeds] or list(shortest.looked.calls[-2:])
    when = _when(calls[0], missed)
    draft = _draft(shortest.looked, f"Do {head} when {when}", when, lines, calls)
    yield Drawn(draft, "Success", shortest.looked.attempt.number)


def _done(looked: Looked) -> _Done:
    done = _Done(looked, {}, {})
    for position, call in enumerate(looked.calls):
        if call.observation is None or call.refused or len(done.tried) >= MAX_DEEDS:
            continue
        for shown in _deeds(call, looked):
            done.tried.setdefault(shown.lower(), position)
            if not call.failed:
                done.deeds.setdefault(shown.lower(), _Deed(shown, position, call))
    return done


def _deeds(call: Call, looked: Looked) -> Iterator[str]:
    """Yield what a call did in words: each part of a command line that does more than look, or the tool's name."""
    if call.command is not None:
        for part in call.command.parts:
            text = " ".join(part.words)
            if part.purpose not in _LOOKING and text not in looked.attempt.trajectory.task:
                yield f"`{show_command(text, looked.names, _MAX_DEED)}`"
        return
    if call.ends_task or call.tool in looked.attempt.trajectory.task:
        return
    if call.writes and call.target:
        yield f"`{call.tool}` on `{show_file(call.target, looked.names)}`"
        return
    telling = [
        f"{key} {value}"
        for key, value in call.input.items()
        if isinstance(value, str) and 0 < len(value) <= 30 and value not in looked.names and not _is_particular(value)
    ]
    shown = show_command(", ".join(telling[:2]), looked.names, _MAX_DEED)
    yield f"`{call.tool}` with `{shown}`" if shown else f"`{call.tool}`"


def _is_particular(value: str) -> bool:
    return sum(char.isdigit() for char in value) > 2 or len(value.split()) > 3


def _usual(met: Sequence[_Done]) -> dict[str, int]:
    """Return the deeds of most attempts, and of two at least, the commonest first, with in how many they stand."""
    counts = Counter(key for each in met for key in each.deeds)
    return {key: count for key, count in counts.most_common() if count >= MIN_SEEN and count * 2 > len(met)}


def _orders(usual: dict[str, int], met: Sequence[_Done], missed: Sequence[_Done]) -> Iterator[tuple[str, str, int]]:
    """Yield (first, then, in how many successes) of deeds that both sides did, only the successes in this order."""
    shared = [key for key in usual if any(key in each.tried for each in missed)]
    for then in shared:
        for first in shared:
            if first == then or any(_tried_before(each, first, then) for each in missed):
                continue
            kept = [each for each in met if _before(each, first, then)]
            both = any(first in each.tried and then in each.tried for each in missed)
            if both and len(kept) >= MIN_SEEN and len(kept) * 2 > len(met):
                yield kept[0].deeds[first].shown, kept[0].deeds[then].shown, len(kept)


def _before(done: _Done, first: str, then: str) -> bool:
    one, other = done.deeds.get(first), done.deeds.get(then)
    return one is not None and other is not None and one.position < other.position


def _tried_before(done: _Done, first: str, then: str) -> bool:
    one, other = done.tried.get(first), done.tried.get(then)
    return one is not None and other is not None and one < other


def pitfalls(
    all_: Sequence[Looked], met: Sequence[Looked], missed: Sequence[Looked], resolved: frozenset[Mark]
) -> Iterator[Drawn]:
    """Yield what at least half of the failures, and two of them, ran into and no success: open errors, then loops."""
    counts = Counter(mark for each in missed for mark, calls in each.failed.items() if is_pursued(calls))
    for mark, count in counts.most_common():
        if mark in resolved or not _is_telling(count, missed) or any(mark in each.failed for each in met):
            continue
        drawn = _open_error(mark, all_, missed, met)
        if drawn is not None:
            yield drawn
    looping = Counter(key for each in missed for key in _loops(each))
    for name, count in looping.most_common(1):
        if _is_telling(count, missed) and not any(name in _loops(each) for each in met):
            yield _loop(name, count, met, missed)


def _is_telling(count: int, missed: Sequence[Looked]) -> bool:
    return count >= MIN_SEEN and count * 2 >= len(missed)


def _open_error(mark: Mark, all_: Sequence[Looked], missed: Sequence[Looked], met: Sequence[Looked]) -> Drawn | None:
    """Return the guardrail of an error that nobody got past, with all that anybody tried against it in vain."""
    having = [each for each in missed if is_pursued(each.failed.get(mark, ()))]
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
    if failure.first:
        lines.append(f"Before the first call {failure.first}.")
    if remedies:
        lines.append(f"What did not help: {', '.join(remedies)}.")
    none = f", in none of the {len(met)} that did" if met else ""
    lines.append(f"So in {len(having)} of {len(missed)} attempts that did not meet the task{none}.")
    lines.append("No way out was seen: try what stands in none of these lines, or report it as open instead of done.")
    told = "What did not help against" if remedies else "No way was found past"
    title = f'{told} "{one_line(bare(symptom), _MAX_TITLE - len(told) - 3)}"'
    calls = [each.failed[mark][-1] for each in having]
    draft = _draft(owner, title, f'`{mark[0]}` fails with "{symptom}"', lines, calls, failure.kind)
    return Drawn(draft, "Failure", owner.attempt.number)


def _loops(looked: Looked) -> dict[str, Call]:
    """Return by the tool's or the command's name what was called so often with the same arguments."""
    counts = Counter(call.key for call in looked.calls)
    return {_name(call): call for call in looked.calls if counts[call.key] >= _REPEATED and not call.waits}


def _loop(name: str, count: int, met: Sequence[Looked], missed: Sequence[Looked]) -> Drawn:
    owner = next(each for each in missed if name in _loops(each))
    call = _loops(owner)[name]
    none = f", in none of the {len(met)} that did" if met else ""
    lines = [
        f"`{name}` was called {_REPEATED} times with the same arguments: so in {count} of {len(missed)} attempts that "
        f"did not meet the task{none}.",
        "At the second such result stop, look for its cause and take another way; never report it as done.",
    ]
    draft = _draft(owner, f"Do not call `{name}` again and again unchanged", f"`{name}` is used", lines, [call])
    return Drawn(draft, "Failure", owner.attempt.number)


def _name(call: Call) -> str:
    return call.command.name if call.command else call.tool


def _when(call: Call, missed: Sequence[Looked]) -> str:
    """Return the situation: the error that most failures met, else what is called."""
    counts = Counter(mark for each in missed for mark in each.failed)
    for mark, count in counts.most_common():
        owner = next(each for each in missed if mark in each.failed)
        symptom = show_symptom(owner.failed[mark][-1].error, owner.names)
        if count * 2 > len(missed) and symptom:
            return f'`{mark[0]}` fails with "{symptom}"'
    name = _name(call)
    return f"`{name}` is used" if name else "several ways are open"


def _draft(
    owner: Looked, title: str, when: str, lines: Sequence[str], calls: Sequence[Call], *kinds: str
) -> MemoryDraft:
    label: Literal["Success", "Failure"] = "Failure" if owner.label == "Failure" else "Success"
    verdict = owner.attempt.verdict.model_copy(update={"label": label})
    made = lesson(
        Material(owner.attempt.trajectory, verdict, owner.calls, owner.names),
        Told(
            title=one_line(title, 200),
            when=when,
            lines=lines,
            topic="contrast",
            tags=("contrast", *kinds, GUARDRAIL if label == "Failure" else "strategy"),
        ),
        calls=calls,
        value=1.0,
    )
    return made.draft
