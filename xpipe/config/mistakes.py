"""Mistakes in a pipeline file, all in one sentence form: what a key must be, what it is, and a close match.

Reads no YAML and knows no particular section.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo

LONGEST_VALUE = 60  # characters of a wrong value that a message repeats

KeyPath = tuple[str | int, ...]


class Notes(Protocol):
    """Who keeps the mistakes of a file: `yaml_lines.Draft`."""

    told: set[KeyPath]

    def place(self, path: KeyPath) -> str: ...

    def mistake(self, place: str, path: KeyPath, text: str) -> None: ...


def explain(error: ValidationError, model: type[BaseModel], draft: Notes) -> None:
    """Note one sentence a wrong key: what it must be, what it is, and a close match."""
    for detail in error.errors(include_url=False):
        path, kind, owner = resolve(detail["loc"], model)
        if path in draft.told:  # each member of a union complains; a value YAML cannot hold is missed again here
            continue
        if detail["type"] == "extra_forbidden":
            text = _unknown_key(str(path[-1]), owner, model)
        elif detail["type"] == "missing":
            text = f"must be given: {in_words(kind)}"
        else:
            text = _wrong_value(detail, kind)
        draft.mistake(draft.place(path), path, text)


def _unknown_key(key: str, owner: type[BaseModel], model: type[BaseModel]) -> str:
    known = {name: name for name in owner.model_fields}
    if owner is model:  # a key of some section may stand a level too high
        inner = {key: f"{name}.{key}" for name, section in sections_of(model).items() for key in section.model_fields}
        known = inner | known
    return f"must be one of the keys {', '.join(owner.model_fields)}{close(key, known)}"


def _wrong_value(detail: Any, kind: Any) -> str:
    given, wanted, known = detail["input"], f"must be {in_words(kind)}", literals(kind)
    if detail["type"] == "value_error":  # a validator's own words; they may name the allowed values
        wanted = str(detail["ctx"]["error"])
        known = re.findall(r"[a-z]{3,}", wanted)
        if not wanted.startswith("must "):  # of a whole section, which need not be repeated
            return f"is not right: {wanted}"
    elif wanted == "must be ":
        wanted = f"is not right: {detail['msg']}"
    hint = close(given, known) if isinstance(given, str) else ""
    if detail["type"] == "string_type" and isinstance(given, int | float):
        hint = "; quotes make it a text"
    return f"{wanted}, got {shown(given)}{hint}"


def flags(values: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, bool]]:
    """Every true or false among nested values, with its path."""
    if isinstance(values, bool):
        yield path, values
    elif isinstance(values, dict | list):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from flags(value, (*path, key))


def literals(kind: Any) -> list[Any]:
    return [value for part in _parts(kind) if get_origin(part) is Literal for value in get_args(part)]


def resolve(loc: tuple[str | int, ...], model: type[BaseModel]) -> tuple[KeyPath, Any, type[BaseModel]]:
    """The part of a pydantic location that is a path in the file, the type wanted there, and the model that owns it."""
    path: list[str | int] = []
    kind: Any = model
    owner = model
    for step in loc:
        inner = _model_in(kind)
        if inner is not None:
            owner = inner
            path.append(step)
            if step not in inner.model_fields:
                break
            kind = inner.model_fields[str(step)]
        elif isinstance(step, int):
            path.append(step)
            kind = next((get_args(part)[0] for part in _parts(kind) if get_args(part)), None)
        else:
            break  # the name of a union's member: no key of the file
    return tuple(path), kind, owner


def _parts(kind: Any) -> list[Any]:
    """The members of a type: fields and Annotated opened, unions taken apart, None left out."""
    if isinstance(kind, FieldInfo):
        return _parts(kind.annotation)
    if get_origin(kind) is Annotated:
        return _parts(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [part for member in get_args(kind) for part in _parts(member)]
    return [] if kind is type(None) else [kind]


def _model_in(kind: Any) -> type[BaseModel] | None:
    return next((part for part in _parts(kind) if isinstance(part, type) and issubclass(part, BaseModel)), None)


def sections_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    return {name: inner for name, field in model.model_fields.items() if (inner := _model_in(field)) is not None}


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_LIMITS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}


def in_words(kind: Any) -> str:
    """What a type allows, in words (a field's description where it has one); empty for types without words here."""
    if isinstance(kind, FieldInfo) and kind.description:
        return kind.description
    rules = [kind, *get_args(kind)[1:]] if get_origin(kind) is Annotated else [kind]
    rules = [rule for outer in rules for rule in getattr(outer, "metadata", [outer])]
    limits = " and".join(
        f" {words} {getattr(rule, name)}" for rule in rules for name, words in _LIMITS.items() if hasattr(rule, name)
    )
    found = []
    for part in _parts(kind):
        inner = _model_in(part)
        if get_origin(part) is Literal:
            found.append(f"one of {', '.join(str(value) for value in get_args(part))}")
        elif inner is not None:
            found.append(f"a section with the keys {', '.join(inner.model_fields)}")
        elif get_origin(part) in (list, tuple, set) and get_args(part):
            found.append(f"a list, each {in_words(get_args(part)[0])}")
        elif part in _WORDS:
            found.append(_WORDS[part] + (limits if part in (int, float) else ""))
        else:
            return ""
    return " or ".join(found)


def named(path: KeyPath) -> str:
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return f"`{dotted}`" if dotted else "the pipeline"


def shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
    return repr(text) if isinstance(value, str) else text


def close(word: str, known: Iterable[Any]) -> str:
    """A "did you mean" for a mistyped word, or nothing. A dict of known words says what to suggest for each."""
    by_lower = {str(name).lower(): known[name] if isinstance(known, dict) else name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.65)
    return f"; did you mean `{by_lower[near[0]]}`?" if near else ""
