"""Plots as SVG text: lines with bands, bars with whiskers, linear and logarithmic axes. Pure functions of data."""

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape

from swarm_memory.schema.benchmark import Plot, Series

COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f6f00", "#5b4b8a")
"""Okabe and Ito's, which the colour-blind can tell apart, and two darker ones."""

_DASHES = ("", "7 4", "2 3")
"""Change with each line, so that two that lie on each other are both seen."""

_WIDTH, _HEIGHT = 660, 380
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 176, 16, 62
_TICKS = 6
_CHAR = 7.4
"""Width of a character on average, in the font of the page."""


@dataclass(frozen=True, slots=True)
class _Axis:
    """Maps values to pixels."""

    low: float
    high: float
    start: float
    end: float
    logarithmic: bool

    def at(self, value: float) -> float:
        low, high, value = (self._scaled(each) for each in (self.low, self.high, value))
        return self.start + (value - low) / (high - low) * (self.end - self.start)

    def _scaled(self, value: float) -> float:
        return math.log10(max(value, self.low)) if self.logarithmic else value

    def ticks(self) -> list[float]:
        """Return round values between both ends."""
        if self.logarithmic:
            return _log_ticks(self.low, self.high)
        step = _round_step((self.high - self.low) / _TICKS)
        first = math.ceil(self.low / step - 1e-9)
        return [number * step for number in range(first, math.floor(self.high / step + 1e-9) + 1)]


def svg(plot: Plot) -> str:
    """Return one plot as an SVG element; no text in it can become markup."""
    drawn = "".join(_bars(plot) if plot.kind == "bar" else _lines(plot))
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(plot.title)}" '
        f'xmlns="http://www.w3.org/2000/svg">{drawn}{"".join(_legend(plot.series))}</svg>'
    )


def _axis(values: Sequence[float], start: float, end: float, *, logarithmic: bool, from_zero: bool) -> _Axis:
    if logarithmic:
        sound = [value for value in values if value > 0] or [1.0]
        low, high = min(sound), max(sound)
        return _Axis(low / 1.6, high * 1.6, start, end, logarithmic=True)
    low, high = min(values, default=0.0), max(values, default=1.0)
    if from_zero:
        low = min(0.0, low)
    margin = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    return _Axis(low if from_zero and low == 0 else low - margin, high + margin, start, end, logarithmic=False)


def _lines(plot: Plot) -> Iterator[str]:
    xs = [float(x) for each in plot.series for x in each.x]
    ys = [y for each in plot.series for y in (*each.y, *each.low, *each.high)]
    x_axis = _axis(xs, _LEFT, _WIDTH - _RIGHT, logarithmic=plot.log_x, from_zero=False)
    y_axis = _axis(ys, _HEIGHT - _BOTTOM, _TOP, logarithmic=plot.log_y, from_zero=False)
    yield from _frame(plot, y_axis)
    for x in sorted(set(xs)) if len(set(xs)) <= 8 else x_axis.ticks():
        yield _text(x_axis.at(x), _HEIGHT - _BOTTOM + 18, _number(x), "middle")
    for number, each in enumerate(plot.series):
        yield from _band(each, x_axis, y_axis, _colour(number))
    for number, each in enumerate(plot.series):
        points = [(x_axis.at(float(x)), y_axis.at(y)) for x, y in zip(each.x, each.y, strict=True)]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{_colour(number)}" stroke-width="2"{_dash(number)}/>'
        yield from (f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{_colour(number)}"/>' for x, y in points)


def _band(series: Series, x_axis: _Axis, y_axis: _Axis, colour: str) -> Iterator[str]:
    if not series.low or not series.high:
        return
    upper = [(x_axis.at(float(x)), y_axis.at(y)) for x, y in zip(series.x, series.high, strict=True)]
    lower = [(x_axis.at(float(x)), y_axis.at(y)) for x, y in zip(series.x, series.low, strict=True)]
    points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (*upper, *reversed(lower)))
    yield f'<polygon points="{points}" fill="{colour}" fill-opacity="0.12"/>'


