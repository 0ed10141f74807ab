"""Makes the HTML of a page: one file with its style, its few lines of script and its pictures. Loads nothing.

Holds no figures. Every text is escaped by the template engine; only our own SVG, style and script are put in as they
are. A content security policy forbids all requests, and every script but ours.
"""

from __future__ import annotations

import base64
import functools
import hashlib
from importlib import resources
from typing import TYPE_CHECKING

from xpipe.report.page import Page

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

TEMPLATES = "templates"


def render(page: Page) -> str:
    """The HTML of a page."""
    style, script = _source("report.css"), _source("sort.js")
    allowed = f"style-src 'unsafe-inline'; script-src '{_digest(script)}'"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    from markupsafe import Markup

    text: str = (
        _environment()
        .get_template("report.html.jinja")
        .render(page=page, style=Markup(style), script=Markup(script), policy=policy, markup=Markup)
    )
    return text


@functools.cache
def _environment() -> Environment:
    """The template engine: everything is escaped, and a name that is not there is an error."""
    from jinja2 import Environment, FunctionLoader, StrictUndefined

    made = Environment(
        loader=FunctionLoader(_source), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["prose"] = _prose
    return made


def _prose(text: str) -> Markup:
    """An escaped text in which `words` between backticks are code."""
    from markupsafe import Markup, escape

    parts = text.split("`")
    if len(parts) % 2 == 0:
        return escape(text)
    return Markup("").join(
        Markup("<code>{}</code>").format(part) if number % 2 else escape(part) for number, part in enumerate(parts)
    )


@functools.cache
def _source(name: str) -> str:
    """The text of a template, the style or the script."""
    return resources.files("xpipe.report").joinpath(TEMPLATES, name).read_text(encoding="utf-8")


def _digest(script: str) -> str:
    """A script as a content security policy names it."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
