"""`xpipe verify` as a user meets it: files in, a table, a file, an exit code."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.argmaxability.oracles import as_rows
from tests.argmaxability.test_weights import write_safetensors
from tests.samples import run_xpipe
from xpipe.argmaxability import check, verify
from xpipe.argmaxability.summary import summarise, worst_sets
from xpipe.argmaxability.verdicts import read_verdicts
from xpipe.cli.progress import Progress
from xpipe.cli.verify_command import verify_files
from xpipe.errors import ConfigError, DataError
from xpipe.formats import write_xmc


@pytest.fixture
def files(tmp_path):
    """Weights with two equal labels, and sets of which two ask them for different signs."""
    rng = np.random.default_rng(0)
    W = rng.standard_normal((9, 4)).astype(np.float32)
    W[7] = W[2]
    good = rng.standard_normal((5, 4)) @ W.T > 0
    bad = good[:1].copy()
    bad[0, 7] = ~bad[0, 7]
    Y = sp.csr_matrix(np.vstack([good, bad, bad]).astype(np.float32))
    np.save(tmp_path / "W.npy", W)
    sp.save_npz(tmp_path / "Y.npz", Y)
    (tmp_path / "names.txt").write_text("".join(f"disease {i}\n" for i in range(9)))
    return tmp_path, W, Y


def test_end_to_end(files):
    folder, W, Y = files
    out = folder / "verdicts.parquet"
    given = ("--weights", folder / "W.npy", "--labels", folder / "Y.npz", "--names", folder / "names.txt", "--out", out)
    code, output = run_xpipe("verify", *given, "--radius", "exact")
    assert code == 1, output
    assert "these 2 labels cannot have these signs together" in output
    assert "disease 2" in output
    assert "2 times" in output
    assert "5 (71.4%)" in output
    assert "verify: done, 6/6 sets" in output
    verdicts = read_verdicts(str(out))
    assert verdicts.argmaxable.tolist() == [True] * 5 + [False] * 2
    assert check(W, Y, verdicts).all()
    assert pq.read_table(out)["labels"].to_pylist() == [row.indices.tolist() for row in Y]
    first = out.read_bytes()
    run_xpipe("-q", "verify", *given, "--radius", "exact", "--threads", "1")
    assert out.read_bytes() == first


def test_exit_code_0_when_all_are_argmaxable(files):
    folder, W, Y = files
    write_xmc(str(folder / "test.txt"), sp.csr_matrix(np.eye(5, dtype=np.float32)), sp.csr_matrix(Y[:5]))
    tensors = {"fc.weight": ("F32", W.shape, W.tobytes()), "fc.bias": ("F32", (9,), bytes(36))}
    write_safetensors(folder / "m.safetensors", tensors)
    code, output = run_xpipe(
        "-q", "verify", "--weights", folder / "m.safetensors", "--key", "fc.weight", "--bias-key", "fc.bias",
        "--labels", folder / "test.txt", "--out", folder / "v.parquet",
    )  # fmt: skip
    assert code == 0, output
    assert "5 (100.0%)" in output
    assert read_verdicts(str(folder / "v.parquet")).argmaxable.all()


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda folder, W, Y: np.save(folder / "W.npy", np.where(W > 1, np.nan, W)), "not finite"),
        (lambda folder, W, Y: np.save(folder / "W.npy", W[:8]), "8 labels"),
        (lambda folder, W, Y: (folder / "Y.npz").write_bytes(b"no"), "not a readable npz file"),
        (lambda folder, W, Y: sp.save_npz(folder / "Y.npz", Y[:0]), "there are no label sets"),
        (lambda folder, W, Y: (folder / "names.txt").write_text("one\n"), "1 names for 9"),
        (lambda folder, W, Y: (folder / "W.npy").unlink(), "no such file"),
    ],
)
def test_bad_data_is_refused(files, spoil, words):
    folder, W, Y = files
    spoil(folder, W, Y)
    with pytest.raises(DataError, match=words):
        run_here(folder)
    assert not (folder / "v.parquet").exists()


def run_here(folder, **changes):
    """The command in this process; gives whether all sets are argmaxable."""
    given = {"key": None, "bias": None, "bias_key": None, "radius": "bounds", "eps": 1e-8, "box": 1e4, "threads": 1}
    paths = {"weights": "W.npy", "sets": "Y.npz", "names": "names.txt", "out": "v.parquet"}
    given |= {name: str(folder / path) for name, path in paths.items()}
    with Progress(mode="quiet") as progress:
        return verify_files(n_explained=1, progress=progress, **(given | changes))[1]


def test_bad_data_ends_with_code_3(files):
    folder, _, _ = files
    (folder / "names.txt").write_text("one\n")
    given = ("--weights", folder / "W.npy", "--labels", folder / "Y.npz", "--names", folder / "names.txt")
    code, output = run_xpipe("verify", *given, "--out", folder / "v.parquet")
    assert code == 3
    assert "1 names for 9" in output
    assert "Traceback" not in output


def test_bad_options_are_refused(files):
    folder, _, _ = files
    for changes in ({"out": str(folder / "v.csv")}, {"eps": 0.0}, {"key": "a"}, {"bias_key": "b"}):
        with pytest.raises(ConfigError):
            run_here(folder, **changes)
    assert not run_here(folder)


def test_the_summary_counts_by_active_labels():
    W = np.vstack([np.eye(4), np.eye(4)[:1]])
    Y = as_rows([[], [1], [2], [0, 4], [0], [0], [0, 1, 2]], 5)
    verdicts = verify(W, Y)
    assert verdicts.argmaxable.tolist() == [True, True, True, True, False, False, False]
    lines = summarise(verdicts, np.diff(Y.indptr))
    assert [(line.labels, line.sets, line.argmaxable, line.one_argmaxable) for line in lines] == [
        ("0", 1, 1, 1), ("1", 4, 2, 2), ("2", 1, 1, 1), ("3-5", 1, 0, 0), ("all", 7, 4, 4),
    ]  # fmt: skip
    assert lines[3].radii is None
    assert lines[-1].radii is not None
    assert worst_sets(verdicts, Y.indptr, Y.indices, 5) == [(4, 2), (6, 1)]
    assert worst_sets(verdicts, Y.indptr, Y.indices, 1) == [(4, 2)]
