"""Plots as PNG pictures, made by matplotlib where it is installed."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from io import BytesIO
from typing import Any

from swarm_memory.schema.benchmark import Plot, Series

MISSING = "Plots need matplotlib: pip install matplotlib"

_SIZE_INCHES, _DPI = (8.0, 4.2), 120


def can_plot() -> bool:
    """Return whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def png(plot: Plot) -> bytes:
    """Return a plot as a PNG. It needs matplotlib: see `can_plot`."""
    figure = import_module("matplotlib.figure").Figure(figsize=_SIZE_INCHES, layout="constrained")
    axes = figure.add_subplot()
    if plot.kind == "bar":
        _bars(axes, plot.series)
    else:
        _lines(axes, plot.series)
    axes.set(xlabel=_label(plot.x_label), ylabel=_label(plot.y_label))
    if plot.log_x and any(isinstance(x, float) and x > 0 for each in plot.series for x in each.x):
        axes.set_xscale("log")
    if plot.log_y and any(y > 0 for each in plot.series for y in each.y):
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    if plot.series:
        figure.legend(loc="outside right upper", fontsize="small")
    picture = BytesIO()
    figure.savefig(picture, format="png", dpi=_DPI)
    return picture.getvalue()


def _lines(axes: Any, series: Sequence[Series]) -> None:
    """Draw a line for each series, with a band where it has bounds."""
    for each in series:
        (line,) = axes.plot(each.x, each.y, marker="o", label=_label(each.name))
        if each.low and each.high:
            axes.fill_between(each.x, each.low, each.high, color=line.get_color(), alpha=0.12)


def _bars(axes: Any, series: Sequence[Series]) -> None:
    """Draw the bars of each name side by side, one for each series, with whiskers where it has bounds."""
    names = list(dict.fromkeys(str(x) for each in series for x in each.x))
    width = 0.8 / max(1, len(series))
    for number, each in enumerate(series):
        shift = (number - (len(series) - 1) / 2) * width
        places = [names.index(str(x)) + shift for x in each.x]
        whiskers = None
        if each.low and each.high:
            below = [max(0.0, y - low) for y, low in zip(each.y, each.low, strict=True)]
            above = [max(0.0, high - y) for y, high in zip(each.y, each.high, strict=True)]
            whiskers = [below, above]
        axes.bar(places, each.y, width, yerr=whiskers, label=_label(each.name), capsize=2)
    axes.set_xticks(range(len(names)), [_label(name) for name in names])


def _label(text: str) -> str:
    """Return a text as a short label on one line: what stands between `$` is no formula, and a leading `_` is shown."""
    line = " ".join(text.split())[:60].replace("$", r"\$")
    return f" {line}" if line.startswith("_") else line
