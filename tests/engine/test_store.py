"""The store: damage is noticed, publishing is last, receipts are believed only with their files."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

import pytest

from tests.processes import dead_process
from xpipe.engine.locks import RunLock
from xpipe.engine.manifest import MANIFEST, content_key
from xpipe.engine.messages import FileEntry, Finished
from xpipe.engine.receipts import RECEIPTS, read_receipts, write_receipt
from xpipe.engine.sealed import seal
from xpipe.engine.store import Store
from xpipe.errors import ResourceError
from xpipe.ground import files
from xpipe.ground.checked_json import dump_json

INGREDIENTS = {"stage": "read", "version": 1, "params": {"b": [1, 2.5, None], "a": "ä"}, "seed": 0}
KEY = "e0b1d7a6b4f9b0d0"


@dataclass(frozen=True)
class Told:
    unit: str


def put(folder: str, path: str, content: bytes, **facts) -> FileEntry:
    """Write a file of an artifact; gives its entry."""
    full = files.join(folder, path)
    files.write_bytes(full, content)
    return FileEntry(path, len(content), files.sha256(full), **facts)


@pytest.fixture
def artifacts(tmp_path):
    return Store(str(tmp_path / "store"))


@pytest.fixture
def finished(artifacts):
    """A published stage with two artifacts."""
    folder = artifacts.begin("read", KEY)
    entries = [put(folder, f"features/part-{index}", b"0123456789" * index, rows=index) for index in (1, 2)]
    labels = [put(folder, "labels/part-0", b"abc")]
    made = {"features": (entries, {"n_columns": 5, "widths": {7: "x", 10: "y"}}), "labels": (labels, {})}
    return artifacts.publish("read", KEY, INGREDIENTS, made, {"rows": 3})


# ---------------------------------------------------------------- keys and manifests


def test_content_key_is_golden_and_knows_no_order():
    assert content_key(INGREDIENTS) == "3f9100c8799c2975a320"
    assert content_key(dict(reversed(INGREDIENTS.items()))) == "3f9100c8799c2975a320"
    assert content_key(INGREDIENTS | {"seed": 1}) != "3f9100c8799c2975a320"


def test_a_published_stage_is_found_as_it_was(artifacts, finished):
    found = artifacts.find("read", KEY)
    assert found == finished
    assert artifacts.damage(found) == ""
    assert found.ingredients == INGREDIENTS
    assert found.summary == {"rows": 3}
    assert found.artifacts["features"].about == {"n_columns": 5, "widths": {"7": "x", "10": "y"}}
    assert [entry.rows for entry in found.artifacts["features"].files] == [1, 2]
    assert found.folder == files.join(artifacts.path, f"read-{KEY}")
    assert artifacts.stages() == [(found.folder, found)]
    assert artifacts.find("read", "other") is None
    assert artifacts.find("group", KEY) is None


def test_the_digest_of_an_artifact_is_of_content_only(tmp_path):
    digests = []
    for name, content, about in (("a", b"1", {}), ("b", b"1", {}), ("c", b"2", {}), ("d", b"1", {"x": 1})):
        other = Store(str(tmp_path / name))
        folder = other.begin("read", name)
        manifest = other.publish("read", name, {}, {"x": ([put(folder, "x/p", content)], about)}, {})
        digests.append(manifest.artifacts["x"].digest)
    assert digests[0] == digests[1]
    assert len(set(digests)) == 3


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (os.unlink, "features/part-2 is missing"),
        (lambda path: os.truncate(path, 19), "features/part-2 has 19 bytes instead of 20"),
        (lambda path: files.write_bytes(path, b"0123456789" * 3), "features/part-2 has 30 bytes instead of 20"),
        (
            lambda path: files.write_bytes(path, b"0123456789012345678X"),
            "features/part-2 has another digest than when it was written",
        ),
    ],
)
def test_damage_of_a_file_is_named(artifacts, finished, harm, reason):
    harm(files.join(finished.folder, "features/part-2"))
    assert artifacts.damage(artifacts.find("read", KEY)) == reason


def test_every_flipped_byte_of_a_manifest_is_noticed(artifacts, finished):
    path = files.join(finished.folder, MANIFEST)
    content = files.read_bytes(path)
    unnoticed = []
    for position in range(0, len(content), 3):
        changed = bytearray(content)
        changed[position] ^= 1
        with open(path, "wb") as stream:
            stream.write(changed)
        found = artifacts.find("read", KEY)
        if not artifacts.damage(found):
            assert found == finished  # it was white space
            unnoticed.append(bytes([content[position]]))
    assert set(unnoticed) <= {b" ", b"\n"}


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"{}", b'{"sha256": "x"}', b"null", b"\xff\xfe"])
def test_what_is_no_manifest(artifacts, finished, content):
    files.write_bytes(files.join(finished.folder, MANIFEST), content)
    assert artifacts.damage(artifacts.find("read", KEY)) == "manifest.json is not as it was written"
    assert artifacts.stages() == [(finished.folder, None)]


def test_the_receipts_go_only_when_the_manifest_is_there(artifacts):
    folder = artifacts.begin("read", KEY)
    entry = put(folder, "x/p", b"1")
    write_receipt(folder, "rows", "part-0", Finished((entry,), None))
    in_the_way = files.join(folder, MANIFEST)
    os.mkdir(in_the_way)
    with pytest.raises(ResourceError, match="a folder stands where a file must be"):
        artifacts.publish("read", KEY, {}, {"x": ([entry], {})}, {})
    assert list(read_receipts(folder, "rows", type(None))) == ["part-0"]
    os.rmdir(in_the_way)
    artifacts.publish("read", KEY, {}, {"x": ([entry], {})}, {})
    assert sorted(files.walk(folder)) == [MANIFEST, "x/p"]


RECEIPT = {"files": [], "result": None, "unsettled": []}
MANIFEST_CONTENT = {"stage": "read", "key": KEY, "ingredients": {}, "summary": {}, "artifacts": {}}
ENTRY = {"path": "x/p", "bytes": 1, "sha256": "0" * 64}
STRANGE = (
    None, 3, 2.5, True, "text", [], [1], {}, {"files": 3}, [[[]]], {"a": {"b": {"c": None}}}, 10**4000,
    {"files": [None]},
)  # fmt: skip


def strange_entries():
    """Entries of files that lead out of a folder, or are no entries."""
    for path in ("../x", "/etc/passwd", "x/../../y", "", ".", "x//y", "a\\b", "x\0y", "s3://bucket/x", None, 7, ["x"]):
        yield ENTRY | {"path": path}
    for size in (-1, 1.0, "1", None, True, 2**60, 10**400):
        yield ENTRY | {"bytes": size}
    for digest in ("", "0" * 63, "g" * 64, "0" * 64 + "\n", None, 0):
        yield ENTRY | {"sha256": digest}
    yield {"path": "x/p"}
    yield None
    yield [1]


def broken_manifests():
    yield from STRANGE
    for name in MANIFEST_CONTENT:
        yield {key: value for key, value in MANIFEST_CONTENT.items() if key != name}
        yield from (MANIFEST_CONTENT | {name: value} for value in (None, 3, [1], "../.."))
    yield MANIFEST_CONTENT | {"artifacts": {"x": 3}}
    for entry in strange_entries():
        artifact = {"digest": "0" * 64, "about": {}, "files": [entry]}
        yield MANIFEST_CONTENT | {"artifacts": {"x": artifact}}
    for about in (None, [], 3):
        yield MANIFEST_CONTENT | {"artifacts": {"x": {"digest": "0" * 64, "about": about, "files": []}}}


def sealed(content) -> bytes:
    """Anybody can seal."""
    return seal(content) if isinstance(content, dict) else dump_json(content)


def test_sealed_json_of_any_other_shape_is_no_manifest(artifacts, finished):
    path = files.join(finished.folder, MANIFEST)
    for content in broken_manifests():
        files.write_bytes(path, sealed(content))
        assert artifacts.damage(artifacts.find("read", KEY)) == "manifest.json is not as it was written", content
        assert artifacts.stages() == [(finished.folder, None)]


@pytest.mark.parametrize("depth", [100, 100_000])
def test_a_deep_manifest(artifacts, finished, depth):
    files.write_bytes(files.join(finished.folder, MANIFEST), b'{"a":' * depth + b"1" + b"}" * depth)
    assert artifacts.damage(artifacts.find("read", KEY)) == "manifest.json is not as it was written"


def put_folder(path):
    os.mkdir(path)


def put_link(path):
    os.symlink("/etc/passwd", path)


def put_dangling_link(path):
    os.symlink("/nowhere/at/all", path)


THINGS = (put_folder, put_link, put_dangling_link, os.mkfifo)


@pytest.mark.parametrize("thing", THINGS)
def test_something_else_in_the_place_of_a_manifest_or_a_file_is_built_again(artifacts, finished, thing):
    path = files.join(finished.folder, MANIFEST)
    os.unlink(path)
    thing(path)
    assert artifacts.damage(artifacts.find("read", KEY)) == "manifest.json is not as it was written"
    part = files.join(finished.folder, "features/part-1")
    os.unlink(part)
    thing(part)
    assert artifacts.damage(finished) == "features/part-1 is not a file"
    folder = artifacts.begin("read", KEY)
    if thing is put_folder:
        os.rmdir(part)
    artifacts.publish("read", KEY, {}, {"x": ([put(folder, "features/part-1", b"1")], {})}, {})
    assert artifacts.damage(artifacts.find("read", KEY)) == ""


def test_receipts_of_any_other_shape_are_not_believed(artifacts):
    folder = artifacts.begin("read", KEY)
    contents = [*STRANGE, *(RECEIPT | {"files": [entry]} for entry in strange_entries())]
    wrong = [(name, value) for name in RECEIPT for value in (None, 3, "x", [[3]], [{}])]
    wrong.remove(("result", None))  # which is the result of these units
    contents += [RECEIPT | {name: value} for name, value in wrong]
    contents += [{key: value for key, value in RECEIPT.items() if key != name} for name in RECEIPT]
    for number, content in enumerate(contents):
        files.write_bytes(files.join(folder, RECEIPTS, "rows", f"unit-{number}.json"), sealed(content))
    for number, thing in enumerate(THINGS):
        thing(files.join(folder, RECEIPTS, "rows", f"thing-{number}.json"))
    assert read_receipts(folder, "rows", type(None)) == {}
    artifacts.begin("read", KEY)
    for number in range(len(THINGS)):
        write_receipt(folder, "rows", f"thing-{number}", Finished((), None))
    assert len(read_receipts(folder, "rows", type(None))) == len(THINGS)


def test_nothing_is_written_through_links_in_a_stage(artifacts, tmp_path):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "mine").write_text("mine")
    folder = artifacts.begin("read", KEY)
    for name in (RECEIPTS, "features"):
        os.symlink(elsewhere, files.join(folder, name))
    artifacts.begin("read", KEY)
    entry = put(folder, "features/part-0", b"1")
    write_receipt(folder, "rows", "a", Finished((entry,), None))
    artifacts.publish("read", KEY, {}, {"features": ([entry], {})}, {})
    assert sorted(os.listdir(elsewhere)) == ["mine"]


def test_files_in_the_place_of_folders_of_a_stage_go(artifacts):
    folder = artifacts.begin("read", KEY)
    for name in (RECEIPTS, "features"):
        files.write_bytes(files.join(folder, name), b"x")
    artifacts.begin("read", KEY)
    write_receipt(folder, "rows", "a", Finished((put(folder, "features/part-0", b"1"),), None))
    files.remove(files.join(folder, RECEIPTS, "rows"))
    files.write_bytes(files.join(folder, RECEIPTS, "rows"), b"x")
    artifacts.begin("read", KEY)
    write_receipt(folder, "rows", "a", Finished((put(folder, "features/part-0", b"1"),), None))
    assert list(read_receipts(folder, "rows", type(None))) == ["a"]


class Killed(BaseException):
    pass


def test_what_a_kill_after_the_manifest_left_goes(artifacts, monkeypatch):
    folder = artifacts.begin("read", KEY)
    entry = put(folder, "x/p", b"1")
    write_receipt(folder, "rows", "a", Finished((entry,), None))
    put(folder, "scratch/deep/er", b"12")
    put(folder, "x/.q.other-host.7.0a1b2c3d.tmp", b"half")

    def killed(*_):
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Store, "sweep", killed)
        with pytest.raises(Killed):
            artifacts.publish("read", KEY, {}, {"x": ([entry], {})}, {})
    manifest = artifacts.find("read", KEY)
    assert len(artifacts.leftovers(manifest)) == 3
    with RunLock(folder):
        artifacts.tidy(manifest)  # somebody is at work there
        assert len(artifacts.leftovers(manifest)) == 3
    artifacts.tidy(manifest)
    assert sorted(files.walk(folder)) == [".lock", MANIFEST, "x/p"]
    assert sorted(os.listdir(folder)) == [".lock", MANIFEST, "x"]
    assert artifacts.damage(manifest) == ""


def test_begin_clears_what_dead_writers_left_and_nothing_else(artifacts, finished):
    host = socket.gethostname().replace(".", "-")
    dead, alive = (f".part-1.{host}.{pid}.00000000.tmp" for pid in (dead_process(), os.getpid()))
    for name in (dead, alive):
        files.write_bytes(files.join(finished.folder, "features", name), b"half")
    folder = artifacts.begin("read", KEY)
    assert folder == finished.folder
    assert sorted(files.walk(folder)) == sorted(
        [f"features/{alive}", "features/part-1", "features/part-2", "labels/part-0"]  # and no manifest
    )
    assert artifacts.find("read", KEY) is None


def test_a_store_elsewhere(tmp_path):
    """The same through fsspec, where there is no file system of our own."""
    other = Store(f"memory://{tmp_path.name}")
    folder = other.begin("read", KEY)
    write_receipt(folder, "rows", "part-0", Finished((put(folder, "x/p", b"1"),), 1))
    assert list(read_receipts(folder, "rows", int)) == ["part-0"]
    manifest = other.publish("read", KEY, {}, {"x": ([put(folder, "x/p", b"1")], {})}, {})
    assert other.find("read", KEY) == manifest
    assert other.damage(manifest) == ""
    files.write_bytes(files.join(folder, "x/p"), b"2")
    assert other.damage(manifest) == "x/p has another digest than when it was written"
    files.remove(other.path)


# ---------------------------------------------------------------- receipts


def test_receipts_of_damaged_files_are_not_believed(artifacts):
    folder = artifacts.begin("read", KEY)
    for unit in ("a", "b", "c", "d", "e"):
        write_receipt(folder, "rows", unit, Finished((put(folder, f"x/{unit}", b"123"),), Told(unit)))
    write_receipt(folder, "other", "a", Finished((), Told("a")))
    os.unlink(files.join(folder, "x/a"))
    os.truncate(files.join(folder, "x/b"), 1)
    files.write_bytes(files.join(folder, "x/c"), b"124")
    receipt = files.join(folder, RECEIPTS, "rows", "d.json")
    changed = files.read_bytes(receipt).replace(b'"unit": "d"', b'"unit": "f"')
    files.write_bytes(receipt, changed)
    files.write_bytes(files.join(folder, RECEIPTS, "rows", "g.json"), b"{")
    files.write_bytes(files.join(folder, RECEIPTS, "rows", ".h.json"), b"{}")
    files.write_bytes(files.join(folder, RECEIPTS, "rows", "notes.txt"), b"")
    found = read_receipts(folder, "rows", Told)
    assert list(found) == ["e"]
    assert found["e"].result == Told("e")
    assert found["e"].files[0].path == "x/e"
    assert read_receipts(folder, "none", Told) == {}
    assert read_receipts(folder, "rows", int) == {}  # as another release would read them


def test_dump_json_is_for_people_and_the_same_every_time():
    assert dump_json({"b": 1, "a": "ä"}) == '{\n "a": "ä",\n "b": 1\n}\n'.encode()
