"""Guidelines that calls of one tool teach without a model: sentences with their counts, and none that chance explains.

Requests are compared by the word that they begin with and the words that they are about, commands by their program,
errors by what went through after them. Of other arguments only a model says something.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from swarm_memory.schema.tool_memory import Guidelines, KeptCall
from swarm_memory.tools.credit.intervals import rate_difference
from swarm_memory.tools.tool_memory.evaluate import is_error, resolving_call, symptom_of
from swarm_memory.tools.tool_memory.inputs import (
    COMMANDS,
    arguments_of,
    asked_of,
    difference,
    opening_of,
    safe_name,
    topics_of,
)
from swarm_memory.tools.trajectory.shell import parse_command

MAX_EACH = 5
_MAX_NAMED = 6
"""Words that one sentence names."""

_MIN_GAP = 0.1
"""An opening counts for or against a tool when its smoothed rate is so far from that of all."""

_MIN_GROUP = 3
"""Calls that a sentence rests on, at least."""

_MIN_TOPIC = 4
"""Calls that speak of a word, before it is called a topic."""


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

    def differs_in(self, total: "Counts", *, best: bool) -> bool:
        """Return whether these calls did better (else worse) than the others of `total`: the 95 % interval of the
        difference leaves out 0.
        """
        good, calls = total.good - self.good, total.calls - self.calls
        if not calls or not self.calls:
            return False
        found = rate_difference(self.good, self.calls, good, calls)
        return found.low > 0 if best else found.high < 0


def extract_guidelines(calls: Sequence[KeptCall]) -> Guidelines:
    """Return what the evaluated ones of these calls of one tool teach; `calls` in any order."""
    known = sorted((each for each in calls if each.evaluation is not None), key=lambda each: each.seq)
    return Guidelines(
        best_for=(*_openings(known, best=True), *_topics(known, best=True)),
        worst_for=(*_openings(known, best=False), *_topics(known, best=False)),
        errors=tuple(_errors(known))[:MAX_EACH],
        recommendations=tuple(_programs(known))[:MAX_EACH],
    )


def _counts(calls: Iterable[KeptCall]) -> Counts:
    outcomes = [each.is_good for each in calls]
    return Counts(sum(outcomes), len(outcomes))


def _by(calls: Iterable[KeptCall], key: Callable[[KeptCall], Iterable[str]]) -> dict[str, list[KeptCall]]:
    """Return the calls with each thing that has a name, and that at least two have."""
    groups: dict[str, list[KeptCall]] = defaultdict(list)
    for each in calls:
        for thing in key(each):
            groups[thing].append(each)
    return {thing: found for thing, found in groups.items() if thing and len(found) >= 2}


def _request(kept: KeptCall) -> str:
    return asked_of(arguments_of(kept.call.input))


def _openings(known: Sequence[KeptCall], *, best: bool) -> Iterator[str]:
    """Yield what is said of requests by the word that they begin with: all words whose calls did better, or worse."""
    asked, sign = list(filter(_request, known)), 1 if best else -1
    total = _counts(asked)
    found = {word: _counts(made) for word, made in _by(asked, lambda each: [opening_of(_request(each))]).items()}
    named = [word for word, counts in found.items() if sign * (counts.rate - total.rate) >= _MIN_GAP]
    named = sorted(named, key=lambda word: (-sign * found[word].rate, -found[word].calls, word))[:_MAX_NAMED]
    group = Counts(sum(found[word].good for word in named), sum(found[word].calls for word in named))
    if group.calls >= _MIN_GROUP and group.differs_in(total, best=best):
        yield f"requests that begin with {_listed(named)}: {group} good here"


def _topics(known: Sequence[KeptCall], *, best: bool) -> Iterator[str]:
    """Yield what is said of requests by the words that they are about, each of which sets them apart by itself."""
    asked = list(filter(_request, known))
    total, found = _counts(asked), _by(asked, lambda each: topics_of(_request(each)))
    sure = [
        word for word, made in found.items() if len(made) >= _MIN_TOPIC and _counts(made).differs_in(total, best=best)
    ]
    if named := sorted(sorted(sure, key=lambda word: (-len(found[word]), word))[:_MAX_NAMED]):
        about = _counts({each.seq: each for word in named for each in found[word]}.values())
        others = Counts(total.good - about.good, total.calls - about.calls)
        yield f"requests about {_listed(named)}: {about} good here, others {others}"


def _listed(words: Sequence[str]) -> str:
    quoted = [f'"{word}"' for word in words]
    return " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


def _programs(known: Sequence[KeptCall]) -> Iterator[str]:
    """Yield the programs that fail here, of a tool that runs commands, and the one that went through instead."""
    total = _counts(known)
    groups = _by(known, lambda each: [program_of(each)])
    for program in sorted(groups, key=lambda each: (_counts(groups[each]).rate, each)):
        made, counts = groups[program], _counts(groups[program])
        if counts.calls < _MIN_GROUP or not counts.differs_in(total, best=False):
            continue
        ends = (resolving_call(each, known) for each in made if not each.is_good)
        others = Counter(name for good in ends if good and (name := program_of(good)) and name != program)
        name = safe_name(made[0].call.tool_name)
        said = f"`{name}` with `{program}`: {counts.calls - counts.good} of {counts.calls} failed here"
        yield f"{said}; `{others.most_common(1)[0][0]}` went through" if others else said


def program_of(kept: KeptCall) -> str:
    """Return the program that a call runs; empty for a call that runs no command."""
    arguments = arguments_of(kept.call.input)
    text = next((each for name, each in arguments.items() if name.lower() in COMMANDS and isinstance(each, str)), "")
    main = parse_command(text).main if text else None
    return safe_name(main.program) if main else ""


def _errors(known: Sequence[KeptCall]) -> Iterator[str]:
    """Yield the errors that came again or were ended, with what went through after them, the most frequent first."""
    groups: dict[str, list[KeptCall]] = defaultdict(list)
    for each in known:
        if is_error(each.call) and (line := symptom_of(each.call)):
            groups[line].append(each)
    for line in sorted(groups, key=lambda each: (-len(groups[each]), each)):
        failed = groups[line]
        fixes = Counter(fix for each in failed if (fix := resolution(each, known)))
        times = f" ({len(failed)} times)" if len(failed) > 1 else ""
        if fixes:
            fix, count = fixes.most_common(1)[0]
            yield f'"{line}"{times}: {count} of {len(failed)} times {fix}'
        elif len(failed) > 1:
            yield f'"{line}": {len(failed)} of {len(known)} calls'


def resolution(failed: KeptCall, calls: Sequence[KeptCall]) -> str:
    """Return what the next good call like a failed one was; empty when there was none.

    `calls` are those of the same tool, by arrival. The same call counts only where no other call of any tool arrived
    between the two: else something was changed, and nobody knows what of it helped.
    """
    good = resolving_call(failed, calls)
    if good is None:
        return ""
    changed = difference(failed.call.input, good.call.input)
    if changed:
        return f"the call {changed} went through"
    return "the same call went through right after it" if good.seq == failed.seq + 1 else ""
