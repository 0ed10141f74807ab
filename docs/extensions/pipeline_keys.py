"""The directive `pipeline-keys`: every key of a pipeline file with its meaning, what it must be, and its default.

Holds no key and no meaning: the sections are those that `xpipe.config` checks files against, with their comments.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from docutils import nodes
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from xpipe.config.mistakes import in_words
from xpipe.config.pipeline_file import Pipeline, pipeline_model
from xpipe.config.schema import meanings, sections_in


def default_of(field: FieldInfo) -> str:
    """The default as YAML writes it."""
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    return "" if value in (None, "") or isinstance(value, BaseModel) else f"``{json.dumps(value)}``"


def escaped(text: str) -> str:
    """Text without markup."""
    return re.sub(r"([\\*`|_<>:])", r"\\\1", text)


def table_of(model: type[BaseModel], leave_out: set[str]) -> Iterator[str]:
    """A table of the keys of one section."""
    yield from (".. list-table::", "   :header-rows: 1", "   :widths: 16 36 36 12", "")
    yield from ("   * - key", "     - must be", "     - meaning", "     - default")
    told = meanings(model)
    for name, field in model.model_fields.items():
        if name in leave_out:
            continue
        inside = sections_in(field.annotation)
        wanted = "a section, see below" if inside else in_words(field) or "a map of keys to lists of values"
        meaning = told.get(name, "")
        cells = [f"``{name}``", escaped(wanted), escaped("" if meaning == wanted else meaning), default_of(field)]
        yield from (f"   {'*' if cell is cells[0] else ' '} - {cell}".rstrip() for cell in cells)
    yield ""


def tables(model: type[BaseModel], path: str = "") -> Iterator[str]:
    """The keys of a section, then those of each section in it."""
    inner = {name: sections_in(field.annotation) for name, field in model.model_fields.items()}
    inner = {name: found for name, found in inner.items() if found}
    title = f"Section ``{path}``" if path else "Top level"
    yield from (title, "-" * len(title), "", *table_of(model, set() if path else set(inner)))
    for name, found in inner.items():
        for section in found:
            yield from tables(section, f"{path}.{name}" if path else name)


class PipelineKeys(SphinxDirective):
    """`.. pipeline-keys::`: one table per section."""

    def run(self) -> list[nodes.Node]:
        model: type[Pipeline] = pipeline_model()
        return self.parse_text_to_nodes("\n".join(tables(model)), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("pipeline-keys", PipelineKeys)
    return {"parallel_read_safe": True}
