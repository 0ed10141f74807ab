"""The section "The assignment": who owns labels of groups, how sure that is, and groups to look at. Decides nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpipe.report import charts
from xpipe.report.figures import AssignmentFigures, ChanceBin, GroupExample, OwnedLabel
from xpipe.report.page import (
    Cell,
    Column,
    Example,
    Heading,
    Paragraph,
    Picture,
    Pictures,
    Section,
    Table,
    Value,
    numbered,
    shown,
    table,
)
from xpipe.report.run_files import RunFiles

QUALITY = ("precision", "recall", "f1")
NO_CHANCES = {
    "similarity": "This method ranks members by a similarity, which is no chance: nothing tells how sure an owner is.",
    "none": "This method gives every label of a group to all its members: there are no chances.",
}


def assignment_section(run: RunFiles) -> Section | None:
    """How labels of groups became labels of rows; None where the run assigns nothing."""
    summary = run.summary("assign")
    if not summary:
        return None
    share = summary["assigned"] / max(summary["allowed"], 1)
    told = f"Method {summary['method']}: {summary['assigned']:,} of the {summary['allowed']:,} pairs of row and label "
    blocks: list[Any] = [Paragraph(told + f"that groups allow are owners ({share:.1%}).")]
    choice = summary.get("choice")
    if choice and choice.get("why"):
        blocks.append(Paragraph(f"Chosen because {choice['why']}."))
    blocks += _quality(run.results, summary)
    figures = run.figures.assignment if run.figures is not None else None
    blocks += _pictures(figures, choice)
    if figures is not None:
        blocks += _examples(figures)
    return Section("assignment", "The assignment", tuple(blocks))


def _quality(results: Mapping[str, Any], summary: Mapping[str, Any]) -> list[Any]:
    """Expected precision, recall and F1, and true ones where the truth is known."""
    trust = results.get("trust") or {}
    expected, true = trust.get("expected") or {}, trust.get("true") or {}
    if not true and "f1" in summary:
        true = {name: summary[name] for name in QUALITY}
    rows = [
        ("F1" if name == "f1" else name, *_expected(expected.get(name)), true.get(name))
        for name in QUALITY
        if name in expected or name in true
    ]
    if not rows:
        return [Paragraph(trust["why"])] if trust.get("why") else []
    columns = [Column("quality"), Column("expected", number=True, digits=3), Column("interval"),
               Column("true", number=True, digits=3)]  # fmt: skip
    kept = [place for place in range(4) if not place or any(row[place] is not None for row in rows)]
    told = ["Expected quality comes from the chances alone, without true labels."] * bool(expected)
    told += ["True quality compares the owners with the true labels of the rows, which the method never saw."] * bool(
        true
    )
    return [
        Heading("How good the owners are"),
        Paragraph(" ".join(told)),
        *([Paragraph(trust["why"])] if trust.get("why") else []),
        table([columns[place] for place in kept], [[row[place] for place in kept] for row in rows]),
    ]


def _expected(figure: Mapping[str, float] | None) -> tuple[float | None, str | None]:
    """(value, interval) of an expected figure."""
    return (figure["value"], f"{figure['low']:.3f} to {figure['high']:.3f}") if figure else (None, None)


def _pictures(figures: AssignmentFigures | None, choice: Mapping[str, Any] | None) -> list[Any]:
    """The chances of owners, whether they are right, and what methods explain about groups set aside."""
    found: list[Picture] = []
    notes: list[Any] = []
    if figures is not None and figures.pairs:
        if figures.scores != "none":
            found.append(_chances(figures))
        if figures.scores in NO_CHANCES:
            notes.append(Paragraph(NO_CHANCES[figures.scores]))
        elif any(each.right is not None for each in figures.chances):
            found.append(_reliability_of_owners(figures.chances))
    tried = (choice or {}).get("tried") or {}
    if tried.get("reliability"):
        found.append(_reliability_of_groups(tried["reliability"]))
    if tried.get("explained"):
        found.append(_explained(tried["explained"]))
    return [Heading("How sure the owners are"), *notes, Pictures(tuple(found))] if found or notes else []


def _chances(figures: AssignmentFigures) -> Picture:
    """How the chances of owners are spread."""
    posterior = figures.scores == "posterior"
    ticks = [f"{each.low:.2g}–{each.high:.2g}" for each in figures.chances]
    counts = [each.pairs for each in figures.chances]
    what = "chance" if posterior else "similarity"
    starts = [f"{each.low:.2g}" for each in figures.chances]
    sure = sum(each.pairs for each in figures.chances if each.low >= 0.9) / max(figures.pairs, 1)
    note = f"{sure:.0%} of the owners have a chance of 0.9 or more." if posterior else ""
    return Picture(
        "Chances of the owners" if posterior else "Similarities of the owners",
        charts.columns("chances", starts, counts, f"{what}, from", "owners"),
        f"{figures.pairs:,} owners by {what}. {note}",
        table((Column(what), Column("owners", number=True)), zip(ticks, counts, strict=True)),
        note=note,
    )


def _reliability_of_owners(bins: Sequence[ChanceBin]) -> Picture:
    """Whether owners are right as often as their chance says."""
    points = [(each.mean, (each.right or 0) / each.pairs, each.pairs) for each in bins if each.pairs]
    return reliability_picture(
        "owners-reliability", "Reliability of the owners", points, "owners", "chance", "share that is right",
        "By the true labels of the rows, which the method never saw. On the diagonal, chances are right.",
    )  # fmt: skip


def _reliability_of_groups(bins: Sequence[Mapping[str, Any]]) -> Picture:
    """Whether groups that were set aside have labels as often as was forecast."""
    points = [(each["confidence"], each["accuracy"], each["count"]) for each in bins if each["count"]]
    return reliability_picture(
        "groups-reliability", "Reliability on groups set aside", points, "groups and labels",
        "forecast chance that the group has the label", "share that has it",
        "Some groups were set aside, and the labels of each were forecast from the other groups. This needs no true "
        "label of a row.",
    )  # fmt: skip


def reliability_picture(
    name: str, title: str, points: Sequence[tuple[float, float, int]], things: str, x: str, y: str, note: str
) -> Picture:
    """A reliability diagram of (mean chance, share that is right, count)."""
    total = max(sum(count for _, _, count in points), 1)
    off = sum(count * abs(mean - right) for mean, right, count in points) / total
    rows = [(mean, right, count) for mean, right, count in points]
    columns = (
        Column("mean chance", number=True, digits=3),
        Column(y, number=True, digits=3),
        Column(things, number=True),
    )
    return Picture(
        title, charts.reliability(name, points, x, y),
        f"{title}: {total:,} {things} in {len(points)} bins; chances are off by {100 * off:.2f} points on average.",
        table(columns, rows), note=note,
    )  # fmt: skip


def _explained(explained: Mapping[str, float]) -> Picture:
    """How much the owners of each method explain about groups set aside."""
    ordered = sorted(explained.items(), key=lambda item: -item[1])
    names, values = [name for name, _ in ordered], [100 * max(value, 0.0) for _, value in ordered]
    texts = [f"{100 * value:.1f}%" for _, value in ordered]
    return Picture(
        "What methods explain about groups set aside",
        charts.bars("explained", names, [("explained", values, texts, [False] * len(names))]),
        f"The owners of {names[0]} explain most: {texts[0]}.",
        table((Column("method"), Column("explained, %", number=True, digits=2)), [(n, 100 * v) for n, v in ordered]),
        note="The share of what the rates of labels leave open about the labels of groups set aside.",
    )


def _examples(figures: AssignmentFigures) -> list[Any]:
    """Doubtful and easy groups."""
    told = "The mean, over the labels of a group, of the chance of the likeliest owner orders the groups."
    found: list[Any] = []
    for title, groups in (("Doubtful groups", figures.doubtful), ("Easy groups", figures.easy)):
        if groups:
            found += [Heading(title), Paragraph(told), *(_example(group, figures.said) for group in groups)]
    return found


def _example(group: GroupExample, said: str) -> Example:
    """A group with its members and the owners of its labels."""
    name = f"{shown(group.name, 80)} (group {group.group})" if group.name else f"Group {group.group}"
    texts = any(member.text for member in group.members)
    ids = any(member.id for member in group.members)
    columns = [Column("row", number=True), *[Column("id")] * ids, *[Column(said)] * texts]
    members: list[list[Value | Cell]] = [
        [numbered(member.row), *[member.id] * ids, *[member.text] * texts] for member in group.members
    ]
    known = any(owner.right is not None for label in group.labels for owner in label.owners)
    owned = [Column("label"), Column("owner, chance"), Column("likeliest", number=True, digits=2)]
    blocks: tuple[Table, ...] = (
        table(columns, members, "Members", group.more_members),
        table(
            owned,
            [
                (_name(label), _owners(label), label.owners[0].chance if label.owners else None)
                for label in group.labels
            ],
            "Labels, the most doubtful first" + (" (✓ truly theirs, ✗ not)" if known else ""),
            group.more_labels,
        ),
    )
    return Example(f"{name}: {group.chance:.2f}", blocks if texts or ids else blocks[1:])


def _name(label: OwnedLabel) -> str:
    """The name of a label, or its number."""
    return label.name or f"label {label.label}"


def _owners(label: OwnedLabel) -> Cell:
    """The owners of a label with their chances."""
    mark = {True: " ✓", False: " ✗", None: ""}
    told = [f"row {owner.row} {owner.chance:.2f}{mark[owner.right]}" for owner in label.owners]
    more = [f"{label.more} more"] if label.more else []
    return Cell(", ".join([*told, *more]), label.owners[0].chance if label.owners else None)
