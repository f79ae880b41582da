"""Guidelines that calls of one tool teach without a model: sentences with their counts, and none that chance explains.

Requests are compared by the word that they begin with and the words that they are about, commands by their program,
errors by what went through after them. Of other arguments only a model says something.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from swarm_memory.schema.tool_memory import Guidelines, KeptCall
from swarm_memory.tools.credit.intervals import rate_difference, wilson
from swarm_memory.tools.tool_memory.evaluate import is_error, resolving_call, symptom_of
from swarm_memory.tools.tool_memory.inputs import (
    COMMANDS,
    arguments_of,
    asked_of,
    difference,
    opening_of,
    safe_name,
    show_value,
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

    def less(self, part: "Counts") -> "Counts":
        """Return the counts of the other calls."""
        return Counts(self.good - part.good, self.calls - part.calls)

    def differs_in(self, total: "Counts", *, best: bool) -> bool:
        """Return whether these calls did better (else worse) than the others of `total`: the 95 % interval of the
        difference leaves out 0.
        """
        others = total.less(self)
        if not others.calls or not self.calls:
            return False
        found = rate_difference(self.good, self.calls, others.good, others.calls)
        return found.low > 0 if best else found.high < 0


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
    made = [_Made(each, each.is_good, asked_of(arguments_of(each.call.input))) for each in known]
    asked = [each for each in made if each.request]
    best, worst = (
        (*_openings(asked, best=is_best), *_topics(asked, best=is_best))[:MAX_EACH] for is_best in (True, False)
    )
    return Guidelines(
        best_for=best,
        worst_for=worst,
        errors=tuple(_errors(known))[:MAX_EACH],
        recommendations=(*_programs(made), *(() if best else _from_rate(made)))[:MAX_EACH],
    )


def _counts(made: Iterable[_Made]) -> Counts:
    outcomes = [each.good for each in made]
    return Counts(sum(outcomes), len(outcomes))


def _by(made: Iterable[_Made], key: Callable[[_Made], Iterable[str]]) -> dict[str, Counts]:
    """Return how the calls with each thing went, of things that at least two calls have."""
    groups: dict[str, list[_Made]] = defaultdict(list)
    for each in made:
        for thing in key(each):
            groups[thing].append(each)
    return {thing: _counts(found) for thing, found in groups.items() if len(found) >= 2}


def _openings(asked: Sequence[_Made], *, best: bool) -> Iterator[str]:
    """Yield what is said of requests by the word that they begin with: all words whose calls did better, or worse."""
    found = _by(asked, lambda each: filter(None, [opening_of(each.request)]))
    total, sign = _counts(asked), 1 if best else -1
    named = [word for word, counts in found.items() if sign * (counts.rate - total.rate) >= _MIN_GAP]
    named = sorted(named, key=lambda word: (-sign * found[word].rate, -found[word].calls, word))[:_MAX_NAMED]
    group = Counts(sum(found[word].good for word in named), sum(found[word].calls for word in named))
    if group.calls >= _MIN_GROUP and group.differs_in(total, best=best):
        yield f"requests that begin with {_listed(named)}: {group} good here"


def _topics(asked: Sequence[_Made], *, best: bool) -> Iterator[str]:
    """Yield what is said of requests by the words that they are about, each of which sets them apart by itself."""
    topics = [topics_of(each.request) - {opening_of(each.request)} for each in asked]
    found = _by(asked, lambda each: topics_of(each.request) - {opening_of(each.request)})
    total = _counts(asked)
    sure = [
        word for word, counts in found.items() if counts.calls >= _MIN_TOPIC and counts.differs_in(total, best=best)
    ]
    named = set(sorted(sure, key=lambda word: (-found[word].calls, word))[:_MAX_NAMED])
    if named:
        about = _counts(each for each, words in zip(asked, topics, strict=True) if not named.isdisjoint(words))
        yield f"requests about {_listed(sorted(named))}: {about} good here, others {total.less(about)}"


def _listed(words: Sequence[str]) -> str:
    quoted = [f'"{word}"' for word in words]
    return " or ".join(filter(None, [", ".join(quoted[:-1]), quoted[-1]]))


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
    lines: list[str] = []
    for program, counts in sorted(found.items(), key=lambda item: (item[1].rate, item[0])):
        if counts.calls < _MIN_GROUP or not counts.differs_in(total, best=False):
            continue
        failed = [each.kept for each in made if programs[each.kept.seq] == program and not each.good]
        instead = Counter(
            shown for each in failed if (good := resolving_call(each, known)) and (shown := _instead(each, good))
        )
        name = safe_name(known[0].call.tool_name)
        said = f"`{name}` with `{program}`: {counts.calls - counts.good} of {counts.calls} failed here"
        lines.append(f"{said}; `{instead.most_common(1)[0][0]}` went through" if instead else said)
    return lines


def program_of(kept: KeptCall) -> str:
    """Return the program that a call runs; empty for a call that runs no command."""
    text = _command_of(kept)
    main = parse_command(text).main if text else None
    return safe_name(main.program) if main else ""


def _command_of(kept: KeptCall) -> str:
    arguments = arguments_of(kept.call.input)
    return next((each for name, each in arguments.items() if name.lower() in COMMANDS and isinstance(each, str)), "")


def _instead(failed: KeptCall, good: KeptCall) -> str:
    """Return the other program that went through, or else the other command line; empty where nothing was other."""
    before, after = program_of(failed), program_of(good)
    if after and after != before:
        return after
    shown = show_value("command", _command_of(good)).replace("`", "")
    return shown if difference(failed.call.input, good.call.input) else ""


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
    changed = difference(failed.call.input, good.call.input)
    if changed:
        return f"the call {changed} went through"
    return "the same call went through right after it" if good.seq == failed.seq + 1 else ""
