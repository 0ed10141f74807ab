"""The sections of the report of a matrix: a table, heat maps, and lines between baseline and oracle. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpipe.ground import files
from xpipe.ground.quantities import format_seconds
from xpipe.report import charts
from xpipe.report.page import Cell, Code, Column, Heading, Paragraph, Picture, Pictures, Section, cell, table
from xpipe.report.reproduce_section import pipeline_text

Row = Mapping[str, Any]
ORACLE, BASELINE, METHOD = "oracle", "baseline", "assign.method"
MOST_ROWS = 40  # of a heat map
MOST_PICTURES = 12
MOST_LINES = 12
RANKS = (1, 3, 5)
AT_LAST = {"ndcg": "nDCG", "psp": "PSP", "recall": "R", "macro_f1": "macro F1"}


def matrix_sections(content: Mapping[str, Any]) -> list[Section]:
    """All sections of the report of a matrix. content: that of table.json."""
    keys = content["keys"]
    rows = [{**row, "values": {key: row["values"][key] for key in keys}} for row in content["rows"]]  # in their order
    return [_overview(content, rows), _quality(rows), _between(rows), _costs(rows), _reproduce(content, rows)]


def name_of(row: Row, several: bool) -> str:
    """The name of a row: the values of the matrix, and the model where there are several."""
    values = ", ".join(dict.fromkeys(row["values"].values()))
    return f"{values}: {row['model']['name']}" if several and row["model"] else values


def _several(rows: Sequence[Row]) -> bool:
    """Whether the matrix has several models."""
    return len({row["model"]["name"] for row in rows if row["model"]}) > 1


def _measures(rows: Sequence[Row]) -> list[tuple[str, Any]]:
    """(name, function of a row) of every figure that at least one row has."""
    k = max((len(row["model"].get("precision", ())) for row in rows), default=0)

    def at(name: str, rank: int) -> Any:
        return lambda row: 100 * row["model"][name][rank - 1] if len(row["model"].get(name, ())) >= rank else None

    def percent(name: str) -> Any:
        return lambda row: 100 * row["model"][name] if name in row["model"] else None

    def share(row: Row) -> float | None:
        proved = row["verified"]
        return 100 * proved["eps_argmaxable"] / max(proved["sets"], 1) if proved else None

    found = [(f"P@{rank}", at("precision", rank)) for rank in dict.fromkeys((*RANKS, k)) if 0 < rank <= k]
    found += [(f"{title}@{k}", at(name, k)) for name, title in AT_LAST.items()] if k else []
    found += [
        ("ECE", percent("ece")),
        ("owners F1", lambda row: 100 * row["labels"]["f1"] if "f1" in row["labels"] else None),
    ]
    found += [("gap", lambda row: 100 * row["gap_closed"] if "gap_closed" in row else None), ("possible", share)]
    return [(name, of) for name, of in found if any(of(row) is not None for row in rows)]


def _overview(content: Mapping[str, Any], rows: Sequence[Row]) -> Section:
    """What varies, and one table of all runs."""
    several, measures = _several(rows), _measures(rows)
    runs = len({row["out"] for row in rows})
    told = f"{runs} runs; what varies: {', '.join(content['keys'])}. All figures in percent."
    notes = {
        "owners F1": "owners F1 is that of the assigned labels against the true ones",
        "gap": "gap is the share of the way from the baseline to the oracle (true labels) that P at the last rank goes",
        "possible": "possible is the share of label sets that a head is proved to be able to produce",
    }
    legend = "; ".join(text for name, text in notes.items() if name in dict(measures))
    columns = [*(Column(key) for key in content["keys"]), *[Column("model")] * several,
               *(Column(name, number=True, digits=2) for name, _ in measures)]  # fmt: skip
    cells = [
        [*row["values"].values(), *[row["model"].get("name", "")] * several, *(of(row) for _, of in measures)]
        for row in rows
    ]
    blocks: list[Any] = [Paragraph(told), table(columns, cells, "All runs")]
    if legend:
        blocks.append(Paragraph(legend[0].upper() + legend[1:] + "."))
    return Section("runs", "All runs", tuple(blocks))


def _quality(rows: Sequence[Row]) -> Section:
    """Heat maps: runs by figures, and where two keys vary, one by the other."""
    several, measures = _several(rows), [each for each in _measures(rows) if each[0] != "ECE"]
    kept = rows[:MOST_ROWS]
    names = [name_of(row, several) for row in kept]
    values = [[of(row) for _, of in measures] for row in kept]
    texts = [[f"{value:.1f}" if value is not None else "" for value in row] for row in values]
    columns = (Column("run"), *(Column(name, number=True, digits=2) for name, _ in measures))
    pictures = []
    if measures:
        best = max(range(len(kept)), key=lambda place: values[place][0] if values[place][0] is not None else -1.0)
        pictures.append(
            Picture(
                "Figures of every run",
                charts.heat_map("heat", names, [name for name, _ in measures], values, texts, by_column=True),
                f"A heat map of {len(kept)} rows by {len(measures)} figures. "
                f"Best {measures[0][0]}: {names[best]}, {texts[best][0]}%.",
                table(
                    columns, [[name, *row] for name, row in zip(names, values, strict=True)], more=len(rows) - len(kept)
                ),
                note="The stronger the colour, the higher the figure within its column.",
                wide=True,
            )
        )
    pictures += _grids(rows)
    return Section("figures", "Figures side by side", (Pictures(tuple(pictures)),))


def _grids(rows: Sequence[Row]) -> list[Picture]:
    """For two keys that vary, P at the last rank of every model as a grid of one key by the other."""
    keys = list(rows[0]["values"]) if rows else []
    if len(keys) != 2:
        return []
    models = list(dict.fromkeys(row["model"]["name"] for row in rows if row["model"].get("precision")))
    found = []
    for number, model in enumerate(models[:MOST_PICTURES]):
        having = [row for row in rows if row["model"].get("name") == model]
        down, across = (list(dict.fromkeys(row["values"][key] for row in having)) for key in keys)
        at = {
            tuple(row["values"].values()): 100 * row["model"]["precision"][-1]
            for row in having
            if row["model"].get("precision")
        }
        values = [[at.get((one, other)) for other in across] for one in down]
        texts = [[f"{value:.1f}" if value is not None else "" for value in row] for row in values]
        k = max(len(row["model"].get("precision", ())) for row in having)
        found.append(
            Picture(
                f"P@{k} of {model}, %: {keys[0]} by {keys[1]}",
                charts.heat_map(f"grid-{number}", down, across, values, texts, by_column=False),
                f"P@{k} in percent for {len(down)} values of {keys[0]} and {len(across)} of {keys[1]}.",
                table((Column(keys[0]), *(Column(name, number=True, digits=2) for name in across)),
                      [[one, *row] for one, row in zip(down, values, strict=True)]),
                note="The stronger the colour, the higher the figure in the whole grid.",
                wide=True,
            )
        )  # fmt: skip
    return found


def _between(rows: Sequence[Row]) -> Section:
    """P at every rank, as lines between baseline and oracle: pictures for each model and setting of other keys."""
    having = [row for row in rows if row["model"].get("precision")]
    if not having:
        return Section("lines", "Between baseline and oracle", (Paragraph("No model of these runs was evaluated."),))
    oracles = [row for row in having if ORACLE in row["values"].values()]
    settings = list(dict.fromkeys((row["model"]["name"], _others(row)) for row in having if row not in oracles))
    pictures = []
    for number, (model, others) in enumerate(settings[:MOST_PICTURES]):
        chosen = [
            row for row in having if row not in oracles and (row["model"]["name"], _others(row)) == (model, others)
        ]
        oracle = [row for row in oracles if row["model"]["name"] == model][:1]
        title = ", ".join([model, *others]) if len(settings) > 1 else model
        pictures.append(_lines(f"between-{number}", title, chosen[:MOST_LINES], oracle))
        pictures += _closed(f"closed-{number}", title, chosen[:MOST_LINES], oracle)
    told = (
        "P@k of models that were trained on assigned labels. The oracle was trained on the true labels, the baseline "
        "gives every label of a group to all its members."
    )
    if not oracles:
        told = "P@k of every run."
    left = len(settings) - len(pictures)
    more = [Paragraph(f"{left} more settings are in the table of all runs.")] * (left > 0)
    return Section(
        "lines",
        "Between baseline and oracle" if oracles else "P@k",
        (Paragraph(told), Pictures(tuple(pictures)), *more),
    )


def _others(row: Row) -> tuple[str, ...]:
    """The values of all keys but the method, where the method varies; else of none."""
    if METHOD not in row["values"]:
        return ()
    return tuple(value for key, value in row["values"].items() if key != METHOD)


def _lines(name: str, title: str, rows: Sequence[Row], oracle: Sequence[Row]) -> Picture:
    """One picture: P@1 to P@k of some runs. Baseline and oracle are dashed."""
    k = max(len(row["model"]["precision"]) for row in rows)
    ranks = [float(rank) for rank in range(1, k + 1)]
    drawn, cells = [], []
    for row in [*oracle, *rows]:
        method = row["values"].get(METHOD)
        label = ORACLE if row in oracle else method if method is not None else name_of(row, several=False)
        own = [100 * value for value in row["model"]["precision"]]
        values = [*own, *[None] * (k - len(own))]
        drawn.append(charts.Line(label, values, faint=row in oracle or method == BASELINE, dotted=method == BASELINE))
        cells += [(label, rank, value) for rank, value in enumerate(values, 1)]
    gaps = [
        f"{row['values'].get(METHOD, name_of(row, several=False))} closes {row['gap_closed']:.1%} of the gap"
        for row in rows
        if "gap_closed" in row and row["values"].get(METHOD) != BASELINE
    ]
    return Picture(
        f"P@k: {title}",
        charts.lines(name, ranks, drawn, charts.Axis("k", whole=True), charts.Axis("P@k, %")),
        f"P@1 to P@{k} of {len(drawn)} runs. {'; '.join(gaps)}",
        table((Column("run"), Column("k", number=True), Column("P@k, %", number=True, digits=2)), cells),
        note="; ".join(gaps) + "." if gaps else "",
    )


def _closed(name: str, title: str, rows: Sequence[Row], oracle: Sequence[Row]) -> list[Picture]:
    """The same on a scale on which the baseline is 0 and the oracle 100 at every rank; [] where one is missing."""
    baseline = [row for row in rows if row["values"].get(METHOD) == BASELINE]
    others = [row for row in rows if row not in baseline]
    if not baseline or not oracle or not others:
        return []
    low, high = baseline[0]["model"]["precision"], oracle[0]["model"]["precision"]
    ranks = range(1, min(len(low), len(high)) + 1)
    drawn, cells = [charts.Line(ORACLE, [100.0 for _ in ranks], faint=True)], []
    drawn.append(charts.Line(BASELINE, [0.0 for _ in ranks], faint=True, dotted=True))
    for row in others:
        own, label = row["model"]["precision"], row["values"][METHOD]
        shares = [
            100 * (own[rank - 1] - low[rank - 1]) / (high[rank - 1] - low[rank - 1])
            if high[rank - 1] > low[rank - 1] and len(own) >= rank
            else None
            for rank in ranks
        ]
        drawn.append(charts.Line(label, shares))
        cells += [(label, rank, share) for rank, share in zip(ranks, shares, strict=True)]
    told = f"How far each method goes from the baseline to the oracle at every k, {title}."
    return [
        Picture(
            f"Gap closed: {title}",
            charts.lines(
                name, [float(rank) for rank in ranks], drawn, charts.Axis("k", whole=True), charts.Axis("gap closed, %")
            ),
            told,
            table((Column("method"), Column("k", number=True), Column("gap closed, %", number=True, digits=1)), cells),
            note="0% is the baseline, 100% the oracle.",
        )
    ]


def _costs(rows: Sequence[Row]) -> Section:
    """How long the stages of every run took."""
    by_run = {row["out"]: row for row in rows}
    stages = list(dict.fromkeys(stage for row in by_run.values() for stage in row["seconds"]))
    columns = (Column("run"), *(Column(f"{stage}", number=True) for stage in stages), Column("all", number=True))
    cells: list[list[Any]] = []
    for row in by_run.values():
        seconds = row["seconds"]
        total = sum(seconds.values())
        made = [
            Cell(format_seconds(seconds[stage]), seconds[stage]) if stage in seconds else cell(None) for stage in stages
        ]
        cells.append([name_of(row, several=False), *made, Cell(format_seconds(total), total)])
    totals = [sum(row["seconds"].values()) for row in by_run.values()]
    names = [name_of(row, several=False) for row in by_run.values()]
    picture = Picture(
        "Time of each run",
        charts.bars(
            "matrix-costs",
            names[:MOST_ROWS],
            [
                (
                    "time of the stages",
                    totals[:MOST_ROWS],
                    [format_seconds(each) for each in totals[:MOST_ROWS]],
                    [False] * len(totals[:MOST_ROWS]),
                )
            ],
        ),
        f"The longest of {len(totals)} runs took {format_seconds(max(totals, default=0))}.",
        table(columns, cells),
        note="What runs share was done once, in the first of them; such stages count there only.",
    )
    return Section("costs", "How long it took", (Pictures((picture,)),))


def _reproduce(content: Mapping[str, Any], rows: Sequence[Row]) -> Section:
    """How to make the matrix again."""
    blocks: list[Any] = [Code("Command", f"xpipe run {content['name']}.yaml")]
    if "pipeline" in content:
        blocks.append(Code(f"{content['name']}.yaml", pipeline_text(content["pipeline"])))
    if "versions" in content:
        blocks += [
            Heading("Releases"),
            table((Column("package"), Column("release")), sorted(content["versions"].items())),
        ]
    runs = dict.fromkeys((files.basename(row["out"]), name_of(row, several=False)) for row in rows)
    blocks += [
        Heading("The runs"),
        Paragraph(
            "Each run has a folder of its own with all its results; `xpipe report FOLDER` makes the report of one run."
        ),
        table((Column("run"), Column("folder")), [(values, out) for out, values in runs]),
    ]
    return Section("reproduce", "How to make this again", tuple(blocks))
