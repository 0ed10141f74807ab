"""Tables that must be refused: each with the settings that differ from those of the good one, and what must be said.

Holds no test: `test_bad_tables` refuses every one of them.
"""

from __future__ import annotations

import gzip
import io
import json
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

GOOD = "sku,title,tags,brand\na1,pea soup,soup;quick,acme\na2,rye bread,bread,acme\na3,leek tart,quick,best\n"
BRANDS = "group,labels\nacme,soup;bread\nbest,quick\n"
GOOD_SETTINGS = {"train": "items.csv", "id": "sku", "text": "title", "labels": "tags", "separator": ";"}
BY_GROUP = {"labels": None, "group": "brand", "group_labels": "brands.csv"}


class Bad(NamedTuple):
    """name: what is wrong. files: content by name. settings: of `data`. said: parts of the message, in any order."""

    name: str
    files: dict[str, str | bytes]
    settings: dict[str, Any]
    said: tuple[str, ...]


def csv(name: str, content: str | bytes, *said: str, **settings: Any) -> Bad:
    """A CSV in the place of the good one."""
    return Bad(name, {"items.csv": content}, settings, said)


def jsonl(name: str, *lines: Any, said: tuple[str, ...], **settings: Any) -> Bad:
    """JSON lines in the place of the good table; texts stay as they are."""
    rows = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    return Bad(name, {"items.jsonl": "".join(f"{row}\n" for row in rows)}, {"train": "items.jsonl", **settings}, said)


def parquet(name: str, said: tuple[str, ...], cells: dict[str, pa.Array] | None = None, **settings: Any) -> Bad:
    """Parquet in the place of the good table; cells replace those of the good one."""
    good = {
        "sku": pa.array(["a1", "a2"]),
        "title": pa.array(["pea soup", "rye"]),
        "tags": pa.array([["soup"], ["rye"]]),
    }
    return Bad(name, {"items.parquet": packed({**good, **(cells or {})})}, {"train": "items.parquet", **settings}, said)


def packed(columns: dict[str, pa.Array]) -> bytes:
    """Columns as a Parquet file."""
    sink = io.BytesIO()
    pq.write_table(pa.table(columns), sink)
    return sink.getvalue()


def zstd(content: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(content)
    return sink.getvalue().to_pybytes()


def beside(
    name: str, brands: str | bytes, *said: str, items: str = GOOD, file: str = "brands.csv", **settings: Any
) -> Bad:
    """Labels of groups in a table beside."""
    return Bad(name, {"items.csv": items, file: brands}, {**BY_GROUP, "group_labels": file, **settings}, said)


ROW = {"sku": "a1", "title": "pea soup", "tags": ["soup"]}
NOT_UTF8 = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(b"\0\0\0\0\2\0\0\0"), pa.py_buffer(b"\xff\xfe")])

