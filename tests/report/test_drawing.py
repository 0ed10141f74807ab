"""Drawing: SVG that fits into a page, with variables for colours, the same bytes every time, texts as they are."""

from __future__ import annotations

import re

import pytest

from xpipe.report import charts
from xpipe.report.drawing import VARIABLES, draw

NAMES = ["<b>bold</b> & more", "#010101 url(#x)", "$x^2$ 100%"]


def bars(name: str) -> str:
    return charts.bars(name, NAMES, [("time", [1.0, 2.0, 0.0], ["1 s", "2 s", "0 s"], [False, True, False])])


@pytest.fixture(scope="module")
def svg():
    return bars("first")


def test_the_same_numbers_give_the_same_bytes(svg):
    assert bars("first") == svg


def test_texts_are_escaped_and_otherwise_as_they_are(svg):
    texts = re.findall(r"<text[^>]*>([^<]*)</text>", svg)
    assert {"&lt;b&gt;bold&lt;/b&gt; &amp; more", "#010101 url(#x)", "$x^2$ 100%"} <= set(texts)


def test_every_colour_is_a_variable_of_the_page(svg):
    tags = "".join(re.findall(r"<[^>]*>", svg))
    assert not re.search(r"#[0-9a-fA-F]{6}", tags)
    assert set(re.findall(r"var\((--[\w-]+)\)", tags)) <= set(VARIABLES.values())
    assert "var(--series-1)" in tags


def test_ids_belong_to_one_picture(svg):
    ids = re.findall(r'\bid="([^"]+)"', svg)
    assert ids
    assert all(each.startswith("first-") for each in ids)
    assert not set(ids) & set(re.findall(r'\bid="([^"]+)"', bars("second")))


def test_nothing_of_matplotlib_is_left_but_the_picture(svg):
    assert svg.startswith('<svg viewBox="0 0 320 ')
    assert svg.endswith("</svg>")
    for word in ("metadata", "xmlns", "<!", "<?", "<style", "DejaVu", "http"):
        assert word not in svg


def test_settings_of_the_user_change_nothing(svg):
    import matplotlib

    with matplotlib.rc_context({"font.size": 30, "axes.facecolor": "red"}):
        assert bars("first") == svg


def test_a_faint_bar_is_paler(svg):
    assert len(re.findall(r"opacity: 0\.35", svg)) == 1


def test_a_heat_map_is_as_wide_as_its_columns_need():
    few, many = (
        charts.heat_map("heat", ["a"], names, [[1.0] * len(names)], [["1"] * len(names)], by_column=True)
        for names in (["x"], [f"column {number}" for number in range(20)])
    )
    widths = [float(re.match(r'<svg viewBox="0 0 ([\d.]+)', each)[1]) for each in (few, many)]
    assert widths[0] == 320
    assert widths[1] > 1000


def test_letters_that_the_font_lacks_are_no_warning():
    assert "日本語" in draw("letters", lambda axes: axes[0].set_title("日本語"), height=100)
