"""Stage group: labels of single samples become labels of groups of samples. The rules themselves are `grouping`."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from pydantic import Field, model_validator

from xpipe import files
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.places import input_problem
from xpipe.stages.matrices import entries_of, locate, matrix_about, open_matrix, part_path, part_rows, rows_of
from xpipe.stages.read import check_is_file
from xpipe.stages.stage import Estimate, Outlook, Params, Produced, Stage, canonical_params


class GroupParams(Params):
    """Section `group`: which samples share their labels."""

    rule: Literal["random", "kmeans", "given"]
    size: int | None = Field(default=None, ge=1)  # rule random: samples a group
    depth: int | None = Field(default=None, ge=0)  # rule kmeans: 2**depth groups of samples that look alike
    noise: float | None = Field(default=None, ge=0, le=1e6)  # rule kmeans: 0 (default) homogeneous, above 10 random
    file: str | None = None  # rule given: one group id a line, or a membership matrix (Y1)

    @model_validator(mode="after")
    def _complete(self) -> GroupParams:
        needs, takes = {"random": ("size", ()), "kmeans": ("depth", ("noise",)), "given": ("file", ())}[self.rule]
        if getattr(self, needs) is None:
            raise ValueError(f"rule {self.rule} needs `{needs}`")
        for option in ("size", "depth", "noise", "file"):
            if option != needs and option not in takes and getattr(self, option) is not None:
                raise ValueError(f"rule {self.rule} takes no `{option}`")
        return self


def preflight(params: GroupParams, outlook: Outlook) -> list[XpipeError]:
    if params.rule == "kmeans" and "train" in outlook.rows:
        from xpipe.clustering import check_depth

        assert params.depth is not None
        try:
            check_depth(outlook.rows["train"], params.depth)
        except ConfigError as error:
            return [ConfigError(f"group: {error.what}", why=error.why, fix=error.fix)]
    if params.file is None:
        return []
    problem = input_problem("group.file", params.file, DataError)
    return [problem] if problem is not None else _wrong_length(params.file, outlook)


def _wrong_length(path: str, outlook: Outlook) -> list[XpipeError]:
    """Why the groups cannot be those of the training rows, where the header of the data says how many these are."""
    if "train" not in outlook.rows:
        return []
    from xpipe.formats import read_membership

    try:
        read_membership(files.local(path), n_rows=outlook.rows["train"])
    except DataError as error:
        return [error]
    return []


def identity(params: GroupParams, inputs: dict, store: Any) -> dict:
    own = canonical_params(params, leave_out=("file",))
    if params.rule == "random":
        return own
    if params.rule == "kmeans":
        from xpipe.clustering import check_depth

        assert params.depth is not None
        check_depth(rows_of(inputs["labels"], "train"), params.depth)  # `xpipe plan` says it, too
        return {**own, "noise": params.noise or 0.0}
    path = files.local(str(params.file))
    check_is_file(path)
    return {**own, "file_digest": store.digest_inputs([path])[path]}


def estimate(params: GroupParams, inputs: dict) -> Estimate:
    labels = inputs["labels"]
    rows = rows_of(labels, "train")
    memory = 200 * 2**20 + 60 * entries_of(labels, "train")
    if params.rule == "kmeans":
        memory += 24 * entries_of(inputs["features"], "train") + 100 * rows
    return Estimate(rows, memory)


def run(context: Any) -> Produced:
    labels = context.inputs["labels"]
    n_samples = rows_of(labels, "train")
    shared = {
        "labels": locate(labels),
        "features": locate(context.inputs["features"]) if context.params.rule == "kmeans" else None,
        "params": context.params.model_dump(mode="json"),
        "seed": context.seed,
        "part_rows": labels.about["part_rows"],
        "cuts": part_rows(labels, "train"),
        "file_rows": labels.about.get("file_rows", {}).get("train"),
    }
    (receipt,) = context.map("groups", make_groups, [{"unit": "train", "rows": n_samples}], shared)
    facts = receipt["result"]
    entries = receipt["files"]
    part = labels.about["part_rows"]
    return Produced(
        {
            "membership": (
                [entry for entry in entries if entry["path"].startswith("membership/")],
                matrix_about(facts["groups"], part, {"train": n_samples}),
            ),
            "group_labels": (
                [entry for entry in entries if entry["path"].startswith("group_labels/")],
                matrix_about(labels.about["n_columns"], part, {"train": facts["groups"]}),
            ),
        },
        {"rows": n_samples, **facts},
    )


def make_groups(folder: str, units: list[dict], shared: dict) -> Iterator[tuple[str, list[dict], dict]]:
    """Both matrices in one unit; only the rule kmeans loads features. Membership parts are cut as the features are."""
    import numpy as np

    from xpipe import grouping
    from xpipe.formats.parts import slice_rows, write_part
    from xpipe.sparse import to_matrix, to_triple

    stored = open_matrix(shared["labels"], "train")
    Y = to_matrix(stored.load(), stored.n_columns)
    params = shared["params"]
    if params["rule"] == "random":
        Y1, Y2 = grouping.random_groups(Y, params["size"], shared["seed"])
    elif params["rule"] == "kmeans":
        features = open_matrix(shared["features"], "train")
        X = to_matrix(features.load(), features.n_columns)
        Y1, Y2 = grouping.kmeans_groups(X, Y, params["depth"], shared["seed"], params["noise"] or 0.0)
    else:
        from xpipe.formats import read_membership

        given = read_membership(files.local(params["file"]), samples=stored.samples(), n_rows=shared["file_rows"])
        Y1, Y2 = grouping.given_groups(given, Y)
    entries = []
    n_groups = Y2.shape[0]
    group_cuts = [min(shared["part_rows"], n_groups - start) for start in range(0, n_groups, shared["part_rows"])] or [
        0
    ]
    for name, matrix, cuts, numbers in (
        ("membership", Y1, shared["cuts"], stored.samples()),
        ("group_labels", Y2, group_cuts, np.arange(n_groups)),
    ):
        triple, start = to_triple(matrix), 0
        for index, rows in enumerate(cuts):
            path = part_path(name, "train", index)
            facts = write_part(
                files.join(folder, path), numbers[start : start + rows], slice_rows(triple, start, start + rows)
            )
            entries.append({"path": path, "split": "train", **facts})
            start += rows
    sizes = np.bincount(Y1.indices, minlength=n_groups)
    yield (
        units[0]["unit"],
        entries,
        {
            "groups": n_groups,
            "samples_in_no_group": int((np.diff(Y1.indptr) == 0).sum()),
            "samples_a_group": round(float(Y1.nnz / n_groups), 3) if n_groups else 0.0,
            "largest_group": int(sizes.max()) if n_groups else 0,
            "labels_a_group": round(float(Y2.nnz / n_groups), 3) if n_groups else 0.0,
            "groups_without_labels": int((np.diff(Y2.indptr) == 0).sum()),
        },
    )


GROUP = Stage(
    name="group",
    section="group",
    version=1,
    reads=("labels", "features"),
    writes=("membership", "group_labels"),
    params=GroupParams,
    run=run,
    seeded=True,
    preflight=preflight,
    identity=identity,
    libraries=("numba", "numpy", "pyarrow"),
    estimate=estimate,
)
