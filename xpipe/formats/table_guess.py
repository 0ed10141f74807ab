"""Guesses what the columns of a table are for, from its first rows, each with the reason in words.

Holds no reading of files and writes nothing: whoever uses a guess shows it to the user first.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from xpipe.formats.table_cells import NUMBER

SEPARATORS = (";", "|", ",", "/")
ID_WORDS = ("id", "sku", "uid", "uuid", "key", "isbn", "asin", "doi", "number", "no", "code")
LABEL_WORDS = ("labels", "label", "tags", "tag", "topics", "topic", "categories", "category", "classes", "class",
               "keywords", "genres", "genre", "codes", "subjects", "concepts", "skills")  # fmt: skip
GROUP_WORDS = ("group", "brand", "series", "page", "patient", "author", "customer", "vendor", "seller", "user",
               "document", "thread", "session", "company", "site", "publisher", "parent")  # fmt: skip
TEXT_WORDS = ("title", "name", "headline", "subject", "description", "text", "body", "abstract", "summary", "content",
              "comment", "note", "message", "review")  # fmt: skip
TEXT_WORDS_A_ROW = 2.5  # a column of texts has at least so many words per cell
MOST_CATEGORIES = 50
WORD = re.compile(r"\w\w+")


@dataclass(frozen=True)
class ColumnFacts:
    """What the first rows show of a column.

    n: rows. filled: cells that are not missing. distinct: different values among them. words: mean words of a cell.
    kind: list, number, text or other. separator: what seems to stand between several names; items: mean names of a
    cell that way, and distinct_items: different ones.
    """

    name: str
    n: int
    filled: int
    distinct: int
    words: float
    longest: int
    kind: str
    separator: str | None = None
    items: float = 0.0
    distinct_items: int = 0

    @property
    def repeats(self) -> float:
        """How often a value occurs on average."""
        return self.filled / max(1, self.distinct)


@dataclass(frozen=True)
class Guess:
    """What a column seems to be for, and why."""

    column: str
    reason: str


@dataclass(frozen=True)
class TableGuess:
    """Guesses for a whole table; None and empty where no column fits.

    separator: of the labels, where they are one text; "[]" stands for lists in JSON, which need none. labels_of_groups:
    whether all rows of a group have the same labels, so that they may be known per group only.
    """

    id: Guess | None
    text: tuple[Guess, ...]
    labels: Guess | None
    separator: str | None
    group: Guess | None
    numbers: tuple[Guess, ...]
    categories: tuple[Guess, ...]
    n_labels: int = 0
    labels_of_groups: bool = False


def guess_columns(columns: Mapping[str, Sequence[Any]]) -> TableGuess:
    """Guess what the columns of a table are for.

    Parameters
    ----------
    columns : mapping of str to sequence
        The first cells of each column, as plain values; None is missing.

    Returns
    -------
    TableGuess
        For each role the column that fits best, with the reason.

    Examples
    --------
    >>> from xpipe.formats import guess_columns
    >>> guess = guess_columns({
    ...     "sku": ["a1", "a2", "a3", "a4"],
    ...     "title": ["pea soup with leek", "rye bread from the oven", "quick lentil soup", "bread and olive oil"],
    ...     "tags": ["soup;quick", "bread", "soup;quick", "bread"],
    ... })
    >>> guess.id.column, [text.column for text in guess.text], guess.labels.column, guess.separator
    ('sku', ['title'], 'tags', ';')
    """
    facts = [facts_of(name, list(cells)) for name, cells in columns.items()]
    labels = _labels(facts)
    rest = [each for each in facts if each is not labels]
    own_id = _id(rest)
    rest = [each for each in rest if each is not own_id]
    group = _group(rest)
    rest = [each for each in rest if each is not group]
    text = [each for each in rest if each.kind == "text" and each.words >= _least_words(each) and each.repeats < 3]
    rest = [each for each in rest if each not in text]
    numbers = [each for each in rest if each.kind == "number" and each.distinct > 2]
    few = [each for each in rest if each not in numbers and each.kind in ("text", "number")]
    few = [each for each in few if 2 <= each.distinct <= MOST_CATEGORIES and each.repeats >= 2]
    shared = labels is not None and group is not None and _same_in_groups(columns[group.name], columns[labels.name])
    why_labels = "" if labels is None else _why_labels(labels)
    if shared and group is not None:
        why_labels += f"; the same in all rows of each {group.name}"
    return TableGuess(
        id=None if own_id is None else Guess(own_id.name, f"all {own_id.n:,} values that were looked at differ"),
        text=tuple(Guess(each.name, f"{each.words:.0f} words per row") for each in text),
        labels=None if labels is None else Guess(labels.name, why_labels),
        separator=None if labels is None else labels.separator,
        group=None if group is None else Guess(group.name, _why_group(group)),
        numbers=tuple(Guess(each.name, "numbers") for each in numbers),
        categories=tuple(Guess(each.name, f"{each.distinct} different values") for each in few),
        n_labels=0 if labels is None else labels.distinct_items,
        labels_of_groups=shared,
    )


def facts_of(name: str, cells: list[Any]) -> ColumnFacts:
    """What the cells of a column show."""
    filled = [cell for cell in cells if cell is not None and cell != ""]
    texts = [cell if isinstance(cell, str) else json.dumps(cell, default=str) for cell in filled]
    words = sum(len(WORD.findall(text)) for text in texts) / max(1, len(texts))
    longest = max((len(text) for text in texts), default=0)
    kind = _kind(filled)
    facts = ColumnFacts(name, len(cells), len(filled), len(set(texts)), words, longest, kind)
    if kind == "list":
        return _with_items(facts, [_items(cell) for cell in filled], None if isinstance(filled[0], list) else "[]")
    if kind != "text":
        return facts
    best = facts
    for separator in SEPARATORS:
        cut = [[item.strip() for item in text.split(separator)] for text in texts]
        found = _with_items(facts, cut, separator)
        # separators of lists cut a text into short names that come back in other rows
        short = sum(len(item.split()) <= 4 for own in cut for item in own) >= 0.9 * sum(map(len, cut))
        if (
            found.items >= 1.2
            and short
            and found.distinct_items * 1.5 <= sum(map(len, cut))
            and found.items > best.items
        ):
            best = found
    return best


def _kind(filled: list[Any]) -> str:
    """list, number, text or other."""
    if not filled:
        return "other"
    if all(isinstance(cell, list) for cell in filled) or all(isinstance(cell, str) and _items(cell) for cell in filled):
        return "list"
    if all(type(cell) in (int, float) or (isinstance(cell, str) and NUMBER.fullmatch(cell.strip())) for cell in filled):
        return "number"
    return "text" if all(isinstance(cell, str) for cell in filled) else "other"


def _items(cell: Any) -> list[str]:
    """The items of a list, or of a text with a list in JSON; none where it is not."""
    if isinstance(cell, str):
        if not cell.lstrip().startswith("["):
            return []
        try:
            cell = json.loads(cell)
        except ValueError:
            return []
    return [str(item) for item in cell] if isinstance(cell, list) else []


def _with_items(facts: ColumnFacts, items: list[list[str]], separator: str | None) -> ColumnFacts:
    """Facts with what the items of the cells show."""
    total = sum(map(len, items))
    distinct = len({item for own in items for item in own})
    return ColumnFacts(
        facts.name, facts.n, facts.filled, facts.distinct, facts.words, facts.longest, facts.kind, separator,
        total / max(1, len(items)), distinct,
    )  # fmt: skip


def _hint(name: str, words: tuple[str, ...]) -> bool:
    """Whether a column's name has one of the words."""
    parts = re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower())
    return any(part in words or part.removesuffix("s") in words for part in parts)


