"""HeadModel: predictions in order, files that come back bit for bit and refuse what they are not."""

from __future__ import annotations

import json
import random

import numpy as np
import pytest
import torch

from tests.heads.datasets import N_FEATURES, N_LABELS, make_rows, write_heads
from tests.heads.test_encoder import batch_of
from xpipe.argmaxability.weights import read_weights
from xpipe.errors import ConfigError, DataError
from xpipe.heads import HeadModel, ParquetBatches, SparseEncoder, make_head
from xpipe.heads.packing import pack


def make_model(layer="bsl", **options):
    torch.manual_seed(0)
    if layer == "bsl":
        options = {"dim": 4, **options}
    return HeadModel(SparseEncoder(N_FEATURES, 8, 6), make_head(layer, in_dim=6, n_labels=N_LABELS, **options)).eval()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_heads(tmp_path_factory.mktemp("heads"))


@pytest.mark.parametrize("k", [1, 5, 30])
def test_predictions_are_the_best_labels_of_every_row(folder, k):
    model = make_model()
    with torch.no_grad():
        model.head.classifier.weight[5] = model.head.classifier.weight[2]  # equal logits: the smaller label first
    X, _ = make_rows(100, 1)
    with torch.inference_mode():
        encoded = model.encoder(batch_of(X))
        logits, probabilities = model.head(encoded).numpy(), model.head.probabilities(encoded).numpy()
    order = np.lexsort((np.tile(np.arange(N_LABELS), (100, 1)), -logits), axis=1)[:, :k]
    batches = ParquetBatches(folder, "test", 13, shuffle=False)
    for values, expected in (("probabilities", probabilities), ("logits", logits)):
        found = model.predict(batches, k, values=values)
        assert found.shape == (100, N_LABELS)
        for row in range(100):
            assert set(found[row].indices) == set(order[row])
            np.testing.assert_allclose(found[row].data, expected[row, found[row].indices], rtol=1e-5, atol=1e-6)


def test_predicting_leaves_the_mode_as_it_was(folder):
    model = make_model().train()
    model.predict(ParquetBatches(folder, "test", shuffle=False))
    assert model.training
    assert model.predict([]).shape == (0, N_LABELS)
    with pytest.raises(ConfigError, match="values"):
        model.predict([], values="scores")


def test_saved_and_loaded(folder, tmp_path):
    model = make_model()
    assert model.save(str(tmp_path / "a")) == ["model.safetensors", "weights.safetensors"]
    again = HeadModel.load(str(tmp_path / "a"))
    assert not again.training
    for name, part in model.state_dict().items():
        assert torch.equal(part, again.state_dict()[name])
    again.save(str(tmp_path / "b"))
    for name in ("model.safetensors", "weights.safetensors"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    W, bias = model.head.weights()
    np.testing.assert_array_equal(read_weights(str(tmp_path / "a" / "weights.safetensors"), "W"), W)
    assert bias is None
    batches = ParquetBatches(folder, "test", shuffle=False)
    assert (model.predict(batches) != again.predict(batches)).nnz == 0


def test_a_bias_is_kept_beside_the_weights(tmp_path):
    model = make_model("binary")
    model.save(str(tmp_path))
    np.testing.assert_array_equal(read_weights(str(tmp_path / "weights.safetensors"), "bias"), model.head.weights()[1])


def test_parameters_are_counted():
    counts = make_model().parameter_counts()
    assert counts["head"] == 6 * 4 + 4 + N_LABELS * 4
    assert counts["all"] == counts["head"] + N_FEATURES * 8 + 8 + 8 * 6 + 6


def test_what_is_no_model_is_refused(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        HeadModel.load(str(tmp_path))
    make_model().save(str(tmp_path))
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    path.write_bytes(content[:-5])
    with pytest.raises(DataError, match="not a readable safetensors file"):
        HeadModel.load(str(tmp_path))
    path.write_bytes(content.replace(b'\\"width\\": 8', b'\\"width\\": 9'))
    with pytest.raises(DataError, match="damaged"):
        HeadModel.load(str(tmp_path))
    path.write_bytes((tmp_path / "weights.safetensors").read_bytes())
    with pytest.raises(DataError, match="not a model of this version"):
        HeadModel.load(str(tmp_path))


def test_encoder_and_head_must_fit():
    with pytest.raises(ConfigError, match="takes 5 inputs, the encoder gives 8"):
        HeadModel(SparseEncoder(4, 8), make_head("bsl", in_dim=5, n_labels=3, dim=2))


def test_no_mutated_model_predicts_anything_else(folder, tmp_path):
    model, rng = make_model(), random.Random(0)
    model.save(str(tmp_path))
    path = tmp_path / "model.safetensors"
    content = path.read_bytes()
    refused = 0
    for number in range(300):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 3)):  # every other time in the header
            changed[rng.randrange(len(changed) if number % 2 else 900)] = rng.randrange(256)
        path.write_bytes(bytes(changed[: rng.choice([len(changed), len(changed), rng.randrange(len(changed))])]))
        try:
            found = HeadModel.load(str(tmp_path))
        except DataError:
            refused += 1
            continue
        assert all(torch.equal(part, found.state_dict()[name]) for name, part in model.state_dict().items())
    assert refused > 250


