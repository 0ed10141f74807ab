"""Saved forests: the same predictions, the same bytes, and no damaged file that is believed."""

from __future__ import annotations

import json
import random
import tracemalloc
import zipfile
from dataclasses import replace

import numpy as np
import pytest
import scipy.sparse as sp

from tests.trees import oracles
from xpipe.errors import DataError
from xpipe.ground import npy_header
from xpipe.trees import Forest, LabelTree, TreeOptions, TreePlan, UnitWeights
from xpipe.trees.forest import SIZED, UnitSizes, join_units
from xpipe.trees.storing import TYPES, read_forest


@pytest.fixture(scope="module")
def tree():
    X, Y = oracles.planted(80, 20, 24)
    return LabelTree(n_trees=2, arity=3, max_leaf=4, cost=2.0).fit(X, Y)


@pytest.fixture(scope="module")
def saved(tree, tmp_path_factory):
    path = tmp_path_factory.mktemp("trees") / "tree.npz"
    tree.save(str(path))
    return path


def predicted(tree) -> bytes:
    X, _ = oracles.planted(80, 20, 24)
    found = tree.predict(X, k=5)
    return found.indptr.tobytes() + found.indices.tobytes() + found.data.tobytes()


def rewritten(saved, path, **changes) -> str:
    with np.load(saved) as archive:
        arrays = dict(archive)
    for name, change in changes.items():
        arrays[name] = change(arrays[name].copy())
    np.savez(path, **arrays)
    return str(path)


def set_at(place, value):
    def change(array):
        array[place] = value
        return array

    return change


@pytest.mark.parametrize("loss", ["squared_hinge", "logistic"])
def test_a_loaded_tree_predicts_the_same_bytes(tmp_path, loss):
    X, Y = oracles.planted(80, 20, 24)
    tree = LabelTree(n_trees=2, arity=3, max_leaf=4, loss=loss, normalize=False).fit(X, Y)
    tree.save(str(tmp_path / "tree.npz"))
    loaded = LabelTree.load(str(tmp_path / "tree.npz"))
    assert predicted(loaded) == predicted(tree)
    assert loaded.options == tree.options


def test_saving_again_gives_the_same_bytes(tree, saved, tmp_path):
    tree.save(str(tmp_path / "one.npz"))
    LabelTree.load(str(saved)).save(str(tmp_path / "two.npz"))
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes() == saved.read_bytes()


def test_a_file_of_before_there_was_calibration_predicts_as_it_did(tree, saved, tmp_path):
    with np.load(saved) as archive:
        arrays = {name: archive[name] for name in archive.files if not name.startswith("calibration")}
    options = json.loads(str(arrays["options"]))
    del options["calibrate"]
    arrays |= {"format": np.array("xpipe label tree 1"), "options": np.array(json.dumps(options))}
    np.savez(tmp_path / "old.npz", **arrays)
    old = LabelTree.load(str(tmp_path / "old.npz"))
    assert old.options.calibrate == "none"
    assert predicted(old) == predicted(LabelTree.of(replace(tree.forest, calibration=None), tree.options))
    assert predicted(old) != predicted(tree)
    old.save(str(tmp_path / "new.npz"))
    assert predicted(LabelTree.load(str(tmp_path / "new.npz"))) == predicted(old)


def test_an_empty_forest_can_be_kept(tmp_path):
    X = sp.csr_matrix((3, 4), dtype=np.float32)
    LabelTree().fit(X, sp.csr_matrix((3, 2), dtype=np.float32)).save(str(tmp_path / "tree.npz"))
    assert LabelTree.load(str(tmp_path / "tree.npz")).predict(X).shape == (3, 2)


def test_there_are_no_pickles(saved):
    with np.load(saved, allow_pickle=False) as archive:
        assert sorted(archive.files) == sorted(TYPES)
        assert all(archive[name].dtype.kind in "iufU" for name in archive.files)


