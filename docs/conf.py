"""Settings of the site that `make docs` builds with Sphinx."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent), str(HERE / "extensions")]

import xpipe  # noqa: E402

project = "xpipe"
release = version = xpipe.__version__
html_title = f"xpipe {release}"

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "sphinx_click", "public_names", "pipeline_keys"]
exclude_patterns = ["_build"]
html_theme = "furo"
html_static_path = ["static"]
html_css_files = ["site.css"]
html_show_copyright = False
html_copy_source = False

myst_heading_anchors = 3  # pages link to headings of other pages
suppress_warnings = ["misc.highlighting_failure"]

autodoc_default_options = {"members": True, "inherited-members": False, "member-order": "bysource"}
autodoc_typehints = "signature"
autodoc_typehints_format = "short"
autodoc_preserve_defaults = True
python_maximum_signature_line_length = 100
numpydoc_show_class_members = False  # autodoc lists them
numpydoc_xref_param_type = False

nitpicky = True
nitpick_ignore_regex = [
    ("py:.*", r"(?!xpipe\.).*"),  # other packages have no page here, and signatures spell them as the code does
    ("py:.*", r"xpipe\.\w+\.\w+\.\w+.*"),  # nor has what a room does not export; signatures may name it
]
