"""The YAML of a pipeline file and its overrides, with the place of every value. Checks no value against its section.

YAML is read by the rules of version 1.2: only true and false are booleans, so `no` and `on` are texts.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import yaml

from xpipe.config.examples import example_pipelines
from xpipe.config.mistakes import KeyPath, close, named, shown
from xpipe.errors import ConfigError

MOST_NODES, MOST_DEPTH = 10_000, 20  # far beyond any real pipeline; aliases cannot grow a file into a memory bomb

Place = Callable[[yaml.Node], str]


class _Loader(yaml.SafeLoader):
    """Reads YAML into nodes. The types of plain values are those of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


_TAG = "tag:yaml.org,2002:"
for _kind, _pattern, _first in (
    ("null", r"null|Null|NULL|~|", ["n", "N", "~", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]+", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", list("-+.0123456789")),
):
    _Loader.add_implicit_resolver(_TAG + _kind, re.compile(rf"(?:{_pattern})\Z"), _first)


def _compose(text: str, name: str, subject: str) -> yaml.Node | None:
    """The node of a text's only document. Raises ConfigError with name:line:column. name: the file, for messages."""
    what = f"{subject} is not YAML"
    try:
        node: yaml.Node | None = yaml.compose(text, Loader=_Loader)
        return node
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
        raise ConfigError(f"{subject} is nested too deep", where=name, fix=fix) from None


def file_order(mistake: tuple[str, str]) -> tuple[bool, int]:
    """The key by which mistakes are sorted: those of the file by line, then those of overrides, as given."""
    override = mistake[0].startswith("--set ")
    return override, 0 if override else int(mistake[0].rpartition(":")[2])


class Draft:
    """The values of a file and its overrides before they are checked, and where each was written.

    places: for each key, "file:line" or "--set key=value". mistakes: pairs of a place and a sentence. told: the keys
    that have a mistake.
    """

    def __init__(self, sections: Collection[str], subject: str = "the pipeline", first: str = "name: first"):
        """Begin with no values. sections: the keys that are sections. subject, first: of messages: what the file is,
        and a line that it may begin with.
        """
        self.sections, self.subject, self.first = sections, subject, first
        self.values: dict[str, Any] = {}
        self.places: dict[KeyPath, str] = {}
        self.mistakes: list[tuple[str, str]] = []
        self.told: set[KeyPath] = set()
        self.nodes = 0

    def read(self, path: str | os.PathLike[str]) -> None:
        """Take the values of a file. Raises ConfigError at once only where the file is no mapping of YAML."""
        name = os.fspath(path)
        node = _compose(_read_text(Path(path), name, self.subject), name, self.subject)
        if not isinstance(node, yaml.MappingNode):
            what = "is empty" if node is None or not node.value else "must be a mapping of keys to values"
            where = f"{name}:{node.start_mark.line + 1 if node else 1}"
            raise ConfigError(f"{self.subject} {what}", where=where, fix=f"start with a line such as `{self.first}`")
        self.values = self._take(node, (), lambda node: f"{name}:{node.start_mark.line + 1}")

    def override(self, text: str) -> None:
        """Set one value by a text such as "group.size=10"."""
        place = f"--set {text}"
        dotted, equals, value = text.partition("=")
        path = tuple(dotted.strip().split("."))
        if not equals or not all(path):
            self.mistakes.append((place, "an override must look like group.size=10"))
            return
        try:
            node = _compose(value, place, self.subject)
        except ConfigError as error:
            self.mistake(place, path, f"must be YAML, got {shown(value)}: {error.why or error.what}")
            return
        parent = self._section_for(path, place)
        if parent is None:
            return
        self.places = {known: where for known, where in self.places.items() if known[: len(path)] != path}
        self.places[path] = place
        if node is not None:
            parent[path[-1]] = self._take(node, path, lambda _: place)
        else:
            parent[path[-1]] = {} if self._is_section(path) else None

    def _section_for(self, path: tuple[str, ...], place: str) -> dict[str, Any] | None:
        """The section that holds the last key of a path, made where it is missing. None where it cannot be one."""
        parent = self.values
        for depth, key in enumerate(path[:-1], 1):
            if parent.get(key) is None:
                parent[key] = {}
                self.places[path[:depth]] = place
            elif path[:depth] == ("cluster",) and isinstance(parent[key], str):
                parent[key] = {"kind": parent[key]}
            if not isinstance(parent[key], dict):
                text = f"must be a section to have the key {path[depth]}, got {shown(parent[key])}"
                self.mistake(place, path[:depth], text)
                return None
            parent = parent[key]
        return parent

    def _is_section(self, path: KeyPath) -> bool:
        """Whether a path is that of a section."""
        return len(path) == 1 and path[0] in self.sections

    def _take(self, node: yaml.Node, path: KeyPath, place: Place) -> Any:
        """The plain value of a node. What is no plain value becomes a mistake, and None."""
        self.nodes += 1
        if self.nodes > MOST_NODES or len(path) > MOST_DEPTH:
            why = f"more than {MOST_NODES} values or {MOST_DEPTH} levels; does an alias contain itself?"
            fix = "write it without aliases"
            raise ConfigError(f"{self.subject} is too large", where=place(node), why=why, fix=fix)
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
            self.mistake(place(node), path, f"must be a plain value, got the tag {shown(node.tag)}")
        except ValueError:
            self.mistake(place(node), path, f"must be a value YAML can hold, got {shown(node.value)}")
        return None

    def _take_mapping(self, node: yaml.MappingNode, path: KeyPath, place: Place) -> dict[str, Any]:
        """The values of a mapping, by its keys. Keys that are no words or stand twice become mistakes."""
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
        """Where a key is written, or else the nearest section above it."""
        return next(self.places[path[:n]] for n in range(len(path), -1, -1) if path[:n] in self.places)

    def mistake(self, place: str, path: KeyPath, text: str) -> None:
        """Add what is wrong with a key."""
        self.told.add(path)
        self.mistakes.append((place, f"{named(path)} {text}"))


def _read_text(path: Path, name: str, subject: str) -> str:
    """The text of a file. Raises ConfigError where it cannot be read, or is not UTF-8."""
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        where = f"{name}:{error.object.count(10, 0, error.start) + 1}"  # 10: newline
        fix = "save it as UTF-8"
        raise ConfigError(f"{subject} is not UTF-8 text", where=where, why=str(error), fix=fix) from None
    except OSError as error:
        near = close(path.name, [*(other.name for other in path.parent.glob("*.y*ml")), *example_pipelines()])
        why = f"{error.strerror or error}{near}"
        fix = "give the path of a pipeline file, or the name of an example: `xpipe examples`"
        raise ConfigError(f"{subject} cannot be read", where=name, why=why, fix=fix) from None


def _finite(text: str) -> float:
    """A number. Raises ValueError where it is too large for a float."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError
    return number


_SCALARS: dict[str, Callable[[str], Any]] = {
    "null": lambda text: None,
    "bool": lambda text: json.loads(text.lower()),
    "int": int,
    "float": _finite,
    "str": lambda text: text.encode().decode(),  # raises ValueError for half a surrogate pair
}