BAD_TABLES = [
    # ids
    csv("an id is missing", GOOD + ",empty,soup,acme\n", "an id is missing", "items.csv:5, row 3, column 'sku'"),
    csv("an id of spaces", GOOD + "  ,empty,soup,acme\n", "an id is missing", "items.csv:5"),
    csv("an id is there twice", GOOD + "a2,again,soup,acme\n", "'a2' is there twice", "items.csv:5, row 3",
        "items.csv:3, row 1"),
    Bad("an id in train and in test", {"items.csv": GOOD, "test.csv": "sku,title,tags\na3,x y,soup\n"},
        {"test": "test.csv"},
        ("'a3' is there twice", "test.csv:2", "items.csv:4")),
    Bad("an id in two files", {"items.csv": GOOD, "more.csv": "sku,title,tags\nb,x,soup\na1,y,soup\n"},
        {"train": ["items.csv", "more.csv"]}, ("'a1' is there twice", "more.csv:3, row 1")),
    jsonl("a null id", ROW, {**ROW, "sku": None}, said=("an id is missing", "items.jsonl:2, row 1")),
    jsonl("an id that is a list", {**ROW, "sku": ["a"]}, said=("is a list, not text", "column 'sku'")),
    jsonl("the number 1 and the text 1 as ids", {**ROW, "sku": 1}, {**ROW, "sku": "1"}, said=("'1' is there twice",)),
    parquet("ids that pandas made floats", ("1.0 is a number", "row 0, column 'sku'"), {"sku": pa.array([1.0, 2.0])}),
    # texts
    csv("an empty text", GOOD + "a4,,soup,acme\n", "a row without text", "items.csv:5, row 3, column 'title'"),
    jsonl("a null text", ROW, {**ROW, "sku": "b", "title": None}, said=("a row without text", "items.jsonl:2")),
    jsonl("a text that is missing", ROW, {"sku": "b", "tags": []}, said=("a row without text", "row 1")),
    jsonl("a text that is an object", {**ROW, "title": {"en": "x"}}, said=("is an object, not text", "column 'title'")),
    jsonl("half a surrogate pair", '{"sku": "a1", "title": "\\ud83d", "tags": []}', said=("surrogate",
        "items.jsonl:1")),
    csv("no text in any of two columns", "sku,title,more,tags\na1,,,soup\n", "a row without text", "title, more",
        text=["title", "more"]),
    parquet("a text of bytes", ("is bytes, not text",), {"title": pa.array([b"pea", b"rye"])}),
    parquet("bytes that are no UTF-8", ("not UTF-8", "row 0, column 'title'"),
            {"sku": pa.array(["a"]), "title": NOT_UTF8, "tags": pa.array([["x"]])}),
    # labels
    csv("labels without a separator", GOOD, "not a list of labels", "items.csv:2", "data.separator", separator=None),
    csv("a list of labels that is cut", 'sku,title,tags\na1,pea,"[""soup"","\n', "not a list of labels",
        "column 'tags'", separator=None),
    csv("JSON that is no list", 'sku,title,tags\na1,pea,"{""soup"": 1}"\n', "not a list of labels", separator=None),
    csv("an empty label between separators", GOOD + "a4,tart,soup;;quick,acme\n", "an empty label", "items.csv:5"),
    csv("no label in any row", "sku,title,tags\na1,pea soup,\n", "no row has a label"),
    jsonl("a label that is null", {**ROW, "tags": ["soup", None]}, said=("missing, not a name", "column 'tags'")),
    jsonl("a label that is a list", {**ROW, "tags": [["soup"]]}, said=("is a list, not a name",)),
    jsonl("labels that are a number", {**ROW, "tags": 7.5}, said=("not labels",)),
    jsonl("labels that are an object", {**ROW, "tags": {"soup": 1}}, said=("not labels",)),
    # encodings and files
    csv("Latin-1", GOOD.replace("pea", "pur\u00e9e").encode("latin-1"), "byte 0xe9 is not UTF-8", "items.csv:2"),
    csv("UTF-16", GOOD.encode("utf-16"), "UTF-16, not UTF-8"),
    csv("UTF-16 without its mark", GOOD.encode("utf-16-le"), "a NUL byte", "items.csv:1, byte 2", "utf-16le"),
    csv("UTF-32", GOOD.encode("utf-32"), "UTF-32, not UTF-8", "iconv -f utf-32"),
    csv("UTF-8 that is too long", b"sku,title,tags\na,x\xc0\xafy,soup\n", "byte 0xc0 is not UTF-8", "items.csv:2"),
    csv("lines that end in CR", GOOD.replace("\n", "\r"), "not CSV", "carriage return"),
    csv("a text column that is named twice", GOOD, "names the column 'title' twice", text=["title", "title"]),
    csv("a price that is not finite", "sku,title,tags,price\na,x,soup,inf\n", "'inf' is not a number", "column 'price'",
        columns={"price": "number"}),
    parquet("dates as categories", ("is a date, not a category", "write it as text"),
            {"price": pa.array([18000, 18001], pa.date32())}, columns={"price": "category"}),
    parquet("a map of labels", ("is a tuple, not a name", "column 'tags'"),
            {"tags": pa.array([[("a", 1)], [("b", 2)]], pa.map_(pa.string(), pa.int64()))}),
    Bad("rubbish behind a gzip", {"items.csv.gz": gzip.compress(GOOD.encode()) + b"rubbish"}, {"train": "items.csv.gz"},
        ("gzip file is damaged",)),
    Bad("a URL of no file", {}, {"train": "file:///nowhere/items.csv"}, ("there is no such file", "/nowhere/")),
    Bad("a URL of an unknown kind", {}, {"train": "foo://bucket/items.csv"}, ("cannot be opened", "foo")),
    csv("gzip without .gz", gzip.compress(GOOD.encode()), "is gzip, not text", ".gz"),
    csv("Parquet that is named .csv", packed({"sku": pa.array(["a"])}), "is Parquet, not text"),
    csv("an empty file", "", "without a header", "items.csv:1"),
    csv("a header without rows", "sku,title,tags\n", "a table without rows", "items.csv"),
    Bad("no gzip in .gz", {"items.csv.gz": GOOD}, {"train": "items.csv.gz"}, ("not gzip", "items.csv.gz")),
    Bad("a gzip that is cut", {"items.csv.gz": gzip.compress(GOOD.encode() * 99)[:-20]}, {"train": "items.csv.gz",
        "id": None},
        ("cut short", "items.csv.gz")),
    Bad("a zstd that is cut", {"items.csv.zst": zstd(GOOD.encode() * 99)[:-9]}, {"train": "items.csv.zst", "id": None},
        ("zstd file is cut short or damaged",)),
    Bad("a Parquet file that is cut", {"items.parquet": packed({"sku": pa.array(["a"])})[:-9]},
        {"train": "items.parquet"},
        ("not a whole Parquet file", "items.parquet")),
    Bad("no file", {}, {}, ("there is no such file", "items.csv")),
    Bad("a file with another ending", {"items.xlsx": b"PK"}, {"train": "items.xlsx"}, ("not a table by its ending",
        ".parquet")),
    Bad("a pattern without matches", {"items.csv": GOOD}, {"train": "item??.csv"}, ("no file matches", "item??.csv")),
    Bad("a folder with other files", {"in/a.csv": GOOD, "in/notes.txt": "x"}, {"train": "in"},
        ("notes.txt, which is no table",)),
    Bad("a folder with several kinds", {"in/a.csv": GOOD, "in/a.jsonl": "{}"}, {"train": "in"}, ("several kinds",)),
    Bad("an empty folder", {"in/.keep": ""}, {"train": "in"}, ("no table", "in")),
    Bad("a file named twice", {"items.csv": GOOD}, {"train": ["items.csv", "items.csv"]}, ("names a file twice",)),
    Bad("one file for train and test", {"items.csv": GOOD}, {"test": "items.csv"}, ("name the same file",)),
    # rows of CSV and JSON lines
    csv("too many fields", GOOD + "a4,soup, with peas,soup,acme\n", "too many fields: 5", "header has 4",
        "items.csv:5"),
    csv("too few fields", GOOD + "a4,soup\n", "too few fields: 2", "items.csv:5"),
    csv("a quote that stays open", GOOD + 'a4,"soup,soup,acme\n', "without its end", "items.csv:5"),
    csv("text behind a quote", GOOD + 'a4,"soup"x,soup,acme\n', "not CSV", "items.csv:5"),
    csv("an empty line between rows", GOOD + "\na4,x,soup,acme\n", "an empty line", "items.csv:5"),
    csv("a column twice", "sku,title,title,tags\na1,x,y,soup\n", "'title' is there 2 times", "items.csv:1"),
    csv("another delimiter", GOOD.replace(";", "+").replace(",", ";"), "not separated by ','", "delimiter: ';'"),
    jsonl("a line that is cut", ROW, '{"sku": "a2", "title": "ry', said=("not JSON", "items.jsonl:2")),
    jsonl("one large list", "[", json.dumps(ROW), "]", said=("not JSON", "items.jsonl:1")),
    jsonl("a line that is a list", [ROW], said=("must be an object, not a list", "jq")),
    jsonl("a key twice", '{"sku": "a1", "sku": "a2", "title": "x", "tags": []}', said=("'sku' is there twice",
        "items.jsonl:1")),
    jsonl("NaN", '{"sku": "a1", "title": "x", "tags": [], "price": NaN}', said=("NaN is not JSON",),
        columns={"price": "number"}),
    # columns
    csv("a column that is not there", GOOD, "no column 'titel', which data.text names", "did you mean title",
        text="titel"),
    Bad("a later file lacks a column", {"items.csv": GOOD, "more.csv": "sku,name,tags\nb,x,soup\n"},
        {"train": ["items.csv", "more.csv"]}, ("no column 'title'", "more.csv")),
    Bad("files with different types", {"a.parquet": packed({"sku": pa.array(["a"]), "title": pa.array(["x"]),
        "tags": pa.array([["s"]])}),
                                      "b.parquet": packed({"sku": pa.array([7]), "title": pa.array(["x"]),
                                      "tags": pa.array([["s"]])})},
        {"train": "?.parquet"}, ("'sku' has several types", "int64", "b.parquet")),
    csv("a number that is none", "sku,title,tags,price\na1,x y,soup,12 EUR\n", "'12 EUR' is not a number",
        "column 'price'", columns={"price": "number"}),
    parquet("an infinite number", ("not finite", "column 'price'"), {"price": pa.array([float("inf"), 1.0])},
        columns={"price": "number"}),
    parquet("a category of lists", ("not a category", "column 'tags'"), None, columns={"tags": "category"}),
    # groups and names
    beside("a group without labels", "group,labels\nacme,soup\n", "'best' has no labels",
        "items.csv:4, row 2, column 'brand'"),
    beside("a group with an empty cell of labels", BRANDS.replace("quick", ""), "'best' has no labels", "brands.csv:3"),
    beside("labels of an unknown group", BRANDS + "acne,soup\n", "unknown group 'acne'", "brands.csv:4, row 2"),
    beside("a group twice", BRANDS + "acme,soup\n", "'acme' is there twice", "brands.csv:4", "brands.csv:2"),
    beside("labels of no group", BRANDS + ",soup\n", "an empty group", "brands.csv:4"),
    beside("group labels without rows", "group,labels\n", "a table without rows", "brands.csv"),
    beside("group labels without the column", "group,tags\nacme,soup\n", "no column 'labels'", "data.group_labels"),
    beside("no table of group labels", BRANDS, "no such file", "brand.csv", file="brands.csv",
        group_labels="brand.csv"),
    Bad("a name that is there twice", {"items.csv": GOOD, "names.csv": "label,name\nsoup,Soup\nsoup,Broth\n"},
        {"label_names": "names.csv"}, ("'soup' is there twice", "names.csv:3")),
    Bad("a label without its name", {"items.csv": GOOD, "names.csv": "label,name\nsoup,\n"},
        {"label_names": "names.csv"},
        ("an empty name", "names.csv:2", "column 'name'")),
    Bad("names of other labels", {"items.csv": GOOD, "names.csv": "label,name\n1,Soup\n"}, {"label_names": "names.csv"},
        ("no label of the tables has a name", "names.csv")),
    Bad("names without the column", {"items.csv": GOOD, "names.csv": "label,title\nsoup,Soup\n"},
        {"label_names": "names.csv"},
        ("no column 'name'", "names.csv")),
    csv("one group to hold out", GOOD.replace("best", "acme"), "cannot set", "never split", group="brand", holdout=0.5),
    # the section
    csv("group labels without groups", GOOD, "needs `group`", "page.yaml:", labels=None, group_labels="brands.csv"),
    csv("no labels at all", GOOD, "`labels` must name", labels=None),
    csv("no text at all", GOOD, "`text` must name", text=None),
    csv("holdout and test", GOOD, "`holdout` takes rows", holdout=0.5, test="items.csv"),
    csv("a folder and tables", GOOD, "one of them must go", dir="data"),
    csv("a key that is misspelt", GOOD, "did you mean `text`", txt="title"),
]  # fmt: skip
