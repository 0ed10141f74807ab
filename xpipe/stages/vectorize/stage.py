"""Stage vectorize: texts and further columns become features. Two passes over parts: count, then write rows.

Orchestration only: the arithmetic is the room `text`, and runs at workers (`work`).
"""

from __future__ import annotations

from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import FileEntry
from xpipe.engine.stage import Estimate, Produced, Stage
from xpipe.stages.emitted_paths import VECTORIZER_FOLDER
from xpipe.stages.matrices import locate, matrix_about
from xpipe.stages.vectorize.params import VectorizeParams

WORKER_BYTES = 250 * 2**20  # a worker process with numpy, Arrow and compiled kernels, before it holds a row
COPIES = 6  # of the bytes of a part's texts: the texts, their terms, the rows


def estimate(params: VectorizeParams, inputs: dict[str, Artifact]) -> Estimate:
    """Rows of all splits, and the memory of a part and its vocabulary."""
    texts = inputs["texts"]
    largest = max((entry.bytes for entry in texts.files), default=0)
    return Estimate(sum(texts.about["rows"].values()), WORKER_BYTES + COPIES * 4 * largest)  # 4: zstd


def run(context: Context[VectorizeParams]) -> Produced:
    """Count the terms of the training rows, choose the vocabulary, write the rows of every split."""
    from xpipe.stages.vectorize import work

    texts = context.inputs["texts"]
    units = list(work.parts_of(texts.files))
    shared = work.Texts(locate(texts), context.params.options, texts.about["with_texts"])
    train = [unit for unit in units if unit.split == "train"]
    context.map("count", work.count_part, train, shared, doing="counting words")
    counted = work.Counted("terms", 0, tuple(unit.name for unit in train), sum(unit.size for unit in train))
    (chosen,) = context.map("choose", work.choose_terms, [counted], shared, doing="choosing the vocabulary")
    fitted = work.Fitted(locate(texts), chosen.result, work.digest_of(chosen.files))
    rows = context.map("rows", work.write_rows, units, fitted, doing="writing rows")
    facts = chosen.result
    about = matrix_about(facts.n_features, texts.about["part_rows"], texts.about["rows"])
    about |= {"file_rows": texts.about["file_rows"], "synthetic": False}
    entries: list[FileEntry] = [entry for one in rows for entry in one.files]
    n_rows = sum(unit.size for unit in units)
    without = sum(one.result.empty for one in rows)
    if without:
        context.warn(f"{without:,} rows have no feature: none of their words is in the vocabulary")
    summary = {
        "rows": n_rows,
        "n_features": facts.n_features,
        "terms": facts.n_terms,
        "counted_terms": facts.counted,
        "features_a_row": sum(one.result.entries for one in rows) / max(1, n_rows),
        "rows_without_features": without,
    }
    artifacts = {
        "features": (entries, about),
        VECTORIZER_FOLDER: (chosen.files, {"n_features": facts.n_features, "n_terms": facts.n_terms}),
    }
    return Produced(artifacts, summary)


def describe(summary: dict[str, Any]) -> str:
    """One line for the console."""
    others = summary["n_features"] - summary["terms"]
    more = f" and {others:,} features of other columns" if others else ""
    return (
        f"{summary['terms']:,} of {summary['counted_terms']:,} words{more}; {summary['features_a_row']:.1f} per row"
        if summary["terms"]
        else f"{others:,} features of columns; {summary['features_a_row']:.1f} per row"
    )


def compile_kernels() -> None:
    """Compile the kernels on two texts."""
    from xpipe.text import Vectorizer

    Vectorizer().fit(["one text", "another text"]).transform(["one text"])


STAGE = Stage(
    name="vectorize",
    section="vectorize",
    version=1,
    reads=("texts",),
    writes=("features", VECTORIZER_FOLDER),
    params=VectorizeParams,
    run=run,
    exports=(VECTORIZER_FOLDER,),
    outputs=(VECTORIZER_FOLDER,),
    libraries=("numba", "numpy", "pyarrow", "scipy"),
    estimate=estimate,
    compile=compile_kernels,
    kernels="text",
    describe=describe,
    instead="the section `data` gives texts where it names tables: data.train, data.text",
)
