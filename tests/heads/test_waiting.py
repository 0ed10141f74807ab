"""Training never waits for its device within an epoch, but for the heads that must.

The device is PyTorch's `meta` device: it has shapes and no numbers, so reading one is an error there.
"""

from __future__ import annotations

import contextlib
import json
import pathlib

import pytest
import torch

from tests.heads.datasets import write_heads
from xpipe.heads import DFT, ParquetBatches, Quasibinary, TrainOptions, dft, loss_gradients, train_head, training_run
from xpipe.heads.batch import Batch
from xpipe.heads.loss_gradients import QuasibinaryLoss, TopkEntropyLoss
from xpipe.heads.targets import Targets
from xpipe.heads.training_run import TrainingRun

LAYERS = {
    "bsl": {"dim": 4}, "dft": {"k": 2, "slack": 3, "route": "fft"}, "binary": {}, "softmax": {}, "quasibinary": {},
}  # fmt: skip
META = torch.device("meta")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_heads(tmp_path_factory.mktemp("heads"))


@pytest.fixture(scope="module")
def folder_with_chances(tmp_path_factory):
    """Labels were assigned with chances."""
    path = write_heads(tmp_path_factory.mktemp("chances"))
    about = pathlib.Path(path) / "dataset.json"
    about.write_text(json.dumps({**json.loads(about.read_text()), "label_scores": "posterior"}))
    return path


def options(layer, **more):
    return TrainOptions(
        layer, LAYERS.get(layer, {"k": 2}), width=16, hidden=8, epochs=2, batch_size=64, dropout=0.1, device="cpu",
        calibrate="none", **more,
    )  # fmt: skip


def make_plain_optimiser(model, options):
    """AdamW has no form for the meta device."""
    return torch.optim.SGD(model.parameters(), lr=options.learning_rate, foreach=False)


@pytest.mark.parametrize("chances", [False, True])
@pytest.mark.parametrize("layer", LAYERS)
def test_an_epoch_reads_no_number_before_its_end(folder, folder_with_chances, layer, chances, monkeypatch):
    monkeypatch.setattr(training_run, "make_optimiser", make_plain_optimiser)
    monkeypatch.setattr(torch, "autocast", lambda *_, **__: contextlib.nullcontext())  # it has none for this device
    where = folder_with_chances if chances else folder
    run = TrainingRun(where, options(layer), None, None, META)
    trained = []
    monkeypatch.setattr(run.optimiser, "step", lambda: trained.append(1))
    with pytest.raises(RuntimeError, match="meta"):  # the mean loss, after all batches
        run.train_rows(1, 0.0)
    assert len(trained) == sum(1 for _ in run.batches) > 5


def test_topk_entropy_reads_no_number():
    z = torch.zeros(3, 5, device=META, requires_grad=True)
    TopkEntropyLoss.apply(z, Targets.of([[1], [0, 2], []]).to(META), 3).backward()


def test_the_head_that_must_wait_is_the_projection(folder, monkeypatch):
    """The documentation names it: its Newton steps end where all rows are solved."""
    monkeypatch.setattr(training_run, "make_optimiser", make_plain_optimiser)
    run = TrainingRun(folder, options("lml"), None, None, META)
    trained = []
    monkeypatch.setattr(run.optimiser, "step", lambda: trained.append(1))
    with pytest.raises(RuntimeError, match="meta"):
        run.train_rows(1, 0.0)
    assert not trained


@pytest.mark.parametrize("sets", [[[1], [0, 2], []], [[], [], []]])
def test_losses_that_do_not_wait_are_the_same(sets, monkeypatch):
    """Those of a device, computed on the CPU."""
    targets = Targets.of(sets)
    targets = Targets(targets.offsets, targets.labels, torch.linspace(0.2, 0.9, len(targets.labels)))
    found = []
    for waits in (False, True):
        monkeypatch.setattr(loss_gradients, "waits", lambda z, waits=waits: waits)
        z = torch.randn(3, 5, generator=torch.Generator().manual_seed(0)).requires_grad_()
        loss, log_c = QuasibinaryLoss.apply(z, targets, torch.tensor(1.5))
        loss.backward()
        other = z.detach().clone().requires_grad_()
        topk = TopkEntropyLoss.apply(other, targets, 3)
        topk.backward()
        found.append((loss.detach(), log_c, z.grad, topk.detach(), other.grad))
    for some, others in zip(*found, strict=True):
        torch.testing.assert_close(some, others)


