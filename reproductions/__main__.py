"""Run a reproduction: measure, compare with the expected intervals, write its page.

    python -m reproductions                    list all of them
    python -m reproductions NAME [--data FOLDER] [--pages docs/reproductions]
    python -m reproductions --under 120        all that take fewer seconds and need no data

Exit code 1 if a figure lies outside of its interval. Holds no experiment.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from reproductions.comparison import Verdict, compare, page, verdict_table
from reproductions.configuration import SEVERAL, Configuration, Table, load, measure_of, names
from reproductions.index_page import write_index
from xpipe.errors import ConfigError, XpipeError

PAGES = Path(__file__).parent.parent / "docs" / "reproductions"


def reproduce(name: str, data: str | None, pages: Path | None) -> list[Verdict]:
    """Run one reproduction and write its page, where `pages` is given. Raises ConfigError where its data is missing."""
    configuration = load(name)
    if configuration.data and data is None:
        raise ConfigError(
            f"{name} needs data",
            why=f"it reads {configuration.data}, which cannot be made here",
            fix=f"make reproduce {name} DATA=path/to/{configuration.data}",
        )
    if data is not None and not has_its_name(configuration, data):
        raise ConfigError(
            f"the folder of the data must have the name {configuration.data}",
            where=data,
            why="benchmarks call their figures by the names of folders",
            fix="a link with this name will do",
        )
    measured = measure_of(configuration)(configuration.options, data)
    verdicts = compare(configuration, measured)
    if pages is not None:
        pages.mkdir(parents=True, exist_ok=True)
        (pages / f"{name}.md").write_text(page(name, configuration, measured, verdicts), encoding="utf-8")
        write_index(pages)
    return verdicts


def has_its_name(configuration: Configuration, data: str) -> bool:
    """Whether a folder of data is called as the figures of the benchmark that reads it."""
    if configuration.measure != "benchmark" or configuration.data == SEVERAL:
        return True
    return Path(data).absolute().name == configuration.data


def show(table: Table) -> None:
    """Print a table."""
    from rich.console import Console
    from rich.table import Table as Printed

    printed = Printed(*table.columns, title=table.title, title_justify="left")
    for row in table.rows:
        printed.add_row(*row)
    Console(width=None if sys.stdout.isatty() else 150).print(printed)


def overview() -> Table:
    """All reproductions."""
    rows = []
    for name in names():
        found = load(name)
        rows.append((name, found.title, f"{found.seconds} s", found.data or "", f"{len(found.expected)}"))
    return Table("Reproductions", ("name", "title", "about", "data", "figures"), tuple(rows))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("name", nargs="?")
    parser.add_argument("--data", metavar="FOLDER", help="the data, where the reproduction needs some")
    parser.add_argument("--pages", type=Path, default=PAGES, help="where the page is written")
    parser.add_argument("--under", type=int, metavar="SECONDS", help="all that take fewer seconds and need no data")
    options = parser.parse_args()
    if options.name is None and options.under is None:
        show(overview())
        return 0
    try:
        wanted = [options.name] if options.name else []
        if options.under is not None:
            wanted += [name for name in names() if load(name).is_quick(options.under)]
        holds = True
        for name in wanted:
            started = time.perf_counter()
            verdicts = reproduce(name, options.data, options.pages)
            show(verdict_table(verdicts))
            print(f"{name}: {time.perf_counter() - started:.0f} s, page {options.pages / name}.md", flush=True)
            holds = holds and all(verdict.holds for verdict in verdicts)
    except XpipeError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    return 0 if holds else 1


if __name__ == "__main__":
    sys.exit(main())
