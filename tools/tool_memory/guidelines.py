"""What calls of a tool teach, drawn without a model: contrasts of good and bad calls, errors and what mended them.

Pure functions over evaluated calls. Every sentence is made here from counts and quoted, generalised values; no sentence
of a tool's output is taken over.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from swarm_memory.schema.tool_memory import Guidelines, KeptCall
from swarm_memory.tools.credit.intervals import rate_difference, wilson
from swarm_memory.tools.tool_memory.call_evidence import error_line, is_error, resolving_call
from swarm_memory.tools.tool_memory.inputs import arguments_of, difference, features_of, words_of
from swarm_memory.tools.trajectory.failures import classify

MAX_EACH = 5
MIN_WORD_CALLS = 3
MIN_LIFT = 0.15
"""A word counts for or against a tool when its calls do so much better or worse than all."""

MOSTLY, RARELY = 0.8, 0.2
"""Or where nearly all of them do well, or badly."""


@dataclass(frozen=True, slots=True)
class _Contrast:
    """How calls with one thing went, and those without it."""

    what: str
    good: int
    calls: int
    other_good: int
    other_calls: int

    @property
    def rate(self) -> float:
        """The share of good calls, smoothed (Laplace)."""
        return (self.good + 1) / (self.calls + 2)

    @property
    def is_sure(self) -> bool:
        """Whether the difference of the rates leaves 0 out of its 95 % interval."""
        if not self.other_calls:
            return False
        found = rate_difference(self.good, self.calls, self.other_good, self.other_calls)
        return found.low > 0 or found.high < 0

    @property
    def says(self) -> str:
        """The contrast with its counts."""
        return (
            f"{self.what}: {self.good} of {self.calls} calls good, without it {self.other_good} of {self.other_calls}"
        )


def extract_guidelines(calls: Sequence[KeptCall]) -> Guidelines:
    """Return what the evaluated ones of these calls of one tool teach; `calls` in any order."""
    known = sorted((each for each in calls if each.evaluation is not None), key=lambda each: each.seq)
    if not known:
        return Guidelines()
    features = [each for each in _contrasts(known, _features) if each.is_sure]
    words = [each for each in _contrasts(known, _words) if each.calls >= MIN_WORD_CALLS]
    overall = (sum(map(_is_good, known)) + 1) / (len(known) + 2)
    better = [each for each in words if each.rate >= min(overall + MIN_LIFT, MOSTLY)]
    worse = [each for each in words if each.rate <= max(overall - MIN_LIFT, RARELY)]
    errors, recommended = _errors(known)
    lengths = [each for each in features if " of " in each.what]
    return Guidelines(
        best_for=_said(better, best=True) + _said([each for each in lengths if _helps(each)], best=True),
        worst_for=_said(worse, best=False) + _said([each for each in lengths if not _helps(each)], best=False),
        parameters=tuple(_parameter(each) for each in _strongest(features)[:MAX_EACH]),
        errors=errors,
        recommendations=(*_from_rate(known), *_from_features(features), *recommended)[:MAX_EACH],
    )


def _is_good(kept: KeptCall) -> bool:
    return kept.evaluation is not None and kept.evaluation.score >= 1.0


def _helps(contrast: _Contrast) -> bool:
    return contrast.rate >= (contrast.other_good + 1) / (contrast.other_calls + 2)


def _contrasts(calls: Sequence[KeptCall], things: Callable[[KeptCall], set[str]]) -> list[_Contrast]:
    good, every = Counter[str](), Counter[str]()
    for each in calls:
        found = things(each)
        every.update(found)
        if _is_good(each):
            good.update(found)
    total, total_good = len(calls), sum(map(_is_good, calls))
    made = (_Contrast(what, good[what], count, total_good - good[what], total - count) for what, count in every.items())
    return [each for each in made if each.calls >= 2]


def _features(kept: KeptCall) -> set[str]:
    return features_of(arguments_of(kept.call.input))


def _words(kept: KeptCall) -> set[str]:
    return words_of(arguments_of(kept.call.input), kept.call.task)


def _said(contrasts: Iterable[_Contrast], *, best: bool) -> tuple[str, ...]:
    ordered = sorted(contrasts, key=lambda each: (-each.rate if best else each.rate, -each.calls, each.what))
    return tuple(f"{_quoted_word(each.what)} ({each.good} of {each.calls} good)" for each in ordered[:MAX_EACH])


def _quoted_word(what: str) -> str:
    return f"{what}" if what.startswith("`") else f'calls about "{what}"'


def _strongest(contrasts: Iterable[_Contrast]) -> list[_Contrast]:
    def gap(each: _Contrast) -> float:
        return abs(each.good / each.calls - each.other_good / each.other_calls)

    return sorted(contrasts, key=lambda each: (-gap(each), -each.calls, each.what))


def _parameter(contrast: _Contrast) -> str:
    return f"{'Works' if _helps(contrast) else 'Does not work'}: {contrast.says}"


def _from_rate(calls: Sequence[KeptCall]) -> list[str]:
    good = sum(map(_is_good, calls))
    if wilson(good, len(calls)).high >= 0.5 and (good or len(calls) < MIN_WORD_CALLS):
        return []
    return [f"Only {good} of {len(calls)} calls were good: take another tool where there is one."]


def _from_features(features: Sequence[_Contrast]) -> list[str]:
    told: list[str] = []
    for each in _strongest(features)[:2]:
        name = each.what
        told.append(f"Prefer calls with {name}." if _helps(each) else f"Avoid calls with {name}.")
    return told


def _errors(calls: Sequence[KeptCall]) -> tuple[tuple[str, ...], list[str]]:
    """Return the common errors with what resolved them, the most frequent first, and what follows from them."""
    groups: dict[str, list[KeptCall]] = {}
    for each in calls:
        if is_error(each.call):
            groups.setdefault(error_line(each.call.output) or "no error text", []).append(each)
    told: list[str] = []
    advice: list[str] = []
    for line, failed in sorted(groups.items(), key=lambda group: (-len(group[1]), group[0]))[:MAX_EACH]:
        fixes = Counter(fix for each in failed if (fix := resolution(each, calls)))
        times = f" ({len(failed)} times)" if len(failed) > 1 else ""
        if fixes:
            fix, count = fixes.most_common(1)[0]
            told.append(f'"{line}"{times}: resolved {count} of {len(failed)} times by the call {fix}')
            advice.append(f'When it says "{line}", call it {fix}.')
            continue
        told.append(f'"{line}"{times}: nothing resolved it yet')
        first = classify(line).first
        if first and "{" not in first and len(failed) > 1:
            advice.append(f"First {first}.")
    return tuple(told), advice


def resolution(failed: KeptCall, calls: Sequence[KeptCall]) -> str:
    """Return what the next good call like a failed one did otherwise; empty when there was none.

    `calls` are those of the same tool, by arrival.
    """
    good = resolving_call(failed, calls)
    if good is None:
        return ""
    return difference(failed.call.input, good.call.input) or "again unchanged"
