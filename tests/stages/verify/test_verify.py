"""Stage verify: the library's verdicts on the rows of a split, whoever computes them, killed or not."""

from __future__ import annotations

import dataclasses
import json

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.argmaxability.test_command import call
from tests.engine.test_interruptions import kill
from tests.samples import (
    bytes_below,
    combinations,
    digests,
    random_matrices,
    run_xpipe,
    write_dataset,
    write_pipeline,
)
from tests.stopping import start_stopping
from xpipe import config
from xpipe.argmaxability import SETS_PER_BLOCK, check, dft_matrix, sign_changes, verify
from xpipe.argmaxability.verdicts import read_verdicts
from xpipe.cli.progress import Progress
from xpipe.engine import decide, execute, wiring
from xpipe.engine import sweep as matrix
from xpipe.engine.messages import entry_of_file
from xpipe.engine.stage import Produced
from xpipe.errors import ConfigError, DataError
from xpipe.formats import read_xmc, write_xmc
from xpipe.formats.parquet import read_split, read_split_labels
from xpipe.ground import backend
from xpipe.stages import STAGES, Params, Stage
from xpipe.stages.verify import stage as stage_file

N_LABELS = 12


class FakeParams(Params):
    """Heads of which no training is needed: `dims` inputs, on the labels of heads/."""

    dims: list[int] = [2]
    dft: int | None = None
    layer: str = "bsl"


def write_tensors(path, arrays):
    """A safetensors file: length of the header, JSON header, bytes."""
    header, content = {}, b""
    for name, array in arrays.items():
        raw = np.ascontiguousarray(array, dtype="<f4").tobytes()
        offsets = [len(content), len(content) + len(raw)]
        header[name] = {"dtype": "F32", "shape": list(array.shape), "data_offsets": offsets}
        content += raw
    text = json.dumps(header).encode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(len(text).to_bytes(8, "little") + text + content)


def make_heads(context):
    from pathlib import Path

    n_labels = read_split_labels(f"{context.inputs['datasets'].folder}/datasets/heads").shape[1]
    heads, entries = [], []
    for d in context.params.dims:
        rng = np.random.default_rng(d)
        arrays = {"W": rng.standard_normal((n_labels, d))} | ({"bias": rng.standard_normal(n_labels)} if d == 3 else {})
        heads.append(
            {"name": f"bsl-{d}", "layer": context.params.layer, "dim": d, "folder": f"head_models/models/bsl-{d}"}
        )
        write_tensors(Path(context.folder) / heads[-1]["folder"] / "weights.safetensors", arrays)
    if (k := context.params.dft) is not None:
        slack = np.random.default_rng(k).standard_normal((n_labels, 2)) / np.sqrt(n_labels)
        heads.append({"name": "dft", "layer": "dft", "dim": 2 * k + 3, "folder": "head_models/models/dft"})
        arrays = {"W": np.hstack([dft_matrix(n_labels, k), slack])}
        write_tensors(Path(context.folder) / heads[-1]["folder"] / "weights.safetensors", arrays)
    entries = [entry_of_file(context.folder, f"{head['folder']}/weights.safetensors") for head in heads]
    return Produced({"head_models": (entries, {"heads": heads})})


HEADS = Stage(
    name="fake_heads", section="fake_heads", version=1, reads=("datasets",), writes=("head_models",),
    params=FakeParams, run=make_heads,
)  # fmt: skip
WITH_HEADS = tuple(each for stage in STAGES for each in ((HEADS, stage) if stage.name == "verify" else (stage,)))