@pytest.mark.parametrize(
    "change",
    [
        {"in_dim": 2**40}, {"n_labels": 2**40}, {"n_labels": 2**30}, {"n_labels": -1}, {"n_labels": "12"}, {"layer": 3},
        {"options": []}, {"options": {"dim": 2**40}}, {"options": {"dim": -1}}, {"options": {"dim": None}},
        {"options": {"no": 1}}, {"layer": "dft", "options": {"k": 2**40}},
    ],
)  # fmt: skip
def test_a_model_whose_facts_ask_for_more_than_it_has_is_refused(tmp_path, change):
    """Also where the digest is right: somebody may have written it so."""
    model = make_model()
    model.save(str(tmp_path))
    about = {"layer": "bsl", "in_dim": 6, "n_labels": N_LABELS, "options": {"dim": 4}, **change}
    facts = {"format": 2, "encoder": model.encoder.options(), "head": about}
    (tmp_path / "model.safetensors").write_bytes(pack(model.state_dict(), facts, "xpipe"))
    with pytest.raises(DataError):
        HeadModel.load(str(tmp_path))
    facts = {"format": 2, "encoder": {**model.encoder.options(), "n_features": 2**45}, "head": about}
    (tmp_path / "model.safetensors").write_bytes(pack(model.state_dict(), facts, "xpipe"))
    with pytest.raises(DataError):
        HeadModel.load(str(tmp_path))


def test_a_dft_head_of_more_labels_than_the_weights_beside_it_is_refused(tmp_path):
    """Its own tensors do not depend on the number of labels."""
    model = HeadModel(SparseEncoder(N_FEATURES, 8), make_head("dft", in_dim=8, n_labels=N_LABELS, k=2))
    model.save(str(tmp_path))
    head = {"layer": "dft", "in_dim": 8, "n_labels": 2**30, "options": {"k": 2}}
    facts = {"format": 2, "encoder": model.encoder.options(), "head": head}
    (tmp_path / "model.safetensors").write_bytes(pack(model.state_dict(), facts, "xpipe"))
    with pytest.raises(DataError, match="not its own"):
        HeadModel.load(str(tmp_path))


def test_a_model_of_before_there_were_digests_is_read(tmp_path):
    from safetensors.torch import save

    model = make_model()
    head = {"layer": "bsl", "in_dim": 6, "n_labels": N_LABELS, "options": model.head.options()}
    facts = {"format": 1, "encoder": model.encoder.options(), "head": head}
    (tmp_path / "model.safetensors").write_bytes(save(model.state_dict(), {"xpipe": json.dumps(facts)}))
    found = HeadModel.load(str(tmp_path))
    assert all(torch.equal(part, found.state_dict()[name]) for name, part in model.state_dict().items())


def test_a_folder_in_place_of_a_model_is_refused(tmp_path):
    (tmp_path / "model.safetensors").mkdir()
    with pytest.raises(DataError, match="cannot be read"):
        HeadModel.load(str(tmp_path))
