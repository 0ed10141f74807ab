"""Reports in a real browser: nothing complains, nothing is asked for, every chart is drawn, tables sort."""

from __future__ import annotations

import pytest

from tests.report.browser import find_chromium, started
from tests.report.runs import HOSTILE
from xpipe.errors import printable

CHROMIUM = find_chromium()
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")
DRAWN = """Array.from(document.querySelectorAll("svg")).map(svg => {
  const box = svg.getBoundingClientRect();
  const inside = Array.from(svg.querySelectorAll("path, use")).filter(each => {
    const own = each.getBoundingClientRect();
    return own.width + own.height > 0 && getComputedStyle(each).display !== "none";
  });
  return [box.width, box.height, inside.length];
})"""
SMALLEST_TEXT = """Math.min(...Array.from(document.querySelectorAll("svg text")).map(text =>
  parseFloat(getComputedStyle(text).fontSize) * Math.hypot(text.getCTM().a, text.getCTM().b)))"""
CUT = """Array.from(document.querySelectorAll("svg")).filter(svg => {
  const box = svg.getBoundingClientRect();
  return Array.from(svg.querySelectorAll("text")).some(text => {
    const own = text.getBoundingClientRect();
    return own.left < box.left - 2 || own.right > box.right + 2 || own.top < box.top - 2 || own.bottom > box.bottom + 2;
  });
}).length"""


@pytest.fixture(scope="module")
def pages(tmp_path_factory, text, matrix_text):
    folder = tmp_path_factory.mktemp("pages")
    (folder / "run.html").write_text(text)
    (folder / "matrix.html").write_text(matrix_text)
    return folder


@pytest.fixture(scope="module")
def browser():
    with started(str(CHROMIUM)) as browser:
        yield browser


@pytest.mark.parametrize("width", [360, 768, 1400])
@pytest.mark.parametrize("page", ["run", "matrix"])
def test_every_chart_is_drawn_and_the_page_fits(browser, pages, page, width):
    tab = browser.new_tab()
    path = pages / f"{page}.html"
    tab.open(path, width)
    charts = tab.run(DRAWN)
    assert len(charts) >= 5
    for drawn_width, drawn_height, shapes in charts:
        assert drawn_width > 200
        assert drawn_height > 40
        assert shapes > 3
    assert tab.run("document.documentElement.scrollWidth") <= width
    assert tab.run(SMALLEST_TEXT) >= 7.5
    assert tab.run(CUT) == 0
    assert tab.complaints == []
    assert set(tab.requests) == {path.as_uri()}


def test_names_do_no_harm(browser, pages):
    tab = browser.new_tab()
    tab.open(pages / "run.html", 768)
    assert "owned" not in tab.run("document.title")
    assert tab.run("document.querySelectorAll('main script, main img, main b').length") == 0
    cells = tab.run("Array.from(document.querySelectorAll('td')).map(cell => cell.textContent)")
    assert {printable(name) for name in HOSTILE} <= set(cells)
    assert tab.complaints == []


def test_tables_sort_by_number_and_by_name(browser, pages):
    tab = browser.new_tab()
    tab.open(pages / "run.html", 768)
    column = """(press, place) => {
      const captions = Array.from(document.querySelectorAll("caption"));
      const table = captions.find(each => each.textContent === "Stages").parentNode;
      if (press) table.tHead.rows[0].cells[place].querySelector("button").click();
      return [table.tHead.rows[0].cells[place].getAttribute("aria-sort"),
              Array.from(table.tBodies[0].rows).map(row => row.cells[0].textContent)];
    }"""
    assert tab.run(f"({column})(false, 0)") == [None, ["read", "assign", "train", "train_heads", "evaluate"]]
    names = ["assign", "evaluate", "read", "train", "train_heads"]
    assert tab.run(f"({column})(true, 0)") == ["ascending", names]
    assert tab.run(f"({column})(true, 0)") == ["descending", names[::-1]]
    memory = ["read", "assign", "train", "train_heads", "evaluate"]  # 256 MiB to 1.25 GiB: no order of letters
    assert tab.run(f"({column})(true, 3)") == ["ascending", memory]
    assert tab.complaints == []


def test_dark_pages_have_other_colours(browser, pages):
    tab = browser.new_tab()
    found = {}
    for scheme in ("light", "dark"):
        tab.open(pages / "run.html", 768, scheme)
        ink = "getComputedStyle(document.querySelector('svg text')).fill"
        found[scheme] = tab.run(f"[getComputedStyle(document.body).backgroundColor, {ink}]")
    (light_paper, light_ink), (dark_paper, dark_ink) = found["light"], found["dark"]
    assert light_paper == "rgb(255, 255, 255)"
    assert dark_paper != light_paper
    assert dark_ink != light_ink


def test_it_prints(browser, pages):
    tab = browser.new_tab()
    tab.open(pages / "run.html", 768)
    assert len(tab.ask("Page.printToPDF", printBackground=True)["data"]) > 10_000
    assert tab.complaints == []
