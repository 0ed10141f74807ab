"""Input files: hashed once while they stay the same, and never stored under the digest of what they were before."""

from __future__ import annotations

import hashlib
import os
import shutil

import numpy as np
import pytest

from tests.samples import digests, random_matrices, run_pipeline, write_dataset, write_pipeline
from xpipe.engine import sources
from xpipe.engine.context import Context
from xpipe.engine.sealed import seal, unseal
from xpipe.engine.store import Store
from xpipe.errors import DataError
from xpipe.formats import write_sparse, write_xmc
from xpipe.ground import files


@pytest.fixture
def artifacts(tmp_path):
    return Store(str(tmp_path / "store"))


@pytest.fixture
def settled(monkeypatch):
    """Files made by this test count as old enough for their stamps to be believed."""
    monkeypatch.setattr(sources, "TICK_NS", -(10**18))


@pytest.fixture
def hashed(monkeypatch):
    """Names of the files that are hashed."""
    names, real = [], files.sha256
    monkeypatch.setattr(files, "sha256", lambda path: names.append(files.basename(path)) or real(path))
    return names


def put(path, content: bytes) -> str:
    path.write_bytes(content)
    return str(path)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# ---------------------------------------------------------------- digests are kept by stamp


def test_a_file_is_hashed_once(artifacts, tmp_path, settled, hashed):
    a, b = put(tmp_path / "a", b"1"), put(tmp_path / "b", b"2")
    expected = {a: sha256(b"1"), b: sha256(b"2")}
    assert artifacts.digest_inputs([a, b]) == expected
    assert Store(artifacts.path).digest_inputs([a, b]) == expected
    assert hashed == ["a", "b"]


def test_the_same_file_by_another_name(artifacts, tmp_path, settled, hashed, monkeypatch):
    path = put(tmp_path / "a", b"1")
    artifacts.digest_inputs([path])
    monkeypatch.chdir(tmp_path)
    assert artifacts.digest_inputs(["a", f"file://{path}"]) == {"a": sha256(b"1"), f"file://{path}": sha256(b"1")}
    assert hashed == ["a"]


def test_a_name_that_is_not_utf8(artifacts, tmp_path, settled, hashed):
    path = os.fsdecode(os.path.join(os.fsencode(tmp_path), b"\xff.txt"))
    with open(path, "wb") as stream:
        stream.write(b"1")
    for _ in range(2):
        assert artifacts.digest_inputs([path]) == {path: sha256(b"1")}
    assert len(hashed) == 1


def rewrite_in_place(path, content: bytes) -> None:
    """Other content under the same inode, size and modification time: only the kernel's own time tells."""
    status = os.stat(path)
    with open(path, "r+b") as stream:
        stream.write(content)
        stream.truncate()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def put_another(path, content: bytes) -> None:
    status = os.stat(path)
    other = f"{path}.other"
    files.write_bytes(other, content)
    os.utime(other, ns=(status.st_atime_ns, status.st_mtime_ns))
    os.replace(other, path)


@pytest.mark.parametrize("change", [rewrite_in_place, put_another])
def test_other_content_of_the_same_size_and_time_is_noticed(artifacts, tmp_path, settled, change):
    path = put(tmp_path / "a", b"1")
    artifacts.digest_inputs([path])
    before = os.stat(path).st_ctime_ns
    while os.stat(path).st_ctime_ns == before:  # the clock of the file system has ticks
        change(path, b"2")
    assert artifacts.digest_inputs([path]) == {path: sha256(b"2")}


def test_a_file_that_may_still_change_is_not_remembered(artifacts, tmp_path, hashed):
    path = put(tmp_path / "a", b"1")
    os.utime(path, (1e9, 1e9))  # it says that it is old, but it was made just now
    for _ in range(2):
        artifacts.digest_inputs([path])
    assert len(hashed) == 2
    assert not files.exists(files.join(artifacts.path, "digests.json"))


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"null", b"3", b'{"x": 1}', b"\xff", b"[" * 100_000, b'{"a": 1e999}', None]
)
def test_a_corrupt_cache_is_ignored(artifacts, tmp_path, settled, content, hashed):
    path = put(tmp_path / "a", b"1")
    artifacts.digest_inputs([path])
    cache = files.join(artifacts.path, "digests.json")
    whole = files.read_bytes(cache)
    if content is None:
        files.write_bytes(cache, whole.replace(sha256(b"1").encode(), b"0" * 64))
    else:
        files.write_bytes(cache, content)
    assert artifacts.digest_inputs([path]) == {path: sha256(b"1")}
    assert len(hashed) == 2
    assert files.read_bytes(cache) == whole


@pytest.mark.parametrize("known", [None, 3, "x", [], [[1], "0" * 64], {}, {"stamp": 3}, "unlike"])
def test_entries_of_any_other_shape_are_ignored(artifacts, tmp_path, settled, known):
    path = put(tmp_path / "a", b"1")
    stamp = list(sources.take_stamp(path)[0])
    if known == "unlike":
        known = {"stamp": stamp, "sha256": "not a digest"}
    files.write_bytes(files.join(artifacts.path, "digests.json"), seal({path: known, "sha": {}}))
    assert artifacts.digest_inputs([path]) == {path: sha256(b"1")}


