"""A head that the project does not know: one class, as it would stand in a file of its own, and one registry line.

Everything else follows: section `train` knows its options, and it is trained, saved, loaded, verified and evaluated.
"""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
import torch

from tests.samples import run_pipeline, write_dataset, write_pipeline
from xpipe import config
from xpipe.argmaxability import check, read_weights
from xpipe.argmaxability.verdicts import read_verdicts
from xpipe.errors import ConfigError
from xpipe.formats.parquet import read_split_labels
from xpipe.heads import HEADS, Head, HeadKind, HeadModel, Targets, load_head, make_head
from xpipe.heads.head import check_counts, to_numpy
from xpipe.heads.registry import COUNT

TRAIN = "train.heads=[{layer: hinge, dim: 4, width: 8, epochs: 2, batch_size: 64}]"
SETTINGS = ("group=null", "emit.formats=[parquet]", TRAIN, "verify.split=test", "evaluate.k=3")


class Hinge(Head):
    """A narrow output layer with a squared hinge loss: a score above 0 predicts the label."""

    layer = "hinge"

    def __init__(self, in_dim: int, n_labels: int, dim: int):
        super().__init__(in_dim, n_labels)
        check_counts(dim=dim)
        self.dim = dim
        self.projection = torch.nn.Linear(in_dim, dim)
        self.scores = torch.nn.Linear(dim, n_labels)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.scores(self.projection(x))

    def loss(self, logits: torch.Tensor, targets: Targets) -> torch.Tensor:
        own = logits[targets.rows(), targets.labels]
        absent = torch.relu(1 + logits).square().sum() - torch.relu(1 + own).square().sum()
        return (absent + torch.relu(1 - own).square().sum()) / max(len(logits), 1)

    def probabilities(self, x: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self(x))

    def weights(self) -> tuple[np.ndarray, np.ndarray | None]:
        return to_numpy(self.scores.weight), to_numpy(self.scores.bias)

    def options(self) -> dict[str, int]:
        return {"dim": self.dim}


@pytest.fixture(autouse=True)
def _registered(monkeypatch):
    monkeypatch.setitem(HEADS, "hinge", HeadKind("tests.heads.test_toy_head:Hinge", {"dim": COUNT}))


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("data"))


def test_a_new_head_is_a_short_file():
    assert len(inspect.getsource(Hinge).splitlines()) < 60


def test_it_is_made_saved_and_loaded(tmp_path):
    head = make_head("hinge", in_dim=6, n_labels=9, dim=3)
    head.save(str(tmp_path / "head.safetensors"))
    loaded = load_head(str(tmp_path / "head.safetensors"))
    assert type(loaded) is Hinge
    x = torch.randn(4, 6)
    assert torch.equal(loaded(x), head(x))
    with pytest.raises(ConfigError, match="did you mean 'hinge'"):
        make_head("hing", 6, 9)


def test_a_pipeline_trains_verifies_and_evaluates_it(data, tmp_path):
    results = run_pipeline(write_pipeline(tmp_path, data), *SETTINGS)
    stages = {made["stage"]: made["summary"] for made in results["stages"]}
    out = tmp_path / "runs" / "sample"
    (trained,) = stages["train_heads"]["heads"]
    assert (trained["name"], trained["layer"], trained["dim"]) == ("hinge-4", "hinge", 4)
    assert type(HeadModel.load(str(out / "models" / "hinge-4")).head) is Hinge
    (verified,) = stages["verify"]["heads"]
    assert (verified["name"], verified["inputs"], verified["has_bias"]) == ("hinge-4", 4, True)
    weights = str(out / "models" / "hinge-4" / "weights.safetensors")
    Y = read_split_labels(str(out / "heads"), "test")
    verdicts = read_verdicts(str(out / "verification" / "hinge-4" / "verdicts.parquet"))
    assert check(read_weights(weights, "W"), Y, verdicts, read_weights(weights, "bias")).all()
    (evaluated,) = stages["evaluate"]["models"]
    assert (evaluated["name"], evaluated["layer"], len(evaluated["precision"])) == ("hinge-4", "hinge", 3)
    assert json.loads((out / "evaluation.json").read_text())["models"][0]["metrics"]["ndcg"][2] > 0


@pytest.mark.parametrize(
    ("heads", "text"),
    [("[{layer: hinges}]", "did you mean `hinge`"), ("[{layer: hinge, k: 2}]", "no option k; it takes dim")],
)
def test_mistakes_about_it_are_told(data, tmp_path, heads, text):
    with pytest.raises(ConfigError, match=text):
        config.load(write_pipeline(tmp_path, data), [f"train.heads={heads}"])
