"""The site: it is built without a warning, and has a page for every room, command, section and floor."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_layout import FLOORS
from xpipe.cli.main import COMMANDS
from xpipe.stages import STAGES

TOP = Path(__file__).parent.parent.parent
ROOMS = ("argmaxability", "eagle", "formats", "grouping", "heads", "metrics", "report", "synth", "text", "trees")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The folder of the pages, built as `make docs` builds them."""
    for package in ("sphinx", "torch"):
        pytest.importorskip(package)
    target = tmp_path_factory.mktemp("site")
    options = ["-q", "-W", "--keep-going", "-n", "-b", "html", "-d", str(target / "doctrees")]
    command = [sys.executable, "-m", "sphinx", *options, str(TOP / "docs"), str(target / "html")]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    assert built.returncode == 0, built.stdout + built.stderr
    return target / "html"


def page(site: Path, name: str) -> str:
    return (site / f"{name}.html").read_text(encoding="utf-8")


@pytest.mark.parametrize("room", ROOMS)
def test_every_exported_name_is_documented(site, room):
    shown = page(site, f"reference/{room}")
    assert [name for name in documented_names(f"xpipe.{room}") if f'id="{name}"' not in shown] == []


def documented_names(module_name: str) -> Iterator[str]:
    """The names that a module exports, with those that exported modules export."""
    module = importlib.import_module(module_name)
    for name in module.__all__:
        if isinstance(getattr(module, name), ModuleType):
            yield from documented_names(f"{module_name}.{name}")
        else:
            yield f"{module_name}.{name}"


def test_every_command_and_option_is_documented(site):
    shown = page(site, "reference/command_line")
    for command in COMMANDS:
        assert f"xpipe-{command.name}" in shown
        for option in command.params:
            for spelling in option.opts:
                if spelling.startswith("--"):
                    assert f"xpipe-{command.name}-{spelling.lstrip('-')}" in shown, f"{command.name} {spelling}"


def test_every_section_and_key_is_documented(site):
    shown = page(site, "reference/pipeline_keys")
    for stage in STAGES:
        for key in stage.params.model_fields:
            assert f'<span class="pre">{key}</span>' in shown, f"{stage.section}.{key}"


def test_the_picture_of_the_house_has_the_floors_in_order():
    picture = (TOP / "docs" / "images" / "house.svg").read_text()
    names = re.findall(r'class="name[^"]*"[^>]*>(\w+)</text>', picture)
    assert names == [room for floor in FLOORS for room in floor if room != "__main__"]