@pytest.mark.parametrize("thing", [os.mkdir, os.mkfifo, lambda path: os.symlink("/nowhere", path)])
def test_something_else_in_the_place_of_the_cache(artifacts, tmp_path, settled, thing):
    path = put(tmp_path / "a", b"1")
    os.mkdir(artifacts.path)
    thing(files.join(artifacts.path, "digests.json"))
    assert artifacts.digest_inputs([path]) == {path: sha256(b"1")}


def test_objects_are_known_by_their_etag(artifacts, bucket, hashed):
    import fsspec

    filesystem, _ = fsspec.core.url_to_fs(bucket)
    path = f"{bucket}/sources/a.txt"
    filesystem.pipe(path, b"1")
    for _ in range(2):
        assert artifacts.digest_inputs([path]) == {path: sha256(b"1")}
    assert hashed == ["a.txt"]
    (source,) = artifacts.sources([path]).values()
    stamps = sources.check([source])
    filesystem.pipe(path, b"2")
    with pytest.raises(DataError, match="changed while it was read"):
        sources.check_still([source], stamps)
    with pytest.raises(DataError, match="changed while it was read"):
        sources.check([source])
    assert artifacts.digest_inputs([path]) == {path: sha256(b"2")}


# ---------------------------------------------------------------- files that change while a run reads them


@pytest.fixture
def data(tmp_path):
    return write_dataset(tmp_path / "data")


@pytest.fixture(scope="module")
def other(tmp_path_factory):
    return write_dataset(tmp_path_factory.mktemp("other") / "data", seed=7)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory, other):
    """What a run gives, by name of the change made to its data before it starts ("" for none)."""
    known = {}

    def results(change=None):
        name = change.__name__ if change else ""
        if name not in known:
            folder = tmp_path_factory.mktemp("undisturbed")
            data = write_dataset(folder / "data")
            if change:
                change(data, other)
            known[name] = digests(run_pipeline(write_pipeline(folder, data)))
        return known[name]

    return results


def replaced(data, other):
    put_another(str(data / "train.txt"), (other / "train.txt").read_bytes())


def rewritten(data, other):
    rewrite_in_place(str(data / "train.txt"), (other / "train.txt").read_bytes())


def appended(data, other):
    with open(data / "train.txt", "ab") as stream:
        stream.write(b"1 2:0.5\n")


def gone(data, other):
    os.unlink(data / "test.txt")


def names_replaced(data, other):
    put_another(str(data / "labels.txt"), b"".join(b"other %d\n" % i for i in range(12)))


def split_added(data, other):
    shutil.copy(other / "test.txt", data / "dev.txt")


@pytest.mark.parametrize("change", [replaced, rewritten, appended, gone, names_replaced, split_added])
@pytest.mark.parametrize("moment", ["before scan", "after scan", "after rows", "after beside"])
def test_a_file_changed_between_its_digest_and_the_end_of_reading(
    tmp_path, data, other, undisturbed, monkeypatch, change, moment
):
    path = write_pipeline(tmp_path, data)
    real, when = Context.map, moment.split()
    again = shutil.copytree(data, tmp_path / "again")

    def disturbed(self, step, *arguments, **options):
        if when == ["before", step]:
            change(data, other)
        found = real(self, step, *arguments, **options)
        if when == ["after", step]:
            change(data, other)
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Context, "map", disturbed)
        with pytest.raises(DataError, match="changed while it was read") as caught:
            run_pipeline(path)
    assert caught.value.where.startswith(str(data))
    assert "same command" in caught.value.fix
    assert not list((tmp_path / "runs" / ".store").glob("read-*/manifest.json"))
    # what was there at first, and what is there now, are both read right
    assert digests(run_pipeline(path, f"data.dir={again}")) == undisturbed()
    if change not in (gone, appended):  # those leave data that is wrong by itself
        assert digests(run_pipeline(path)) == undisturbed(change) != undisturbed()


class Killed(BaseException):
    pass


@pytest.mark.parametrize("young", [True, False])
def test_units_of_a_killed_run_that_read_another_file_are_not_believed(tmp_path, data, other, monkeypatch, young):
    """A file replaced within one tick of the clock looks the same: what was read then must not be resumed later."""
    if not young:
        monkeypatch.setattr(sources, "TICK_NS", -(10**18))
    path = write_pipeline(tmp_path, data)
    expected = run_pipeline(write_pipeline(tmp_path / "clean", data))
    first = (data / "train.txt").read_bytes()
    stamps = {str(data / name): sources.take_stamp(str(data / name))[0] for name in os.listdir(data)}
    real_map, real_stamp = Context.map, sources.take_stamp

    def same_stamp(path):
        return stamps.get(path, real_stamp(path)[0]), not young

    def killed_after_rows(self, step, *arguments, **options):
        if step == "scan" and young:
            replaced(data, other)
        found = real_map(self, step, *arguments, **options)
        if step == "rows":
            raise Killed
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Context, "map", killed_after_rows)
        patch.setattr(sources, "take_stamp", same_stamp)
        with pytest.raises(Killed):
            run_pipeline(path)
    assert list((tmp_path / "runs").glob(".store/read-*/receipts/rows/*.json"))
    if young:
        put_another(str(data / "train.txt"), first)  # the user puts the first one back
    again = run_pipeline(path)
    assert again["stages"][0]["status"] == ("ran" if young else "resumed")
    assert digests(again) == digests(expected)


