"""JSON that is read from files: parsed and checked against a declared shape.

Holds no shape of any file: each reader declares its own as a TypedDict or another annotated type. Every defect (bytes,
syntax, depth, numbers, shape, paths that leave their folder) becomes one DataError that names the file and the place in
it.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import os
from typing import Annotated, Any, TypeVar, cast

from pydantic import AfterValidator, Field, TypeAdapter, ValidationError

from xpipe.errors import DataError
from xpipe.ground import files

T = TypeVar("T")
LARGEST_COUNT = 2**53  # larger whole numbers are not the same in every JSON reader
LONGEST_JSON = 1 << 30  # bytes; manifests of the largest datasets stay far below


def check_inside(path: str) -> str:
    """A relative path that stays in its folder, with `/` between names. Raises ValueError for any other."""
    names = path.split("/")
    if path.startswith("/") or "\\" in path or "\0" in path or "://" in path:
        raise ValueError("is not a relative path with / between names")
    if any(name in ("", ".", "..") for name in names):
        raise ValueError("does not stay inside its folder")
    return path


InsidePath = Annotated[str, AfterValidator(check_inside)]
Count = Annotated[int, Field(ge=0, le=LARGEST_COUNT)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


@functools.cache
def _adapter(shape: Any) -> TypeAdapter[Any]:
    """The validator of a shape."""
    return TypeAdapter(shape)


def parse_json(content: bytes, shape: type[T], *, where: str, fix: str = "", allow_nan: bool = False) -> T:
    """The value in `content`, which fits `shape` strictly. Keys that the shape does not name are kept.

    where: the file's name, for the error. fix: what the user can do about a damaged file. allow_nan: accept NaN and
    infinite numbers, which standard JSON does not have but files of our own may.
    Raises DataError for everything that is not JSON of this shape.
    """
    name = files.basename(where)
    try:
        value = json.loads(content, parse_constant=None if allow_nan else _refuse_constant)
    except RecursionError:
        raise DataError(f"{name} is nested too deeply", where=where, fix=fix) from None
    except (ValueError, OverflowError) as error:  # syntax, encoding, numbers of thousands of digits
        raise DataError(f"{name} is not valid JSON", where=where, why=str(error)[:200], fix=fix) from None
    return check_value(value, shape, where=where, fix=fix)


def check_value(value: Any, shape: type[T], *, where: str, fix: str = "") -> T:
    """A value that was parsed before, if it fits `shape` strictly. Raises DataError if it does not."""
    name = files.basename(where)
    try:
        _adapter(cast(Any, shape)).validate_python(value, strict=True)
    except ValidationError as error:
        raise DataError(f"{name} has not the expected content", where=where, why=_first(error), fix=fix) from None
    except RecursionError:
        raise DataError(f"{name} is nested too deeply", where=where, fix=fix) from None
    return cast(T, value)


def read_json(path: str, shape: type[T], *, fix: str = "", allow_nan: bool = False) -> T:
    """`parse_json` of a file. Raises DataError also if the file is missing, a folder, or larger than LONGEST_JSON."""
    try:
        if files.is_local(path) and os.path.exists(path) and not os.path.isfile(path):
            raise DataError(f"{files.basename(path)} cannot be read", where=path, why="it is not a file", fix=fix)
        if files.size(path) > LONGEST_JSON:
            raise DataError(f"{files.basename(path)} is larger than {LONGEST_JSON:,} bytes", where=path, fix=fix)
        content = files.read_bytes(path)
    except OSError as error:
        raise DataError(f"{files.basename(path)} cannot be read", where=path, why=str(error), fix=fix) from error
    return parse_json(content, shape, where=path, fix=fix, allow_nan=allow_nan)


def to_plain(value: Any) -> Any:
    """A dataclass as plain values for JSON; other values stay as they are."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return value


def from_plain(value: Any, shape: type[T], *, where: str) -> T:
    """The dataclass `shape` from the plain values that `to_plain` gave. Raises DataError if they do not fit."""
    try:
        return cast(T, _adapter(cast(Any, shape)).validate_python(value))
    except (ValidationError, RecursionError) as error:
        why = _first(error) if isinstance(error, ValidationError) else "it is nested too deeply"
        raise DataError(f"{files.basename(where)} has not the expected content", where=where, why=why) from None


def dump_json(value: Any) -> bytes:
    """JSON as all files of xpipe hold it: sorted keys, one value per line, UTF-8."""
    return (json.dumps(value, indent=1, sort_keys=True, ensure_ascii=False) + "\n").encode(errors="surrogatepass")


def _refuse_constant(text: str) -> Any:
    """Refuse NaN and Infinity."""
    raise ValueError(f"{text} is not a JSON number")


def _first(error: ValidationError) -> str:
    """The first mismatch and how many there are: `artifacts.labels.files.0.path: ...`."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    spot = ".".join(str(part) for part in found[0]["loc"]) or "the whole"
    more = f" (and {len(found) - 1} more)" if len(found) > 1 else ""
    return f"{spot[:200]}: {found[0]['msg'][:200]}{more}"
