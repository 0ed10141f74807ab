"""The reports: of one run, and of a matrix of runs. Holds the order of sections; `html` makes the page."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xpipe.ground.checked_json import dump_json, parse_json
from xpipe.report.assignment_section import assignment_section
from xpipe.report.data_section import data_section
from xpipe.report.figures import Figures
from xpipe.report.html import render
from xpipe.report.matrix_section import matrix_sections
from xpipe.report.model_section import model_section
from xpipe.report.page import Page, Paragraph, Section, shown
from xpipe.report.reproduce_section import reproduce_section
from xpipe.report.run_files import RunFiles, read_run, read_table
from xpipe.report.run_section import run_section
from xpipe.report.verification_section import verification_section

SECTIONS: tuple[tuple[str, Callable[[RunFiles], Section | None]], ...] = (
    ("What ran", run_section),
    ("The data", data_section),
    ("The assignment", assignment_section),
    ("The models", model_section),
    ("What heads can produce", verification_section),
    ("How to make this again", reproduce_section),
)
# What a section raises for files of another shape than expected, such as those of an older release.
UNFIT = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)


def run_report(folder: str, results: Mapping[str, Any] | None = None, figures: Figures | None = None) -> str:
    """The report of a run as one HTML file that loads nothing.

    The same files give the same text. A section that the run has nothing for is left out.

    Parameters
    ----------
    folder : str
        The folder of a finished run.
    results : mapping, optional
        Taken instead of results.json, which the engine writes last.
    figures : Figures, optional
        Taken instead of figures.json, where the run has none.

    Returns
    -------
    str
        The HTML.

    Raises
    ------
    DataError
        If a file of the run is missing or damaged.

    Examples
    --------
    >>> import json, pathlib
    >>> from xpipe.report import run_report
    >>> results = {"name": "first", "synthetic": False, "seed": 0, "stages": [], "outputs": {}, "pipeline": {},
    ...            "versions": {}, "cluster": {"kind": "none"}, "backend": {"name": "cpu"}, "peak_memory_main": 0}
    >>> pathlib.Path("first").mkdir()
    >>> _ = pathlib.Path("first/results.json").write_text(json.dumps(results))
    >>> "<title>first" in run_report("first")
    True
    """
    if results is not None:  # in the order in which results.json would be read again
        results = parse_json(dump_json(results), dict[str, Any], where="results.json", allow_nan=True)
    run = read_run(folder, results, figures)
    made = [_careful(title, make, run) for title, make in SECTIONS]
    evaluated = (run.evaluation or {}).get("models", ())
    told = [f"{model['name']} P@1 {100 * model['metrics']['precision'][0]:.1f}%" for model in evaluated]
    subtitle = "; ".join(told[:4]) or f"{len(run.results['stages'])} stages"
    page = Page(
        title=shown(run.results["name"]),
        subtitle=shown(subtitle),
        synthetic=bool(run.results["synthetic"]),
        sections=tuple(section for section in made if section is not None),
    )
    return render(page)


def _careful(title: str, make: Callable[[RunFiles], Section | None], run: RunFiles) -> Section | None:
    """A section; where its files have another shape than expected, one that says so."""
    try:
        return make(run)
    except UNFIT as error:
        told = f"This section cannot be shown: {type(error).__name__}: {shown(error, 200)}."
        return Section(make.__name__, title, (Paragraph(told, warning=True),))


def matrix_report(folder: str, table: Mapping[str, Any] | None = None) -> str:
    """The report of all runs of a matrix as one HTML file that loads nothing.

    Parameters
    ----------
    folder : str
        The folder of the matrix, in which table.json lies.
    table : mapping, optional
        Taken instead of table.json, which the engine writes last.

    Returns
    -------
    str
        The HTML.

    Raises
    ------
    DataError
        If table.json is missing or damaged.

    Examples
    --------
    >>> from xpipe.report import matrix_report
    >>> row = {"values": {"seed": "0"}, "out": "m/0", "model": {}, "labels": {}, "verified": {}, "seconds": {}}
    >>> table = {"name": "seeds", "keys": ["seed"], "synthetic": False, "rows": [row]}
    >>> "<title>seeds" in matrix_report("m", table)
    True
    """
    if table is None:
        table = read_table(folder)
    else:
        table = parse_json(dump_json(table), dict[str, Any], where="table.json", allow_nan=True)
    runs = len({row["out"] for row in table["rows"]})
    page = Page(
        title=shown(table["name"]),
        subtitle=shown(f"{runs} runs over {', '.join(table['keys'])}"),
        synthetic=bool(table["synthetic"]),
        sections=tuple(matrix_sections(table)),
    )
    return render(page)
