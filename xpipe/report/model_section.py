"""The section "The models": metrics, by label frequency, reliability, training curves. Measures nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from xpipe.ground.quantities import format_seconds
from xpipe.report import charts
from xpipe.report.assignment_section import reliability_picture
from xpipe.report.page import Cell, Column, Heading, Paragraph, Picture, Pictures, Section, Table, cell, table
from xpipe.report.run_files import RunFiles

Model = Mapping[str, Any]
SHOWN = {"precision": "P", "ndcg": "nDCG", "psp": "PSP", "recall": "R", "f1": "F1", "micro_f1": "micro F1",
         "macro_f1": "macro F1", "coverage": "coverage"}  # fmt: skip
USUAL_RANKS = (1, 3, 5, 10, 20, 50, 100)
CURVES = {"loss": "training loss", "validation_loss": "held-out loss", "validation_ndcg": "held-out nDCG@5"}


def model_section(run: RunFiles) -> Section | None:
    """Every model and how good it is; None where the run has no model."""
    trained = bool(run.summary("train") or run.summary("train_heads"))
    if run.evaluation is None and not trained:
        return None
    blocks: list[Any] = []
    if run.evaluation is None:
        blocks.append(Paragraph("The models were not evaluated: the pipeline has no section `evaluate`."))
    else:
        models = run.evaluation["models"]
        split = run.evaluation["split"]
        blocks += [_rows_told(models, split), _metrics(models), Pictures(tuple(_precisions(models, split)))]
        blocks += [Heading("Confidence"), *_confidence(models, run.summary("evaluate"))]
    if run.histories:
        blocks += [Heading("Training"), Pictures(tuple(_curves(run.histories)))]
    return Section("models", "The models", tuple(blocks))


def _rows_told(models: Sequence[Model], split: str) -> Paragraph:
    """What was measured."""
    first = models[0]
    told = f"Measured on {first['rows_measured']:,} rows of {split}, {first['labels']:,} labels; "
    told += f"{first['labels_with_true_rows']:,} of these occur there."
    intervals = first.get("intervals") or {}
    if intervals:
        told += f" Intervals have {intervals['confidence']:.0%} confidence"
        told += f", from {intervals['resamples']:,} resamples of the rows."
    return Paragraph(told)


def _metrics(models: Sequence[Model]) -> Table:
    """One row per model, at the usual ranks, in percent, with intervals."""
    k = models[0]["k"]
    ranks = [rank for rank in USUAL_RANKS if rank <= k]
    ranks = ranks if k in ranks else [*ranks, k]
    wanted = [("precision", rank) for rank in ranks] + [(name, k) for name in SHOWN if name != "precision"]
    wanted = [(name, rank) for name, rank in wanted if any(name in model["metrics"] for model in models)]
    columns = [Column("model"), *(Column(f"{SHOWN[name]}@{rank}", number=True) for name, rank in wanted)]
    rows = [[model["name"], *(_metric(model, name, rank) for name, rank in wanted)] for model in models]
    return table(columns, rows, "Metrics, %")


def _metric(model: Model, name: str, rank: int) -> Cell:
    """A metric in percent, and half the width of its interval."""
    values = model["metrics"].get(name) or []
    if len(values) < rank:
        return cell(None)
    value, ends = 100 * values[rank - 1], (model.get("intervals") or {}).get(name)
    half = f" ± {50 * (ends[rank - 1][1] - ends[rank - 1][0]):.2f}" if ends else ""
    return Cell(f"{value:.2f}{half}", value)


def _precisions(models: Sequence[Model], split: str) -> list[Picture]:
    """P@k of every model, and its recall by label frequency."""
    k = models[0]["k"]
    ranks = [float(rank) for rank in range(1, k + 1)]
    lines = [_line(model, "precision") for model in models]
    rows = [
        (model["name"], rank, 100 * model["metrics"]["precision"][rank - 1], *_ends(model, "precision", rank))
        for model in models
        for rank in range(1, k + 1)
    ]
    columns = (
        Column("model"),
        Column("k", number=True),
        *(Column(name, number=True, digits=2) for name in ("P@k", "from", "to")),
    )
    best = max(models, key=lambda model: model["metrics"]["precision"][0])
    at_k = Picture(
        "Precision at k",
        charts.lines("precision", ranks, lines, charts.Axis("k", whole=True), charts.Axis("P@k, %")),
        f"P@1 to P@{k} of {len(models)} models on {split}. "
        f"Best at 1: {best['name']}, {100 * best['metrics']['precision'][0]:.1f}%.",
        table(columns, rows),
        note="Bands are intervals." if any(model.get("intervals") for model in models) else "",
    )
    return [at_k, *_by_frequency(models)]


def _line(model: Model, name: str) -> charts.Line:
    """A metric at every rank, in percent, with its band."""
    ends = (model.get("intervals") or {}).get(name)
    values = [100 * value for value in model["metrics"][name]]
    if not ends:
        return charts.Line(model["name"], values)
    return charts.Line(model["name"], values, [100 * low for low, _ in ends], [100 * high for _, high in ends])


def _ends(model: Model, name: str, rank: int) -> tuple[float | None, float | None]:
    """The ends of an interval, in percent."""
    ends = (model.get("intervals") or {}).get(name)
    return (100 * ends[rank - 1][0], 100 * ends[rank - 1][1]) if ends else (None, None)


def _by_frequency(models: Sequence[Model]) -> list[Picture]:
    """Precision and recall of labels by their frequency, most frequent first."""
    groups = models[0].get("by_frequency") or []
    if not groups:
        return []
    ticks = [str(place) for place in range(1, len(groups) + 1)]
    places = [float(place) for place in range(1, len(groups) + 1)]
    k, found = models[0]["k"], []
    for name in ("precision", "recall"):
        lines = [charts.Line(model["name"], [100 * group[name] for group in model["by_frequency"]]) for model in models]
        rows = [
            (
                place,
                f"{group['frequency'][0]:,}–{group['frequency'][1]:,}",
                group["labels"],
                model["name"],
                100 * group[name],
            )
            for model in models
            for place, group in enumerate(model["by_frequency"], 1)
        ]
        columns = (Column("class", number=True), Column("frequency"), Column("labels", number=True), Column("model"),
                   Column(f"{name}, %", number=True, digits=2))  # fmt: skip
        first, last = groups[0]["frequency"], groups[-1]["frequency"]
        found.append(
            Picture(
                f"{name.capitalize()} by label frequency",
                charts.lines(
                    f"frequency-{name}",
                    places,
                    lines,
                    charts.Axis("labels, most frequent first"),
                    charts.Axis(f"{name} at {k}, %", low=0),
                    ticks=ticks,
                ),
                f"{name} of {len(groups)} classes of labels, from frequencies {first[0]:,} to {first[1]:,} "
                f"down to {last[0]:,} to {last[1]:,}.",
                table(columns, rows),
                note="Classes have about equally many labels. Frequencies are those in "
                f"{models[0].get('frequency_from', 'training rows')}.",
            )
        )
    return found


def _confidence(models: Sequence[Model], summary: Mapping[str, Any]) -> list[Any]:
    """Calibration errors, and a reliability diagram for every model."""
    rows: list[tuple[Any, ...]] = []
    pictures: list[Picture] = []
    seconds = {model["name"]: model.get("predict_seconds") for model in summary.get("models", ())}
    for model in models:
        calibration = model.get("calibration")
        if not calibration:
            continue
        parameters = model.get("parameters") or {}
        took = seconds.get(model["name"])
        rows.append(
            (model["name"], 100 * calibration["ece"], 100 * calibration["ace"], calibration.get("mean_max_confidence"),
             parameters.get("head"), Cell(format_seconds(took), took) if took is not None else None)
        )  # fmt: skip
        points = [
            (each["confidence"], each["accuracy"], each["count"])
            for each in calibration["reliability"]
            if each["count"]
        ]
        name = model["name"]
        pictures.append(
            reliability_picture(
                f"reliability-{len(pictures)}",
                f"Reliability of {name}",
                points,
                "predictions",
                "probability",
                "share that is right",
                f"The {calibration['calibration_k']} most probable labels of every row. On the diagonal, probabilities "
                "are right; the larger a point, the more predictions.",
            )
        )
    if not rows:
        return [Paragraph("No calibration was measured.")]
    columns = (
        Column("model"), Column("ECE, %", number=True, digits=2), Column("ACE, %", number=True, digits=2),
        Column("confidence in the best label", number=True, digits=3), Column("parameters of the head", number=True),
        Column("time to predict", number=True),
    )  # fmt: skip
    kept = [place for place in range(len(columns)) if any(row[place] is not None for row in rows)]
    return [
        table([columns[place] for place in kept], [[row[place] for place in kept] for row in rows], "Calibration"),
        Pictures(tuple(pictures)),
    ]


def _curves(histories: Mapping[str, Mapping[str, Any]]) -> list[Picture]:
    """For each figure of the epochs, one picture with a line per head."""
    found = []
    for key, title in CURVES.items():
        having = {
            name: history for name, history in histories.items() if any(key in epoch for epoch in history["epochs"])
        }
        if not having:
            continue
        longest = max(len(history["epochs"]) for history in having.values())
        values = {name: [epoch.get(key) for epoch in history["epochs"]] for name, history in having.items()}
        lines = [charts.Line(name, [*each, *[None] * (longest - len(each))]) for name, each in values.items()]
        positive = all(value > 0 for each in values.values() for value in each if value is not None)
        log = positive and key != "validation_ndcg"
        rows = [(name, epoch, value) for name, each in values.items() for epoch, value in enumerate(each, 1)]
        best = ", ".join(f"{name} {history['best_epoch']}" for name, history in having.items())
        found.append(
            Picture(
                title[0].upper() + title[1:],
                charts.lines(
                    f"curve-{key}",
                    [float(epoch) for epoch in range(1, longest + 1)],
                    lines,
                    charts.Axis("epoch", whole=True),
                    charts.Axis(title + " (log scale)" * log, log=log),
                ),
                f"{title} of {len(having)} heads over up to {longest} epochs. Best epochs: {best}.",
                table((Column("head"), Column("epoch", number=True), Column(title, number=True, digits=4)), rows),
                note=f"Best epoch: {best}.",
            )
        )
    return found
