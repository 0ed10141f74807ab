"""The section "The data": splits, labels per row, features per row, label frequencies, groups. Counts nothing."""

from __future__ import annotations

from typing import Any

from xpipe.report import charts
from xpipe.report.figures import GroupFigures, LabelFigures, Spread, shorten
from xpipe.report.page import Column, Heading, Paragraph, Picture, Pictures, Section, numbered, table
from xpipe.report.run_files import RunFiles

SPLITS = ("train", "dev", "test")
MISSING = "This run has no figures of its data: `xpipe report` makes them where the store still has the data."


def data_section(run: RunFiles) -> Section:
    """What the data looks like."""
    read = {**run.summary("read"), **run.summary("vectorize")}  # features of tables come from stage vectorize
    blocks: list[Any] = []
    if read:
        counted = [
            (read.get("n_features"), "features"),
            (read.get("n_labels"), "labels"),
            (read.get("groups"), "groups"),
        ]
        shape = ", ".join(f"{count:,} {what}" for count, what in counted if count is not None)
        blocks.append(Paragraph(f"{read['rows']:,} rows, {shape}."))
        odd = [
            (read.get("rows_without_labels"), "rows without labels"),
            (read.get("rows_without_features"), "rows without features"),
            (read.get("rejected"), "bad rows dropped"),
        ]
        told = [f"{count:,} {what}" for count, what in odd if count]
        if told:
            blocks.append(Paragraph(", ".join(told) + "."))
    figures = run.figures
    if figures is None:
        return Section("data", "The data", (*blocks, Paragraph(MISSING)))
    splits = {name: figures.splits[name] for name in sorted(figures.splits, key=_split_order)}
    rows = [
        (split, each.rows, each.features.mean, each.labels.mean if each.labels else None)
        for split, each in splits.items()
    ]
    columns = (
        Column("split"), Column("rows", number=True), Column("features per row", number=True, digits=1),
        Column("labels per row", number=True, digits=2),
    )  # fmt: skip
    blocks.append(table(columns, rows, "Splits"))
    pictures = []
    for split, each in splits.items():
        if each.labels is not None:
            pictures.append(
                spread_picture(f"labels-{split}", f"Labels per row, {split}", each.labels, "labels", "rows")
            )
    for split, each in splits.items():
        title = f"Features (words) per row, {split}"
        pictures.append(spread_picture(f"features-{split}", title, each.features, "features", "rows"))
    blocks.append(Pictures(tuple(pictures)))
    if figures.labels is not None and figures.labels.curve:
        blocks += _labels(figures.labels)
    if figures.groups is not None:
        blocks += _groups(figures.groups)
    return Section("data", "The data", tuple(blocks))


def _split_order(name: str) -> tuple[int, str]:
    """Training rows come first."""
    return (SPLITS.index(name) if name in SPLITS else len(SPLITS)), name


def spread_picture(name: str, title: str, found: Spread, of: str, things: str) -> Picture:
    """How whole numbers are spread, as columns."""
    names, counts = [each.in_words() for each in found.bins], [each.count for each in found.bins]
    ranges = any(each.high is not None and each.high > each.low for each in found.bins)
    ticks = [shorten(each.low) + "+" * (each.high is None) for each in found.bins]
    log = len(counts) > 1 and max(counts) > 200 * max(1, min(count for count in counts if count))
    svg = charts.columns(
        name, ticks, counts, f"{of}, from" if ranges else of, f"{things} (log scale)" if log else things, log=log
    )
    told = f"mean {found.mean:,.4g}, median {found.median:,.4g}, most {found.most:,}"
    numbers = table((Column(of), Column(things, number=True)), zip(names, counts, strict=True))
    return Picture(
        title, svg, f"{title}: {told}.", numbers,
        note=told[0].upper() + told[1:] + ".",
    )  # fmt: skip


def _labels(found: LabelFigures) -> list[Any]:
    """How often labels occur: a curve, classes, and the most frequent by name."""
    ranks, counts = [float(each.rank) for each in found.curve], [float(each.count) for each in found.curve]
    unused = f" {found.unused:,} labels are never used." if found.unused else ""
    curve = Picture(
        "Label frequencies",
        charts.lines(
            "frequencies", ranks, [charts.Line("frequency", counts)], charts.Axis("rank of the label", log=True),
            charts.Axis(f"{found.counted.split(',')[0]} with it", log=True),
        ),
        f"Frequency of labels by rank, in {found.counted}: the most frequent occurs {counts[0]:,.0f} times, "
        f"the last {counts[-1]:,.0f} times.",
        table(
            (Column("rank", number=True), Column("frequency", number=True)),
            [(each.rank, each.count) for each in found.curve],
        ),
        note=f"Counted in {found.counted}.{unused}",
    )  # fmt: skip
    ticks, names = [each.in_short() for each in found.classes], [each.in_words() for each in found.classes]
    sizes = [each.count for each in found.classes]
    classes = Picture(
        "Frequent and rare labels",
        charts.columns("classes", ticks, sizes, f"frequency in {found.counted}", "labels"),
        "Labels by frequency: "
        + ", ".join(f"{size:,} with {name}" for name, size in zip(names, sizes, strict=True))
        + ".",
        table((Column("frequency"), Column("labels", number=True)), zip(names, sizes, strict=True)),
    )
    columns = (Column("label", number=True), Column("name"), Column("frequency", number=True))
    named = [(numbered(each.label), each.name or None, each.count) for each in found.most]
    more = found.labels - found.unused - len(found.most)
    return [Heading("Labels"), Pictures((curve, classes)), table(columns, named, "The most frequent labels", more)]


def _groups(found: GroupFigures) -> list[Any]:
    """The sizes of groups."""
    return [
        Heading("Groups"),
        Paragraph(f"Labels are known for {found.groups:,} groups of rows."),
        Pictures(
            (
                spread_picture("group-sizes", "Rows per group", found.sizes, "rows", "groups"),
                spread_picture("group-labels", "Labels per group", found.labels, "labels", "groups"),
            )
        ),
    ]
