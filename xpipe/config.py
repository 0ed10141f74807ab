"""Pipeline files: YAML and `--set` overrides in, one checked Pipeline out, or every mistake at once with its line.

Holds no parameter of any stage (each stage declares its own) and no wiring of artifacts (`wiring` does that).

A pipeline file holds choices, not machines: relative paths in it are relative to the current directory, as on the
command line. A section that is named but empty (`emit:`) is on with its defaults; `emit: null` switches it off.
YAML is read by the plain rules of version 1.2: only true/false are booleans, so `no` and `on` stay texts.
"""

from __future__ import annotations

import difflib
import functools
import json
import math
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Literal, Self, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, Field, ValidationError, create_model, field_validator, model_validator
from pydantic.fields import FieldInfo

from xpipe.cluster import ClusterParams
from xpipe.errors import ConfigError
from xpipe.stages import STAGES, Params, Stage

MOST_NODES, MOST_DEPTH = 10_000, 20  # far beyond any real pipeline; aliases cannot grow a file into a memory bomb
LONGEST_VALUE = 60  # characters of a wrong value that a message repeats

KeyPath = tuple[str | int, ...]
Place = Callable[[yaml.Node], str]


# ---------------------------------------------------------------- what a pipeline file may say


class Pipeline(Params):
    """A checked pipeline: what every pipeline has, plus one section a stage (None where the stage is off)."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        max_length=100,
        description="up to 100 letters, digits and . _ - that start with a letter or digit",
    )
    seed: int = Field(default=0, ge=0, le=2**63 - 1)
    cluster: ClusterParams = ClusterParams()
    backend: Literal["auto", "cpu", "gpu"] = "auto"
    out: str = ""  # folder of the results; runs/<name> when not given
    store: str = ""  # folder of the artifacts; .store beside out when not given

    @field_validator("cluster", mode="before")
    @classmethod
    def _short_cluster(cls, given: Any) -> Any:
        return {"kind": given} if isinstance(given, str) else given

    @model_validator(mode="after")
    def _fill_folders(self) -> Self:
        out = self.out or f"runs/{self.name}"
        store = self.store or os.path.join(os.path.dirname(out.rstrip("/")), ".store")
        if os.path.normpath(store) == os.path.normpath(out):
            raise ValueError(f"`store` must be another folder than `out`, which is {out!r}")
        object.__setattr__(self, "out", out)  # frozen for everybody else
        object.__setattr__(self, "store", store)
        return self


@functools.cache
def pipeline_model(stages: tuple[Stage, ...] = STAGES) -> type[Pipeline]:
    """The Pipeline class with one optional field for the section of every stage."""
    sections: dict[str, Any] = {stage.section: (stage.params | None, None) for stage in stages}
    return create_model("Pipeline", __base__=Pipeline, **sections)


def canonical_params(model: BaseModel, leave_out: Collection[str] = ()) -> dict[str, Any]:
    """Parameters as sorted plain JSON values for a content key; unset ones are absent, so new options keep old keys."""
    return dict(sorted(model.model_dump(mode="json", exclude_none=True, exclude=set(leave_out)).items()))


def load(path: str | os.PathLike[str], overrides: Sequence[str] = (), stages: tuple[Stage, ...] = STAGES) -> Pipeline:
    """Read and check a pipeline file.

    overrides: texts such as "group.size=10"; the value is YAML, the last one wins, sections are made where missing.
    Raises ConfigError that lists every mistake of file and overrides with its place and close matches.
    """
    model = pipeline_model(stages)
    draft = _Draft(_sections(model))
    draft.read(path)
    for text in overrides:
        draft.override(text)
    for key_path, flag in _flags(draft.values):  # pydantic takes true for 1 in a Literal
        kind = _resolve(key_path, model)[1]
        allowed = _literals(kind)
        if allowed and not any(flag is value for value in allowed):
            draft.mistake(draft.place(key_path), key_path, f"must be {_wanted(kind)}, got {_shown(flag)}")
    try:
        # JSON mode with strict: `true` is no number and "4" no integer, while lists still fit tuples
        given = {key: value for key, value in draft.values.items() if value is not None}  # null: as if not written
        pipeline = model.model_validate_json(json.dumps(given), strict=True)
    except ValidationError as error:
        _explain(error, model, draft)
    if not draft.mistakes:
        return pipeline
    count = f"{len(draft.mistakes)} mistakes" if len(draft.mistakes) > 1 else "a mistake"
    lines = "".join(f"\n  {place}: {text}" for place, text in sorted(draft.mistakes, key=_file_order))
    fix = f"correct the above; `xpipe plan {os.fspath(path)}` checks without running"
    raise ConfigError(f"the pipeline {os.fspath(path)} has {count}:{lines}", fix=fix)


# ---------------------------------------------------------------- YAML with places


class _Loader(yaml.SafeLoader):
    """Composes nodes only. Implicit types are those of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012


