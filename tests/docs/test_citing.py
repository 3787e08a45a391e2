"""How to cite the project, and whom it cites: the files agree with each other and hold nothing to be filled in."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[2]
CITATION: dict[str, Any] = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
PAPER = (ROOT / "paper" / "paper.md").read_text(encoding="utf-8")
BIBLIOGRAPHY = (ROOT / "paper" / "paper.bib").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
_ACCENTS = str.maketrans("áéíóú", "aeiou")


def entries() -> dict[str, dict[str, str]]:
    """Fields of every entry of the bibliography, braces and accents left out."""
    found = {}
    for key, body in re.findall(r"^@\w+\{(\w+),\n(.*?)^\}", BIBLIOGRAPHY, re.M | re.S):
        fields = re.findall(r"^  (\w+) = \{(.*)\},?$", body, re.M)
        found[key] = {name: re.sub(r"\\'\{?|[{}]|\\'", "", value) for name, value in fields}
    return found


def test_what_the_paper_cites_is_in_its_bibliography_and_the_reverse() -> None:
    cited = set(re.findall(r"@([a-z]+\d{4})", PAPER.partition("# Summary")[2]))
    assert cited == set(entries())
    assert all({"title", "author", "year"} <= set(entry) for entry in entries().values())
    assert all(key.endswith(entry["year"]) for key, entry in entries().items())
    assert all({"journal", "booktitle", "url", "doi"} & set(entry) for entry in entries().values())


def test_the_measured_papers_are_the_same_everywhere() -> None:
    by_title = {entry["title"]: entry for entry in entries().values()}
    assert len(CITATION["references"]) == 3
    for work in CITATION["references"]:
        own = by_title[work["title"]]
        names = " and ".join(f"{one['family-names']}, {one['given-names']}" for one in work["authors"])
        assert own["author"] == names.translate(_ACCENTS)
        assert own["year"] == str(work["year"])
        assert own["journal"].partition("arXiv:")[2] == work["url"].removeprefix("https://arxiv.org/abs/")
        label = f"{work['authors'][0]['family-names']} et al. {work['year']}"
        assert PROJECT["urls"][label] == work["url"]


def test_version_and_licence_are_those_of_the_package() -> None:
    assert CITATION["version"] == PROJECT["version"]
    assert CITATION["license"] == PROJECT["license"]


def test_nothing_is_left_to_be_filled_in() -> None:
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    told = "\n".join((citation, PAPER, BIBLIOGRAPHY, *PROJECT["urls"].values()))
    assert not re.search(r"to be |example\.(com|org)|\bTODO\b|\bXXX|0000-0000|<[a-z ]+>|your[-_ ]", told, re.I)
