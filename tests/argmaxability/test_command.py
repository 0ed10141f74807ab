"""`xpipe verify` as a user meets it: files in, a table, a file, an exit code."""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp
from click.testing import CliRunner

from tests.argmaxability.oracles import as_rows
from tests.argmaxability.test_weights import write_safetensors
from tests.samples import run_xpipe
from tests.stopping import start_stopping
from xpipe.argmaxability import check, verdict_parts, verify
from xpipe.argmaxability.summary import summarise, worst_sets
from xpipe.argmaxability.verdicts import read_verdicts
from xpipe.cli.main import cli
from xpipe.cli.progress import Progress
from xpipe.cli.verify import take_rows
from xpipe.cli.verify_command import verify_files
from xpipe.cli.verify_order import verify_order
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


def call(*arguments):
    """(exit code, everything printed) of a command in this process."""
    found = CliRunner().invoke(cli, [str(argument) for argument in arguments], catch_exceptions=False)
    return found.exit_code, found.output


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
    assert "verify: done, 6 sets" in output
    verdicts = read_verdicts(str(out))
    assert verdicts.argmaxable.tolist() == [True] * 5 + [False] * 2
    assert check(W, Y, verdicts).all()
    assert pq.read_table(out)["labels"].to_pylist() == [row.indices.tolist() for row in Y]
    run_here(folder, radius="exact")  # one thread
    assert (folder / "v.parquet").read_bytes() == out.read_bytes()


def test_verdicts_are_named_after_the_weights_where_nobody_says(files, monkeypatch):
    folder, W, Y = files
    monkeypatch.chdir(folder)
    code, output = call("verify", "--index", "W.npy", "--labels", "Y.npz", "--mode", "topk")
    assert code == 1, output
    assert "verdicts: W.verdicts.parquet" in output
    assert check(W, Y, read_verdicts("W.verdicts.parquet")).all()


