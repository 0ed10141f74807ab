"""The JSON Schema of pipeline files, with which editors complete and check them. Holds no key of a section."""

from __future__ import annotations

import inspect
import io
import tokenize
from collections.abc import Iterator
from typing import Any, get_args

from pydantic import BaseModel

from xpipe.config.pipeline_file import pipeline_model
from xpipe.engine.params import Params

DIALECT = "https://json-schema.org/draft/2020-12/schema"


def pipeline_schema() -> dict[str, Any]:
    """The JSON Schema of a pipeline file: every section, every key, its type, its limits and its meaning.

    Returns
    -------
    dict
        The schema, as plain JSON values.

    Examples
    --------
    >>> from xpipe.config.schema import pipeline_schema
    >>> pipeline_schema()["required"]
    ['name']
    """
    model = pipeline_model()
    schema = model.model_json_schema()
    models = {found.__name__: found for found in _models(model)}
    for name, section in [(model.__name__, schema), *schema.get("$defs", {}).items()]:
        told = meanings(models[name]) if name in models else {}
        for key, value in section.get("properties", {}).items():
            value.pop("title", None)
            if key in told and "description" not in value:
                value["description"] = told[key]
    cluster = schema["properties"]["cluster"]
    kinds = {"type": "string", "description": "local | none | tcp://host:port | tls://host:port | a name"}
    schema["properties"]["cluster"] = {"anyOf": [{"$ref": cluster.pop("$ref")}, kinds], **cluster}  # the short form
    return {"$schema": DIALECT, **schema, "title": "A pipeline of xpipe"}


def meanings(model: type[BaseModel]) -> dict[str, str]:
    """The descriptions of the keys of a section, else the comments behind them."""
    found = {name: field.description for name, field in model.model_fields.items() if field.description}
    for kind in model.__mro__:
        if issubclass(kind, Params):
            for name, comment in comments_of(kind):
                found.setdefault(name, comment)
    return found


def comments_of(kind: type[BaseModel]) -> Iterator[tuple[str, str]]:
    """(attribute, the comment behind it) of a class; nothing for a class that no source file holds."""
    try:
        source = inspect.getsource(kind)
    except OSError:
        return
    name = ""
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.NAME and token.start[1] == 4:
            name = token.string
        elif token.type == tokenize.COMMENT and name in kind.model_fields:
            yield name, token.string.removeprefix("#").strip()


def sections_in(annotation: Any) -> list[type[BaseModel]]:
    """The sections that a type mentions: its own, those of a union, those in a list."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [found for argument in get_args(annotation) for found in sections_in(argument)]


def _models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    """A section, and all sections in it."""
    yield model
    for field in model.model_fields.values():
        for inner in sections_in(field.annotation):
            yield from _models(inner)