@pytest.fixture(autouse=True)
def _heads_can_be_faked(monkeypatch):
    monkeypatch.setattr(
        decide, "wire", lambda made: wiring.wire(made, WITH_HEADS if hasattr(made, "fake_heads") else STAGES)
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    path = tmp_path_factory.mktemp("weights") / "W.npy"
    np.save(path, np.random.default_rng(0).standard_normal((N_LABELS, 6)))
    return path


def run(tmp_path, data, *overrides, cluster="none"):
    path = write_pipeline(tmp_path, data, cluster=cluster)
    loaded = config.load(path, ["emit.formats=[parquet]", *overrides], stages=WITH_HEADS)
    with Progress(mode="quiet") as progress:
        return execute.run(loaded, progress, backend.choose("cpu"))


def summary_of(results):
    return next(made for made in results["stages"] if made["stage"] == "verify")["summary"]


def ones(Y):
    return sp.csr_matrix((np.ones_like(Y.data), Y.indices, Y.indptr), Y.shape)


def columns(verdicts):
    return [np.asarray(getattr(verdicts, field.name)).tobytes() for field in dataclasses.fields(verdicts)]


def test_given_weights_are_verified_on_the_labels_as_read(tmp_path, data, weights):
    results = run(tmp_path, data, f"verify.weights={weights}", "verify.radius=exact")
    out = tmp_path / "runs" / "sample"
    W, Y = np.load(weights), read_xmc(str(data / "test.txt"))[1]
    own = verify(W, Y, radius="exact")
    path = out / "verification" / "weights" / "verdicts.parquet"
    assert columns(read_verdicts(str(path))) == columns(own)
    assert pq.read_table(path)["labels"].to_pylist() == [row.indices.tolist() for row in Y]
    (head,) = summary_of(results)["heads"]
    assert 0 < head["argmaxable"] == own.argmaxable.sum() < Y.shape[0]
    assert head["one_argmaxable"] == (own.one_argmaxable == "yes").sum()
    assert head["argmaxable"] + head["unargmaxable"] + head["undecided"] == head["sets"] == Y.shape[0]
    assert head["radii"]["p50"] == pytest.approx(np.median(own.radius_lower[own.argmaxable]))
    report = json.loads((out / "verification.json").read_text())
    assert report["n_labels"] == N_LABELS
    (told,) = report["heads"]
    assert sum(line["sets"] for line in told["by_active_labels"]) == Y.shape[0]
    worst = told["worst"][0]
    assert len(told["worst"]) == 5
    assert worst["labels"] == [f"label {label}" for label in Y[worst["row"]].indices]
    assert worst["minimal"]
    assert worst["sentence"].startswith("these ")
    assert all(label["name"] == f"label {label['original_label']}" for label in worst["conflict"])
    assert own.status[worst["row"]] == "unargmaxable"


def test_the_file_is_the_one_of_the_command(tmp_path, data, weights):
    run(tmp_path, data, f"verify.weights={weights}")
    out = tmp_path / "own.parquet"
    code, printed = call("verify", "--weights", weights, "--labels", data / "test.txt", "--out", out)
    assert code == 1, printed
    assert (
        tmp_path / "runs" / "sample" / "verification" / "weights" / "verdicts.parquet"
    ).read_bytes() == out.read_bytes()


def test_every_trained_head_is_verified_on_the_labels_of_heads(tmp_path, data):
    results = run(tmp_path, data, "fake_heads.dims=[2, 3]", "fake_heads.dft=2", "verify.explain=2")
    out = tmp_path / "runs" / "sample"
    Y = ones(read_split(str(out / "heads"), "test")[1])
    assert Y.shape[1] < N_LABELS
    summary = summary_of(results)
    assert [head["name"] for head in summary["heads"]] == ["bsl-2", "bsl-3", "dft"]
    assert [head["inputs"] for head in summary["heads"]] == [2, 3, 7]
    assert [head["has_bias"] for head in summary["heads"]] == [False, True, False]
    test_labels = read_xmc(str(data / "test.txt"))[1]
    assert summary["unseen_occurrences"] == test_labels.nnz - Y.nnz
    for d in (2, 3):
        rng = np.random.default_rng(d)
        W = rng.standard_normal((Y.shape[1], d)).astype(np.float32)
        bias = rng.standard_normal(Y.shape[1]).astype(np.float32) if d == 3 else None
        found = read_verdicts(str(out / "verification" / f"bsl-{d}" / "verdicts.parquet"))
        assert columns(found) == columns(verify(W, Y, bias))
        assert check(W, Y, found, bias).all()
    dft = summary["heads"][2]
    assert dft["dft"]["k"] == 2
    assert dft["dft"]["guaranteed"] == (sign_changes(Y) <= 4).sum()
    assert dft["dft"]["guaranteed"] <= dft["argmaxable"]
    names = {label["name"] for head in json.loads((out / "verification.json").read_text())["heads"]
             for worst in head["worst"] for label in worst["conflict"]}  # fmt: skip
    assert names <= {f"label {label}" for label in range(N_LABELS)} - {"label 3"}


def test_workers_and_chunks_change_no_byte(tmp_path, data, weights, monkeypatch, workers):
    assert stage_file.SETS_PER_UNIT % SETS_PER_BLOCK == 0
    settings = (f"verify.weights={weights}", "verify.split=train", "verify.radius=exact")
    reference = run(tmp_path / "one", data, *settings)
    expected = bytes_below(tmp_path / "one" / "runs" / "sample")
    for units in (1, 3):
        monkeypatch.setattr(stage_file, "SETS_PER_UNIT", units * SETS_PER_BLOCK)
        found = run(tmp_path / str(units), data, *settings, cluster=workers())
        assert digests(found)["verify"] == digests(reference)["verify"]
        assert bytes_below(tmp_path / str(units) / "runs" / "sample") == expected


@pytest.fixture(scope="module")
def many_sets(tmp_path_factory):
    """Label sets that make several units of every mode, and weights for their 10 labels."""
    folder = tmp_path_factory.mktemp("many")
    for name, n_rows in (("train", 20), ("test", 400)):
        write_xmc(str(folder / f"{name}.txt"), *random_matrices(n_rows, n_labels=10, seed=n_rows))
    np.save(folder / "W.npy", np.random.default_rng(0).standard_normal((10, 4)).astype(np.float16))
    return folder


@pytest.mark.parametrize(("mode", "inputs"), [("topk", "any"), ("argmax", "nonnegative")])
def test_other_modes_give_the_verdicts_of_the_library(tmp_path, many_sets, workers, mode, inputs):
    weights = many_sets / "W.npy"
    settings = (f"verify.weights={weights}", f"verify.mode={mode}", f"verify.inputs={inputs}")
    alone = run(tmp_path / "one", many_sets, *settings)
    W, Y = np.load(weights), None if mode == "argmax" else ones(read_xmc(str(many_sets / "test.txt"))[1])
    path = tmp_path / "one" / "runs" / "sample" / "verification" / "weights" / "verdicts.parquet"
    own = verify(W, Y, mode=mode, inputs=inputs)
    assert columns(read_verdicts(str(path))) == columns(own)
    assert 0 < own.argmaxable.sum() < len(own)
    assert len(np.unique(own.points, axis=0)) > stage_file.SETS_PER_UNIT or mode == "argmax"
    report = json.loads((tmp_path / "one" / "runs" / "sample" / "verification.json").read_text())
    assert report.get("inputs", "any") == inputs
    assert report["heads"][0]["mode"] == mode
    assert "can never" in report["heads"][0]["worst"][0]["sentence"]
    found = run(tmp_path / "two", many_sets, *settings, cluster=workers())
    assert digests(found)["verify"] == digests(alone)["verify"]
    assert bytes_below(tmp_path / "two" / "runs" / "sample") == bytes_below(tmp_path / "one" / "runs" / "sample")


def test_heads_are_asked_in_their_own_mode(tmp_path, data):
    """Softmax heads by top k (other tests have heads of signs); a mode that the pipeline names is taken for all."""
    modes = {}
    for layer, *named in (("softmax",), ("softmax", "verify.mode=sign")):
        found = run(
            tmp_path / f"{layer}{len(named)}",
            data,
            "emit.datasets=[heads]",
            "fake_heads.dims=[3]",
            f"fake_heads.layer={layer}",
            "verify.split=test",
            *named,
        )
        path = next((tmp_path / f"{layer}{len(named)}").glob("runs/sample/verification/*/verdicts.parquet"))
        modes[layer, len(named)] = read_verdicts(str(path)).mode
        (head,) = summary_of(found)["heads"]
        assert head.get("mode", "sign") == modes[layer, len(named)]
        assert head["has_bias"]
    assert modes == {("softmax", 0): "topk", ("softmax", 1): "sign"}


def test_killed_in_mid_verification_and_resumed(tmp_path, many_sets):
    """In mode topk; `python -m tests.campaigns` kills the others too, and tests of the command mode argmax."""
    settings = [f"verify.weights={many_sets / 'W.npy'}", "verify.mode=topk"]
    reference = run(tmp_path / "one", many_sets, *settings)
    path = write_pipeline(tmp_path, many_sets)
    words = [word for text in ("emit.formats=[parquet]", *settings) for word in ("--set", text)]
    process = start_stopping("receipts/verdicts", 1, "run", path, *words)
    receipts = "runs/.store/verify-*/receipts/verdicts/*.json"
    kill(process)
    assert process.returncode == -9
    assert len(list(tmp_path.glob(receipts))) == 1
    assert not list(tmp_path.glob("runs/.store/verify-*/manifest.json"))
    again = run(tmp_path, many_sets, *settings)
    assert again["stages"][-1]["status"] == "resumed"
    assert len(list((tmp_path / "one").glob(receipts))) != 1  # there was something left to do
    assert digests(again) == digests(reference)
    assert bytes_below(tmp_path / "runs" / "sample") == bytes_below(tmp_path / "one" / "runs" / "sample")


def test_the_key_hashes_the_weights_content_not_their_path(tmp_path, data, weights):
    first = run(tmp_path, data, f"verify.weights={weights}")
    copy = tmp_path / "copy.npy"
    copy.write_bytes(weights.read_bytes())
    same = run(tmp_path, data, f"verify.weights={copy}")
    assert same["stages"][-1]["status"] == "cached"
    np.save(copy, np.load(weights) + 0.5)
    other = run(tmp_path, data, f"verify.weights={copy}")
    assert other["stages"][-1]["status"] == "ran"
    assert digests(other)["verify"] != digests(first)["verify"]


def test_a_bias_beside_the_weights(tmp_path, data, weights):
    W, bias = np.load(weights), np.random.default_rng(3).standard_normal(N_LABELS)
    np.savez(tmp_path / "head.npz", weight=W, bias=bias)
    np.save(tmp_path / "b.npy", bias)
    both = ("verify.key=weight", "verify.bias_key=bias")
    one_file = run(tmp_path / "a", data, f"verify.weights={tmp_path / 'head.npz'}", *both)
    two_files = run(tmp_path / "b", data, f"verify.weights={weights}", f"verify.bias={tmp_path / 'b.npy'}")
    assert digests(one_file)["verify"][1] == digests(two_files)["verify"][1]
    Y = read_xmc(str(data / "test.txt"))[1]
    assert summary_of(one_file)["heads"][0]["argmaxable"] == verify(W, Y, bias).argmaxable.sum()
    unnamed = run(tmp_path / "c", data, f"verify.weights={tmp_path / 'head.npz'}", "verify.key=weight")
    assert summary_of(unnamed)["heads"][0]["bias_told"] == f"bias: bias ({N_LABELS} numbers)"
    assert summary_of(unnamed)["heads"][0]["argmaxable"] == verify(W, Y, bias).argmaxable.sum()
    without = run(
        tmp_path / "c", data, f"verify.weights={tmp_path / 'head.npz'}", "verify.key=weight", "verify.bias=none"
    )
    assert not summary_of(without)["heads"][0]["has_bias"]
    assert summary_of(without)["heads"][0]["argmaxable"] == verify(W, Y).argmaxable.sum()


def test_given_weights_may_be_of_the_labels_of_heads(tmp_path, data):
    """Somebody trained on heads/ elsewhere, here a DFT head, with the labels in an order of their own."""
    W = dft_matrix(N_LABELS - 1, 3)  # one label has no training positive
    np.save(tmp_path / "W.npy", W)
    given = (f"verify.weights={tmp_path / 'W.npy'}", "verify.label_numbers=heads", "emit.label_order=cooccurrence")
    (head,) = summary_of(run(tmp_path, data, *given))["heads"]
    Y = ones(read_split(str(tmp_path / "runs" / "sample" / "heads"), "test")[1])
    assert head["dft"] == {
        "k": 3,
        "guaranteed": (sign_changes(Y) <= 6).sum(),
        "most_sign_changes": sign_changes(Y).max(),
    }
    assert head["argmaxable"] == head["dft"]["guaranteed"] < head["sets"]


def test_neither_heads_nor_weights(tmp_path, data):
    with pytest.raises(ConfigError, match="cannot be wired") as caught:
        run(tmp_path, data, "verify.split=test")
    assert "stage verify reads head_models" in caught.value.why
    assert "verify: {weights: W.npy}" in caught.value.why
    with pytest.raises(ConfigError, match="no head to verify"):
        run(tmp_path, data, "fake_heads.dims=[]", "verify.split=test")


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (["verify.split=dev"], "no split 'dev' with labels"),
        (["verify.weights=nowhere.npy"], "no such file"),
        (["verify.bias_key=b", "verify.weights=null"], "`bias_key` must go with `weights`"),
        (["verify.eps=0"], "eps"),
    ],
)
def test_what_cannot_be_verified(tmp_path, data, weights, settings, words):
    with pytest.raises(ConfigError, match=words):
        run(tmp_path, data, f"verify.weights={weights}", *settings)


