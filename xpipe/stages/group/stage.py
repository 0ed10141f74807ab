"""Stage group: labels of single samples become labels of groups of samples.

Orchestration only: the rules are the room `grouping`, and run at a worker (`work`).
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

from xpipe.engine.context import Context
from xpipe.engine.manifest import Artifact
from xpipe.engine.messages import FileEntry, Unit
from xpipe.engine.params import canonical_params
from xpipe.engine.places import input_problem
from xpipe.engine.stage import Estimate, Outlook, Produced, Stage
from xpipe.errors import ConfigError, DataError, XpipeError
from xpipe.ground import files
from xpipe.stages.group.params import GroupParams
from xpipe.stages.matrices import entries_of, locate, matrix_about, part_rows, rows_of


def preflight(params: GroupParams, outlook: Outlook) -> list[XpipeError]:
    """What must fail: too many groups, or a group file that is missing or of another length."""
    if params.rule == "kmeans" and "train" in outlook.rows:
        from xpipe.grouping.clustering import check_depth

        assert params.depth is not None
        try:
            check_depth(outlook.rows["train"], params.depth)
        except ConfigError as error:
            return [ConfigError(f"group: {error.what}", why=error.why, fix=error.fix)]
    if params.by_table and getattr(outlook.sections.get("data"), "group", None) is None:
        fix = "group: {rule: given, file: groups.txt}; or name the column of a table: data: {group: ...}"
        return [ConfigError("group: rule given needs `file`", why="the data has no column of groups", fix=fix)]
    if params.file is None:
        return []
    problem = input_problem("group.file", params.file, DataError)
    return [problem] if problem is not None else _wrong_length(params.file, outlook)


def _wrong_length(path: str, outlook: Outlook) -> list[XpipeError]:
    """Why the group file cannot belong to the training rows, where the header of the data says how many there are."""
    if "train" not in outlook.rows:
        return []
    from xpipe.formats import read_membership

    try:
        read_membership(files.local(path), n_rows=outlook.rows["train"])
    except DataError as error:
        return [error]
    return []


def identity(params: GroupParams, inputs: dict[str, Artifact], store: Any) -> dict[str, Any]:
    """The params of the rule; of a group file its digest instead of its path."""
    own = canonical_params(params, leave_out=("file",))
    if params.rule == "random" or params.by_table:
        return own
    if params.rule == "kmeans":
        from xpipe.grouping.clustering import check_depth

        assert params.depth is not None
        check_depth(rows_of(inputs["labels"], "train"), params.depth)  # so that `xpipe plan` says it, too
        return {**own, "noise": params.kmeans_noise}
    path = files.local(str(params.file))
    from xpipe.formats.blocks import check_is_file

    check_is_file(path)
    return {**own, "file_digest": store.digest_inputs([path])[path]}


def estimate(params: GroupParams, inputs: dict[str, Artifact]) -> Estimate:
    """Rows, and the memory for all labels; the rule kmeans needs all features too."""
    labels = inputs["labels"]
    rows = rows_of(labels, "train")
    memory = 200 * 2**20 + 60 * entries_of(labels, "train")
    if params.rule == "kmeans":
        memory += 24 * entries_of(inputs["features"], "train") + 100 * rows
    return Estimate(rows, memory)


def run(context: Context[GroupParams]) -> Produced:
    """Make membership and group labels in one unit."""
    from xpipe.stages.group import work

    labels = context.inputs["labels"]
    n_samples, rows_of_a_part = rows_of(labels, "train"), labels.about["part_rows"]
    shared = work.Grouping(
        params=context.params,
        seed=context.seed,
        labels=locate(labels),
        features=locate(context.inputs["features"]) if context.params.rule == "kmeans" else None,
        groups=locate(context.inputs["groups"]) if context.params.by_table else None,
        file_rows=labels.about.get("file_rows", {}).get("train"),
        part_rows=rows_of_a_part,
        cuts=tuple(part_rows(labels, "train")),
    )
    (made,) = context.map("groups", work.make_groups, [Unit("train", n_samples)], shared, doing="grouping")
    facts = dataclasses.asdict(made.result)
    widths = {"membership": made.result.groups, "group_labels": labels.about["n_columns"]}
    rows = {"membership": n_samples, "group_labels": made.result.groups}
    artifacts: dict[str, tuple[Sequence[FileEntry], dict[str, Any]]] = {
        name: (
            [entry for entry in made.files if entry.path.startswith(f"{name}/")],
            matrix_about(widths[name], rows_of_a_part, {"train": rows[name]}),
        )
        for name in ("membership", "group_labels")
    }
    return Produced(artifacts, {"rows": n_samples, **facts})


def needs(params: GroupParams) -> tuple[str, ...]:
    """Labels and features; groups of a table only where they are the rule."""
    return ("labels", "features", "groups") if params.by_table else ("labels", "features")


def describe(summary: dict[str, Any]) -> str:
    """One line for the console."""
    size, labels = summary["samples_a_group"], summary["labels_a_group"]
    return f"{summary['groups']:,} groups of {size:.1f} samples, {labels:.1f} labels each"


STAGE = Stage(
    name="group",
    section="group",
    version=1,
    reads=("labels", "features", "groups?"),
    writes=("membership", "group_labels"),
    params=GroupParams,
    run=run,
    seeded=True,
    needs=needs,
    preflight=preflight,
    identity=identity,
    libraries=("numba", "numpy", "pyarrow"),
    estimate=estimate,
    describe=describe,
)