def _labels(facts: list[ColumnFacts]) -> ColumnFacts | None:
    """The column of labels: a list, or a text with separators, first by its name; else one short name that repeats."""
    several = [each for each in facts if each.items > 0 and (each.kind == "list" or each.separator)]
    named = [each for each in several if _hint(each.name, LABEL_WORDS)]
    if named or several:
        return max(named or several, key=lambda each: each.items)
    single = [each for each in facts if _hint(each.name, LABEL_WORDS) and each.kind in ("text", "number")]
    single = [each for each in single if each.repeats >= 1.5 and each.words < 6]
    if not single:
        return None
    return _with_items(single[0], [[str(index)] for index in range(single[0].distinct)], ";")


def _least_words(facts: ColumnFacts) -> float:
    """Words per row from which a column holds texts: fewer where its name says so."""
    return 1.2 if _hint(facts.name, TEXT_WORDS) else TEXT_WORDS_A_ROW


def _id(facts: list[ColumnFacts]) -> ColumnFacts | None:
    """The column of ids: every value there, and another one in every row."""
    unique = [each for each in facts if each.n and each.distinct == each.filled == each.n and each.longest <= 100]
    unique = [each for each in unique if each.kind in ("text", "number") and each.words < _least_words(each)]
    return next((each for each in unique if _hint(each.name, ID_WORDS)), unique[0] if unique else None)


def _group(facts: list[ColumnFacts]) -> ColumnFacts | None:
    """The column of groups: by its name, with values that come back in other rows."""
    named = [each for each in facts if _hint(each.name, GROUP_WORDS) and each.kind in ("text", "number", "list")]
    named = [each for each in named if each.repeats >= 1.05 and each.distinct >= 2]
    return max(named, key=lambda each: each.distinct, default=None)


def _same_in_groups(groups: Sequence[Any], labels: Sequence[Any]) -> bool:
    """Whether all rows of a group have the same labels; at least two groups must have several rows with labels."""
    found: dict[str, list[str]] = {}
    for group, own in zip(groups, labels, strict=True):
        if group not in (None, "", []) and own not in (None, "", []):
            found.setdefault(str(group), []).append(str(own))
    several = [each for each in found.values() if len(each) > 1]
    return len(several) > 1 and all(len(set(each)) == 1 for each in several)


def _why_labels(facts: ColumnFacts) -> str:
    form = {None: "lists", "[]": "lists in JSON"}.get(facts.separator, f"names with {facts.separator!r} between")
    if facts.items <= 1 and facts.separator == ";":
        form = "one short name per row"
    return f"{form}; {facts.distinct_items:,} different ones so far"


def _why_group(facts: ColumnFacts) -> str:
    return f"{facts.distinct:,} different values, each {facts.repeats:.1f} times"
