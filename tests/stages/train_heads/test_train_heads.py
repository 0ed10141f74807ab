"""Stage train_heads: the library's heads, whoever trains them, killed or not; and what section `train` may hold."""

from __future__ import annotations

import importlib.util
import json
from types import SimpleNamespace

import numpy as np
import pytest

from tests.engine.test_interruptions import kill
from tests.samples import bytes_below, digests, run_pipeline, write_dataset, write_pipeline
from tests.stopping import start_stopping
from xpipe import config
from xpipe.argmaxability.weights import read_weights
from xpipe.engine.store import Store
from xpipe.engine.wiring import wire
from xpipe.errors import BackendError, ConfigError
from xpipe.ground.backend import Backend
from xpipe.heads import HeadModel, TrainOptions, train_head
from xpipe.stages.train_heads import progress, work
from xpipe.stages.train_heads import stage as train_heads
from xpipe.stages.train_heads.messages import HeadToTrain, Training
from xpipe.stages.train_heads.params import HeadParams, names_of
from xpipe.stages.train_trees.params import TrainParams

SMALL = "width: 8, epochs: 3, batch_size: 64"
LAYERS = ("layer: bsl, dim: 3", "layer: dft, dim: 4, k: 2", "layer: softmax")
HEADS = f"train.heads=[{', '.join(f'{{{layer}, {SMALL}}}' for layer in LAYERS)}]"
SETTINGS = ("emit.formats=[parquet]", "assign.method=centred", HEADS)
NAMES = ["bsl-3", "dft-4", "softmax"]


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def reference(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("reference")
    return run_pipeline(write_pipeline(folder, data), *SETTINGS), folder / "runs" / "sample"


def stage_of(results, name):
    return next((made for made in results["stages"] if made["stage"] == name), None)


def test_the_stage_is_the_library(reference, tmp_path):
    results, out = reference
    assert [head["name"] for head in stage_of(results, "train_heads")["summary"]["heads"]] == NAMES
    assert stage_of(results, "train") is None  # heads alone
    own = HeadParams(layer="dft", dim=4, k=2, width=8, epochs=3, batch_size=64)
    options = TrainOptions("dft", {"k": 2, "slack": 4}, width=8, epochs=3, batch_size=64, device="cpu")
    assert options == TrainOptions(**own.train_options({"k": 9, "n_labels": 11}, 0, "cpu"))  # the same defaults
    trained = train_head(str(out / "heads"), options)
    trained.model.save(str(tmp_path))
    for name in ("model.safetensors", "weights.safetensors"):
        assert (out / "models" / "dft-4" / name).read_bytes() == (tmp_path / name).read_bytes()
    history = json.loads((out / "models" / "dft-4" / "history.json").read_text())
    assert history["epochs"] == trained.history
    assert history["best_epoch"] == trained.best_epoch


def test_what_is_published(reference):
    results, out = reference
    folder = stage_of(results, "train_heads")
    manifest = Store(results["store"]).find("train_heads", folder["key"])
    artifact = manifest.artifacts["head_models"]
    assert [head["name"] for head in artifact.about["heads"]] == NAMES
    for head, columns in zip(artifact.about["heads"], (3, 5 + 4, 8), strict=True):
        path = f"{artifact.folder}/{head['folder']}/weights.safetensors"
        assert read_weights(path, "W").shape == (11, columns)
        model = HeadModel.load(f"{artifact.folder}/{head['folder']}")
        assert (head["layer"], head["parameters"]) == (model.head.layer, model.parameter_counts())
    assert [head["dim"] for head in artifact.about["heads"]] == [3, 4, None]
    assert not list(out.parent.glob(".store/train_heads-*/checkpoints"))


def test_tree_and_heads_together_change_nothing_about_each_other(reference, data, tmp_path):
    both = run_pipeline(write_pipeline(tmp_path / "both", data), *SETTINGS, "train.tree.n_trees=1")
    tree = run_pipeline(write_pipeline(tmp_path / "tree", data), *SETTINGS[:2], "train.tree.n_trees=1")
    assert digests(both)["train_heads"] == digests(reference[0])["train_heads"]
    assert digests(both)["train"] == digests(tree)["train"]
    models = tmp_path / "both" / "runs" / "sample" / "models"
    assert sorted(path.name for path in models.iterdir()) == [*NAMES, "tree.npz"]
    assert both["outputs"]["models"]["files"] == 10


def test_workers_change_no_byte(reference, data, tmp_path, workers):
    found = run_pipeline(write_pipeline(tmp_path, data, cluster=workers(chunk_rows=50)), *SETTINGS)
    assert digests(found)["train_heads"] == digests(reference[0])["train_heads"]
    assert bytes_below(tmp_path / "runs" / "sample") == bytes_below(reference[1])


def test_killed_in_mid_training_and_resumed(data, tmp_path):
    head = "{layer: bsl, dim: 3, width: 8, epochs: 5, patience: 5, batch_size: 8}"
    settings = (*SETTINGS[:2], f"train.heads=[{head}]")
    calm = run_pipeline(write_pipeline(tmp_path / "calm", data), *settings)
    path = write_pipeline(tmp_path / "killed", data)
    overrides = [word for text in settings for word in ("--set", text)]
    kill(start_stopping("checkpoints/bsl-3/checkpoint.json", 3, "run", path, *overrides))
    store = tmp_path / "killed" / "runs" / ".store"
    (state,) = store.glob("train_heads-*/checkpoints/bsl-3/checkpoint.json")
    done = len(json.loads(state.read_text())["facts"]["history"])
    assert 0 < done < 5
    started = []
    with pytest.MonkeyPatch.context() as patch:
        original = progress.epochs_of
        patch.setattr(progress, "epochs_of", lambda *where: started.append(original(*where)) or started[-1])
        again = run_pipeline(path, *settings)
    assert len(started[0]) == done  # it went on from there
    assert digests(again)["train_heads"] == digests(calm)["train_heads"]
    models = ("runs", "sample", "models")
    assert bytes_below(tmp_path.joinpath("killed", *models)) == bytes_below(tmp_path.joinpath("calm", *models))


def test_it_tells_how_far_it_is(data, tmp_path, monkeypatch):
    monkeypatch.setattr(progress, "NOTE_SECONDS", 0.01)
    notes = []
    monkeypatch.setattr("xpipe.cli.progress.Progress.note", lambda progress, text: notes.append(text))
    run_pipeline(write_pipeline(tmp_path, data), *SETTINGS[:2], "train.heads=[{layer: bsl, width: 8, batch_size: 4}]")
    told = [text for text in notes if text.startswith("bsl-50: epoch ")]
    assert told
    assert all("loss" in text and "nDCG@5" in text and text.endswith("left") for text in told)


def test_no_torch_is_told_before_anything_runs(data, tmp_path, monkeypatch):
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *more: None if name == "torch" else found(name))
    with pytest.raises(ConfigError, match=r"(?s)stage train_heads needs torch.*pip install 'xpipe\[heads\]'"):
        run_pipeline(write_pipeline(tmp_path, data), *SETTINGS)
    assert not (tmp_path / "runs" / ".store").exists()
    assert run_pipeline(write_pipeline(tmp_path, data), *SETTINGS[:2])["stages"]


