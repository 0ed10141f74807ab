"""A first pipeline file for a table: what was found in its first rows, as commented YAML. Holds no guessing."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from xpipe.errors import ConfigError
from xpipe.formats.table_files import TableFile, find_tables
from xpipe.formats.table_guess import TableGuess, guess_columns
from xpipe.formats.table_records import column_names, iterate_records
from xpipe.ground import files

LOOKED_AT = 2000  # rows of the table
SMALL = 1000  # rows below which rare words count
ONE_PROCESS = 64 * 2**20  # bytes below which starting workers takes longer than it saves
FILL_IN = "FILL_IN"


@dataclass(frozen=True)
class Looked:
    """A table and what its first rows show. complete: whether these are all of its rows."""

    table: str
    files: tuple[TableFile, ...]
    rows: int
    complete: bool
    guess: TableGuess
    delimiter: str | None

    def told(self) -> Iterator[str]:
        """What was found, one line per column."""
        guess = self.guess
        roles = (
            ("id", guess.id),
            *(("text", text) for text in guess.text),
            ("labels", guess.labels),
            ("group", guess.group),
        )
        for role, found in roles:
            if found is not None:
                yield f"{role}: {found.column} ({found.reason})"

    def missing(self) -> Iterator[str]:
        """What the user must fill in."""
        if not self.guess.text:
            yield "data.text, the column of texts: no column has several words per row"
        if self.guess.labels is None and self.guess.group is None:
            yield "data.labels, the column of labels: no column has lists or short names that come back"
        if self.guess.labels is None and self.guess.group is not None:
            yield f"data.group_labels, a table with the labels of each {self.guess.group.column}: no column has labels"


def look_at(table: str) -> Looked:
    """The first rows of a table."""
    found = find_tables(table, what="TABLE")
    delimiter = _delimiter(found[0])
    names = list(column_names(found[0], delimiter))
    columns: dict[str, list[Any]] = {name: [] for name in names if name}
    rows, complete = 0, True
    for file in found:
        for records in iterate_records(file, list(columns), batch_rows=LOOKED_AT, delimiter=delimiter):
            for name, cells in records.columns.items():
                columns[name] += islice(cells, LOOKED_AT - rows)
            rows += records.n_rows
            if rows >= LOOKED_AT:
                complete = False
                break
        if not complete:
            break
    if not rows:
        raise ConfigError("a table without rows", where=found[0].path)
    return Looked(table, found, min(rows, LOOKED_AT), complete, guess_columns(columns), delimiter)


def _delimiter(file: TableFile) -> str | None:
    """The delimiter of CSV where it is not the usual one: the one that cuts the header into most names."""
    if file.kind != "csv":
        return None
    counts = {each: len(column_names(file, each)) for each in (",", ";", "|", "\t")}
    best = max(counts, key=lambda each: counts[each])
    return best if counts[best] > counts[","] else None


def write_pipeline(looked: Looked, out: str | None) -> str:
    """Write the pipeline file; returns its path. Raises ConfigError where a file is there already."""
    stem = files.basename(out or (looked.files[0].path if len(looked.files) == 1 else looked.table)).partition(".")[0]
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip("-._") or "table"
    path = out or f"{name}.yaml"
    text = "".join(f"{line}\n" for line in _lines(looked, name))
    try:
        with open(path, "x", encoding="utf-8") as stream:
            stream.write(text)
    except FileExistsError:
        raise ConfigError("the pipeline file is there already", where=path, why="init never overwrites",
                          fix="another name: --out other.yaml") from None  # fmt: skip
    return os.fspath(path)


def _lines(looked: Looked, name: str) -> Iterator[str]:
    """The lines of the file."""
    guess = looked.guess
    seen = f"all {looked.rows:,} rows" if looked.complete else f"the first {looked.rows:,} rows"
    yield f"# Guesses from {seen} of {_comment(looked.table)}, by `xpipe init`: check each line, then xpipe run."
    yield f"name: {name}"
    yield "seed: 0"
    yield "data:"
    yield _line("train", looked.table, "the table; more files: a list, a folder or a pattern")
    if looked.delimiter:
        yield _line("delimiter", looked.delimiter, "it cuts the header into most names")
    small = looked.complete and looked.rows < 10 * SMALL
    yield _line("holdout", 0.2 if small else 0.1, "share of the rows to test on; or `test: other.csv`")
    if guess.id:
        yield _line("id", guess.id.column, guess.id.reason)
    else:
        yield "  # id: COLUMN                     # no column has another value in every row; rows go by number"
    texts = [text.column for text in guess.text] or [FILL_IN]
    reasons = "; ".join(f"{text.column}: {text.reason}" for text in guess.text) or "name the column of texts"
    yield _line("text", texts[0] if len(texts) == 1 else texts, reasons)
    yield from _label_lines(guess)
    if guess.group:
        yield _line("group", guess.group.column, f"{guess.group.reason}; a group is never split between train and test")
    extra = {each.column: "number" for each in guess.numbers} | {each.column: "category" for each in guess.categories}
    if extra:
        told = "; ".join(f"{each.column}: {each.reason}" for each in (*guess.numbers, *guess.categories))
        yield f"  # columns: {json.dumps(extra, ensure_ascii=False)}  # would be features too ({_comment(told)})"
    yield from _stage_lines(looked)


def _label_lines(guess: TableGuess) -> Iterator[str]:
    """The lines about labels."""
    if guess.labels is not None:
        yield _line("labels", guess.labels.column, guess.labels.reason)
        if guess.separator not in (None, "[]"):
            yield _line("separator", guess.separator, "stands between the labels of a row")
    elif guess.group is not None:
        yield _line("group_labels", FILL_IN, f"a table with the columns {guess.group.column} and labels")
    else:
        yield _line("labels", FILL_IN, "name the column of labels")


def _stage_lines(looked: Looked) -> Iterator[str]:
    """The sections after `data`."""
    guess = looked.guess
    few = looked.complete and looked.rows < SMALL
    why = f"the table has {looked.rows:,} rows: rare words may matter" if few else "words of fewer rows are left out"
    options = f"{{min_df: {1 if few else 3}, max_df: 0.5, sublinear: true}}"
    yield f"vectorize: {options}  # {why}; words of over half of them too"
    grouped = guess.labels is None
    if grouped:
        yield "assign: {method: auto}  # which rows of a group own its labels"
    elif guess.labels_of_groups and guess.group is not None:
        group = _comment(guess.group.column)
        columns = f"columns {group} and labels"
        yield f"# Are the labels known per {group} only? Then make a table with one row per {group}, {columns},"
        yield "# write `group_labels: THAT TABLE` instead of `labels`, take `evaluate` out, and put in"
        yield "# assign: {method: auto}  # which rows of a group own its labels"
    elif guess.group is not None:
        yield "# group: {rule: given}  # what if labels were known per group only? With assign: {method: auto}"
    yield "emit: {datasets: [tree]}"
    yield "train: {tree: {n_trees: 3}}"
    if grouped:
        yield "# evaluate: {split: test}  # needs rows with labels of their own: data.labels"
    else:
        yield f"evaluate: {{split: test, k: {max(1, min(5, guess.n_labels))}}}"
    local = all(files.is_local(file.path) for file in looked.files)
    small = local and sum(files.size(file.path) for file in looked.files) < ONE_PROCESS
    told = "one process: workers would take longer to start" if small else "or none, or tcp://host:8786"
    yield f"cluster: {'none' if small else '{kind: local, workers: 2, memory_limit: 4GiB}'}  # {told}"


def _line(key: str, value: Any, reason: str) -> str:
    """A line of the section `data`: JSON is YAML."""
    return f"  {key + ': ' + json.dumps(value, ensure_ascii=False):<32} # {_comment(reason)}"


def _comment(text: str) -> str:
    """A text that stays on its line."""
    from xpipe.errors import printable

    return printable(text, 200)
