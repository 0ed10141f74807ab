"""The examples in the docstrings of public names: each runs, and gives what it shows."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
from pathlib import Path

import pytest

import xpipe

TOP = Path(xpipe.__file__).parent
ROOMS = sorted(stub.parent.name for stub in TOP.glob("*/__init__.pyi"))


def public_objects(room: str) -> list[tuple[str, object]]:
    """(name, object) of what a room exports, modules left out."""
    stub = ast.parse((TOP / room / "__init__.pyi").read_text())
    names = [
        alias.name for node in stub.body if isinstance(node, ast.ImportFrom) and node.module for alias in node.names
    ]
    module = importlib.import_module(f"xpipe.{room}")
    return [(name, getattr(module, name)) for name in names]


@pytest.mark.parametrize("room", ROOMS)
def test_examples_run(room, tmp_path, monkeypatch):
    if room == "heads":
        pytest.importorskip("torch")
    monkeypatch.chdir(tmp_path)
    finder, runner = doctest.DocTestFinder(), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    failures: list[str] = []
    for name, found in public_objects(room):
        if getattr(found, "__module__", "").startswith("xpipe."):
            for example in finder.find(found, f"xpipe.{room}.{name}", globs={}):
                runner.run(example, out=failures.append)
    assert not failures, "".join(failures)


@pytest.mark.parametrize("room", [room for room in ROOMS if room != "engine"])  # a run needs a pipeline file
def test_public_functions_have_an_example(room):
    if room == "heads":
        pytest.importorskip("torch")
    functions = [(name, found) for name, found in public_objects(room) if inspect.isfunction(found)]
    assert [name for name, found in functions if ">>>" not in (inspect.getdoc(found) or "")] == []


# Modules with examples whose names no room exports
OTHERS = ("xpipe.stages.predict.model", "xpipe.eagle.trust", "xpipe.eagle.chances", "xpipe.formats.owner_files")


@pytest.mark.parametrize("module", OTHERS)
def test_examples_of_a_module_run(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert found.attempted
    assert not found.failed