def test_weights_of_another_width(tmp_path, data):
    np.save(tmp_path / "W.npy", np.ones((3, N_LABELS)))
    with pytest.raises(DataError, match="weights of 3 labels, but label sets of 12"):
        run(tmp_path, data, f"verify.weights={tmp_path / 'W.npy'}")


def test_what_people_read(tmp_path, data, weights):
    path = write_pipeline(tmp_path, data)
    arguments = ("--set", "emit.formats=[parquet]", "--set", f"verify.weights={weights}")
    code, printed = run_xpipe("run", path, *arguments)
    assert code == 0, printed
    for text in ("test: argmaxable with weights", "label sets of test that heads can produce", "radius >= 1"):
        assert text in printed


def test_a_matrix_shows_how_many_sets_each_head_can_produce(tmp_path, data, weights, capsys):
    from xpipe.cli.model_tables import show_matrix

    other = tmp_path / "other.npy"
    np.save(other, np.random.default_rng(1).standard_normal((N_LABELS, 8)))
    path = write_pipeline(tmp_path, data, f"matrix:\n  verify.weights: [{weights}, {other}]\n")
    settings = ["group=null", "emit.formats=[parquet]"]
    members = combinations(path, settings)
    with Progress(mode="quiet") as progress:
        table = matrix.run(members, config.load(path, settings), progress, backend.choose("cpu"))
    Y = read_xmc(str(data / "test.txt"))[1]
    for row, file in zip(table["rows"], (weights, other), strict=True):
        found = verify(np.load(file), Y)
        assert row["verified"]["eps_argmaxable"] == found.argmaxable.sum()
        assert row["verified"]["one_argmaxable"] == (found.one_argmaxable == "yes").sum()
    show_matrix(table)
    printed = capsys.readouterr().out
    counts = [row["verified"]["eps_argmaxable"] for row in table["rows"]]
    for text in ("eps-argmaxable", "1-argmaxable", *(f"{count} of {Y.shape[0]}" for count in counts)):
        assert text in printed
    assert "F1" not in printed
