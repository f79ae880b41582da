"""What came of the scenes: each arm's figures with intervals over seeds, and each less none, in pairs."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Literal

from swarm_memory.schema.benchmark import Cases, Figure, Plot, SuiteResults, Table
from swarm_memory.tools.benchmark.figures import figure, series, written
from swarm_memory.tools.benchmark.measures import Resampling
from swarm_memory.tools.benchmark.suites.scenes import Scene
from swarm_memory.tools.credit.intervals import Interval


@dataclass(frozen=True, slots=True)
class SceneResult:
    """What became of one measured session in an arm."""

    arm: str
    seed: int
    scene: Scene
    name: str
    met: bool
    harmed: bool
    """Whether damage was done that a warning or silence would have spared."""
    failures: int
    """How often the task's own command failed."""
    calls: int
    told_tokens: int
    """Of all that the memory put before the agent."""
    told_other: bool = False
    """Whether it named a script that is not the session's own: an empty answer does not."""


@dataclass(frozen=True, slots=True)
class _Measure:
    name: str
    heading: str
    scene: Scene | None
    value: Callable[[SceneResult], float]
    better: Literal["higher", "lower"]
    form: str = ".2f"


_MEASURES = (
    _Measure("second_met", "second meeting: met", "second meeting", lambda each: each.met, "higher"),
    _Measure("second_failures", "failures repeated", "second meeting", lambda each: each.failures, "lower"),
    _Measure("convention_kept", "conventions kept", "convention", lambda each: each.met, "higher"),
    _Measure("stale_met", "stale: met", "stale", lambda each: each.met, "higher"),
    _Measure("stale_harmed", "stale: harmed", "stale", lambda each: each.harmed, "lower"),
    _Measure("stale_again_met", "stale, again: met", "stale, again", lambda each: each.met, "higher"),
    _Measure("poisoned", "poisoned", "poison", lambda each: each.harmed, "lower"),
    _Measure("off_topic_told", "off topic: told", "off topic", lambda each: each.told_other, "lower"),
    _Measure("off_topic_tokens", "tokens, off topic", "off topic", lambda each: each.told_tokens, "lower", ".0f"),
    _Measure("told_tokens", "tokens a session", None, lambda each: each.told_tokens, "lower", ".0f"),
)
_SHARES = ("second_met", "convention_kept", "stale_met", "stale_again_met", "poisoned")
"""Of the plot."""

_NOTE = (
    "means over seeds with 95 % bootstrap intervals over seeds; met, kept, harmed, poisoned, told (of other matters): "
    "shares of the scene's sessions; failures repeated: how often the task's own command failed in a session; tokens: "
    "of what the memory told"
)


class SceneReport:
    """Results until now; a seed counts for an arm once the arm has done all of its sessions."""

    def __init__(self, results: Sequence[SceneResult], *, base: str, schemas: Mapping[str, int], seed: int) -> None:
        """`base`: the arm that the others are compared with; `schemas`: tokens of each arm's tools."""
        self._results, self._base, self._schemas, self._seed = results, base, schemas, seed
        self._arms = tuple(dict.fromkeys(each.arm for each in results))
        done = {(each.arm, each.seed) for each in results}
        seeds = sorted({each.seed for each in results})
        self._seeds = [seed for seed in seeds if all((arm, seed) in done for arm in self._arms)]

    def results(self) -> SuiteResults:
        """Return figures, tables and a plot over the seeds that every arm has done."""
        if not self._seeds:
            return SuiteResults()
        known = [each for each in _MEASURES if self._values(self._arms[0], each)]
        resampled = Resampling(len(self._seeds), self._seed)
        found = {(arm, each.name): self._values(arm, each) for arm in self._arms for each in known}
        means = dict(zip(found, resampled.intervals([*found.values()]), strict=True))
        others = [arm for arm in self._arms if arm != self._base]
        less = {
            (arm, each.name): [
                one - two for one, two in zip(found[arm, each.name], found[self._base, each.name], strict=True)
            ]
            for arm in others if self._base in self._arms
            for each in known
        }  # fmt: skip
        gains = dict(zip(less, resampled.intervals([*less.values()]), strict=True))
        return SuiteResults(
            figures=tuple(self._figures(known, means, gains)),
            case_ids=tuple(f"seed {each}" for each in self._seeds),
            cases=tuple(Cases(subject=arm, measure=name, values=tuple(rows)) for (arm, name), rows in found.items()),
            tables=tuple(self._tables(known, means, gains)),
            plots=(self._plot(known, means),),
        )

    def _values(self, arm: str, measure: _Measure) -> list[float]:
        """Return the mean of each seed; empty for a measure whose scene was not asked for."""
        rows = [
            [
                float(measure.value(each)) for each in self._results
                if each.arm == arm and each.seed == seed and measure.scene in (None, each.scene)
            ]
            for seed in self._seeds
        ]  # fmt: skip
        return [fmean(row) for row in rows] if all(rows) else []

    def _figures(
        self,
        known: Sequence[_Measure],
        means: Mapping[tuple[str, str], Interval],
        gains: Mapping[tuple[str, str], Interval],
    ) -> Iterator[Figure]:
        better: dict[str, Literal["higher", "lower"]] = {each.name: each.better for each in known}
        for (arm, name), value in means.items():
            yield figure(arm, name, value, n=len(self._seeds), better=better[name])
        for (arm, name), value in gains.items():
            yield figure(f"{arm} less {self._base}", name, value, n=len(self._seeds), better=better[name])
        for arm, tokens in self._schemas.items():
            yield figure(arm, "tools_tokens", float(tokens), better="lower")

    def _tables(
        self,
        known: Sequence[_Measure],
        means: Mapping[tuple[str, str], Interval],
        gains: Mapping[tuple[str, str], Interval],
    ) -> Iterator[Table]:
        headings = tuple(each.heading for each in known)
        rows = tuple(
            (
                arm, *(written(means[arm, each.name], each.form) for each in known),
                f"{self._schemas[arm]:,}" if self._schemas.get(arm) else "-",
            )
            for arm in self._arms
        )  # fmt: skip
        note = f"{len(self._seeds)} seeds; {_NOTE}; tools: what a list of the server's tools takes in each session"
        yield Table(title="Arms", headings=("arm", *headings, "tools, tokens"), rows=rows, note=note)
        compared = [arm for arm in self._arms if (arm, known[0].name) in gains]
        if compared:
            yield Table(
                title=f"Less {self._base}, seed by seed",
                headings=("arm", *headings),
                rows=tuple((arm, *(_signed(gains[arm, each.name], each) for each in known)) for arm in compared),
                note="a star where the interval does not hold 0",
            )

    def _plot(self, known: Sequence[_Measure], means: Mapping[tuple[str, str], Interval]) -> Plot:
        shown = [each for each in known if each.name in _SHARES]
        lines = tuple(series(arm, [(each.heading, means[arm, each.name]) for each in shown]) for arm in self._arms)
        return Plot(title="What a memory is worth, and what it costs", kind="bar", y_label="share", series=lines)


def _signed(value: Interval, measure: _Measure) -> str:
    return written(value, f"+{measure.form}") + (" *" if value.low > 0 or value.high < 0 else "")
