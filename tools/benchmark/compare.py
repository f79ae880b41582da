"""What changed between two runs beyond noise: in pairs where the same cases were asked, else by the intervals."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from swarm_memory.schema.benchmark import BenchmarkRun, Figure, SuiteResults, Table
from swarm_memory.tools.benchmark.figures import Column, Resampling, table
from swarm_memory.tools.credit.intervals import Interval, difference

Verdict = Literal["better", "worse", "differs", "within noise", "no interval"]
Method = Literal["paired", "unpaired", "none"]
Key = tuple[str, str, str]


class Change(NamedTuple):
    """One figure of both runs: the second less the first."""

    subject: str
    measure: str
    part: str
    before: float
    after: float
    difference: Interval | None
    method: Method
    verdict: Verdict


class Comparison(NamedTuple):
    """All figures that both runs have."""

    changes: tuple[Change, ...]
    notes: tuple[str, ...]

    def table(self) -> Table:
        """Return what changed."""
        shown = [each for each in self.changes if each.verdict in ("better", "worse", "differs")]
        tested = sum(each.difference is not None for each in self.changes)
        note = f"{tested} figures were compared at 95 %: about {tested / 20:.0f} differ by chance alone"
        return table("What changed", _COLUMNS, shown, note)


_COLUMNS: tuple[Column[Change], ...] = (
    Column("subject", lambda each: each.subject),
    Column("measure", lambda each: f"{each.measure} {each.part}".strip()),
    Column("before", lambda each: each.before, ".4g"),
    Column("after", lambda each: each.after, ".4g"),
    Column("difference", lambda each: each.difference and "{:+.4g} [{:+.4g}, {:+.4g}]".format(*each.difference)),
    Column("verdict", lambda each: each.verdict),
    Column("how", lambda each: each.method),
)


def compare(before: BenchmarkRun, after: BenchmarkRun) -> Comparison:
    """Compare two runs, figure by figure. A change counts when the 95 % interval of the difference does not hold 0."""
    first, second = before.results, after.results
    same_cases = bool(first.case_ids) and first.case_ids == second.case_ids and _same_data(first, second)
    paired = _paired(first, second, before.seed) if same_cases else {}
    others = {_key(figure): figure for figure in second.figures}
    changes = tuple(
        _change(figure, others[_key(figure)], paired.get(_key(figure)))
        for figure in first.figures
        if _key(figure) in others
    )
    return Comparison(changes, tuple(_notes(before, after, same_cases=same_cases)))


def _key(figure: Figure) -> Key:
    return figure.subject, figure.measure, figure.part


def _same_data(first: SuiteResults, second: SuiteResults) -> bool:
    return first.dataset is None or second.dataset is None or first.dataset.hash == second.dataset.hash


def _paired(first: SuiteResults, second: SuiteResults, seed: int) -> dict[Key, Interval]:
    """Return the difference of each measure of which both runs have every case."""
    others = {(each.subject, each.measure): each.values for each in second.cases}
    shared = [each for each in first.cases if (each.subject, each.measure) in others]
    rows = [
        [after - before for before, after in zip(each.values, others[each.subject, each.measure], strict=True)]
        for each in shared
    ]
    intervals = Resampling(len(first.case_ids), seed).intervals(rows)
    return {(each.subject, each.measure, ""): got for each, got in zip(shared, intervals, strict=True)}


def _change(before: Figure, after: Figure, paired: Interval | None) -> Change:
    """Return what a figure changed by: in pairs where that is known, else as of independent samples."""
    found, method, verdict = paired, "paired" if paired else "none", "no interval"
    former, latter = _interval(before), _interval(after)
    if found is None and former and latter:
        found, method = difference(latter, former), "unpaired"
    if found is not None and found.low <= 0 <= found.high:
        verdict = "within noise"
    elif found is not None and before.better == "neither":
        verdict = "differs"
    elif found is not None:
        verdict = "better" if (found.value > 0) == (before.better == "higher") else "worse"
    return Change(*_key(before), before.value, after.value, found, method, verdict)


def _interval(figure: Figure) -> Interval | None:
    return None if figure.low is None or figure.high is None else Interval(figure.value, figure.low, figure.high)


def _notes(before: BenchmarkRun, after: BenchmarkRun, *, same_cases: bool) -> Iterator[str]:
    if before.suite != after.suite:
        yield f"these are different suites: {before.suite} and {after.suite}"
    if not _same_data(before.results, after.results):
        names = [each.dataset.name for each in (before.results, after.results) if each.dataset]
        which = f" ({' and '.join(names)})" if len({*names}) > 1 else ""
        yield f"the runs were made on different data{which}: no figure can be compared in pairs"
    elif not same_cases:
        yield "single cases are not known of both runs, or are not the same: nothing was compared in pairs"
    for name in ("settings", "options", "versions", "machine"):
        first, second = getattr(before, name), getattr(after, name)
        changed = sorted(key for key in {*first, *second} if first.get(key) != second.get(key))
        if changed:
            yield f"{name} that differ: " + ", ".join(
                f"{key} ({_short(first.get(key))} → {_short(second.get(key))})" for key in changed
            )


def _short(value: object) -> str:
    text = "not set" if value is None else str(value)
    return text if len(text) <= 60 else f"{text[:57]}…"
