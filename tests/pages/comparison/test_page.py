"""A comparison on the disk: page and figure by the ending of the name."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.compared import a_run

import bathyscope
from bathyscope.errors import OptionError, StoreError
from bathyscope.pages.comparison.page import write_comparison

FOUND = bathyscope.compare(
    [a_run(model="own/one"), a_run(model="own/<b>two", blocks=20, tokenizer_hash="u" * 64, prompt_hash="2")],
    resamples=100,
)
HEADS = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}


def test_a_page_holds_tables_figures_notes_and_provenance(tmp_path: Path) -> None:
    page = write_comparison(FOUND, tmp_path / "new" / "page.html").read_text(encoding="utf-8")
    assert FOUND.summary() in page.replace("&#39;", "'")
    assert "are paired by prompt id" in page
    assert re.findall(r"<h2>(.*?)</h2>", page) == [
        "Differences",
        "Ratio against size",
        "Curves of the runs",
        "Tables",
        "Provenance",
    ]
    # the head has a picture for each width
    assert page.count("<svg") == 2 + 1 + 1 + 3
    assert len(re.findall(r"<summary>own/", page)) == 2
    assert "<b>two" not in page
    assert re.findall(r'(?:src|href)="(?!#)', page) == []
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("format_", list(HEADS))
def test_a_figure_is_written_by_the_ending_of_its_name(format_: str, tmp_path: Path) -> None:
    written = write_comparison(FOUND, tmp_path / f"figure.{format_}").read_bytes()
    assert written.startswith(HEADS[format_])
    assert len(written) > 5000


def test_pages_are_the_same_bytes(tmp_path: Path) -> None:
    pages = [write_comparison(FOUND, tmp_path / name).read_bytes() for name in ("a.html", "b.html")]
    assert pages[0] == pages[1]


def test_what_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"out='x.jpg' has an unknown ending. Use \.html for a page, or \.png, \.svg"):
        write_comparison(FOUND, "x.jpg")
    late = bathyscope.compare([a_run(), a_run(model="own/b", shift=9)], estimators=["kl"], resamples=50)
    with pytest.raises(OptionError, match="Nothing to draw: no estimator has a difference"):
        write_comparison(late, tmp_path / "page.html")
    (tmp_path / "taken").write_text("mine")
    with pytest.raises(StoreError, match="Cannot write"):
        write_comparison(FOUND, tmp_path / "taken" / "page.html")
