"""Training: it learns, stops early, and ends with the same bytes however often it was stopped."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.heads.datasets import make_rows, write_heads
from xpipe import metrics
from xpipe.errors import BackendError, ConfigError, DataError
from xpipe.heads import ParquetBatches, TrainOptions, train_head, training_run
from xpipe.heads.checkpoint import Checkpoint

OPTIONS = TrainOptions(  # calibration has tests of its own, and takes two more trainings where rows are few
    "bsl", {"dim": 6}, width=16, epochs=6, batch_size=32, learning_rate=0.02, dropout=0.1, seed=3, device="cpu",
    calibrate="none",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_heads(tmp_path_factory.mktemp("heads"))


@pytest.fixture(scope="module")
def reference(folder):
    return train_head(folder, OPTIONS)


def same(model, other):
    return all(torch.equal(part, other.state_dict()[name]) for name, part in model.state_dict().items())


class Stop(Exception):
    pass


def stop_after(epoch):
    def progress(state):
        if state.epoch == epoch and state.rows == state.of_rows:
            raise Stop

    return progress


def test_it_learns(folder):
    trained = train_head(folder, replace(OPTIONS, epochs=40, patience=40, layer="bsl", head={"dim": 12}))
    predicted = trained.model.predict(ParquetBatches(folder, "test", shuffle=False), 3)
    _, truth = make_rows(100, 1)
    assert metrics.recall(predicted, truth, 3, remove_empty=True)[-1] > 0.8
    assert trained.history[-1]["loss"] < trained.history[0]["loss"] / 2
    assert trained.history[trained.best_epoch - 1]["validation_ndcg"] == max(
        entry["validation_ndcg"] for entry in trained.history
    )


def test_the_same_call_gives_the_same_weights_whatever_the_random_state(folder, reference):
    torch.manual_seed(99)
    before, threads = torch.get_rng_state(), torch.get_num_threads()
    again = train_head(folder, OPTIONS)
    assert same(again.model, reference.model)
    assert again.history == reference.history
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    assert not same(train_head(folder, replace(OPTIONS, seed=4)).model, reference.model)


@pytest.mark.parametrize("epochs", [(1,), (3,), (1, 2, 4)])
def test_stopped_and_resumed(folder, reference, tmp_path, epochs):
    for epoch in epochs:
        with pytest.raises(Stop):
            train_head(folder, OPTIONS, checkpoint=str(tmp_path), progress=stop_after(epoch))
        assert len(list(tmp_path.iterdir())) == 3
    again = train_head(folder, OPTIONS, checkpoint=str(tmp_path))
    assert same(again.model, reference.model)
    assert again.history == reference.history
    assert again.best_epoch == reference.best_epoch
    finished = train_head(folder, OPTIONS, checkpoint=str(tmp_path), progress=stop_after(1))  # nothing left to do
    assert same(finished.model, reference.model)


def test_killed_at_any_moment_and_started_again(folder, tmp_path):
    """A process that trains, killed again and again, ends with the bytes of one that was left alone."""
    options = replace(OPTIONS, epochs=8, patience=8, batch_size=16, calibrate="isotonic")
    train_head(folder, options).model.save(str(tmp_path / "calm"))
    code = (
        "import os, signal, sys; from xpipe.heads import TrainOptions, train_head\n"
        "def die(state):\n"
        "    if state.epoch == int(sys.argv[3]): os.kill(os.getpid(), signal.SIGKILL)\n"
        f"train_head({folder!r}, {options!r}, checkpoint=sys.argv[1], progress=die).model.save(sys.argv[2])"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "state"), str(tmp_path / "killed")]
    environment = {**os.environ, "PYTHONPATH": os.getcwd()}
    state, progress = tmp_path / "state" / "checkpoint.json", []
    for moment in (2, 5):
        assert subprocess.run([*command, str(moment)], env=environment, check=False).returncode == -9
        progress.append(len(json.loads(state.read_text())["facts"]["history"]))
    assert 0 < progress[0] < progress[1] < 8  # it was killed in mid-training, and went on
    assert not (tmp_path / "killed").exists()
    train_head(folder, options, checkpoint=str(tmp_path / "state")).model.save(str(tmp_path / "killed"))
    for name in ("model.safetensors", "weights.safetensors"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "calm" / name).read_bytes()
    assert not list((tmp_path / "state").glob("*.tmp"))


@pytest.mark.parametrize("criterion", ["ndcg", "loss"])
def test_it_stops_when_nothing_gets_better_and_keeps_the_best(folder, criterion):
    options = replace(OPTIONS, epochs=60, patience=2, learning_rate=0.3, criterion=criterion)
    trained = train_head(folder, options)
    assert len(trained.history) == trained.best_epoch + 2 < 60
    sign = 1 if criterion == "ndcg" else -1
    values = [sign * entry[f"validation_{criterion}"] for entry in trained.history]
    assert values[trained.best_epoch - 1] == max(values)
    short = train_head(folder, replace(options, epochs=trained.best_epoch))
    assert same(short.model, trained.model)


def test_without_validation_the_last_epoch_is_kept(folder):
    trained = train_head(folder, replace(OPTIONS, validation=0.0, epochs=3, patience=1))
    assert trained.best_epoch == len(trained.history) == 3
    assert set(trained.history[0]) == {"epoch", "loss"}


def test_validation_figures_are_those_of_the_held_out_rows(folder):
    trained = train_head(folder, replace(OPTIONS, epochs=1))
    held_out = ParquetBatches(folder, seed=3, validation=0.1, role="validation", shuffle=False)
    _, Y = make_rows(500)
    rows = np.concatenate([(batch.samples.numpy() - 1000) // 7 for batch in held_out])
    found = metrics.ndcg(trained.model.predict(held_out, 5, values="logits"), Y[rows], 5)[-1]
    assert trained.history[0]["validation_ndcg"] == pytest.approx(found)


@pytest.mark.parametrize("validation", [0.2, 0.0])
def test_quasibinary_probabilities_add_up_to_the_labels_of_rows_held_out(folder, tmp_path, validation):
    options = replace(OPTIONS, layer="quasibinary", head={}, dropout=0.5, validation=validation)
    trained = train_head(folder, options, checkpoint=str(tmp_path))
    rows = {"role": "validation", "validation": validation} if validation else {}
    batches = list(ParquetBatches(folder, shuffle=False, seed=options.seed, **rows))
    with torch.no_grad():
        total = sum(float(trained.model.head.probabilities(trained.model.encoder(one)).sum()) for one in batches)
    assert total == pytest.approx(sum(len(one.targets.labels) for one in batches), rel=1e-4)
    assert same(train_head(folder, options, checkpoint=str(tmp_path)).model, trained.model)  # found done


def test_progress_tells_loss_and_time_left(folder, monkeypatch):
    monkeypatch.setattr(training_run, "EVERY_SECONDS", 0.0)
    states = []
    train_head(folder, replace(OPTIONS, epochs=2, patience=5), progress=states.append)
    assert [state.epoch for state in states] == sorted(state.epoch for state in states)
    assert states[-1].rows == states[-1].of_rows
    assert states[-1].seconds_left == 0
    assert len(states) > 10
    assert all(np.isfinite(state.loss) and state.seconds_left >= 0 for state in states)


def test_a_checkpoint_leaves_other_files_alone(folder, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    (tmp_path / "last-00009.safetensors").write_text("left by a run that was killed")
    train_head(folder, replace(OPTIONS, epochs=2), checkpoint=str(tmp_path))
    names = {path.name for path in tmp_path.iterdir()}
    assert {"notes.txt", "checkpoint.json", "last-00002.safetensors"} < names
    assert len(names) == 4


def test_checkpoints_of_others_are_refused(folder, tmp_path):
    train_head(folder, replace(OPTIONS, epochs=1), checkpoint=str(tmp_path))
    with pytest.raises(ConfigError, match="belongs to another training run"):
        train_head(folder, replace(OPTIONS, epochs=2), checkpoint=str(tmp_path))


DAMAGE = {
    "cut short": lambda content: content[: len(content) // 2],
    "empty": lambda content: b"",
    "one bit": lambda content: content[:-3] + bytes([content[-3] ^ 1]) + content[-2:],
    "in the middle": lambda content: content[:200] + bytes([content[200] ^ 1]) + content[201:],
    "a list": lambda content: b"[1, 2]",
    "another shape": lambda content: b'{"identity": 3, "facts": [], "last": {}, "best": null}',
    "deep": lambda content: b"[" * 100_000,
    "digits": lambda content: b"9" * 10_000,
    "missing": lambda content: None,
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
@pytest.mark.parametrize("name", ["checkpoint.json", "last-00002.safetensors", "best-*.safetensors"])
def test_a_damaged_checkpoint_is_replaced(folder, reference, tmp_path, name, damage):
    with pytest.raises(Stop):
        train_head(folder, OPTIONS, checkpoint=str(tmp_path), progress=stop_after(2))
    (path,) = tmp_path.glob(name)
    content = damage(path.read_bytes())
    path.unlink() if content is None else path.write_bytes(content)
    trained = train_head(folder, OPTIONS, checkpoint=str(tmp_path))
    assert ("damaged" in trained.note) == (path.name != "checkpoint.json" or content is not None)
    assert same(trained.model, reference.model)
    assert trained.history == reference.history
    again = train_head(folder, OPTIONS, checkpoint=str(tmp_path))  # what was written since is whole
    assert not again.note
    assert same(again.model, reference.model)


def test_no_mutated_checkpoint_is_believed(folder, reference, tmp_path):
    """Read as it was written, or refused by the only error that makes training begin anew."""
    with pytest.raises(Stop):
        train_head(folder, OPTIONS, checkpoint=str(tmp_path), progress=stop_after(1))
    path = tmp_path / "checkpoint.json"
    content, rng = path.read_bytes(), random.Random(0)
    identity = json.loads(content)["identity"]
    checkpoint = Checkpoint(str(tmp_path), {})
    checkpoint.identity = identity
    whole = checkpoint.read()
    for _ in range(300):
        path.write_bytes(mutated(content, rng))
        try:
            found = checkpoint.read()
        except DataError:
            continue
        assert found.log == whole.log
        assert all(torch.equal(part, whole.last[name]) for name, part in found.last.items())


def mutated(content, rng):
    changed = bytearray(content)
    for _ in range(rng.randint(1, 3)):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed[: rng.choice([len(changed), len(changed), rng.randrange(len(changed))])])


def test_a_loss_that_is_no_number_stops_it(folder, monkeypatch):
    from xpipe.heads import BSL

    monkeypatch.setattr(BSL, "loss", lambda head, logits, targets: logits.sum() * float("nan"))
    with pytest.raises(DataError, match=r"(?s)the loss is nan.*epoch 1 of a bsl head"):
        train_head(folder, OPTIONS)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device")
def test_cuda_that_is_not_there(folder):
    with pytest.raises(BackendError, match="cannot be used here"):
        train_head(folder, replace(OPTIONS, device="cuda"))
    assert train_head(folder, replace(OPTIONS, device="auto", epochs=1)).device == "cpu"


@pytest.mark.parametrize(
    ("name", "value"),
    [("width", 0), ("hidden", 0), ("epochs", 0), ("patience", True), ("batch_size", 1.5), ("learning_rate", 0.0),
     ("weight_decay", -1.0), ("dropout", 1.0), ("validation", float("nan")), ("criterion", "f1"), ("device", "tpu"),
     ("threads", 0)],
)  # fmt: skip
def test_options_out_of_range(name, value):
    with pytest.raises(ConfigError, match=f"`{name}`"):
        replace(OPTIONS, **{name: value})
