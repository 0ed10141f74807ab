"""Predictions for all rows of an input: blocks are predicted on the cluster of the run, then joined to one table.

Orchestration only: `work` has what a worker does. Neither the cluster nor its workers change a byte of the table.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pydantic import ValidationError
from typing_extensions import TypedDict

from xpipe.engine.cluster import ClusterParams, connect
from xpipe.engine.context import Context
from xpipe.engine.params import Params
from xpipe.engine.progress import Progress
from xpipe.engine.results import FIX, RESULTS
from xpipe.errors import ConfigError, DataError
from xpipe.formats.parquet_files import open_parquet
from xpipe.ground import files
from xpipe.ground.backend import choose
from xpipe.ground.checked_json import read_json
from xpipe.ground.library_threads import while_executing
from xpipe.ground.temporary_names import temporary_name
from xpipe.stages.predict.input_rows import rows_of_input
from xpipe.stages.predict.model import check_features, open_model
from xpipe.stages.predict.run_models import StoredModel, find_model
from xpipe.stages.predict.work import COLUMNS, Block, Predicted, Predicting, predict_block
from xpipe.stages.read.params import DataParams


class RunSettings(TypedDict):
    """The part of results.json that says how a run read its data, and who computed."""

    pipeline: dict[str, Any]
    synthetic: bool


@dataclass(frozen=True)
class PredictOptions:
    """k: labels per row. threshold: the lowest score that is written. split: of an input folder. cluster: its kind."""

    k: int = 5
    threshold: float = 0.0
    split: str | None = None
    cluster: str | None = None

    def check(self) -> None:
        """Raise ConfigError for the first option that is out of range."""
        if self.k < 1:
            raise ConfigError(f"`k` must be at least 1, got {self.k}")
        if not 0 <= self.threshold <= 1:
            raise ConfigError(f"`threshold` must be from 0 to 1, got {self.threshold}", why="scores are probabilities")


@dataclass(frozen=True)
class PredictionSummary:
    """What was written: the path, rows that were read, predictions; by which model, and whether of a stand-in's run."""

    path: str
    rows: int
    predictions: int
    model: str
    synthetic: bool


@dataclass(frozen=True)
class Settings:
    """How the run of a model read its data, who computes, and whether the data was a generated stand-in."""

    data: DataParams
    cluster: ClusterParams
    synthetic: bool


LookUp = Callable[[ClusterParams], ClusterParams]


def predict_input(
    run: str,
    place: str,
    out: str,
    model: str | None,
    options: PredictOptions,
    progress: Progress,
    look_up: LookUp = lambda params: params,
) -> PredictionSummary:
    """Predict the rows of an input with a model of a run, and write one Parquet table.

    look_up: finds what the name of a cluster stands for; by default names stand for nothing. The table appears under
    its name only when it is complete. Raises ConfigError or DataError where the run, the model
    or the input is not right.
    """
    options.check()
    stored = find_model(run, model)
    settings = settings_of(stored, options.cluster)
    who = look_up(settings.cluster)
    opened = open_model(stored)  # what is wrong with it is found before a worker starts
    out = files.local(os.fspath(out))
    scratch = files.join(files.parent(out), temporary_name(files.basename(out)))
    try:
        with while_executing(), contextlib.closing(connect(who, progress)) as cluster:
            rows = rows_of_input(scratch, place, settings.data, stored, opened.n_features, options.split)
            check_features(rows.n_features, opened.n_features, stored.name, where=place)
            bar = progress.stage("predict", unit="rows")
            context: Context[Params] = Context(
                stage="predict", params=Params(), seed=0, inputs={}, folder=scratch, cluster=cluster,
                cluster_params=who, bar=bar, warn=progress.warn, note=progress.note, backend=choose("cpu"),
            )  # fmt: skip
            units = [Block(f"rows-{block.index:05d}", block.count, block) for block in rows.blocks()]
            shared = Predicting(rows, stored, options.k, options.threshold)
            done = context.map("predict", predict_block, units, shared, doing="predicting")
            made = [one.result for one in done]
            join_blocks(scratch, made, out, settings.synthetic)
            bar.done()
    finally:
        files.remove(scratch)
    n_rows, n_predictions = sum(unit.size for unit in units), sum(one.predictions for one in made)
    return PredictionSummary(out, n_rows, n_predictions, stored.name, settings.synthetic)


def settings_of(stored: StoredModel, kind: str | None) -> Settings:
    """The settings of the run of a model. kind: of the cluster, where another than that of the run is asked for."""
    path = RESULTS if stored.run is None else files.join(stored.run, RESULTS)
    found = RunSettings(pipeline={"data": {"dir": "."}, "cluster": {"kind": "none"}}, synthetic=False)
    if stored.run is not None:
        found = read_json(path, RunSettings, fix=FIX, allow_nan=True)
    try:
        data = DataParams.model_validate(found["pipeline"].get("data"))
        cluster = ClusterParams.model_validate(found["pipeline"].get("cluster"))
    except ValidationError as error:
        raise DataError("the settings of the run cannot be read", where=path, why=str(error)[:300], fix=FIX) from error
    if kind is not None:
        try:
            cluster = ClusterParams.model_validate({**cluster.model_dump(), "kind": kind})
        except ValidationError as error:
            fix = "local, none, a scheduler's address such as tcp://host:8786, or a name of your clusters.yaml"
            raise ConfigError(f"no cluster {kind!r}", fix=fix) from error
    return Settings(data, cluster, found["synthetic"])


def join_blocks(folder: str, blocks: Sequence[Predicted], out: str, synthetic: bool) -> None:
    """Join the tables of all blocks to one file, one row group per block that has predictions."""
    with open_parquet(files.join(folder, blocks[0].path), COLUMNS) as part:  # there is always one, if of no rows
        metadata = {**(part.schema_arrow.metadata or {}), **({b"synthetic": b"true"} if synthetic else {})}
    schema = pa.schema(COLUMNS, metadata=metadata)
    with (
        files.open_write(out) as stream,
        pq.ParquetWriter(
            stream, schema, compression="zstd", use_dictionary=["label", "name"], write_page_checksum=True
        ) as writer,
    ):
        for block in blocks:
            if block.predictions:
                with open_parquet(files.join(folder, block.path), COLUMNS) as part:
                    writer.write_table(part.read(columns=[name for name, _ in COLUMNS]).cast(schema))