_TAG = "tag:yaml.org,2002:"
for _kind, _pattern, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"), _first)


def _compose(text: str, name: str) -> yaml.Node | None:
    """The one document of a text as nodes, or a ConfigError with name:line:column."""
    what = "the pipeline is not YAML"
    try:
        return yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{name}:{mark.line + 1}:{mark.column + 1}" if mark else name
        why = " ".join(str(part) for part in (error.context, error.problem) if part)
        if "'\\t'" in why:
            why = "a tab stands where YAML allows only spaces"
        raise ConfigError(what, where=where, why=why, fix="check tabs, brackets, quotes and indentation here") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - text.rfind("\n", 0, error.position)
        why = f"the character {text[error.position]!r} is not allowed in YAML"
        raise ConfigError(what, where=f"{name}:{line}:{column}", why=why, fix="remove it") from None
    except RecursionError:
        fix = f"use at most {MOST_DEPTH} levels"
        raise ConfigError("the pipeline is nested too deep", where=name, fix=fix) from None


def _file_order(mistake: tuple[str, str]) -> tuple[bool, int]:
    """File first, by line; then overrides as given."""
    override = mistake[0].startswith("--set ")
    return override, 0 if override else int(mistake[0].rpartition(":")[2])


class _Draft:
    """The values of a file and its overrides before they are checked, and where each was written."""

    def __init__(self, sections: Collection[str]):
        self.sections = sections
        self.values: dict[str, Any] = {}
        self.places: dict[KeyPath, str] = {}  # "file:line" or "--set key=value"
        self.mistakes: list[tuple[str, str]] = []  # place, sentence
        self.told: set[KeyPath] = set()
        self.nodes = 0

    def read(self, path: str | os.PathLike[str]) -> None:
        """Take the values of a file; raises at once only for what is no mapping of YAML at all."""
        name = os.fspath(path)
        try:
            text = Path(path).read_bytes().decode("utf-8-sig")
        except UnicodeDecodeError as error:
            where = f"{name}:{error.object.count(10, 0, error.start) + 1}"  # 10: newline
            fix = "save it as UTF-8"
            raise ConfigError("the pipeline is not UTF-8 text", where=where, why=str(error), fix=fix) from None
        except OSError as error:
            near = _close(Path(path).name, [other.name for other in Path(path).parent.glob("*.y*ml")])
            why = f"{error.strerror or error}{near}"
            fix = "give the path of a pipeline file, such as pipelines/tiny.yaml"
            raise ConfigError("the pipeline cannot be read", where=name, why=why, fix=fix) from None
        node = _compose(text, name)
        if not isinstance(node, yaml.MappingNode):
            what = "is empty" if node is None or not node.value else "must be a mapping of keys to values"
            where = f"{name}:{node.start_mark.line + 1 if node else 1}"
            raise ConfigError(f"the pipeline {what}", where=where, fix="start with a line such as `name: first`")
        self.values = self._take(node, (), lambda node: f"{name}:{node.start_mark.line + 1}")

    def override(self, text: str) -> None:
        """Put one `key.path=value` over the values."""
        place = f"--set {text}"
        dotted, equals, value = text.partition("=")
        path = tuple(dotted.strip().split("."))
        if not equals or not all(path):
            self.mistakes.append((place, "an override must look like group.size=10"))
            return
        try:
            node = _compose(value, place)
        except ConfigError as error:
            self.mistake(place, path, f"must be YAML, got {_shown(value)}: {error.why or error.what}")
            return
        parent = self.values
        for depth, key in enumerate(path[:-1], 1):
            if parent.get(key) is None:
                parent[key] = {}
                self.places[path[:depth]] = place
            elif path[:depth] == ("cluster",) and isinstance(parent[key], str):
                parent[key] = {"kind": parent[key]}
            if not isinstance(parent[key], dict):
                text = f"must be a section to have the key {path[depth]}, got {_shown(parent[key])}"
                self.mistake(place, path[:depth], text)
                return
            parent = parent[key]
        self.places = {known: where for known, where in self.places.items() if known[: len(path)] != path}
        self.places[path] = place
        if node is not None:
            parent[path[-1]] = self._take(node, path, lambda _: place)
        else:
            parent[path[-1]] = {} if self._is_section(path) else None

    def _is_section(self, path: KeyPath) -> bool:
        return len(path) == 1 and path[0] in self.sections

    def _take(self, node: yaml.Node, path: KeyPath, place: Place) -> Any:
        """The plain value of a node; what is no plain value becomes a mistake."""
        self.nodes += 1
        if self.nodes > MOST_NODES or len(path) > MOST_DEPTH:
            why = f"more than {MOST_NODES} values or {MOST_DEPTH} levels; does an alias contain itself?"
            raise ConfigError("the pipeline is too large", where=place(node), why=why, fix="write it without aliases")
        self.places.setdefault(path, place(node))
        if isinstance(node, yaml.MappingNode) and node.tag == f"{_TAG}map":
            return self._take_mapping(node, path, place)
        if isinstance(node, yaml.SequenceNode) and node.tag == f"{_TAG}seq":
            return [self._take(item, (*path, index), place) for index, item in enumerate(node.value)]
        if node.tag == f"{_TAG}null" and node.value == "" and self._is_section(path):
            return {}  # `emit:` means emit with its defaults
        try:
            return _SCALARS[node.tag.removeprefix(_TAG)](node.value)
        except KeyError:
            self.mistake(place(node), path, f"must be a plain value, got the tag {_shown(node.tag)}")
        except ValueError:
            self.mistake(place(node), path, f"must be a value YAML can hold, got {_shown(node.value)}")
        return None

    def _take_mapping(self, node: yaml.MappingNode, path: KeyPath, place: Place) -> dict[str, Any]:
        values: dict[str, Any] = {}
        for key, value in node.value:
            if not isinstance(key, yaml.ScalarNode) or not key.value.isprintable():
                self.mistake(place(key), path, "must have words as keys, got something else")
            elif key.value in values:
                first = self.places[(*path, key.value)]
                self.mistake(place(key), (*path, key.value), f"must be given once, got it at {first} already")
            else:
                self.places[(*path, key.value)] = place(key)
                values[key.value] = self._take(value, (*path, key.value), place)
        return values

    def place(self, path: KeyPath) -> str:
        """Where a key stands, or the nearest section above it."""
        return next(self.places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.places)

    def mistake(self, place: str, path: KeyPath, text: str) -> None:
        """Note what is wrong with a key."""
        self.told.add(path)
        self.mistakes.append((place, f"{_named(path)} {text}"))


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