def _bars(plot: Plot) -> Iterator[str]:
    names = list(dict.fromkeys(str(x) for each in plot.series for x in each.x))
    ys = [y for each in plot.series for y in (*each.y, *each.low, *each.high)]
    y_axis = _axis(ys, _HEIGHT - _BOTTOM, _TOP, logarithmic=plot.log_y, from_zero=True)
    yield from _frame(plot, y_axis)
    slot = (_WIDTH - _LEFT - _RIGHT) / max(1, len(names))
    width = slot * 0.8 / max(1, len(plot.series))
    floor = y_axis.start if plot.log_y else y_axis.at(0.0)
    for number, each in enumerate(plot.series):
        for at, (name, y) in enumerate(zip(each.x, each.y, strict=True)):
            left = _LEFT + names.index(str(name)) * slot + slot * 0.1 + number * width
            top, bottom = sorted((y_axis.at(y), floor))
            height = max(0.5, bottom - top)
            yield (
                f'<rect x="{left:.1f}" y="{top:.1f}" width="{width * 0.92:.1f}" height="{height:.1f}" '
                f'fill="{_colour(number)}"><title>{escape(f"{name}, {each.name}: {y:.4g}")}</title></rect>'
            )
            if each.low and each.high:
                middle, ends = left + width * 0.46, (y_axis.at(each.low[at]), y_axis.at(each.high[at]))
                yield f'<path d="M{middle:.1f} {ends[0]:.1f}V{ends[1]:.1f}" class="axis"/>'
    for at, name in enumerate(names):
        yield from _name_below(_LEFT + (at + 0.5) * slot, name, slot)


def _name_below(x: float, name: str, slot: float) -> Iterator[str]:
    """Give the name of a group of bars."""
    lines = _broken(name, max(5, int(slot / _CHAR)), 3)
    yield from (_text(x, _HEIGHT - _BOTTOM + 16 + 15 * at, line, "middle") for at, line in enumerate(lines))


def _broken(name: str, chars: int, most: int) -> list[str]:
    """Return a name in lines of so many characters, broken where it may be, on so many lines at most."""
    lines = [""]
    for piece in re.findall(r"[^-+_ ]*[-+_ ]?", name):
        for at in range(0, len(piece), chars):
            part = piece[at : at + chars]
            if len(lines[-1]) + len(part) > chars:
                lines.append("")
            lines[-1] += part
    return lines if len(lines) <= most else [*lines[: most - 1], f"{lines[most - 1][: chars - 1]}…"]


def _frame(plot: Plot, y_axis: _Axis) -> Iterator[str]:
    right = _WIDTH - _RIGHT
    for tick in y_axis.ticks():
        y = y_axis.at(tick)
        yield f'<path d="M{_LEFT} {y:.1f}H{right}" class="grid"/>'
        yield _text(_LEFT - 8, y + 4, _number(tick), "end")
    yield f'<path d="M{_LEFT} {_TOP}V{_HEIGHT - _BOTTOM}H{right}" class="axis" fill="none"/>'
    yield _text((_LEFT + right) / 2, _HEIGHT - 8, plot.x_label, "middle")
    middle = (_TOP + _HEIGHT - _BOTTOM) / 2
    yield _text(16, middle, plot.y_label, "middle", f' transform="rotate(-90 16 {middle:.0f})"')


def _legend(series: Sequence[Series]) -> Iterator[str]:
    x, y = _WIDTH - _RIGHT + 14, _TOP + 8
    for number, each in enumerate(series):
        yield f'<path d="M{x} {y}h16" stroke="{_colour(number)}" stroke-width="4"{_dash(number)}/>'
        lines = _broken(each.name, int((_RIGHT - 36) / _CHAR), 3)
        yield from (_text(x + 22, y + 4 + 15 * at, line, "start") for at, line in enumerate(lines))
        y += 15 * len(lines) + 5


def _text(x: float, y: float, text: str, anchor: str, more: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(text)}</text>'


def _colour(number: int) -> str:
    return COLOURS[number % len(COLOURS)]


def _dash(number: int) -> str:
    """Return the attribute that dashes a line; nothing for one that is whole."""
    dash = _DASHES[number % len(_DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _round_step(step: float) -> float:
    """Return the next 1, 2 or 5 times a power of ten."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in (1, 2, 5, 10) if factor * power >= step * 0.999)


def _log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten between both ends, with their 2 and 5 where there are few."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    whole = [10.0**power for power in powers if low <= 10.0**power <= high]
    if len(whole) >= 3:
        return whole
    return [factor * 10.0**power for power in powers for factor in (1, 2, 5) if low <= factor * 10.0**power <= high]


def _number(value: float) -> str:
    """Return a number as short as it can be told."""
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if unit == 'k' else size):g}{unit}"
    return f"{value:.4g}"
