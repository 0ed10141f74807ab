"""The kinds of charts of a report: bars, lines with bands, reliability, heat maps. Each becomes SVG by `drawing`.

Holds no figures of a run and no titles: sections give them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from xpipe.report.drawing import FAINT, INK, PAPER, SERIES, WIDTH, draw
from xpipe.report.page import shown

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.ticker import Locator

HEIGHT = 200.0
ROW = 19.0  # pixels of one horizontal bar
LONGEST_NAME = 24  # characters of a name beside a bar
MARKERS = "osD^vPX*"
STYLES = ("-", "--", "-.", ":")


@dataclass(frozen=True)
class Line:
    """A line of a chart. low, high: the ends of a band around it. faint: a line to compare with, dashed or dotted."""

    name: str
    values: Sequence[float | None]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None
    faint: bool = False
    dotted: bool = False


@dataclass(frozen=True)
class Axis:
    """An axis. log: its scale. whole: of whole numbers. low, high: its ends; None: as the data has them."""

    name: str
    log: bool = False
    whole: bool = False
    low: float | None = None
    high: float | None = None


def bars(
    name: str, names: Sequence[str], panels: Sequence[tuple[str, Sequence[float], Sequence[str], Sequence[bool]]]
) -> str:
    """Horizontal bars, one row per name. panels: of each its axis, its values, their texts, and which are faint."""

    def plot(axes: Sequence[Axes]) -> None:
        places = range(len(names))
        for number, (axis, (label, values, texts, faint)) in enumerate(zip(axes, panels, strict=True)):
            drawn = axis.barh(places, values, color=SERIES[number], height=0.7)
            for bar, pale in zip(drawn, faint, strict=True):
                bar.set_alpha(0.35 if pale else 1.0)
            most = max([*values, 0.0]) or 1.0
            room = (WIDTH - (6.5 * max((len(_short(each)) for each in names), default=0) + 20)) / len(panels)
            ends = [
                (value / most + 0.03) / (1 - min(5.8 * len(text) / room, 0.8))
                for value, text in zip(values, texts, strict=True)
            ]
            for place, value, text in zip(places, values, texts, strict=True):
                axis.text(value + 0.03 * most, place, text, va="center", fontsize=9)
            axis.set_xlim(0, max([*ends, 1.0]) * most)
            axis.set_ylim(len(names) - 0.4, -0.6)
            axis.set_yticks(places, [_short(each) for each in names] if not number else [""] * len(names))
            axis.tick_params(length=0)
            axis.set_xticks([])
            axis.spines[["bottom"]].set_visible(False)
            axis.set_xlabel(label)

    return draw(name, plot, height=30 + ROW * max(len(names), 2), panels=len(panels))


def columns(name: str, ticks: Sequence[str], counts: Sequence[float], x: str, y: str, *, log: bool = False) -> str:
    """Upright bars, one per tick."""

    def plot(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        axis.bar(range(len(ticks)), counts, color=SERIES[0], width=0.85)
        widest = max((len(tick) for tick in ticks), default=1)
        step = max(1, -(-int(len(ticks) * (6.2 * widest + 5)) // (WIDTH - 60)))
        places = range(len(ticks) - 1, -1, -step)  # the last one stands for all that is larger: it is always named
        axis.set_xticks(list(places), [ticks[place] for place in places])
        if log:
            axis.set_yscale("log")
        _finish(axis, Axis(x), Axis(y, log=log))

    return draw(name, plot, height=HEIGHT)


def lines(
    name: str, xs: Sequence[float], drawn: Sequence[Line], x: Axis, y: Axis, *, ticks: Sequence[str] | None = None
) -> str:
    """Lines over numbers, or over named places (`ticks`), with bands where they have any."""

    def plot(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        colours = 0
        for line in drawn:
            colour = FAINT if line.faint else SERIES[colours % len(SERIES)]
            kept = [(at, value) for at, value in zip(xs, line.values, strict=True) if value is not None]
            axis.plot(
                [at for at, _ in kept],
                [value for _, value in kept],
                color=colour,
                linestyle=":" if line.dotted else "--" if line.faint else STYLES[colours // len(SERIES) % len(STYLES)],
                marker=MARKERS[colours % len(MARKERS)] if len(kept) <= 30 and not line.faint else None,
                markersize=4,
                label=_short(line.name),
            )
            if line.low is not None and line.high is not None:
                axis.fill_between(xs, line.low, line.high, color=colour, alpha=0.2, linewidth=0)
            colours += not line.faint
        if ticks is not None:
            axis.set_xticks(list(xs), list(ticks))
        _finish(axis, x, y)
        _legend(axis, len(drawn))

    legend_rows = -(-len(drawn) // 2) if len(drawn) > 1 else 0
    return draw(name, plot, height=HEIGHT + 16 * legend_rows)


def ranges(name: str, ticks: Sequence[str], drawn: Sequence[Line], x: Axis, y: Axis) -> str:
    """For every tick and line a point with a range. Lines stand side by side."""

    def plot(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        for number, line in enumerate(drawn):
            shift = (number - (len(drawn) - 1) / 2) * min(0.25, 0.7 / len(drawn))
            for place, value in enumerate(line.values):
                if value is None or line.low is None or line.high is None:
                    continue
                colour = SERIES[number % len(SERIES)]
                axis.plot(
                    [place + shift] * 2, [line.low[place], line.high[place]], color=colour, linewidth=3, alpha=0.4
                )
            kept = [(place + shift, value) for place, value in enumerate(line.values) if value is not None]
            axis.plot(
                [place for place, _ in kept], [value for _, value in kept], MARKERS[number % len(MARKERS)],
                color=SERIES[number % len(SERIES)], markersize=5, label=_short(line.name),
            )  # fmt: skip
        axis.set_xlim(-0.6, len(ticks) - 0.4)
        axis.set_xticks(range(len(ticks)), list(ticks))
        _finish(axis, x, y)
        _legend(axis, len(drawn))

    return draw(name, plot, height=HEIGHT + (16 * -(-len(drawn) // 2) if len(drawn) > 1 else 0))


def reliability(name: str, bins: Sequence[tuple[float, float, int]], x: str, y: str) -> str:
    """(confidence, accuracy, count) of every bin as a point of a size by count. On the diagonal, all is right."""

    def plot(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        most = max([count for _, _, count in bins], default=1) or 1
        axis.plot([0, 1], [0, 1], color=FAINT, linestyle="--", linewidth=1)
        axis.plot([mean for mean, _, _ in bins], [right for _, right, _ in bins], color=SERIES[0], linewidth=1.2)
        sizes = [12 + 90 * count / most for _, _, count in bins]
        axis.scatter(
            [mean for mean, _, _ in bins], [right for _, right, _ in bins], s=sizes, color=SERIES[0], alpha=0.75,
            linewidth=0, clip_on=False,
        )  # fmt: skip
        axis.set_aspect("equal")
        _finish(axis, Axis(x, low=0, high=1), Axis(y, low=0, high=1))

    return draw(name, plot, height=250)


def heat_map(
    name: str, rows: Sequence[str], names: Sequence[str], values: Sequence[Sequence[float | None]],
    texts: Sequence[Sequence[str]], *, by_column: bool,
) -> str:  # fmt: skip
    """A grid of numbers; the higher in its column (or in the whole grid), the stronger the colour."""
    every = [value for row in values for value in row if value is not None]
    longest = max((len(_short(row)) for row in rows), default=1)
    cell_width = max([44.0, *(6.4 * len(_short(each)) + 10 for each in names)])
    width = max(float(WIDTH), 6.3 * longest + 20 + cell_width * len(names))

    def share(row: int, column: int) -> float:
        value = values[row][column]
        among = [one for each in values if (one := each[column]) is not None] if by_column else every
        low, high = min(among), max(among)
        return 0.5 if value is None or high == low else (value - low) / (high - low)

    def plot(axes: Sequence[Axes]) -> None:
        (axis,) = axes
        for row in range(len(rows)):
            for column in range(len(names)):
                if values[row][column] is not None:
                    strength = 0.05 + 0.6 * share(row, column)
                    axis.fill_between([column, column + 1], row, row + 1, color=SERIES[0], alpha=strength, linewidth=0)
                axis.text(column + 0.5, row + 0.5, texts[row][column], ha="center", va="center", color=INK, fontsize=10)
        axis.set_xlim(0, len(names))
        axis.set_ylim(len(rows), 0)
        axis.set_xticks([column + 0.5 for column in range(len(names))], [_short(each) for each in names])
        axis.set_yticks([row + 0.5 for row in range(len(rows))], [_short(each) for each in rows])
        axis.xaxis.tick_top()
        axis.tick_params(length=0)
        axis.spines[:].set_visible(False)
        for row in range(1, len(rows)):
            axis.axhline(row, color=PAPER, linewidth=2)
        for column in range(1, len(names)):
            axis.axvline(column, color=PAPER, linewidth=2)

    return draw(name, plot, height=34 + 24.0 * len(rows), width=width)


def _finish(axis: Axes, x: Axis, y: Axis) -> None:
    """Scales, ends, names and the grid of both axes."""
    from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator

    for one, setting in ((axis.xaxis, x), (axis.yaxis, y)):
        if setting.log:
            (axis.set_xscale if one is axis.xaxis else axis.set_yscale)("log")
            one.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
            one.set_minor_locator(NullLocator())
        elif setting.whole:
            one.set_major_locator(MaxNLocator(integer=True, nbins=8))
        one.set_label_text(setting.name)
    if x.low is not None or x.high is not None:
        axis.set_xlim(x.low, x.high)
    if y.low is not None or y.high is not None:
        axis.set_ylim(y.low, y.high)
    for one, setting in ((axis.xaxis, x), (axis.yaxis, y)):
        if setting.log:
            one.set_major_locator(_log_ticks(*one.get_view_interval()))
    if not y.log and axis.get_ylim()[1] >= 10_000:
        axis.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _plain(value)))
    axis.grid(visible=True, axis="y")


def _log_ticks(low: float, high: float) -> Locator:
    """The ticks of a log scale: powers of ten, and numbers between them where less than two powers are in sight."""
    from matplotlib.ticker import LogLocator, MaxNLocator

    span = high / low if low > 0 else 1.0
    if span < 4:
        return MaxNLocator(4)
    return LogLocator() if span > 300 else LogLocator(subs=(1.0, 2.0, 5.0))


def _legend(axis: Axes, count: int) -> None:
    """The names of the lines below the chart, where there are several."""
    if count > 1:
        axis.figure.legend(loc="outside lower center", ncols=2, handlelength=1.6, columnspacing=1.2)


def _plain(value: float) -> str:
    """A number of an axis: 100, 10k, 2M, 0.01."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= scale:
            return f"{value / scale:g}{letter}"
    return f"{value:g}"


def _short(text: str, longest: int = LONGEST_NAME) -> str:
    """A name that fits beside a chart."""
    return shown(text, longest)