_SCALARS: dict[str, Callable[[str], Any]] = {
    "null": lambda text: None,
    "bool": lambda text: json.loads(text.lower()),
    "int": int,
    "float": _finite,
    "str": lambda text: text.encode().decode(),  # half a surrogate pair is a ValueError
}


# ---------------------------------------------------------------- mistakes, all in one sentence form


def _explain(error: ValidationError, model: type[BaseModel], draft: _Draft) -> None:
    """Note one sentence a wrong key: what it must be, what it is, and a close match."""
    for detail in error.errors(include_url=False):
        path, kind, owner = _resolve(detail["loc"], model)
        if path in draft.told:  # each member of a union complains; a value YAML cannot hold is missed again here
            continue
        if detail["type"] == "extra_forbidden":
            text = _unknown_key(str(path[-1]), owner, model)
        elif detail["type"] == "missing":
            text = f"must be given: {_wanted(kind)}"
        else:
            text = _wrong_value(detail, kind)
        draft.mistake(draft.place(path), path, text)


def _unknown_key(key: str, owner: type[BaseModel], model: type[BaseModel]) -> str:
    known = {name: name for name in owner.model_fields}
    if owner is model:  # a key of some section may stand a level too high
        inner = {key: f"{name}.{key}" for name, section in _sections(model).items() for key in section.model_fields}
        known = inner | known
    return f"must be one of the keys {', '.join(owner.model_fields)}{_close(key, known)}"


