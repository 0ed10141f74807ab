"""A folder for Annif: a vocabulary, a corpus and projects. With NLTK's sentence model, if need be."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import Path

PUNKT = ("collocations.tab", "sent_starters.txt", "abbrev_types.txt", "ortho_context.tab")


def write_punkt(folder: Path) -> None:
    """A sentence model of NLTK that knows no abbreviations, at `folder`: Annif loads one before it does anything.

    Its words are those of the real model, but for the point of an abbreviation at the end of a sentence.
    """
    english = folder / "tokenizers" / "punkt_tab" / "english"
    english.mkdir(parents=True, exist_ok=True)
    for name in PUNKT:
        (english / name).touch()


def environment(home: Path) -> dict[str, str]:
    """What Annif is told about this folder. ANNIF_CONFIG is the line that registers the backend."""
    return {
        **os.environ,
        "ANNIF_CONFIG": "xpipe.integrations.annif.Config",
        "ANNIF_PROJECTS": str(home / "projects.cfg"),
        "ANNIF_DATADIR": str(home / "data"),
        "NLTK_DATA": os.pathsep.join(filter(None, [os.environ.get("NLTK_DATA"), str(home / "nltk")])),
    }


def write_home(home: Path, names: Mapping[str, str], projects: Mapping[str, Mapping[str, object]]) -> None:
    """Vocabulary (name of each subject), projects, and the sentence model."""
    home.mkdir(parents=True, exist_ok=True)
    write_punkt(home / "nltk")
    (home / "subjects.tsv").write_text("".join(f"<{uri(key)}>\t{name}\n" for key, name in names.items()))
    common = {"language": "en", "analyzer": "snowball(english)", "vocab": "subjects", "limit": 20}
    sections = []
    for project, settings in projects.items():
        lines = [f"{key}={value}" for key, value in {"name": project, **common, **settings}.items()]
        sections.append("\n".join([f"[{project}]", *lines]))
    (home / "projects.cfg").write_text("\n\n".join(sections) + "\n")


def write_corpus(path: Path, documents: Iterable[tuple[str, Iterable[str]]]) -> None:
    """Documents with the keys of their subjects, one per line."""
    with open(path, "w", encoding="utf-8") as stream:
        for text, keys in documents:
            stream.write(" ".join(text.split()) + "\t" + " ".join(f"<{uri(key)}>" for key in keys) + "\n")


def uri(key: str) -> str:
    """The URI of a subject."""
    return f"http://example.org/{key}"
