"""Guidelines that calls of one tool teach without a model: sentences with their counts, and none that chance explains.

What is told apart: requests by how they begin, how long they are and what they are about; commands by their program;
other arguments by value and form; errors by what went through after them.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from random import Random
from typing import NamedTuple, TypeVar

from swarm_memory.schema.tool_memory import Guidelines, KeptCall
from swarm_memory.tools.credit.intervals import rate_difference, wilson
from swarm_memory.tools.text.tokens import words_as_written
from swarm_memory.tools.tool_memory.evaluate import is_error, resolving_call, symptom_of
from swarm_memory.tools.tool_memory.inputs import (
    COMMANDS,
    arguments_of,
    asked_of,
    difference,
    features_of,
    is_asking,
    opening_of,
    show_value,
    topics_of,
)
from swarm_memory.tools.trajectory.shell import parse_command

MAX_EACH = 5
_MAX_NAMED = 6
"""Words that one sentence names."""

_SHUFFLES = 99
_CHANCE = 0.1
"""How requests begin, and how long they are, is told of where at most so many shuffles of the outcomes tell as much."""

_MIN_GAP = 0.1
"""An opening counts for or against a tool when its smoothed rate is so far from that of all."""

_MIN_GROUP = 3
"""Calls that a sentence rests on, at least."""

_MIN_TOPIC = 4
"""Calls that speak of a word, before it is called a topic."""

_T = TypeVar("_T", bound=Hashable)


class Counts(NamedTuple):
    """How calls went."""

    good: int
    calls: int

    @property
    def rate(self) -> float:
        """The share of good calls, smoothed (Laplace)."""
        return (self.good + 1) / (self.calls + 2)

    def __str__(self) -> str:
        return f"{self.good} of {self.calls}"


@dataclass(frozen=True, slots=True)
class _Made:
    """A call as it is compared with others."""

    kept: KeptCall
    good: bool
    request: str
    """What it asked for in words; empty where it asks for nothing."""


def extract_guidelines(calls: Sequence[KeptCall]) -> Guidelines:
    """Return what the evaluated ones of these calls of one tool teach; `calls` in any order."""
    known = sorted((each for each in calls if each.evaluation is not None), key=lambda each: each.seq)
    made = [_Made(each, _is_good(each), asked_of(arguments_of(each.call.input))) for each in known]
    told = [*_openings(made), *_lengths(made), *_topics(made)]
    best, worst = (tuple(said for is_best, said in told if is_best is wanted)[:MAX_EACH] for wanted in (True, False))
    return Guidelines(
        best_for=best,
        worst_for=worst,
        parameters=tuple(_parameters(made))[:MAX_EACH],
        errors=tuple(_errors(known))[:MAX_EACH],
        recommendations=(*_programs(made), *(() if best else _from_rate(made)))[:MAX_EACH],
    )


def _is_good(kept: KeptCall) -> bool:
    return kept.evaluation is not None and kept.evaluation.score >= 1.0


def _counts(made: Iterable[_Made]) -> Counts:
    outcomes = [each.good for each in made]
    return Counts(sum(outcomes), len(outcomes))


def _by(made: Iterable[_Made], key: Callable[[_Made], Iterable[_T]]) -> dict[_T, Counts]:
    """Return how the calls with each thing went, of things that at least two calls have."""
    groups: dict[_T, list[_Made]] = defaultdict(list)
    for each in made:
        for thing in key(each):
            groups[thing].append(each)
    return {thing: _counts(found) for thing, found in groups.items() if len(found) >= 2}


def _openings(made: Sequence[_Made]) -> Iterator[tuple[bool, str]]:
    """Yield whether it is good, and what is said of requests by the word that they begin with."""
    asked = [each for each in made if each.request]
    openings = [opening_of(each.request) for each in asked]
    if not _tells(openings, [each.good for each in asked], _fit_of_groups):
        return
    found = _by(asked, lambda each: filter(None, [opening_of(each.request)]))
    overall = _counts(asked).rate
    for best in (True, False):
        sign = 1 if best else -1
        named = [word for word, counts in found.items() if sign * (counts.rate - overall) >= _MIN_GAP]
        named = sorted(named, key=lambda word: (-sign * found[word].rate, -found[word].calls, word))[:_MAX_NAMED]
        told = _sum(found[word] for word in named)
        if told.calls >= _MIN_GROUP:
            yield best, f"requests that begin with {_listed(named)}: {told} good here"


def _lengths(made: Sequence[_Made]) -> Iterator[tuple[bool, str]]:
    """Yield whether it is good, and what is said of requests of a certain length against all others."""
    asked = [each for each in made if each.request]
    lengths = [len(words_as_written(each.request)) for each in asked]
    split = _split(lengths, [each.good for each in asked])
    if split is None or not _tells(lengths, [each.good for each in asked], _fit_of_split):
        return
    low, high, within, others = split
    if low == min(lengths):
        told = f"of at most {high} words"
    else:
        told = f"of {low} words or more" if high == max(lengths) else f"of {low} to {high} words"
    yield within.rate > others.rate, f"requests {told}: {within} good here, others {others}"


def _topics(made: Sequence[_Made]) -> Iterator[tuple[bool, str]]:
    """Yield whether it is good, and what is said of requests by the words that they are about."""
    asked = [each for each in made if each.request]
    topics = [topics_of(each.request) - {opening_of(each.request)} for each in asked]
    found = _by(asked, lambda each: topics_of(each.request) - {opening_of(each.request)})
    total = _counts(asked)
    for best in (True, False):
        sure = [word for word, counts in found.items() if counts.calls >= _MIN_TOPIC and _is_sure(counts, total, best)]
        named = set(sorted(sure, key=lambda word: (-found[word].calls, word))[:_MAX_NAMED])
        if named:
            about = [not named.isdisjoint(words) for words in topics]
            told = _counts(each for each, is_about in zip(asked, about, strict=True) if is_about)
            yield best, f"requests about {_listed(sorted(named))}: {told} good here, others {_less(total, told)}"


def _is_sure(counts: Counts, total: Counts, best: bool) -> bool:
    """Whether the difference to the other calls leaves 0 out of its 95 % interval, in this direction."""
    others = _less(total, counts)
    if not others.calls:
        return False
    found = rate_difference(counts.good, counts.calls, others.good, others.calls)
    return found.low > 0 if best else found.high < 0


def _sum(counts: Iterable[Counts]) -> Counts:
    every = list(counts)
    return Counts(sum(each.good for each in every), sum(each.calls for each in every))


def _less(total: Counts, part: Counts) -> Counts:
    return Counts(total.good - part.good, total.calls - part.calls)


def _listed(words: Sequence[str]) -> str:
    quoted = [f'"{word}"' for word in words]
    return " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


def _tells(keys: Sequence[_T], outcomes: Sequence[bool], fit: Callable[[Sequence[_T], Sequence[bool]], float]) -> bool:
    """Whether the keys tell the outcomes apart better than chance (permutation test: Good, 2005, 3.1)."""
    if len(keys) < 2 * _MIN_GROUP or len(set(outcomes)) < 2:
        return False
    drawn, shuffled, reached = Random(len(keys)), list(outcomes), fit(keys, outcomes)
    as_much = 0
    for _ in range(_SHUFFLES):
        drawn.shuffle(shuffled)
        as_much += fit(keys, shuffled) >= reached - 1e-9
    return (as_much + 1) / (_SHUFFLES + 1) <= _CHANCE


def _fit_of_groups(keys: Sequence[Hashable], outcomes: Sequence[bool]) -> float:
    """Return the log-likelihood of the outcomes when each group has a rate of its own."""
    calls, good = Counter(keys), Counter(key for key, each in zip(keys, outcomes, strict=True) if each)
    return math.fsum(_fit(Counts(good[key], calls[key])) for key in calls)


def _fit_of_split(lengths: Sequence[int], outcomes: Sequence[bool]) -> float:
    split = _split(lengths, outcomes)
    return -math.inf if split is None else _fit(split.within) + _fit(split.others)


def _fit(counts: Counts) -> float:
    rate = (counts.good + 0.5) / (counts.calls + 1)
    return counts.good * math.log(rate) + (counts.calls - counts.good) * math.log(1 - rate)


class _Split(NamedTuple):
    """Lengths between two bounds, both included, and how calls within and others went."""

    low: int
    high: int
    within: Counts
    others: Counts


def _split(lengths: Sequence[int], outcomes: Sequence[bool]) -> _Split | None:
    """Return the bounds that tell the outcomes apart best; None where nothing is long and nothing short enough."""
    found = sorted(set(lengths))
    if len(found) < 2:
        return None
    at = {length: place for place, length in enumerate(found, start=1)}
    calls, good = [0] * (len(found) + 1), [0] * (len(found) + 1)
    for length, outcome in zip(lengths, outcomes, strict=True):
        calls[at[length]] += 1
        good[at[length]] += outcome
    calls, good = list(accumulate(calls)), list(accumulate(good))
    total = Counts(good[-1], calls[-1])
    splits = [
        _Split(found[low], found[high - 1], within, _less(total, within))
        for low in range(len(found))
        for high in range(low + 1, len(found) + 1)
        if (within := Counts(good[high] - good[low], calls[high] - calls[low])).calls >= _MIN_GROUP
        and total.calls - within.calls >= _MIN_GROUP
    ]
    return max(splits, key=lambda split: _fit(split.within) + _fit(split.others), default=None)


def _parameters(made: Sequence[_Made]) -> list[str]:
    """Return which arguments work and which do not; the words of a request and commands are told of elsewhere."""
    found = _by(made, lambda each: _features(each.kept))
    total = _counts(made)
    told = [
        (abs(counts.rate - _less(total, counts).rate), counts.calls, what, counts, best)
        for what, counts in found.items()
        for best in (True, False)
        if _is_sure(counts, total, best)
    ]
    return [
        f"{'Works' if best else 'Does not work'}: {what}: {counts} calls good, without it {_less(total, counts)}"
        for _, _, what, counts, best in sorted(told, key=lambda each: (-each[0], -each[1], each[2]))
    ]


def _features(kept: KeptCall) -> set[str]:
    arguments = arguments_of(kept.call.input)
    plain = {name: value for name, value in arguments.items() if not is_asking(name) and name.lower() not in COMMANDS}
    return features_of(plain)


def _from_rate(made: Sequence[_Made]) -> list[str]:
    good, calls = _counts(made)
    if not calls or (wilson(good, calls).high >= 0.5 and (good or calls < _MIN_GROUP)):
        return []
    return [f"Only {good} of {calls} calls were good: take another tool where there is one."]


def _programs(made: Sequence[_Made]) -> list[str]:
    """Return the programs that fail here, of a tool that runs commands, and what went through instead of them."""
    programs = {each.kept.seq: program_of(each.kept) for each in made}
    found = _by(made, lambda each: filter(None, [programs[each.kept.seq]]))
    total = _counts(made)
    known = [each.kept for each in made]
    told: list[str] = []
    for program, counts in sorted(found.items(), key=lambda item: (item[1].rate, item[0])):
        if counts.calls < _MIN_GROUP or not _is_sure(counts, total, best=False):
            continue
        failed = [each.kept for each in made if programs[each.kept.seq] == program and not each.good]
        instead = Counter(
            shown for each in failed if (good := resolving_call(each, known)) and (shown := _instead(each, good))
        )
        name = _safe_name(known[0].call.tool_name)
        said = f"`{name}` with `{program}`: {counts.calls - counts.good} of {counts.calls} failed here"
        told.append(f"{said}; `{instead.most_common(1)[0][0]}` went through" if instead else said)
    return told


def program_of(kept: KeptCall) -> str:
    """Return the program that a call runs; empty for a call that runs no command."""
    text = _command_of(kept)
    main = parse_command(text).main if text else None
    return _safe_name(main.program) if main else ""


def _command_of(kept: KeptCall) -> str:
    arguments: Mapping[str, object] = arguments_of(kept.call.input)
    return next((each for name, each in arguments.items() if name.lower() in COMMANDS and isinstance(each, str)), "")


def _instead(failed: KeptCall, good: KeptCall) -> str:
    """Return the other program that went through, or else the other command line; empty where nothing was other."""
    before, after = program_of(failed), program_of(good)
    if after and after != before:
        return after
    shown = show_value("command", _command_of(good)).replace("`", "")
    return shown if difference(failed.call.input, good.call.input) else ""


def _safe_name(text: str) -> str:
    return "".join(char for char in text if char.isalnum() or char in "_-.+/")[:60]


def _errors(known: Sequence[KeptCall]) -> Iterator[str]:
    """Yield the errors that came again or were ended, with what went through after them, the most frequent first."""
    for line, failed in _by_error(known):
        fixes = Counter(fix for each in failed if (fix := resolution(each, known)))
        times = f" ({len(failed)} times)" if len(failed) > 1 else ""
        if fixes:
            fix, count = fixes.most_common(1)[0]
            yield f'"{line}"{times}: {count} of {len(failed)} times {fix}'
        elif len(failed) > 1:
            yield f'"{line}": {len(failed)} of {len(known)} calls'


def _by_error(known: Sequence[KeptCall]) -> list[tuple[str, list[KeptCall]]]:
    groups: dict[str, list[KeptCall]] = defaultdict(list)
    for each in known:
        if is_error(each.call) and (line := symptom_of(each.call)):
            groups[line].append(each)
    return sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))[:MAX_EACH]


def resolution(failed: KeptCall, calls: Collection[KeptCall]) -> str:
    """Return what the next good call like a failed one was; empty when there was none.

    `calls` are those of the same tool, by arrival. The same call counts only where no other call of any tool arrived
    between the two: else something was changed, and nobody knows what of it helped.
    """
    good = resolving_call(failed, list(calls))
    if good is None:
        return ""
    told = difference(failed.call.input, good.call.input)
    if told:
        return f"the call {told} went through"
    return "the same call went through right after it" if good.seq == failed.seq + 1 else ""
