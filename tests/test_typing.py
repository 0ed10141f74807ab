"""What a user's type checker sees: real types for every name in the Python blocks of README, none of them Any."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.markdown import blocks_of

TOP = Path(__file__).parent.parent
STUBS = TOP / "tests" / "stubs"  # scipy has no types of its own: without these, every matrix would be Any
# Types of numpy whose parameters nobody gives
PLAIN_ARRAYS = re.compile(r"numpy\.ndarray\[(builtins\.)?tuple\[Any, \.\.\.\], numpy\.dtype\[Any\]\]")


def chain_of(node: ast.AST) -> str | None:
    """`xpipe.formats.read_xmc` of the syntax tree of such an expression; None for any other."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return ".".join(["xpipe", *reversed(names)]) if isinstance(node, ast.Name) and node.id == "xpipe" else None


def names_in(code: str) -> set[str]:
    """The public names of xpipe that some code uses, dotted."""
    found = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Attribute) and (chain := chain_of(node)):
            found.add(chain)
        elif isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] == "xpipe":
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return {name for name in found if not any(other.startswith(f"{name}.") for other in found)}


def readme_names() -> list[str]:
    blocks = [block for block in blocks_of(TOP / "README.md") if block.kind == "python"]
    return sorted(set().union(*(names_in(block.text) for block in blocks)))


def test_names_of_code():
    code = "import xpipe\nX, Y = xpipe.formats.parquet.read_split('a')\nfrom xpipe.heads import DFT\nY.xpipe.no"
    assert names_in(code) == {"xpipe.formats.parquet.read_split", "xpipe.heads.DFT"}


@pytest.fixture(scope="module")
def revealed(tmp_path_factory) -> dict[str, str]:
    """The type of every name of README, as mypy --strict sees it in a script of a user."""
    names = readme_names()
    script = tmp_path_factory.mktemp("typing") / "script.py"
    script.write_text("import xpipe\n" + "".join(f"reveal_type({name})\n" for name in names))
    options = ["--strict", "--no-error-summary", "--config-file=", f"--cache-dir={TOP / '.mypy_cache' / 'user'}"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, str(script)],
        env={**os.environ, "MYPYPATH": f"{TOP}{os.pathsep}{STUBS}"}, cwd=script.parent, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.stderr == ""
    lines = [line for line in done.stdout.splitlines() if line.startswith("script.py")]
    assert not [line for line in lines if ": error:" in line], done.stdout
    types = re.findall(r'note: Revealed type is "(.*)"', "\n".join(lines))
    return dict(zip(names, types, strict=True))


@pytest.mark.parametrize("name", readme_names())
def test_a_name_of_readme_has_a_type(revealed, name):
    found = PLAIN_ARRAYS.sub("numpy.ndarray", revealed[name])
    assert not re.search(r"\bAny\b", found), found