def _wrong_value(detail: Any, kind: Any) -> str:
    given, wanted, known = detail["input"], f"must be {_wanted(kind)}", _literals(kind)
    if detail["type"] == "value_error":  # a validator's own words; they may name the allowed values
        wanted = str(detail["ctx"]["error"])
        known = re.findall(r"[a-z]{3,}", wanted)
        if not wanted.startswith("must "):  # of a whole section, which need not be repeated
            return f"is not right: {wanted}"
    elif wanted == "must be ":
        wanted = f"is not right: {detail['msg']}"
    hint = _close(given, known) if isinstance(given, str) else ""
    if detail["type"] == "string_type" and isinstance(given, int | float):
        hint = "; quotes make it a text"
    return f"{wanted}, got {_shown(given)}{hint}"


def _flags(values: Any, path: KeyPath = ()) -> Iterator[tuple[KeyPath, bool]]:
    """Every true or false among nested values, with its path."""
    if isinstance(values, bool):
        yield path, values
    elif isinstance(values, dict | list):
        for key, value in values.items() if isinstance(values, dict) else enumerate(values):
            yield from _flags(value, (*path, key))


def _literals(kind: Any) -> list[Any]:
    return [value for part in _parts(kind) if get_origin(part) is Literal for value in get_args(part)]


def _resolve(loc: tuple[str | int, ...], model: type[BaseModel]) -> tuple[KeyPath, Any, type[BaseModel]]:
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


def _sections(model: type[BaseModel]) -> dict[str, type[BaseModel]]:
    return {name: inner for name, field in model.model_fields.items() if (inner := _model_in(field)) is not None}


_WORDS = {int: "a whole number", float: "a number", str: "a text", bool: "true or false"}
_LIMITS = {"ge": "of at least", "gt": "above", "le": "of at most", "lt": "below"}


def _wanted(kind: Any) -> str:
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
            found.append(f"a list, each {_wanted(get_args(part)[0])}")
        elif part in _WORDS:
            found.append(_WORDS[part] + (limits if part in (int, float) else ""))
        else:
            return ""
    return " or ".join(found)


def _named(path: KeyPath) -> str:
    dotted = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")
    return f"`{dotted}`" if dotted else "the pipeline"


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    text = text if len(text) <= LONGEST_VALUE else text[: LONGEST_VALUE - 3] + "..."
    return repr(text) if isinstance(value, str) else text


def _close(word: str, known: Iterable[Any]) -> str:
    """A "did you mean" for a mistyped word, or nothing. A dict of known words says what to suggest for each."""
    by_lower = {str(name).lower(): known[name] if isinstance(known, dict) else name for name in known}
    near = difflib.get_close_matches(word.lower(), by_lower, n=1, cutoff=0.65)
    return f"; did you mean `{by_lower[near[0]]}`?" if near else ""
