"""Tables that fit, shells that complete, and what a run says before it replaces something."""

from __future__ import annotations

import io
import json

import pytest

from xpipe import config
from xpipe.cli import completion, console
from xpipe.cli.main import cli
from xpipe.engine import decide
from xpipe.ground import backend
from xpipe.ground.backend import Backend


@pytest.mark.parametrize(("width", "gone"), [(120, []), (60, ["memory"]), (36, ["memory", "seconds"])])
def test_a_narrow_table_drops_columns_in_order_and_says_which(monkeypatch, width, gone):
    stream = io.StringIO()
    monkeypatch.setattr(console, "new_console", lambda: console.SafeConsole(width=width, file=stream))
    table = console.new_table("stage", "seconds", "memory", "what", numbers=("seconds", "memory"))
    table.add_row("assign", "1234567.5", "1003 MiB of memory", "discriminative: 84,061 of 322,799 labels")
    console.print_table(table, drop=("memory", "seconds", "absent"), note="results.json has them")
    shown = stream.getvalue()
    assert ("1234567.5" in shown) is ("seconds" not in gone)
    assert ("1003" in shown) is ("memory" not in gone)
    assert ("assign" in shown, "84,061" in shown) == (True, True)
    last = f"too narrow for {', '.join(gone)}: results.json has them" if gone else "┘"
    assert " ".join(shown.split()).endswith(last)
    assert max(map(len, shown.splitlines())) <= width


@pytest.mark.parametrize(
    ("words", "found"),
    [("xpipe ru", "plain,run"), ("xpipe run ti", "plain,tiny"), ("xpipe show mi", "plain,mine"),
     ("xpipe show no", "file,no"), ("xpipe init it", "file,it"), ("xpipe run tiny --se", "plain,--set")],
)  # fmt: skip
def test_shells_complete(monkeypatch, tmp_path, capsys, words, found):
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "results.json").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert completion.answer_shell(cli) is None
    monkeypatch.setenv(completion.VARIABLE, "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert completion.answer_shell(cli) == 0
    assert capsys.readouterr().out.splitlines() == [found]


def test_what_a_run_replaces(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine.yaml").write_text("{name: mine, data: {name: tiny, if_missing: synthesize}}")
    first = config.load("mine.yaml")
    assert decide.replaced(first) is None
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "runs" / "mine" / "results.json").write_text(json.dumps({"pipeline": first.to_json()}))
    assert decide.replaced(config.load("mine.yaml", ["cluster=none"])) is None
    told = decide.replaced(config.load("mine.yaml", ["seed=5"]))
    assert told == "the results in runs/mine will be replaced (seed: 0 -> 5); to keep them: --set out=runs/mine-2"


def test_the_gpu_is_mentioned_where_there_is_one(monkeypatch):
    monkeypatch.setattr(backend, "has_gpu", lambda: False)
    assert not Backend("cpu", "no device", "auto").is_news
    assert Backend("gpu", "ran", "auto").is_news
    monkeypatch.setattr(backend, "has_gpu", lambda: True)
    assert Backend("cpu", "the driver refuses", "auto").is_news
    assert not Backend("cpu", "asked for", "cpu").is_news