def test_a_file_cut_short_is_refused(saved, tmp_path):
    content = saved.read_bytes()
    for length in [0, 1, 3, 100, len(content) // 2, len(content) - 1]:
        (tmp_path / "tree.npz").write_bytes(content[:length])
        with pytest.raises(DataError, match="damaged"):
            LabelTree.load(str(tmp_path / "tree.npz"))


def test_a_changed_byte_is_refused_or_harmless(tree, saved, tmp_path):
    content, expected, refused = saved.read_bytes(), predicted(tree), 0
    for place in range(0, len(content), 41):
        (tmp_path / "tree.npz").write_bytes(content[:place] + bytes([content[place] ^ 0x15]) + content[place + 1 :])
        try:
            loaded = LabelTree.load(str(tmp_path / "tree.npz"))
        except DataError:
            refused += 1
        else:
            assert predicted(loaded) == expected
    assert refused > 0.8 * len(content) / 41


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"format": lambda _: np.array("something else")}, "it says it is"),
        ({"options": lambda _: np.array("{")}, "damaged"),
        ({"options": lambda _: np.array('{"loss": "none"}')}, "loss: Input should be"),
        ({"options": lambda _: np.array('{"unknown": 1}')}, "damaged"),
        ({"shape": set_at(0, -1)}, "no shape"),
        ({"shape": set_at(0, 3)}, "a feature is out of range"),
        ({"shape": set_at(1, 3)}, "a label is out of range"),
        ({"features": set_at(0, -1)}, "a feature is out of range"),
        ({"lanes": set_at(0, 60)}, "a weight has no child"),
        ({"weights": set_at(0, np.nan)}, "not finite"),
        ({"biases": set_at(0, np.inf)}, "not finite"),
        ({"weights": lambda array: array[1:]}, "do not fit"),
        ({"weights": lambda array: array.astype(np.float64)}, "has the type"),
        ({"lanes": lambda array: array[1:]}, "do not fit"),
        ({"biases": lambda array: array[1:]}, "do not fit"),
        ({"features": lambda array: array[1:]}, "do not fit"),
        ({"feature_ptr": set_at(1, 10**9)}, "go down"),
        ({"orders": lambda array: array[:, [0, 0, *range(2, array.shape[1])]]}, "twice"),
        ({"orders": lambda array: array[0]}, "wrong shape"),
        ({"bounds": set_at(1, 7)}, "cut wrongly"),
        ({"level_sizes": set_at((0, 1), 2)}, "do not fit"),
        ({"level_sizes": set_at((0, 1), 0)}, "wrong number"),
        ({"calibration_scores": lambda array: array[1:]}, "knots do not rise"),
        ({"calibration_scores": lambda array: array[:0]}, "knots do not rise"),
        ({"calibration_probabilities": set_at(-1, 2.0)}, "knots do not rise"),
        ({"calibration_probabilities": set_at(1, np.nan)}, "knots do not rise"),
        ({"calibration_probabilities": lambda array: array.astype(np.float32)}, "has the type"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(saved, tmp_path, changes, text):
    with pytest.raises(DataError, match=text):
        LabelTree.load(rewritten(saved, tmp_path / "tree.npz", **changes))


def test_rewriting_alone_changes_nothing(tree, saved, tmp_path):
    """The test above refuses because of what it changes."""
    assert predicted(LabelTree.load(rewritten(saved, tmp_path / "tree.npz"))) == predicted(tree)


def test_other_files_are_refused(saved, tmp_path):
    with pytest.raises(DataError, match="no such model"):
        LabelTree.load(str(tmp_path / "none.npz"))
    sp.save_npz(tmp_path / "matrix.npz", sp.eye(3, format="csr"))
    with pytest.raises(DataError, match="damaged"):
        LabelTree.load(str(tmp_path / "matrix.npz"))
    with zipfile.ZipFile(saved) as archive, zipfile.ZipFile(tmp_path / "part.npz", "w") as part:
        for name in archive.namelist()[1:]:
            part.writestr(name, archive.read(name))
    with pytest.raises(DataError, match="damaged"):
        LabelTree.load(str(tmp_path / "part.npz"))


def test_no_mutated_file_predicts_anything_else(tree, saved, tmp_path):
    content, rng, path, refused = saved.read_bytes(), random.Random(0), tmp_path / "tree.npz", 0
    expected = predicted(tree)
    for _ in range(300):
        changed = bytearray(content)
        for _ in range(rng.randint(1, 3)):
            changed[rng.randrange(len(changed))] = rng.randrange(256)
        path.write_bytes(bytes(changed[: rng.choice([len(changed), len(changed), rng.randrange(len(changed))])]))
        try:
            found = LabelTree.load(str(path))
        except DataError:
            refused += 1
            continue
        assert predicted(found) == expected
    assert refused > 200


@pytest.mark.parametrize("n_labels", [2**31, 2**40, 2**62, -1])
def test_more_labels_than_numbers_are_refused(saved, tmp_path, n_labels):
    for place in (0, 1):
        with pytest.raises(DataError, match="shape"):
            LabelTree.load(rewritten(saved, tmp_path / "tree.npz", shape=set_at(place, n_labels)))


def test_labels_without_positives_take_no_memory(tree, saved, tmp_path):
    """A file may say that there are two thousand million labels of which 24 are in its trees."""
    many = LabelTree.load(rewritten(saved, tmp_path / "tree.npz", shape=set_at(1, 2**31 - 1)))
    X, _ = oracles.planted(80, 20, 24)
    found, expected = many.predict(X, k=5), tree.predict(X, k=5)
    assert found.shape == (80, 2**31 - 1)
    assert found.indices.tobytes() == expected.indices.tobytes()
    assert found.data.tobytes() == expected.data.tobytes()


def test_trees_of_other_labels_are_refused(saved, tmp_path):
    more = {"shape": set_at(1, 99), "orders": set_at((0, 0), 77)}
    with pytest.raises(DataError, match="other labels"):
        LabelTree.load(rewritten(saved, tmp_path / "tree.npz", **more))


@pytest.mark.parametrize("options", ["[" * 10_000, "9" * 10_000, "[]", '{"n_trees": "3"}', "{", "null"])
def test_options_of_another_shape_are_refused(saved, tmp_path, options):
    with pytest.raises(DataError, match="not a saved label tree"):
        LabelTree.load(rewritten(saved, tmp_path / "tree.npz", options=lambda _: np.array(options)))


def large_units(n_units, n_features):
    """Units of 16 children each with some weights for every feature, and their plan."""
    features = np.arange(n_features, dtype=np.int32)
    pointers = np.arange(0, 3 * n_features + 1, 3)
    lanes = np.tile(np.array([0, 5, 15], dtype=np.uint8), n_features)
    plan = TreePlan(0, np.arange(16 * n_units), (np.array([0, 16 * n_units]), np.arange(0, 16 * n_units + 1, 16)))
    units = [
        UnitWeights(
            features, pointers, lanes, np.full(3 * n_features, 0.5 + unit, np.float32), np.zeros(16, np.float32)
        )
        for unit in range(n_units)
    ]
    root = UnitWeights(features[:0], pointers[:1], lanes[:0], np.zeros(0, np.float32), np.zeros(n_units, np.float32))
    return [root, *units], plan


def test_units_are_joined_one_by_one_to_the_same_forest():
    units, plan = large_units(8, 50_000)
    sizes = UnitSizes(*([len(getattr(unit, name)) for unit in units] for name in SIZED))
    copies = (UnitWeights(*(array.copy() for array in unit)) for unit in units)
    tracemalloc.start()
    found = join_units(copies, sizes)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.3 * sum(array.nbytes for array in found)  # the forest, and one of eight units
    for one, other in zip(found, join_units(units), strict=True):
        assert one.dtype == other.dtype
        assert np.array_equal(one, other)
    assert plan.n_nodes(1) == 8


def test_reading_takes_little_more_memory_than_the_forest(tmp_path):
    units, plan = large_units(8, 50_000)
    forest = Forest(50_000, 128, "squared_hinge", True, (plan,), join_units(units))
    path = str(tmp_path / "tree.npz")
    LabelTree.of(forest, TreeOptions(n_trees=1)).save(path)
    LabelTree.load(path)  # compiles
    size = sum(array.nbytes for array in forest.weights)
    tracemalloc.start()
    LabelTree.load(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1.5 * size


def test_a_mapped_forest_predicts_the_same_bytes(tree, saved, monkeypatch):
    monkeypatch.setattr(npy_header, "MAPPED_FROM", 1)
    forest, options = read_forest(str(saved), mapped=True)
    assert not forest.weights.weights.flags.writeable
    assert predicted(LabelTree.of(forest, options)) == predicted(tree)
