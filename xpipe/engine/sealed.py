"""Sealed files: JSON that carries its own digest, so that a damaged file is recognised.

Knows nothing of what is sealed. A seal proves that a file is undamaged, not who wrote it: anyone can seal. The content
of a sealed file is therefore checked like that of any other file.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any, TypeVar

from xpipe.engine.paths import is_plain_file
from xpipe.errors import DataError
from xpipe.ground import files
from xpipe.ground.checked_json import check_value, dump_json, parse_json

T = TypeVar("T")


def seal(content: dict[str, Any]) -> bytes:
    """The bytes of a sealed file: JSON of the content, with the digest of that content."""
    plain = as_read_again(content)
    return dump_json({**plain, "sha256": hashlib.sha256(dump_json(plain)).hexdigest()})


def as_read_again(content: dict[str, Any]) -> dict[str, Any]:
    """The content as a reader of the file will see it: keys are sorted texts, tuples are lists."""
    plain: dict[str, Any] = json.loads(dump_json(content))
    return plain


def unseal(path: str, shape: type[T]) -> T | None:
    """The content of a sealed file; None if there is no file, its seal is broken, or it has another shape."""
    if not is_plain_file(path):
        return None
    try:
        content = parse_json(files.read_bytes(path), dict[str, Any], where=path, allow_nan=True)
        digest = content.pop("sha256", None)
        if digest != hashlib.sha256(dump_json(content)).hexdigest():
            return None
        return check_value(content, shape, where=path)
    except (DataError, OSError, ValueError, RecursionError):  # the last two: content that JSON cannot be made of
        return None
