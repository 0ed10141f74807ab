"""`xpipe check`, read_dataset and stage read refuse the same folders."""

from __future__ import annotations

import pytest

from tests import mutations
from tests.samples import run_pipeline
from xpipe.errors import DataError
from xpipe.formats import read_dataset, write_sparse, write_xmc
from xpipe.formats.checking import check_folder

X, Y, Y1, Y2 = mutations.matrices().values()


def short_names(folder):
    (folder / "labels.txt").write_text("a\nb\n")


def long_names(folder):
    (folder / "labels.txt").write_text("a\n" * 99)


def latin_names(folder):
    (folder / "labels.txt").write_bytes("é\n".encode("latin-1") * mutations.N_LABELS)


def short_feature_names(folder):
    (folder / "features.txt").write_text("a\n")


def other_labels_in_test(folder):
    write_xmc(str(folder / "test.txt"), X, Y[:, :4])


def other_features_in_test(folder):
    write_xmc(str(folder / "test.txt"), X[:, :4], Y)


def filter_beyond(folder):
    (folder / "filter_labels_test.txt").write_text("4 0\n")


def filter_label_beyond(folder):
    (folder / "filter_labels_test.txt").write_text("0 5\n")


def a_label_after_a_space(folder):
    text = (folder / "train.txt").read_text().splitlines()
    (folder / "train.txt").write_text("\n".join([text[0], " 3 1:2", *text[2:]]) + "\n")


def no_training_rows(folder):
    (folder / "train.txt").unlink()
    (folder / "train_groups.txt").unlink()


def short_group_ids_with_labels(folder):
    (folder / "train_groups.txt").write_text("0\n1\n")
    write_sparse(str(folder / "Y2.txt"), Y2)


def long_group_ids_with_labels(folder):
    (folder / "train_groups.txt").write_text("0\n" * 99)
    write_sparse(str(folder / "Y2.txt"), Y2)


def group_ids_beyond(folder):
    (folder / "train_groups.txt").write_text("7\n" * mutations.N_ROWS)
    write_sparse(str(folder / "Y2.txt"), Y2)


def groups_that_do_not_fit(folder):
    (folder / "train_groups.txt").unlink()
    write_sparse(str(folder / "Y1.txt"), Y1[:, :3])
    write_sparse(str(folder / "Y2.txt"), Y2)


def group_labels_of_another_width(folder):
    (folder / "train_groups.txt").unlink()
    write_sparse(str(folder / "Y1.txt"), Y1)
    write_sparse(str(folder / "Y2.txt"), Y2[:, :3])


def two_files_of_groups(folder):
    write_sparse(str(folder / "Y1.txt"), Y1)
    write_sparse(str(folder / "Y2.txt"), Y2)


HARMS = [
    short_names, long_names, latin_names, short_feature_names, other_labels_in_test, other_features_in_test,
    filter_beyond, filter_label_beyond, a_label_after_a_space, no_training_rows, short_group_ids_with_labels,
    long_group_ids_with_labels, group_ids_beyond, groups_that_do_not_fit, group_labels_of_another_width,
    two_files_of_groups,
]  # fmt: skip


def run(folder, place, extra=""):
    path = place / "pipeline.yaml"
    path.write_text(f"name: sample\ndata: {{dir: {folder}}}\n{extra}cluster: none\nout: {place / 'runs' / 'sample'}\n")
    return run_pipeline(path)


@pytest.mark.parametrize("harm", HARMS, ids=lambda harm: harm.__name__)
def test_check_refuses_what_run_refuses(tmp_path, harm):
    folder = tmp_path / "data"
    mutations.write_folder("xmc", folder)
    check_folder(str(folder))
    harm(folder)
    if harm is not no_training_rows:  # which is data to evaluate against
        with pytest.raises(DataError):
            read_dataset(str(folder))
    with pytest.raises(DataError):
        check_folder(str(folder))
    with pytest.raises(DataError):
        run(folder, tmp_path)


@pytest.mark.parametrize("n_lines", [2, 11, 13, 99])
def test_group_files_of_another_length(tmp_path, n_lines):
    folder = tmp_path / "data"
    mutations.write_folder("xmc", folder)
    (folder / "train_groups.txt").write_text("0\n" * n_lines)
    with pytest.raises(DataError):
        check_folder(str(folder))
    with pytest.raises(DataError):
        run(folder, tmp_path, f"group: {{rule: given, file: {folder}/train_groups.txt}}\n")


def test_ids_under_the_name_of_membership_are_read_by_all(tmp_path):
    folder = tmp_path / "data"
    mutations.write_folder("grouped", folder)
    (folder / "trn_X_Y1.txt").write_text("0\n1\n2\n1\n" * 3)
    assert read_dataset(str(folder)).train.Y1.shape == (mutations.N_ROWS, mutations.N_GROUPS)
    check_folder(str(folder))
    run(folder, tmp_path)


def test_a_header_of_two_billion_labels_costs_no_memory(tmp_path):
    (tmp_path / "train.txt").write_text(f"1 {2**31 - 1} {2**31 - 1}\n5 7:1\n")
    report = check_folder(str(tmp_path))
    assert report.ok
