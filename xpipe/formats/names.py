"""Names of labels and features, one per line.

Holds no feature or label matrices.
"""

from __future__ import annotations

from typing import NamedTuple

from xpipe.errors import DataError
from xpipe.formats.lines import lines_of, too_many_lines


class Names(NamedTuple):
    """Names of labels or features.

    Attributes
    ----------
    names : list of str
        In the order of the file.
    ids : list of str, optional
        The ids that stand before the names; None where the file has none.
    """

    names: list[str]
    ids: list[str] | None


def read_names(path: str, *, count: int | None = None, encoding: str = "utf-8") -> Names:
    """Names of labels or features (`labels.txt`, `Yf.txt`, `features.txt`), one per line: `name` or `id<TAB>name`.

    Parameters
    ----------
    path : str
        A text file, plain or gzip. What stands before a tab is an id only where every line has a tab.
    count : int, optional
        The number of names that the file must have.
    encoding : str
        Older files are often "latin-1".

    Returns
    -------
    Names
        The names, and the ids before them.

    Raises
    ------
    DataError
        Where the file has more or fewer names than `count`, or bytes that are not in the encoding.

    Examples
    --------
    >>> import pathlib
    >>> import tempfile
    >>> from xpipe.formats import read_names
    >>> folder = tempfile.TemporaryDirectory()
    >>> path = pathlib.Path(folder.name, "labels.txt")
    >>> _ = path.write_text("7\\tapples\\n9\\tpears\\n")
    >>> read_names(str(path))
    Names(names=['apples', 'pears'], ids=['7', '9'])
    >>> folder.cleanup()
    """
    lines = []
    for number, raw in lines_of(path):
        if count is not None and number > count:
            raise too_many_lines(path, f"more than {count:,} names for {count:,} labels or features", number)
        try:
            lines.append(raw.decode(encoding))
        except UnicodeDecodeError as error:
            raise DataError(
                f"byte {raw[error.start]:#04x} is not {encoding}",
                where=f"{path}:{number}, {raw[:60]!r}",
                fix='encoding="latin-1" if the file is old, or convert it: iconv -f latin1 -t utf8',
            ) from error
    if count is not None and len(lines) != count:
        raise DataError(
            f"{len(lines):,} names for {count:,} labels or features",
            where=path,
            fix="one name per line, in the order of the numbers; check that the file belongs to this dataset",
        )
    if lines and all("\t" in line for line in lines):
        pairs = [line.split("\t", 1) for line in lines]
        return Names([name for _, name in pairs], [written_id for written_id, _ in pairs])
    return Names(lines, None)