@pytest.fixture
def pins(monkeypatch):
    """Tensors that were pinned: here they are only marked, as there is no device."""
    marked = {}

    def pin(self):
        marked[self.data_ptr(), self.shape] = self
        return self

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)
    return marked


def test_batches_are_pinned_where_a_device_reads_them(folder_with_chances, pins):
    plain = list(ParquetBatches(folder_with_chances, batch_size=64))
    assert not pins
    for batch, expected in zip(ParquetBatches(folder_with_chances, batch_size=64, pinned=True), plain, strict=True):
        for part, other in zip([*batch[:4], *batch.targets], [*expected[:4], *expected.targets], strict=True):
            assert torch.equal(part, other)
            assert (part.data_ptr(), part.shape) in pins


def test_copies_do_not_wait(monkeypatch):
    asked = []
    to = torch.Tensor.to

    def noted(self, *arguments, **options):
        asked.append(options.get("non_blocking"))
        return to(self, *arguments, **options)

    monkeypatch.setattr(torch.Tensor, "to", noted)
    one = torch.ones(2, dtype=torch.int64)
    Batch(one, one, one, one, Targets(one, one, one)).to(META)
    assert asked == [True] * 7


@pytest.mark.parametrize(("device", "pinned"), [("cpu", False), ("cuda", True)])
def test_only_cuda_takes_pinned_batches(folder, device, pinned, monkeypatch):
    monkeypatch.setattr(TrainingRun, "start", lambda self: None)
    run = TrainingRun(folder, options("bsl"), None, None, torch.device(device))
    assert run.batches.pinned is run.held_out.pinned is pinned


def test_the_loss_is_read_once_per_epoch_on_the_cpu_too(folder, monkeypatch):
    """Without `progress`, nobody asks for it earlier; and validation reads its loss once."""
    read = []
    value = torch.Tensor.__float__

    def noted(self):
        read.append(1)
        return value(self)

    monkeypatch.setattr(torch.Tensor, "__float__", noted)
    train_head(folder, options("bsl"))
    assert len(read) == 2 * 2  # two epochs, each with a loss of its own and one of held-out rows


def test_the_route_of_dft_is_that_of_the_device(monkeypatch):
    room = {"cpu": 1 << 40, "meta": 0}
    monkeypatch.setattr(dft, "_memory", lambda device: room[device.type])
    head = DFT(4, 200_000, 8)
    assert head.product == "dense"
    head = head.to(META)
    assert head.product == "blocks"
    assert head.matrix is None
    back = head.to_empty(device="cpu")
    assert back.product == "dense"
    assert torch.equal(back.matrix, DFT(4, 200_000, 8).matrix)


def test_the_memory_of_a_device_is_what_is_free_there(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (123, 10**12))
    assert dft._memory(torch.device("cuda", 0)) == 123
    assert dft._memory(torch.device("cpu")) > 1 << 20


def test_fixed_matrices_follow_changes_that_are_no_moves():
    head = DFT(3, 9000, 4, route="dense")
    before = head.matrix.clone()
    assert torch.equal(head.half().matrix, before)  # not rounded
    assert torch.equal(head.float().matrix, before)
    assert head.share_memory().matrix.is_shared()
    assert head.double().matrix.dtype == torch.float64


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_the_moving_normaliser_is_the_same_without_waiting(momentum, monkeypatch):
    """A batch without labels moves nothing, whether the host or the device finds that out."""
    found = []
    for waits in (False, True):
        monkeypatch.setattr(loss_gradients, "waits", lambda z, waits=waits: waits)
        head = Quasibinary(4, 5, momentum).train()
        for number, sets in enumerate([[[], []], [[1], [0, 2]], [[], []], [[3], []]]):
            targets = Targets.of(sets)
            targets = Targets(targets.offsets, targets.labels, torch.full((len(targets.labels),), 0.5))
            head.loss(torch.randn(2, 5, generator=torch.Generator().manual_seed(number)), targets)
        found.append((float(head.log_normaliser), int(head.updates)))
    assert found[0] == pytest.approx(found[1], abs=1e-6)
    assert found[1][1] == 2