def test_heads_need_their_dataset(data, tmp_path):
    with pytest.raises(ConfigError, match="emitted heads/ dataset"):
        run_pipeline(write_pipeline(tmp_path, data), *SETTINGS, "emit.datasets=[tree]")


def steps_of(tmp_path, data, *overrides):
    return [step.stage.name for step in wire(config.load(write_pipeline(tmp_path, data), overrides))]


def test_which_stages_a_section_switches_on(tmp_path, data):
    assert steps_of(tmp_path, data, "train={}")[-1:] == ["train"]
    assert steps_of(tmp_path, data, "train.tree={}")[-1:] == ["train"]
    assert steps_of(tmp_path, data, "train.heads=[{layer: binary}]")[-2:] == ["emit", "train_heads"]
    assert steps_of(tmp_path, data, "train={tree: {}, heads: [{layer: binary}]}")[-2:] == ["train", "train_heads"]


@pytest.mark.parametrize(
    ("heads", "text"),
    [
        ("[{layer: bls}]", "did you mean 'bsl'|bsl"),
        ("[{dim: 3}]", "heads.0.layer|layer.*must be given"),
        ("[{layer: softmax, dim: 3}]", "a softmax head has no option dim; it takes temperature"),
        ("[{layer: bsl, name: a}, {layer: dft, name: a}]", "two heads have the name a"),
        ("[{layer: bsl, name: a/b}]", "name"),
        ("[{layer: bsl, epochs: 0}]", "epochs"),
    ],
)
def test_mistakes_are_told_with_the_file(tmp_path, data, heads, text):
    with pytest.raises(ConfigError, match=text):
        config.load(write_pipeline(tmp_path, data), [f"train.heads={heads}"])


