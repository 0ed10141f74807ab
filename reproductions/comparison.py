"""Expected and measured figures side by side, and the docs page of a reproduction. Measures nothing."""

from __future__ import annotations

from dataclasses import dataclass

from reproductions.configuration import Configuration, Expected, Measured, Table


@dataclass(frozen=True)
class Verdict:
    """One expected figure and what was measured; None: nothing was."""

    expected: Expected
    got: float | None

    @property
    def holds(self) -> bool:
        """Whether the figure lies in its interval."""
        return self.got is not None and self.expected.holds(self.got)


def compare(configuration: Configuration, measured: Measured) -> list[Verdict]:
    """A verdict on every expected figure."""
    return [Verdict(expected, measured.figures.get(expected.figure)) for expected in configuration.expected]


def verdict_table(verdicts: list[Verdict]) -> Table:
    """The table of a page and of the console."""
    rows = tuple(
        (
            verdict.expected.figure,
            "" if verdict.expected.published is None else plain(verdict.expected.published),
            interval(verdict.expected),
            "missing" if verdict.got is None else plain(verdict.got),
            "yes" if verdict.holds else "NO",
        )
        for verdict in verdicts
    )
    return Table("Figures", ("figure", "published", "expected", "got", "holds"), rows)


def interval(expected: Expected) -> str:
    """The interval in words."""
    if expected.low is None:
        return f"at most {plain(expected.high or 0)}"
    if expected.high is None:
        return f"at least {plain(expected.low)}"
    return f"{plain(expected.low)} to {plain(expected.high)}"


def plain(value: float) -> str:
    """A figure with four digits that count."""
    return f"{value:.0f}" if value == round(value) and abs(value) >= 100 else f"{value:.4g}"


def page(name: str, configuration: Configuration, measured: Measured, verdicts: list[Verdict]) -> str:
    """The docs page: what was published, what is measured here, and whether it holds."""
    data = f" DATA=path/to/{configuration.data}" if configuration.data else ""
    parts = [
        f"# {configuration.title}",
        f"Source: {configuration.source}",
        "## What was published",
        configuration.published.strip(),
        "## What is measured here",
        configuration.ours.strip(),
        f"This page is written by `make reproduce {name}{data}`, from `reproductions/{name}.yaml`.",
        *markdown(verdict_table(verdicts), name),
    ]
    for table in measured.tables:
        parts += markdown(table, name)
    if any(expected.speed for expected in configuration.expected):
        parts.append("Ratios of times hold where nothing else runs on the machine.")
    parts += [f"{remark}" for remark in measured.remarks]
    return "\n\n".join(parts) + "\n"


def markdown(table: Table, name: str) -> list[str]:
    """A heading, the command that makes the table, and the table."""
    lines = [
        "| " + " | ".join(table.columns) + " |",
        "|" + "---|" * len(table.columns),
        *("| " + " | ".join(cell or "-" for cell in row) + " |" for row in table.rows),
    ]
    return [f"## {table.title}", f"By `make reproduce {name}`:", "\n".join(lines)]
