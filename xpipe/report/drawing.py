"""Draws with matplotlib into SVG that lives inside an HTML page: its colours are variables of the page's style.

Holds no particular chart (`charts`). A chart is drawn with stand-in colours, which then become variables, so that one
picture serves light and dark pages. Same numbers, same bytes: no times, no random ids.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# What is drawn with the colour on the left is shown with the variable on the right.
INK, FAINT, PAPER = "#010101", "#020202", "#fdfdfd"
SERIES = tuple(f"#0{number}0f0{number}" for number in range(1, 9))
VARIABLES = {INK: "--ink", FAINT: "--faint", PAPER: "--paper"} | {
    colour: f"--series-{number}" for number, colour in enumerate(SERIES, 1)
}
WIDTH = 320  # pixels: about what a small phone has room for, so that no text becomes unreadable there
PIXELS_PER_INCH = 72.0  # matplotlib's SVG counts in points: one of them is one pixel here
FONT_SIZE = 11.0
STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.family": "DejaVu Sans",
    "font.size": FONT_SIZE,
    "axes.labelsize": FONT_SIZE,
    "axes.titlesize": FONT_SIZE,
    "xtick.labelsize": FONT_SIZE - 1,
    "ytick.labelsize": FONT_SIZE - 1,
    "legend.fontsize": FONT_SIZE - 1,
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
    "text.color": INK,
    "axes.edgecolor": FAINT,
    "axes.labelcolor": INK,
    "xtick.color": FAINT,
    "ytick.color": FAINT,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "grid.color": FAINT,
    "grid.alpha": 0.35,
    "grid.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
    "legend.frameon": False,
    "axes.unicode_minus": False,
}


def draw(
    name: str, plot: Callable[[Sequence[Axes]], None], *, height: float, width: float = WIDTH, panels: int = 1
) -> str:
    """The SVG of a figure that `plot` fills, without its XML header.

    name: unique in the page; ids in the SVG begin with it. plot: gets the axes of the panels, which lie side by side.
    """
    from matplotlib import rc_context
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    style: dict[Any, Any] = {**STYLE, "svg.hashsalt": name}
    with rc_context(style), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of fonts that lack a letter: the browser has others
        figure = Figure(
            figsize=(width / PIXELS_PER_INCH, height / PIXELS_PER_INCH), dpi=PIXELS_PER_INCH, layout="constrained"
        )
        axes = figure.subplots(1, panels, squeeze=False)[0]
        plot(list(axes))
        FigureCanvasSVG(figure)
        engine = figure.get_layout_engine()
        if engine is not None:  # once, here: `savefig` would draw the whole figure for it first
            engine.execute(figure)
            figure.set_layout_engine(None)
        return _cleaned(_saved(figure), name)


def _saved(figure: Figure) -> str:
    """What matplotlib writes."""
    stream = io.StringIO()
    figure.savefig(stream, format="svg", metadata={"Date": None, "Creator": None, "Format": None, "Type": None})
    return stream.getvalue()


def _cleaned(svg: str, name: str) -> str:
    """The element <svg> alone, with variables for colours, and ids that no other picture has."""
    svg = svg[svg.index("<svg") :].strip()
    svg = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->|<style.*?</style>", "", svg, flags=re.DOTALL)
    used = set(re.findall(r'(?:xlink:href="#|url\(#)([^")]+)', svg))
    svg = re.sub(r"<[^>]*>", lambda tag: _cleaned_tag(tag[0], name, used), svg)  # texts stay as they are
    svg = re.sub(r">\s+<", "><", svg)
    for _ in range(2):  # what only groups, and what became empty thereby
        svg = svg.replace("<g></g>", "").replace("<defs></defs>", "")
    return svg


def _cleaned_tag(tag: str, name: str, used: set[str]) -> str:
    """One tag of the SVG: variables, ids, shorter numbers."""
    tag = " ".join(tag.split())
    if tag.startswith("<svg"):
        return re.sub(r' (width|height|version|xmlns(:xlink)?)="[^"]*"', "", tag)
    tag = re.sub(r' id="([^"]*)"', lambda found: f' id="{name}-{found[1]}"' if found[1] in used else "", tag)
    tag = re.sub(r'xlink:href="#([^"]+)"', rf'href="#{name}-\1"', tag)
    tag = re.sub(r"url\(#([^)]+)\)", rf"url(#{name}-\1)", tag)
    tag = re.sub(r' transform="rotate\(-0 [^"]*"', "", tag)
    tag = re.sub(r"font: ([\d.]+px)[^;\"]*", r"font-size: \1", tag).replace(" font-family: 'DejaVu Sans';", "")
    for colour, variable in VARIABLES.items():
        tag = tag.replace(colour, f"var({variable})")
    return re.sub(r"(?<![\w#-])-?\d+\.\d{3,}", lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag)
