"""Calibrated heads: the map comes from held-out rows, keeps the order of labels, and stays with the model."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.heads.datasets import make_rows, write_heads
from xpipe.errors import ConfigError, DataError
from xpipe.ground import calibration_map
from xpipe.ground.calibration_map import fit_map
from xpipe.heads import HeadModel, ParquetBatches, Targets, TrainOptions, calibrating, matrix_batches, train_head
from xpipe.heads.calibrating import predict_held_out
from xpipe.heads.packing import pack
from xpipe.heads.training_run import TrainingRun

OPTIONS = TrainOptions("binary", width=16, epochs=4, batch_size=32, learning_rate=0.02, validation=0.3, device="cpu")
HEADS = {
    "bsl": {"dim": 6},
    "dft": {"k": 2, "slack": 4},
    "lml": {"k": 2},
    "quasibinary": {},
    "softmax": {},
    "binary": {},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_heads(tmp_path_factory.mktemp("heads"))


@pytest.fixture(scope="module")
def trained(folder):
    return train_head(folder, OPTIONS).model


def same_weights(one, other):
    return all(torch.equal(part, other.state_dict()[name]) for name, part in one.state_dict().items())


def test_the_map_is_that_of_the_held_out_rows(folder, trained, monkeypatch):
    monkeypatch.setattr(calibrating, "AGAIN", 0)
    trained = train_head(folder, OPTIONS).model
    held_out = ParquetBatches(folder, validation=0.3, role="validation", shuffle=False, batch_size=1000)
    scores, truths = [], []
    for batch in held_out:
        found = trained.rank([batch], calibration_map.TOP, calibrated=False)
        for row in range(batch.n_rows):
            true = set(batch.targets.labels[batch.targets.offsets[row] : batch.targets.offsets[row + 1]].tolist())
            if true:
                scores += found.probabilities[row].tolist()
                truths += [float(label in true) for label in found.labels[row]]
    expected = fit_map(scores, truths)
    np.testing.assert_allclose(trained.calibration.scores, expected.scores, rtol=1e-6)
    np.testing.assert_allclose(trained.calibration.probabilities, expected.probabilities, rtol=1e-6)


def test_few_held_out_rows_get_more_from_models_without_other_rows(folder, trained, monkeypatch):
    plain = train_head(folder, replace(OPTIONS, calibrate="none"))
    again = replace(OPTIONS, validation=0.2, epochs=plain.best_epoch)
    held_out = [ParquetBatches(folder, validation=0.3, role="validation", shuffle=False, batch_size=32)]
    models = [plain.model]
    for start in (0.3, 0.5):
        run = TrainingRun(folder, again, None, None, torch.device("cpu"), start)
        with torch.random.fork_rng():
            run.train()
        assert run.best_epoch == plain.best_epoch
        models.append(run.model)
        held_out.append(run.held_out)
    samples = [sample for batches in held_out for batch in batches for sample in batch.samples.tolist()]
    assert len(set(samples)) == len(samples) > 300  # no row twice
    found = [predict_held_out(model, batches) for model, batches in zip(models, held_out, strict=True)]
    parts = [[part for each in found for part in getattr(each, name)] for name in ("predicted", "truths")]
    assert trained.calibration == calibration_map.fit_predictions(*parts)
    assert not same_weights(models[1], models[2])
    monkeypatch.setattr(calibrating, "ENOUGH", found[0].n_rows)
    assert train_head(folder, OPTIONS).model.calibration == calibration_map.fit_predictions(*found[0])


def test_so_few_rows_that_no_other_model_can_be_trained(tmp_path):
    tiny = write_heads(tmp_path, n_rows=4, n_test=2)
    for seed in range(6):
        try:
            model = train_head(tiny, replace(OPTIONS, epochs=1, seed=seed, validation=0.5)).model
        except DataError:  # nothing to train on, or nothing held out at all
            continue
        assert model.calibration is not None


@pytest.mark.parametrize("layer", HEADS)
def test_predictions_keep_their_order(folder, layer):
    model = train_head(folder, replace(OPTIONS, layer=layer, head=HEADS[layer])).model
    X, _ = make_rows(100, 1)
    own, calibrated = (model.rank(matrix_batches(X), 6, calibrated=how) for how in (False, True))
    np.testing.assert_array_equal(own.labels, calibrated.labels)
    np.testing.assert_array_equal(own.logits, calibrated.logits)
    np.testing.assert_array_equal(
        np.diff(calibrated.probabilities, axis=1) < 0, np.diff(own.logits, axis=1) < 0
    )  # also where own probabilities are cut at 1
    assert ((calibrated.probabilities > 0) & (calibrated.probabilities <= 1)).all()
    np.testing.assert_allclose(calibrated.probabilities, model.calibration.apply(own.probabilities), rtol=1e-5)
    predicted = model.predict(matrix_batches(X), 6)
    assert predicted.max() == calibrated.probabilities.max()


def test_it_is_left_out_on_request_and_without_held_out_rows(folder, trained):
    plain = train_head(folder, replace(OPTIONS, calibrate="none")).model
    assert plain.calibration is None
    assert same_weights(plain, trained)
    assert train_head(folder, replace(OPTIONS, validation=0.0, epochs=1)).model.calibration is None
    with pytest.raises(ConfigError, match="`calibrate` must be one of isotonic, none"):
        replace(OPTIONS, calibrate="yes")


def test_a_checkpoint_serves_both(folder, trained, tmp_path):
    """The weights do not depend on the calibration."""
    train_head(folder, replace(OPTIONS, calibrate="none"), checkpoint=str(tmp_path))
    again = train_head(folder, OPTIONS, checkpoint=str(tmp_path), progress=lambda state: pytest.fail("trained again"))
    assert again.model.calibration == trained.calibration


def test_it_is_saved_with_the_model(trained, tmp_path):
    trained.save(str(tmp_path / "a"))
    again = HeadModel.load(str(tmp_path / "a"))
    assert again.calibration == trained.calibration
    again.save(str(tmp_path / "b"))
    assert (tmp_path / "a" / "model.safetensors").read_bytes() == (tmp_path / "b" / "model.safetensors").read_bytes()


def test_a_model_of_before_there_was_calibration_predicts_as_it_did(trained, tmp_path):
    trained.save(str(tmp_path))
    facts = {"format": 2, "encoder": trained.encoder.options(), "head": trained.head.about()}
    (tmp_path / "model.safetensors").write_bytes(pack(trained.state_dict(), facts, "xpipe"))
    old = HeadModel.load(str(tmp_path))
    assert old.calibration is None
    X, _ = make_rows(50, 1)
    expected = trained.rank(matrix_batches(X), 5, calibrated=False).probabilities
    np.testing.assert_array_equal(old.rank(matrix_batches(X), 5).probabilities, expected)


@pytest.mark.parametrize(
    "knots",
    [{}, {"scores": [0.0, 1.0]}, {"scores": [0.0, 1.0], "probabilities": [0.0, 2.0]},
     {"scores": [0.0, 0.5, 0.4, 1.0], "probabilities": [0.0, 0.1, 0.2, 0.3]}, {"scores": "x", "probabilities": "y"}],
)  # fmt: skip
def test_what_is_no_map_is_refused(trained, tmp_path, knots):
    facts = {"format": 3, "encoder": trained.encoder.options(), "head": trained.head.about(), "calibration": knots}
    (tmp_path / "model.safetensors").write_bytes(pack(trained.state_dict(), facts, "xpipe"))
    with pytest.raises(DataError):
        HeadModel.load(str(tmp_path))


def test_chances_of_labels_count(folder, tmp_path):
    """Where labels were assigned with posteriors, a label is as right as its posterior says."""
    import shutil

    shutil.copytree(folder, tmp_path / "heads")
    about = json.loads((tmp_path / "heads" / "dataset.json").read_text())
    (tmp_path / "heads" / "dataset.json").write_text(json.dumps({**about, "label_scores": "posterior"}))
    (batch, *_) = ParquetBatches(str(tmp_path / "heads"), shuffle=False)
    assert batch.targets.chances.tolist() == [1.0] * len(batch.targets.labels)  # as they were written
    assert next(iter(ParquetBatches(folder, shuffle=False))).targets.chances is None
    model = train_head(folder, replace(OPTIONS, calibrate="none")).model
    halves = [
        batch._replace(targets=Targets(*batch.targets[:2], batch.targets.chances / 2))
        for batch in ParquetBatches(str(tmp_path / "heads"))
    ]
    ends = [
        calibration_map.fit_predictions(*predict_held_out(model, batches)).probabilities[-1]
        for batches in (halves, ParquetBatches(folder))
    ]
    assert ends[0] < 0.6 < ends[1]