def test_names_are_unique():
    heads = [HeadParams(layer="bsl"), HeadParams(layer="bsl", dim=50), HeadParams(layer="lml", name="bsl-50-2")]
    assert names_of(heads) == ["bsl-50", "bsl-50-3", "bsl-50-2"]
    twins = [HeadParams(layer="softmax"), HeadParams(layer="softmax", temperature=2)]
    assert names_of(twins) == ["softmax", "softmax-2"]


def test_sizes_come_from_the_dataset():
    about = {"k": 7, "n_labels": 100, "labels_a_row": 2.6}
    assert HeadParams(layer="dft", dim=10).head_options(about) == {"k": 7, "slack": 10}
    assert HeadParams(layer="dft", k=3).head_options(about) == {"k": 3, "slack": 50}
    assert HeadParams(layer="dft").head_options({**about, "n_labels": 11}) == {"k": 5, "slack": 50}
    assert HeadParams(layer="lml").head_options(about) == {"k": 3}
    assert HeadParams(layer="softmax", temperature=2.0).head_options(about) == {"temperature": 2.0}
    assert HeadParams(layer="quasibinary").head_options(about) == {}
    assert np.isclose(HeadParams(layer="quasibinary", momentum=0.5).head_options(about)["momentum"], 0.5)


class Stopped(Exception):
    pass


@pytest.mark.parametrize("requested", ["auto", "cpu", "gpu"])
@pytest.mark.parametrize(("name", "device"), [("cpu", "cpu"), ("gpu", "cuda")])
def test_heads_are_trained_on_the_backend_of_the_run(reference, tmp_path, monkeypatch, requested, name, device):
    """Whatever PyTorch could use by itself: the backend is in the key."""
    monkeypatch.setattr("torch.cuda.is_available", lambda: name == "cpu")
    asked = []

    def stop(step, work, units, shared, **_):
        asked.append(shared.device)
        raise Stopped

    context = SimpleNamespace(
        params=TrainParams(heads=[HeadParams(layer="bsl")]),
        inputs={"datasets": SimpleNamespace(folder=str(tmp_path))},
        folder=str(tmp_path),
        backend=Backend(name, "a stand-in", requested),
        seed=0,
        note=print,
        bar=None,
        map=stop,
    )
    (tmp_path / "datasets").mkdir()
    (tmp_path / "datasets" / "heads").symlink_to(reference[1] / "heads")
    with pytest.raises(Stopped):
        train_heads.run(context)
    assert asked == [device]


def test_a_gpu_that_torch_cannot_use_is_an_error(reference, tmp_path, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    unit = HeadToTrain("bsl-50", 1, HeadParams(layer="bsl"))
    shared = Training(str(reference[1] / "heads"), seed=0, device="cuda")
    with pytest.raises(BackendError, match="PyTorch cannot use it") as caught:
        work.train_and_save(str(tmp_path), unit, shared)
    assert "PyTorch sees no CUDA device" in caught.value.why
    assert "backend=cpu" in caught.value.fix


def test_an_option_that_is_not_set_leaves_the_key_alone():
    own = train_heads.identity(TrainParams(heads=[HeadParams(layer="bsl")]), {}, None)["heads"][0]
    assert "dim" not in own
    assert "hidden" not in own
    assert own["threads"] == 1  # PyTorch adds up in another order with more