def test_a_touched_file_is_not_a_changed_one(tmp_path, data, monkeypatch):
    path = write_pipeline(tmp_path, data)
    real = Context.map

    def touched(self, step, *arguments, **options):
        os.utime(data / "train.txt")
        return real(self, step, *arguments, **options)

    monkeypatch.setattr(Context, "map", touched)
    assert run_pipeline(path)["stages"][0]["status"] == "ran"


def write_matrices(folder, seed):
    folder.mkdir(exist_ok=True)
    X, Y = random_matrices(64, seed=seed)
    write_sparse(str(folder / "X.trn.npz"), X)
    write_sparse(str(folder / "Y.trn.npz"), Y)
    return folder


def test_what_a_process_loaded_before_is_not_taken_for_what_is_there_now(tmp_path):
    """Workers outlive runs: a matrix under the same path may be another one by now."""
    data = write_matrices(tmp_path / "data", seed=1)
    run_pipeline(write_pipeline(tmp_path / "a", data))
    write_matrices(data, seed=2)
    expected = run_pipeline(write_pipeline(tmp_path / "b", write_matrices(tmp_path / "other", seed=2)))
    assert digests(run_pipeline(write_pipeline(tmp_path / "a", data))) == digests(expected)


def test_a_group_file_changed_while_it_is_read(tmp_path, data, monkeypatch):
    groups = tmp_path / "groups.txt"
    groups.write_text("".join(f"{row // 3}\n" for row in range(300)))
    path = write_pipeline(tmp_path, data)
    real = Context.map

    def disturbed(self, step, *arguments, **options):
        if step == "groups":
            put_another(str(groups), "".join(f"{row // 5}\n" for row in range(300)).encode())
        return real(self, step, *arguments, **options)

    chosen = f"group={{rule: given, file: {groups}}}"
    with monkeypatch.context() as patch:
        patch.setattr(Context, "map", disturbed)
        with pytest.raises(DataError, match="changed while it was read"):
            run_pipeline(path, chosen)
    assert run_pipeline(path, chosen)["stages"][1]["summary"]["groups"] == 60


def test_weights_changed_while_they_are_read(tmp_path, data, monkeypatch):
    weights = tmp_path / "W.npy"
    np.save(weights, np.random.default_rng(0).standard_normal((12, 3)))
    path = write_pipeline(tmp_path, data)
    real = Context.map

    def disturbed(self, step, *arguments, **options):
        if step == "prepare":
            np.save(weights, np.random.default_rng(1).standard_normal((12, 3)))
        return real(self, step, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Context, "map", disturbed)
        with pytest.raises(DataError, match="changed while it was read"):
            run_pipeline(path, f"verify={{weights: {weights}}}")
    assert not list((tmp_path / "runs" / ".store").glob("verify-*/manifest.json"))


def test_what_a_stopped_run_left_in_another_shape_is_made_again(tmp_path, data, monkeypatch, capsys):
    """A receipt that anybody sealed, with results that are not those of the stage."""
    path = write_pipeline(tmp_path, data)
    real = Context.map

    def killed(self, step, *arguments, **options):
        if step == "rows":
            raise Killed
        return real(self, step, *arguments, **options)

    with monkeypatch.context() as patch:
        patch.setattr(Context, "map", killed)
        with pytest.raises(Killed):
            run_pipeline(path)
    for receipt in (tmp_path / "runs").glob(".store/read-*/receipts/scan/*.json"):
        content = unseal(str(receipt), dict)
        receipt.write_bytes(seal(content | {"result": {"rows": "many"}}))
    again = run_pipeline(path)
    assert "receipts of another shape; they are done again" in capsys.readouterr().err
    assert digests(again) == digests(run_pipeline(write_pipeline(tmp_path / "clean", data)))


def test_a_young_file_is_looked_at_again_at_the_end(tmp_path, data, other, monkeypatch):
    """The stamp of a file of this moment says nothing: only its digest does."""
    path = write_pipeline(tmp_path, data)
    stamps = {str(data / name): sources.take_stamp(str(data / name))[0] for name in os.listdir(data)}
    real_map, real_stamp = Context.map, sources.take_stamp

    def disturbed(self, step, *arguments, **options):
        found = real_map(self, step, *arguments, **options)
        if step == "scan":
            write_xmc(str(data / "train.txt"), *random_matrices(300, seed=9))
        return found

    with monkeypatch.context() as patch:
        patch.setattr(Context, "map", disturbed)
        patch.setattr(sources, "take_stamp", lambda path: (stamps.get(path, real_stamp(path)[0]), False))
        with pytest.raises(DataError):
            run_pipeline(path)
    assert not list((tmp_path / "runs" / ".store").glob("read-*/manifest.json"))
