"""The directive `public-names`: documentation of every name that a room exports, from its docstrings.

Holds no list of names: the rooms have them.
"""

from __future__ import annotations

import importlib
import inspect
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ORDER = ("autofunction", "autoclass", "autoexception", "autodata")


def public_names(room: Any) -> list[str]:
    """The names a room exports. Its modules, and names kept for one release, are not among them."""
    names = [name for name in room.__all__ if not inspect.ismodule(getattr(room, name))]
    return sorted(names, key=lambda name: (name.lower(), name))


def autodoc_kind(thing: Any) -> str:
    """The autodoc directive that documents an object."""
    if inspect.isclass(thing):
        return "autoexception" if issubclass(thing, BaseException) else "autoclass"
    return "autofunction" if callable(thing) else "autodata"


class PublicNames(SphinxDirective):
    """`.. public-names:: xpipe.formats`, a room or a module with `__all__`: functions, then classes, then constants."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        room_name = self.arguments[0]
        room = importlib.import_module(room_name)
        found = [(autodoc_kind(getattr(room, name)), name) for name in public_names(room)]
        found.sort(key=lambda pair: ORDER.index(pair[0]))  # stable: names stay in order
        lines = [f".. {kind}:: {room_name}.{name}" for kind, name in found]
        return self.parse_text_to_nodes("\n\n".join(lines))


def setup(app: Sphinx) -> dict[str, bool]:
    app.add_directive("public-names", PublicNames)
    return {"parallel_read_safe": True}
