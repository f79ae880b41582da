"""Reports: what is untrusted stays text (of pages see `abuse/test_pages.py`), and a comparison knows noise."""

import random
import re
from datetime import UTC, datetime
from typing import Any

import pytest

from swarm_memory.schema.benchmark import BenchmarkRun, Cases, DatasetInfo, Figure, Plot, Series, SuiteResults, Table
from swarm_memory.tools.benchmark.compare import compare
from swarm_memory.tools.benchmark.report import can_plot, markdown, page, plain, png

HOSTILE = '<img src=x onerror=alert(1)>|[click](http://x)`"&'
INFO = DatasetInfo(name="d", hash="h" * 64, items=3, questions=200)


def _run(results: SuiteResults, **changes: Any) -> BenchmarkRun:
    named: dict[str, Any] = {"run_id": "bench_1", "suite": "retrieval", "status": "completed", "options": {}, "seed": 7}
    where = {"settings": {"embedder": "static"}, "versions": {"python": "3.11"}, "machine": {"system": "Linux"}}
    at = datetime(2026, 3, 1, tzinfo=UTC)
    return BenchmarkRun.model_validate({**named, **where, "started_at": at, "results": results, **changes})


def _line(**changes: Any) -> Plot:
    series = Series(name=HOSTILE, x=(1, 10, 100), y=(0.5, 5, 50), low=(0.4, 4, 40), high=(0.6, 6, 60))
    values: dict[str, Any] = {"title": HOSTILE, "x_label": HOSTILE, "y_label": "ms", "series": (series,)}
    return Plot.model_validate(values | changes)


BARS = Plot(
    title="bars", kind="bar", series=(Series(name="a", x=("one", HOSTILE), y=(1.0, 2.0), low=(0.5, 1.5), high=(2, 3)),)
)
HOSTILE_RESULTS = SuiteResults(
    dataset=INFO,
    tables=(Table(title=HOSTILE, headings=("system", HOSTILE), rows=((HOSTILE, "1"),), note=HOSTILE),),
    plots=(_line(), BARS),
    notes=(HOSTILE,),
)


def test_no_text_of_a_run_ends_a_cell_or_becomes_a_link_in_markdown() -> None:
    text = markdown(_run(HOSTILE_RESULTS))
    assert "\\<img" in text
    assert "](http" not in text.replace("\\[click](http", "")
    rows = [line for line in text.splitlines() if line.startswith("|")]
    assert {len(re.findall(r"(?<!\\)\|", row)) for row in rows} == {3}
    assert plain("two\nlines | here") == "two lines \\| here"
    assert plain("recall_any@5") == "recall_any@5"


@pytest.mark.parametrize(
    "plot",
    [
        _line(),
        _line(log_x=True, log_y=True),
        BARS,
        BARS.model_copy(update={"log_y": True}),
        Plot(title="one point", series=(Series(name="a", x=(5,), y=(0.0,)),)),
        Plot(title="zeros", log_y=True, series=(Series(name="a", x=(1, 2), y=(0.0, 0.0)),)),
        Plot(title="nothing", series=()),
        Plot(title="a formula", series=(Series(name="$\\frac{", x=(1, 2), y=(1, 2)),)),
        Plot(title="many", series=tuple(Series(name=str(at), x=(1, 2), y=(at, at)) for at in range(20))),
    ],
)
@pytest.mark.skipif(not can_plot(), reason="matplotlib is not installed")
def test_every_plot_becomes_a_picture(plot: Plot) -> None:
    assert png(plot).startswith(b"\x89PNG")


def test_words_in_a_table_begin_at_the_left_and_figures_end_at_the_right() -> None:
    rows = (("1", "Insertion", "1.5"), ("2", "Retrieval", "-"))
    shown = page([_run(SuiteResults(tables=(Table(title="t", headings=("#", "what", "ms"), rows=rows),)))])
    assert re.findall(r"<t[hd]( class=\"text\")?>([^<]+)", shown)[1:3] == [(' class="text"', "what"), ("", "ms")]
    assert '<td class="text">Insertion</td><td>1.5</td>' in shown


def _scored(values: list[float], *, hash_: str = "h", better: Any = "higher") -> SuiteResults:
    mean = sum(values) / len(values)
    figure = Figure(subject="hybrid", measure="mrr@10", value=mean, low=mean - 0.03, high=mean + 0.03, better=better)
    return SuiteResults(
        dataset=INFO.model_copy(update={"hash": hash_}),
        figures=(figure, Figure(subject="hybrid", measure="p50_ms", value=1.0, better="lower")),
        case_ids=tuple(map(str, range(len(values)))),
        cases=(Cases(subject="hybrid", measure="mrr@10", values=tuple(values)),),
    )


def _noise() -> list[float]:
    chance = random.Random(1)
    return [chance.random() for _ in range(200)]


def test_a_small_change_of_every_case_is_seen_in_pairs_and_not_without() -> None:
    base = _noise()
    raised = [value + 0.02 for value in base]
    (change, speed) = compare(_run(_scored(base)), _run(_scored(raised))).changes
    assert (change.method, change.verdict) == ("paired", "better")
    assert change.difference is not None
    assert change.difference.value == pytest.approx(0.02)
    assert speed.verdict == "no interval"
    unpaired = compare(_run(_scored(base)), _run(_scored(raised, hash_="other")))
    assert (unpaired.changes[0].method, unpaired.changes[0].verdict) == ("unpaired", "within noise")
    assert any("different data" in note for note in unpaired.notes)


def test_what_is_better_when_lower_is_worse_when_it_rises() -> None:
    base = _noise()
    raised = [value + 0.02 for value in base]
    results = (_scored(values, better="lower") for values in (base, raised))
    before, after = (_run(each) for each in results)
    assert compare(before, after).changes[0].verdict == "worse"


def test_a_run_compared_with_itself_changed_nothing() -> None:
    run = _run(_scored(_noise()))
    done = compare(run, run)
    assert done.changes[0].verdict == "within noise"
    assert done.table().rows == ()
    assert done.notes == ()


def test_a_comparison_says_which_settings_differ() -> None:
    results = _scored(_noise())
    notes = compare(_run(results), _run(results, options={"limit": 5}, machine={"system": "Darwin"})).notes
    assert notes == ("options that differ: limit (not set → 5)", "machine that differ: system (Linux → Darwin)")