def test_exit_code_0_when_all_are_argmaxable(files):
    folder, W, Y = files
    write_xmc(str(folder / "test.txt"), sp.csr_matrix(np.eye(5, dtype=np.float32)), sp.csr_matrix(Y[:5]))
    tensors = {"fc.weight": ("F32", W.shape, W.tobytes()), "fc.bias": ("F32", (9,), bytes(36))}
    write_safetensors(folder / "m.safetensors", tensors)
    code, output = call(
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
    with pytest.raises(DataError, match="1 names for 9") as refused:
        call("verify", *given, "--out", folder / "v.parquet")
    assert refused.value.exit_code == 3
    with pytest.raises(ConfigError, match="4GiB or 500MB"):
        call("verify", *given[:4], "--out", folder / "v.parquet", "--memory-limit", "lots")


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


@pytest.fixture
def index(tmp_path):
    """Four documents on a circle and one inside, and queries with answers: two of them are impossible."""
    W = np.array([[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0], [0.25, 0.25]], dtype=np.float32)
    np.save(tmp_path / "docs.npy", W)
    (tmp_path / "ids.txt").write_text("north\neast\nsouth\nwest\nmiddle\n")
    (tmp_path / "qrels.tsv").write_text(
        "query-id\tcorpus-id\tscore\nfar\tnorth\t1\nfar\tsouth\t1\nnear\tnorth\t1\nnear\teast\t2\nno\tmiddle\t1\n"
        "no\twest\t0\n"
    )
    return tmp_path, W


def test_answer_sets_of_an_index(index):
    folder, W = index
    out = folder / "v.parquet"
    given = ("--index", folder / "docs.npy", "--qrels", folder / "qrels.tsv", "--names", folder / "ids.txt")
    code, output = call("verify", *given, "--mode", "topk", "--memory-limit", "2GiB", "--out", out)
    assert code == 1, output
    assert "2 of 3 queries can never be answered" in output
    assert "query far (2 documents)" in output
    assert "middle can never be ahead of all of these 3" in output
    assert "never: far (north, south); no (middle)" in output
    assert "in the way of most: " in output
    assert "dft_matrix" not in output  # 5 dimensions for 5 documents are no advice
    verdicts = read_verdicts(str(out))
    assert (verdicts.mode, verdicts.argmaxable.tolist()) == ("topk", [False, True, False])
    assert check(W, as_rows([[0, 2], [0, 1], [4]], 5), verdicts).all()
    assert not (folder / "v.parquet.parts").exists()


ORDER = {
    "key": None, "bias": None, "bias_key": None, "sets": None, "qrels": None, "names": None, "mode": "argmax",
    "inputs": "any", "radius": "bounds", "eps": 1e-8, "box": 1e4, "threads": 1, "n_explained": 1, "noun": "token",
}  # fmt: skip


def order_here(out, **changes):
    """The command in modes topk and argmax, in this process."""
    with Progress(mode="quiet") as progress:
        return verify_order(progress=progress, out=str(out), **(ORDER | changes))


def test_tokens_of_a_language_model(index, capsys):
    folder, W = index
    path = write_safetensors(folder / "m.safetensors", {"lm_head.weight": ("F32", W.shape, W.tobytes())})
    show, all_argmaxable = order_here(
        folder / "v.parquet", weights=path, key="lm_head.weight", names=str(folder / "ids.txt")
    )
    assert not all_argmaxable
    show()
    output = capsys.readouterr().out
    assert "1 of 5 tokens can never be on top" in output
    assert "middle can never be ahead of all of these 3" in output
    assert check(W, None, read_verdicts(str(folder / "v.parquet"))).all()


@pytest.mark.parametrize(
    ("line", "words"),
    [("q 0 nobody 1", "no document 'nobody'"), ("q 0 north", "no judgement"), ("q 0 north many", "no judgement")],
)
def test_bad_qrels_are_refused(index, line, words):
    from xpipe.formats import read_qrels

    folder, _ = index
    (folder / "q.txt").write_text(f"q 0 north 1\n{line}\n")
    with pytest.raises(DataError, match=words) as refused:
        read_qrels(str(folder / "q.txt"), ["north", "east"])
    assert "line 2" in str(refused.value)


def test_a_killed_command_goes_on(tmp_path, monkeypatch):
    """Parts that are done are not made again; the file is that of a run that was not stopped."""
    monkeypatch.setattr(verdict_parts, "SETS_PER_PART", 128)
    W = np.random.default_rng(0).standard_normal((300, 4)).astype(np.float32)
    np.save(tmp_path / "W.npy", W)

    def act(name, **changes):
        order_here(tmp_path / name, weights=str(tmp_path / "W.npy"), n_explained=0, **changes)
        return (tmp_path / name).read_bytes()

    whole, made = act("whole.parquet"), []
    verify_chunk = verdict_parts.verify_chunk

    def stop_after_one(*args, **options):
        if len(made) == 1:
            raise KeyboardInterrupt
        made.append(args)
        return verify_chunk(*args, **options)

    monkeypatch.setattr(verdict_parts, "verify_chunk", stop_after_one)
    with pytest.raises(KeyboardInterrupt):
        act("killed.parquet")
    assert not (tmp_path / "killed.parquet").exists()
    monkeypatch.setattr(verdict_parts, "verify_chunk", lambda *a, **o: (made.append(a), verify_chunk(*a, **o))[1])
    assert act("killed.parquet") == whole
    assert len(made) == 3  # one part before the kill, two after it
    act("other.parquet", eps=1e-7)
    assert len(made) == 6  # another question begins anew
    assert check(W, None, read_verdicts(str(tmp_path / "whole.parquet"))).all()


def test_a_killed_process_goes_on(tmp_path):
    """SIGKILL after the verdicts were written and before they were joined: nothing is made again."""
    W = np.random.default_rng(0).standard_normal((12, 2)).astype(np.float32)
    np.save(tmp_path / "W.npy", W)
    given = ("verify", "--lm", tmp_path / "W.npy", "--explain", "0", "--out")
    process = start_stopping("v.parquet.parts/000", 1, *given, tmp_path / "v.parquet")
    process.kill()
    process.communicate()
    assert len(list((tmp_path / "v.parquet.parts").glob("*.parquet"))) == 1
    assert not (tmp_path / "v.parquet").exists()
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(verdict_parts, "verify_chunk", lambda *a, **o: made.append(a))
        order_here(tmp_path / "v.parquet", weights=str(tmp_path / "W.npy"), n_explained=0)
    assert not made
    order_here(tmp_path / "whole.parquet", weights=str(tmp_path / "W.npy"), n_explained=0)
    assert (tmp_path / "v.parquet").read_bytes() == (tmp_path / "whole.parquet").read_bytes()


@pytest.mark.parametrize(
    "options",
    [
        ("--labels", "Y.npz"), ("--weights", "W.npy"), ("--weights", "W.npy", "--lm", "W.npy"),
        ("--weights", "W.npy", "--qrels", "q", "--mode", "sign"), ("--index", "W.npy", "--qrels", "q", "--labels", "y"),
    ],
)  # fmt: skip
def test_options_that_exclude_each_other(options):
    names = {"--labels": "sets"}
    given = dict.fromkeys(("weights", "index", "lm", "sets", "qrels", "mode"))
    given |= {names.get(name, name[2:]): value for name, value in zip(options[::2], options[1::2], strict=True)}
    with pytest.raises(ConfigError):
        take_rows(given)
