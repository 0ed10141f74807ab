"""Of each kernel one specialisation is compiled, and that before a run calls it: another would let the run wait."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

pytest.importorskip("safetensors")

UNFORESEEN = {"xpipe.ground._splitmix_numba.hash_numbers"}  # a few lines: compiled where it is first called


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    subprocess.run([sys.executable, "-m", "tests.stages.count_kernels", str(folder)], check=True)
    return json.loads((folder / "found.json").read_text())


def test_a_run_calls_each_kernel_with_one_kind_of_arguments(found):
    assert {name: len(kinds) for name, kinds in found["run"].items() if len(kinds) > 1} == {}


def test_stages_compile_what_a_run_calls(found):
    compiled = found["stages"]
    assert {name for name, kinds in found["run"].items() if set(kinds) - set(compiled.get(name, ()))} == UNFORESEEN


def test_no_kernel_is_compiled_for_python_and_for_kernels(found):
    assert not {name for name, kinds in found["run"].items() if kinds} & set(found["steps"])
