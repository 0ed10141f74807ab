"""The section "How to make this again": command, pipeline file, versions and keys. Runs nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from xpipe.report.page import Code, Column, Heading, Paragraph, Section, table
from xpipe.report.run_files import RunFiles

PLACES = ("out", "store")  # settings that say where, not what
ORDER = (
    "name", "seed", "data", "vectorize", "group", "matrix", "embed", "assign", "emit", "train", "verify", "evaluate",
    "report", "cluster", "backend",
)  # of a pipeline file; other sections come last  # fmt: skip


def reproduce_section(run: RunFiles) -> Section:
    """How to make the run again."""
    results = run.results
    stages = results["stages"]
    keys = [(stage["stage"], stage["ingredients"].get("version"), stage["key"]) for stage in stages]
    digests = [(stage["stage"], name, digest) for stage in stages for name, digest in sorted(stage["digests"].items())]
    name = results["name"]
    return Section(
        "reproduce",
        "How to make this again",
        (
            Paragraph(
                "The same data, pipeline, seed and releases give the same bytes, whatever the number of workers. "
                "The digests below tell whether they did."
            ),
            Code("Command", f"xpipe run {name}.yaml"),
            Code(f"{name}.yaml", pipeline_text(results["pipeline"])),
            Heading("Releases"),
            table((Column("package"), Column("release")), sorted(results["versions"].items())),
            Heading("Keys"),
            table((Column("stage"), Column("version", number=True), Column("key")), keys),
            table((Column("stage"), Column("artifact"), Column("SHA-256")), digests, "Digests"),
        ),
    )


def pipeline_text(pipeline: Mapping[str, Any]) -> str:
    """A pipeline as YAML, with every setting, its defaults included."""
    import yaml

    kept = {key: value for key, value in pipeline.items() if key not in PLACES and value not in ({}, [])}
    ordered = {key: kept[key] for key in (*(key for key in ORDER if key in kept), *sorted(set(kept) - set(ORDER)))}
    text: str = yaml.safe_dump(ordered, sort_keys=False, default_flow_style=False, allow_unicode=True, width=100)
    return text.rstrip()
