"""The section "What heads can produce": verdicts, radii by number of active labels, the worst sets. Proves nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpipe.report import charts
from xpipe.report.page import Column, Example, Heading, Paragraph, Picture, Pictures, Section, shown, table
from xpipe.report.run_files import RunFiles

MOST_CONFLICTING = 12  # labels of a conflict that are shown


def verification_section(run: RunFiles) -> Section | None:
    """Which label sets heads can and cannot produce; None where nothing was verified."""
    found = run.verification
    if found is None:
        return None
    heads = found["heads"]
    told = (
        f"{found['rows']:,} rows of {found['split']} have {found['distinct_sets']:,} distinct label sets. "
        "Every verdict has a certificate: a point that gives the set, or multipliers which prove that none does."
    )
    blocks: list[Any] = [Paragraph(told), _counts(heads, found["eps"])]
    if found["unseen_occurrences"]:
        blocks.append(
            Paragraph(f"{found['unseen_occurrences']:,} occurrences of labels that training never saw were left out.")
        )
    blocks += [Paragraph(f"{head['name']}: {head['bias_told']}") for head in heads if head.get("bias_told")]
    picture = _radii(heads)
    blocks.append(Pictures((picture, _shares(heads)) if picture is not None else (_shares(heads),)))
    blocks += _worst(heads)
    return Section("verification", "What heads can produce", tuple(blocks))


def _counts(heads: list[Mapping[str, Any]], eps: float) -> Any:
    """One row per head."""
    names = ("sets", "argmaxable", "one_argmaxable", "unargmaxable", "undecided")
    columns = [
        Column("head"), Column("inputs", number=True), Column("sets", number=True),
        Column(f"radius > {eps:g}", number=True), Column("radius ≥ 1", number=True), Column("never", number=True),
        Column("undecided", number=True), Column("median radius", number=True, digits=1),
        Column("by sign changes", number=True),
    ]  # fmt: skip
    rows = [
        [head["name"], head["inputs"], *(head[name] for name in names), head["radii"]["p50"] if head["radii"] else None,
         head["dft"]["guaranteed"] if "dft" in head else None]
        for head in heads
    ]  # fmt: skip
    if all(row[-1] is None for row in rows):
        columns, rows = columns[:-1], [row[:-1] for row in rows]
    return table(columns, rows, "Label sets that heads can produce")


def _classes(heads: list[Mapping[str, Any]]) -> list[str]:
    """The classes of numbers of active labels, in their order."""
    return list(dict.fromkeys(each["labels"] for head in heads for each in head["by_active_labels"]))


def _radii(heads: list[Mapping[str, Any]]) -> Picture | None:
    """Radii by number of active labels."""
    classes, lines, rows = _classes(heads), [], []
    for head in heads:
        by_class = {each["labels"]: each["radii"] for each in head["by_active_labels"]}
        radii = [by_class.get(each) for each in classes]
        lines.append(
            charts.Line(
                head["name"],
                [each and each["p50"] for each in radii],
                [each["p5"] if each else 0.0 for each in radii],
                [each["p95"] if each else 0.0 for each in radii],
            )
        )
        rows += [(head["name"], name, *((each["p5"], each["p50"], each["p95"]) if each else [None] * 3))
                 for name, each in zip(classes, radii, strict=True)]  # fmt: skip
    if not any(value for line in lines for value in line.values):
        return None
    columns = (
        Column("head"),
        Column("active labels"),
        *(Column(f"radius {name}", number=True, digits=2) for name in ("p5", "p50", "p95")),
    )
    radius = charts.Axis("radius (log scale)", log=True)
    return Picture(
        "Radius by number of active labels",
        charts.ranges("radii", classes, lines, charts.Axis("active labels"), radius),
        "Median radius of argmaxable sets by number of active labels, from the 5th to the 95th percentile. "
        + "; ".join(f"{head['name']}: median {head['radii']['p50']:.3g}" for head in heads if head["radii"]) + ".",
        table(columns, rows),
        note="The larger the radius, the more room a network has to produce the set. Points are medians, bars go from "
        "the 5th to the 95th percentile.",
    )  # fmt: skip


def _shares(heads: list[Mapping[str, Any]]) -> Picture:
    """The share of sets that can be produced, by number of active labels."""
    classes, lines, rows = _classes(heads), [], []
    for head in heads:
        by_class = {each["labels"]: each for each in head["by_active_labels"]}
        shares = [
            100 * by_class[each]["argmaxable"] / max(by_class[each]["sets"], 1) if each in by_class else None
            for each in classes
        ]
        lines.append(charts.Line(head["name"], shares))
        rows += [
            (head["name"], name, by_class[name]["sets"], by_class[name]["argmaxable"], share)
            for name, share in zip(classes, shares, strict=True)
            if name in by_class
        ]
    columns = (Column("head"), Column("active labels"), Column("sets", number=True), Column("argmaxable", number=True),
               Column("share, %", number=True, digits=2))  # fmt: skip
    never = "; ".join(
        f"{head['name']} can never produce {head['unargmaxable']:,} of {head['sets']:,}" for head in heads
    )
    return Picture(
        "Label sets that can be produced",
        charts.lines(
            "argmaxable",
            [float(place) for place in range(len(classes))],
            lines,
            charts.Axis("active labels"),
            charts.Axis("argmaxable, %"),
            ticks=classes,
        ),
        f"Share of label sets that heads can produce, by number of active labels. {never}.",
        table(columns, rows),
        note=never + ".",
    )


def _worst(heads: list[Mapping[str, Any]]) -> list[Any]:
    """The sets that can never be produced, with the labels that exclude each other."""
    found: list[Any] = []
    for head in heads:
        if not head["worst"]:
            continue
        found.append(Heading(f"Sets that {shown(head['name'], 60)} can never produce"))
        for each in head["worst"]:
            times = f", {each['rows']:,} rows" if each["rows"] > 1 else ""
            conflict = sorted(each["conflict"], key=lambda label: not label["in_the_set"])
            size = len(conflict)
            found.append(
                Example(
                    f"Row {each['row']}, {len(each['labels'])} labels{times}",
                    (
                        Paragraph("The set: " + "; ".join(each["labels"][:MOST_CONFLICTING]) + "."),
                        Paragraph(
                            f"These {size} labels cannot have these signs together"
                            + (": leave any of them out, and the others can." if each["minimal"] else ".")
                        ),
                        table(
                            (Column("sign"), Column("label")),
                            [
                                ("+" if label["in_the_set"] else "−", label["name"])
                                for label in conflict[:MOST_CONFLICTING]
                            ],
                            "The conflict",
                            max(0, size - MOST_CONFLICTING),
                        ),
                    ),
                )
            )
    return found
