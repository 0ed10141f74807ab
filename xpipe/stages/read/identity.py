"""Which files stage read takes, and what its content key is made of. Reads no rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from xpipe.engine.params import canonical_params
from xpipe.ground import files
from xpipe.stages.read.params import DataParams, has_files, is_tables, layout_of

if TYPE_CHECKING:
    from xpipe.engine.manifest import Artifact
    from xpipe.engine.sources import Watched
    from xpipe.formats.layout import Layout
    from xpipe.formats.reading import InputFile


def provides(params: DataParams) -> tuple[str, ...]:
    """The artifacts that the stage will give for this data."""
    if is_tables(params):
        from xpipe.stages.read.tables import identity as tables

        return tables.provides(params)
    if not has_files(params) and params.if_missing == "synthesize":
        return ("features", "labels", "names")
    splits = layout_of(params, {}).splits
    grouped = "train" in splits and splits["train"].group_labels is not None
    others = [split for name, split in splits.items() if name != "train"]
    held_out = ("held_out_labels",) if any(split.samples or split.labels for split in others) else ()
    labels = ("membership", "group_labels", *held_out) if grouped else ("labels",)
    return ("features", *labels, "names", *(("rejects",) if params.on_bad_row == "drop" else ()))


def used_files(layout: Layout) -> list[InputFile]:
    """The files that go into the artifacts. Group ids count only where the groups have labels."""
    from xpipe.formats.reading import files_by_role

    splits = layout.splits
    return [file for file in files_by_role(layout) if file.role != "group_ids" or splits[file.split].group_labels]


def identity(params: DataParams, inputs: dict[str, Artifact], store: Watched) -> dict[str, Any]:
    """What the content key is made of: how the files are read, and the digests of their bytes."""
    if is_tables(params):
        from xpipe.stages.read.tables import identity as tables

        return tables.identity(params, store)
    layout = layout_of(params, inputs)
    # a file's name tells its format, so the same bytes under another name may be another matrix
    reading: dict[str, Any] = canonical_params(params, leave_out=("name", "dir", "if_missing"))
    reading["format"] = layout.format
    if "source" in inputs:
        return reading
    roles = _paths_by_role(layout)
    if params.on_bad_row == "drop":  # rejects.parquet names the files
        reading["names"] = {role: files.basename(path) for role, path in roles.items()}
    digests = store.digest_inputs(roles.values())
    return {**reading, "digests": {role: digests[path] for role, path in roles.items()}, "synthetic": layout.synthetic}


def _paths_by_role(layout: Layout) -> dict[str, str]:
    """The path of each file that is read, by a name for its role. Raises DataError where one is not a regular file."""
    from xpipe.formats.blocks import check_is_file

    roles = {f"{file.split}.{file.role}": file.path for file in used_files(layout) if file.role != "emitted"}
    if layout.format == "parquet":  # what dataset.json says of its parts is a claim: their own bytes make the key
        from xpipe.formats.emitted import list_parts

        roles["dataset"] = files.join(layout.folder, "dataset.json")
        parts = {part.path: part for split in layout.splits for part in list_parts(layout.folder, split)}
        roles |= {path.removeprefix(layout.folder): path for path in parts}
    for path in roles.values():
        check_is_file(path)
    return roles
