"""Stage read over tables: the same artifacts from every kind of file, splits by groups, labels of rows or of groups."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.samples import run_pipeline
from tests.tables import recipes, table_pipeline, write_group_labels, write_table
from xpipe.engine.store import Store
from xpipe.errors import ConfigError, DataError
from xpipe.formats import write_sparse
from xpipe.stages.matrices import MatrixRef, load_matrix, open_matrix
from xpipe.stages.row_parts import open_rows

TRAIN, TEST = recipes(50), recipes(18, first=100, seed=1)
ENDINGS = ("csv", "tsv", "jsonl", "parquet", "csv.gz", "jsonl.zst")


def stored(results, stage="read"):
    """(folder, manifest) of a stage that ran."""
    key = next(each["key"] for each in results["stages"] if each["stage"] == stage)
    folder = f"{results['store']}/{stage}-{key}"
    return folder, Store(results["store"]).open(folder)


def digests(results):
    """The digest of every file of every artifact."""
    _, manifest = stored(results)
    return {entry.path: entry.sha256 for artifact in manifest.artifacts.values() for entry in artifact.files}


@pytest.fixture(scope="module")
def reference(tmp_path_factory):
    """Results of a run over one CSV file per split."""
    folder = tmp_path_factory.mktemp("reference")
    data = {"train": str(write_table(folder / "train.csv", TRAIN)), "test": str(write_table(folder / "test.csv", TEST))}
    return run_pipeline(table_pipeline(folder, data))


@pytest.mark.parametrize("ending", ENDINGS)
def test_every_kind_of_file_gives_the_same_bytes_in_one_file_or_several(ending, tmp_path, reference):
    for number, (start, stop) in enumerate([(0, 21), (21, 22), (22, 50)]):
        write_table(tmp_path / "in" / f"train-{number}.{ending}", TRAIN[start:stop])
    test = write_table(tmp_path / f"test.{ending}", TEST)
    results = run_pipeline(table_pipeline(tmp_path, {"train": str(tmp_path / "in"), "test": str(test)}))
    assert digests(results) == digests(reference)


def test_rows_keep_id_group_text_and_number(reference):
    folder, manifest = stored(reference)
    rows = open_rows(MatrixRef(folder, "ids"), "train")
    table = rows.take(np.arange(50))
    assert table.column("sample").to_pylist() == list(range(50))
    assert table.column("id").to_pylist() == [row["sku"] for row in TRAIN]
    assert table.column("group").to_pylist() == [[row["brand"]] for row in TRAIN]
    texts = [
        text
        for part in range(4)
        for text in open_rows(MatrixRef(folder, "texts"), "train").part(part)["text"].to_pylist()
    ]
    assert texts == ["\n".join(filter(None, [row["title"], row["description"]])) for row in TRAIN]
    names = json.loads(Path(f"{folder}/names/labels.json").read_text())
    Y = load_matrix(MatrixRef(folder, "labels"))
    assert names == sorted(names)
    assert [[names[label] for label in Y[row].indices] for row in range(50)] == [row["tags"] for row in TRAIN]
    assert manifest.artifacts["labels"].about["rows"] == {"train": 50, "test": 18}


def test_rows_in_any_order(reference):
    rows = open_rows(MatrixRef(stored(reference)[0], "ids"), "train")
    wanted = np.array([49, 3, 17, 3])
    assert rows.take(wanted)["id"].to_pylist() == ["s49", "s3", "s17", "s3"]
    assert rows.take(np.zeros(0, np.int64)).num_rows == 0


def test_held_out_rows_are_seeded_and_no_group_is_in_both(tmp_path):
    data = {"train": str(write_table(tmp_path / "train.jsonl", TRAIN)), "holdout": 0.3}
    path = table_pipeline(tmp_path, data)
    found = {}
    for seed in (0, 0, 1):
        folder, _ = stored(run_pipeline(path, f"seed={seed}"))
        parts = {split: open_rows(MatrixRef(folder, "ids"), split) for split in ("train", "test")}
        tables = {split: rows.take(np.arange(rows.starts[-1])) for split, rows in parts.items()}
        groups = [{group for own in table["group"].to_pylist() for group in own} for table in tables.values()]
        assert not groups[0] & groups[1]
        samples = [table["sample"].to_pylist() for table in tables.values()]
        assert sorted(samples[0] + samples[1]) == list(range(50))
        assert samples[1] == open_matrix(MatrixRef(folder, "labels"), "test").samples().tolist()
        assert 11 <= len(samples[1]) <= 15
        found.setdefault(seed, []).append(samples)
    assert found[0][0] == found[0][1] != found[1][0]


def test_the_seed_counts_only_where_rows_are_held_out(tmp_path):
    path = table_pipeline(tmp_path, {"train": str(write_table(tmp_path / "train.jsonl", TRAIN))})
    assert run_pipeline(path)["stages"][0]["key"] == run_pipeline(path, "seed=1")["stages"][0]["key"]


def test_labels_of_groups_in_a_table_beside(tmp_path):
    train = write_table(tmp_path / "train.parquet", TRAIN)
    brands = write_group_labels(tmp_path / "brands.csv", TRAIN)
    test = write_table(tmp_path / "test.parquet", TEST)
    path = table_pipeline(tmp_path, {"train": str(train), "group_labels": str(brands), "test": str(test)})
    folder, manifest = stored(run_pipeline(path))
    assert "labels" not in manifest.artifacts
    Y1, Y2 = (load_matrix(MatrixRef(folder, name)) for name in ("membership", "group_labels"))
    groups, labels = (json.loads(Path(f"{folder}/names/{name}.json").read_text()) for name in ("groups", "labels"))
    assert [groups[group] for group in Y1.indices] == [row["brand"] for row in TRAIN]
    for row in TRAIN:
        own = {labels[label] for label in Y2[groups.index(row["brand"])].indices}
        assert set(row["tags"]) <= own
    held_out = open_matrix(MatrixRef(folder, "held_out_labels"), "test").load()
    own = [held_out.indices[start:stop] for start, stop in pairwise(held_out.indptr)]
    assert [[labels[label] for label in row] for row in own] == [row["tags"] for row in TEST]


def test_held_out_rows_of_labelled_groups_have_their_own_labels(tmp_path):
    """Groups without training rows are no groups of the matrices; the labels of their rows are those of the column."""
    train = write_table(tmp_path / "train.csv", TRAIN)
    brands = write_group_labels(tmp_path / "brands.csv", TRAIN)
    path = table_pipeline(tmp_path, {"train": str(train), "group_labels": str(brands), "holdout": 0.3})
    folder, manifest = stored(run_pipeline(path))
    Y1, Y2 = (load_matrix(MatrixRef(folder, name)) for name in ("membership", "group_labels"))
    groups, labels = (json.loads(Path(f"{folder}/names/{name}.json").read_text()) for name in ("groups", "labels"))
    assert (Y1.getnnz(axis=0) > 0).all()
    assert Y1.shape[1] == Y2.shape[0] == len(groups) < 13
    matrix = open_matrix(MatrixRef(folder, "held_out_labels"), "test")
    assert manifest.artifacts["held_out_labels"].about["rows"] == {"test": matrix.n_rows}
    held_out, samples = matrix.load(), matrix.samples().tolist()
    assert not {TRAIN[sample]["brand"] for sample in samples} & set(groups)
    own = [held_out.indices[start:stop] for start, stop in pairwise(held_out.indptr)]
    assert [[labels[label] for label in row] for row in own] == [TRAIN[sample]["tags"] for sample in samples]


def test_several_groups_per_row_stay_together(tmp_path):
    rows = [{**row, "brand": None} for row in TRAIN[:12]]
    chain = [["a", "b"], ["b", "c"], ["c"], [], [], ["d"], ["d", "e"], [], [], [], [], []]
    lines = "".join(json.dumps({**row, "brand": own}) + "\n" for row, own in zip(rows, chain, strict=True))
    (tmp_path / "train.jsonl").write_text(lines)
    for seed in range(4):
        path = table_pipeline(tmp_path, {"train": str(tmp_path / "train.jsonl"), "holdout": 0.4})
        folder, _ = stored(run_pipeline(path, f"seed={seed}"))
        held = set(open_matrix(MatrixRef(folder, "labels"), "test").samples().tolist())
        assert len(held & {0, 1, 2}) in (0, 3)
        assert len(held & {5, 6}) in (0, 2)


def test_names_of_labels(tmp_path):
    write_table(tmp_path / "train.csv", TRAIN)
    (tmp_path / "names.csv").write_text("tags,name\nbread,Brot\nsoup,Suppe\nspare,x\n")
    data = {"train": str(tmp_path / "train.csv"), "label_names": str(tmp_path / "names.csv")}
    folder, _ = stored(run_pipeline(table_pipeline(tmp_path, data)))
    assert json.loads(Path(f"{folder}/names/labels.json").read_text()) == ["Brot", "quick", "salad", "Suppe", "vegan"]
    assert json.loads(Path(f"{folder}/names/label_keys.json").read_text()) == [
        "bread",
        "quick",
        "salad",
        "soup",
        "vegan",
    ]


def test_texts_by_line_with_a_matrix_of_labels(tmp_path):
    import scipy.sparse as sp

    for short, texts in (("trn", ["pea soup", "rye  bread, slow", "soup"]), ("tst", ["bread"])):
        (tmp_path / f"X.{short}.txt").write_text("".join(f"{text}\n" for text in texts))
        write_sparse(str(tmp_path / f"Y.{short}.npz"), sp.csr_matrix(np.eye(len(texts), 4, dtype=np.float32)))
    path = tmp_path / "raw.yaml"
    path.write_text(f"name: raw\ndata: {{dir: {tmp_path}}}\ncluster: none\nbackend: cpu\nout: {tmp_path}/runs/raw\n")
    folder, manifest = stored(run_pipeline(path))
    assert set(manifest.artifacts) == {"texts", "labels", "names"}
    assert open_rows(MatrixRef(folder, "texts"), "train").part(0)["text"].to_pylist()[1] == "rye  bread, slow"
    assert load_matrix(MatrixRef(folder, "labels")).toarray().tolist() == np.eye(3, 4).tolist()
    (tmp_path / "X.tst.txt").write_text("bread\nmore\n")
    with pytest.raises(DataError, match="1 rows of labels for 2 texts"):
        run_pipeline(path)


def test_what_must_fail_is_told_before_the_run(tmp_path):
    train = str(write_table(tmp_path / "train.csv", TRAIN))
    with pytest.raises(ConfigError, match="texts need the section `vectorize`"):
        run_pipeline(table_pipeline(tmp_path, {"train": train}, "emit: {}"))
    with pytest.raises(ConfigError, match="the data has train"):
        run_pipeline(
            table_pipeline(tmp_path, {"train": train}, "vectorize: {}", "emit: {}", "train: {tree: {}}", "evaluate: {}")
        )
    data = {"train": train, "group": None}
    with pytest.raises(ConfigError, match="rule given needs `file`"):
        run_pipeline(table_pipeline(tmp_path, data, "vectorize: {}", "group: {rule: given}", "emit: {}"))


def test_text_parts_open_in_other_tools(reference):
    folder, _ = stored(reference)
    schema = pq.ParquetFile(f"{folder}/texts/split=train/part-00000.parquet").schema_arrow
    assert {field.name: str(field.type) for field in schema} == {"sample": "int64", "text": "string"}
    schema = pq.ParquetFile(f"{folder}/ids/split=test/part-00000.parquet").schema_arrow
    assert {field.name: field.type for field in schema if field.name != "group"} == {
        "sample": pa.int64(),
        "id": pa.string(),
    }
    assert schema.field("group").type == pa.list_(pa.string())


@pytest.mark.parametrize("stop_at", [2, 9])
def test_a_stopped_run_goes_on_where_it_was(stop_at, tmp_path, monkeypatch, reference):
    """The first stop is while rows are staged, the second while parts are written."""
    from xpipe.stages.read.tables import staging, work

    calls = []

    def stop(module, name):
        plain = getattr(module, name)

        def counting(*given, **options):
            calls.append(name)
            if len(calls) == stop_at:
                raise KeyboardInterrupt
            return plain(*given, **options)

        monkeypatch.setattr(module, name, counting)

    for number, (start, end) in enumerate([(0, 20), (20, 50)]):
        write_table(tmp_path / "in" / f"{number}.csv", TRAIN[start:end])
    test = write_table(tmp_path / "test.csv", TEST)
    path = table_pipeline(tmp_path, {"train": str(tmp_path / "in"), "test": str(test)})
    stop(staging, "iterate_table")
    stop(work, "take_staged")
    with pytest.raises(KeyboardInterrupt):
        run_pipeline(path)
    before = len(calls)
    results = run_pipeline(path)
    assert digests(results) == digests(reference)
    assert results["stages"][0]["status"] == "resumed"
    assert len(calls) == before + 3 + 6 - (stop_at - 1)  # three files and six parts, each finished once


def test_long_texts_in_several_files_give_the_same_bytes(tmp_path):
    """Pages of Parquet begin where arrays do, unless the arrays of several files are joined first."""
    rows = [{**row, "description": f"w{row['sku']} " * 12_000} for row in recipes(40)]
    found = []
    for name, cuts in (("one", [0, 40]), ("more", [0, 7, 29, 40])):
        for start, stop in pairwise(cuts):
            write_table(tmp_path / name / f"{start:02d}.jsonl", rows[start:stop])
        data = {"train": str(tmp_path / name), "part_rows": 64}
        found.append(digests(run_pipeline(table_pipeline(tmp_path / f"{name}-run", data))))
    assert found[0] == found[1]
