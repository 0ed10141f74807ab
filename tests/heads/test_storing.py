from __future__ import annotations

import random
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from xpipe.argmaxability import read_weights
from xpipe.errors import ConfigError, DataError
from xpipe.heads import Targets, load_head, make_head
from xpipe.heads.packing import pack

HEADS = [
    ("bsl", {"dim": 3}),
    ("dft", {"k": 2}),
    ("dft", {"k": 2, "slack": 2, "label_order": [3, 1, 0, 2, 5, 4, 6], "route": "fft"}),
    ("lml", {"k": 2}),
    ("quasibinary", {"momentum": 0.5}),
    ("softmax", {"temperature": 2.0}),
    ("binary", {}),
]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(("layer", "options"), HEADS)
def test_comes_back_as_it_was(layer, options, dtype, tmp_path):
    head = make_head(layer, in_dim=4, n_labels=7, **options).to(dtype)
    x = torch.randn(5, 4, dtype=dtype)
    head.loss(head(x), Targets.of([[1], [0, 2], [], [6], [3]])).backward()
    path = str(tmp_path / "head.safetensors")
    head.save(path)
    other = load_head(path)
    assert type(other) is type(head)
    assert other.options() == head.options()
    assert {**options, **other.options()} == other.options()
    assert torch.equal(other(x), head(x))
    assert torch.equal(other.probabilities(x), head.probabilities(x))
    assert all(parameter.requires_grad for parameter in other.parameters())
    for mine, theirs in zip(head.weights(), other.weights(), strict=True):
        assert mine is theirs is None or (mine == theirs).all()


def test_verify_reads_the_file(tmp_path):
    head = make_head("bsl", 4, 7, dim=3)
    head.save(str(tmp_path / "head.safetensors"))
    found = read_weights(str(tmp_path / "head.safetensors"), "classifier.weight")
    assert (found == head.weights()[0]).all()


def test_refuses_damaged_and_foreign_files(tmp_path):
    path = tmp_path / "head.safetensors"
    make_head("bsl", 4, 7, dim=3).save(str(path))
    whole = path.read_bytes()
    replaced = [(b'\\"dim\\": 3', b'\\"dim\\": 4'), (b'\\"bsl\\"', b'\\"bsx\\"'), (b'\\"options\\"', b'\\"optiont\\"')]
    damaged = [b"", whole[:40], whole[:-1], b"\x00" * 100]
    for content in [*damaged, *(whole.replace(old, new) for old, new in replaced)]:
        assert content != whole
        path.write_bytes(content)
        with pytest.raises(DataError) as caught:
            load_head(str(path))
        assert str(path) in str(caught.value)
    save_file({"W": torch.zeros(3)}, str(path))
    with pytest.raises(DataError, match="holds nothing of xpipe"):
        load_head(str(path))
    with pytest.raises(DataError, match="no such file"):
        load_head(str(tmp_path / "none"))


@pytest.mark.parametrize(
    ("layer", "options", "said"),
    [
        ("bls", {}, "did you mean 'bsl'"),
        ("bsl", {"dims": 3}, "did you mean 'dim'"),
        ("bsl", {}, "needs `dim`"),
        ("binary", {"k": 3}, "no options"),
        ("dft", {"k": 4}, "between 0 and"),
    ],
)
def test_refuses_names_and_options_there_are_not(layer, options, said):
    with pytest.raises(ConfigError, match=said):
        make_head(layer, in_dim=4, n_labels=7, **options)


def test_says_what_is_missing_without_torch():
    code = (
        "import sys; sys.modules['torch'] = None\n"
        "import xpipe, xpipe.heads\n"
        "from xpipe.errors import ConfigError\n"
        "try:\n    xpipe.heads.BSL\nexcept ConfigError as error:\n    print(error)\n"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "heads need PyTorch" in found.stdout
    assert "pip install 'xpipe[heads]'" in found.stdout


@pytest.mark.parametrize(("layer", "options"), HEADS)
def test_no_mutated_file_is_another_head(layer, options, tmp_path):
    head, rng, path = make_head(layer, 4, 7, **options), random.Random(1), tmp_path / "head.safetensors"
    head.save(str(path))
    content = path.read_bytes()
    for _ in range(60):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(bytes(changed[: rng.choice([len(changed), len(changed), rng.randrange(len(changed))])]))
        try:
            found = load_head(str(path))
        except DataError:
            continue
        assert found.options() == head.options()
        assert all(torch.equal(part, found.state_dict()[name]) for name, part in head.state_dict().items())


@pytest.mark.parametrize(
    "change",
    [
        {"in_dim": 2**40}, {"n_labels": 2**40}, {"options": {"dim": 2**40}}, {"options": {"dim": "3"}}, {"layer": []},
        {"layer": "dft", "options": {"k": 2, "label_order": [0.5] * 7}}, {"options": None}, {"n_labels": 7.0},
    ],
)  # fmt: skip
def test_options_that_ask_for_more_than_the_file_has_are_refused(tmp_path, change):
    path = tmp_path / "head.safetensors"
    head = make_head("bsl", 4, 7, dim=3)
    about = {"layer": "bsl", "in_dim": 4, "n_labels": 7, "options": {"dim": 3}, **change}
    path.write_bytes(pack(head.state_dict(), about, "xpipe.head"))
    with pytest.raises(DataError):
        load_head(str(path))
