"""The wording of mistakes in a pipeline file. One form for all: what a key must be, what it is, and a close match.

Reads no YAML and knows no particular section.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from types import UnionType
from typing import Annotated, Any, Literal, Protocol, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from xpipe.ground.close_match import did_you_mean

LONGEST_VALUE = 60  # characters of a wrong value that a message repeats

KeyPath = tuple[str | int, ...]


class Notes(Protocol):
    """Collects the mistakes of a file. `yaml_lines.Draft` does."""

    @property
    def values(self) -> dict[str, Any]:
        """The values of the file."""
        ...

    @property
    def told(self) -> set[KeyPath]:
        """The keys that have a mistake already."""
        ...

    def place(self, path: KeyPath) -> str:
        """Where a key is written."""
        ...

    def mistake(self, place: str, path: KeyPath, text: str) -> None:
        """Add a mistake."""


def explain(error: ValidationError, model: type[BaseModel], draft: Notes) -> None:
    """Add one sentence per wrong key to the draft: what it must be, what it is, and a close match."""
    for detail in error.errors(include_url=False):
        path, kind, owner = resolve(detail["loc"], model)
        if path in draft.told:  # told before: by another member of a union, or when the YAML was read
            continue
        if detail["type"] == "extra_forbidden":
            text = _unknown_key(str(path[-1]), owner, model)
        elif detail["type"] == "missing":
            text = f"must be given: {in_words(kind)}"
        else:
            text = _wrong_value(detail, kind)
        draft.mistake(draft.place((*path, *_named_key(text, kind))), path, text)


def _named_key(text: str, kind: Any) -> tuple[str, ...]:
    """The first key of a section that the words of its validator name: the mistake is most likely there."""
    section = _model_in(kind)
    named = [key for key in re.findall(r"`(\w+)`", text) if section is not None and key in section.model_fields]
    return tuple(named[:1])


def _unknown_key(key: str, owner: type[BaseModel], model: type[BaseModel]) -> str:
    """What to say of a key that its section does not have. owner: the section. model: the whole pipeline."""
    known = {name: name for name in owner.model_fields}
    if owner is model:  # the key may belong into a section, one level deeper
        inner = {key: f"{name}.{key}" for name, section in sections_of(model).items() for key in section.model_fields}
        known = inner | known
    return f"must be one of the keys {', '.join(owner.model_fields)}{close(key, known)}"


def _wrong_value(detail: ErrorDetails, kind: Any) -> str:
    """What to say of a wrong value. detail: pydantic's description of the error. kind: the type of the key."""
    given, wanted, known = detail["input"], f"must be {in_words(kind)}", literals(kind)
    if detail["type"] == "value_error":  # the words of a validator, which may name the allowed values
        wanted = str(detail["ctx"]["error"])
        known = re.findall(r"[a-z]{3,}", wanted)
        if not wanted.startswith("must "):  # about a whole section, whose value is not repeated
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


def note_wrong_flags(draft: Notes, model: type[BaseModel]) -> None:
    """Note every true or false that is given instead of a number: pydantic takes true for 1 in a Literal."""
    for key_path, flag in flags(draft.values):
        kind = resolve(key_path, model)[1]
        allowed = literals(kind)
        if allowed and not any(flag is value for value in allowed):
            draft.mistake(draft.place(key_path), key_path, f"must be {in_words(kind)}, got {shown(flag)}")


def literals(kind: Any) -> list[Any]:
    """The values that a type names one by one."""
    return [value for part in _parts(kind) if get_origin(part) is Literal for value in get_args(part)]


def resolve(loc: tuple[str | int, ...], model: type[BaseModel]) -> tuple[KeyPath, Any, type[BaseModel]]:
    """Follow a location of pydantic. Returns the path in the file, the type of that key, and the section that has it.

    A location may end in names that are no keys of the file, such as those of the members of a union.
    """
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
            break  # the name of a union's member
    return tuple(path), kind, owner


def _parts(kind: Any) -> list[Any]:
    """The members of a type: of a union each member, without None; of a field or Annotated the type inside."""
    if isinstance(kind, FieldInfo):
        return _parts(kind.annotation)
    if get_origin(kind) is Annotated:
        return _parts(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return [part for member in get_args(kind) for part in _parts(member)]
    return [] if kind is type(None) else [kind]


def _model_in(kind: Any) -> type[BaseModel] | None:
    """The section that a type allows; None where it allows none."""
    return next((part for part in _parts(kind) if isinstance(part, type) and issubclass(part, BaseModel)), None)


def sections_of(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    """The sections of a model, by their keys."""
    return {name: inner for name, field in model.model_fields.items() if (inner := _model_in(field)) is not None}


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_LIMITS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}


def in_words(kind: Any) -> str:
    """What a type allows, in words. A field's description is used where it has one. "" for types without words here."""
    if isinstance(kind, FieldInfo) and kind.description:
        return kind.description
    limits = _limits_of(kind)
    found = [_part_in_words(part, limits) for part in _parts(kind)]
    return " or ".join(found) if all(found) else ""


def _limits_of(kind: Any) -> str:
    """The limits of a number in words, such as " of at least 1"."""
    rules = [kind, *get_args(kind)[1:]] if get_origin(kind) is Annotated else [kind]
    rules = [rule for outer in rules for rule in getattr(outer, "metadata", [outer])]
    return " and".join(
        f" {words} {getattr(rule, name)}" for rule in rules for name, words in _LIMITS.items() if hasattr(rule, name)
    )


def _part_in_words(part: Any, limits: str) -> str:
    """What one member of a type allows, in words; "" for types without words here."""
    inner = _model_in(part)
    if get_origin(part) is Literal:
        return f"one of {', '.join(str(value) for value in get_args(part))}"
    if inner is not None:
        return f"a section with the keys {', '.join(inner.model_fields)}"
    if get_origin(part) in (list, tuple, set) and get_args(part):
        return f"a list, each {in_words(get_args(part)[0])}"
    if part in _WORDS:
        return _WORDS[part] + (limits if part in (int, float) else "")
    return ""


def named(path: KeyPath) -> str:
    """A key as a message names it: `group.size`."""
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return f"`{dotted}`" if dotted else "the pipeline"


def shown(value: Any) -> str:
    """A wrong value as a message repeats it, cut where it is long."""
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
    return repr(text) if isinstance(value, str) else text


def close(word: str, known: Iterable[Any]) -> str:
    """A "did you mean" for a mistyped word, or "". known: the words; a dict gives the suggestion for each word."""
    suggested = {str(name): known[name] if isinstance(known, dict) else name for name in known}
    hint = did_you_mean(word, suggested, cutoff=0.65, plain=str.lower, shown=lambda name: f"`{suggested[name]}`")
    return f"; {hint}" if hint else ""
