"""Lines for a terminal of 80 columns: no word and no interval is broken, and nothing is lost."""

from __future__ import annotations

import sys

import pytest
from rich.cells import cell_len

from bathyscope.cli import console
from bathyscope.cli.wrapping import cut, units, wrap

SENTENCE = (
    "A token is final after 8.0 (7.4 to 8.6) of 12 blocks on average (the last block still changes 31 %); leaving out "
    "a block changes the output until 11.3 [−0.08, +0.08] or −1.5 to +2.25, and no other."
)
WHOLE = ["(7.4 to 8.6)", "31 %);", "[−0.08, +0.08]", "−1.5 to +2.25,"]


@pytest.mark.parametrize("width", [20, 33, 80])
def test_words_and_intervals_stay_whole_and_nothing_is_lost(width: int) -> None:
    lines = wrap(SENTENCE, width)
    assert " ".join(lines) == SENTENCE
    assert all(cell_len(line) <= width for line in lines)
    assert all(any(unit in line for line in lines) for unit in WHOLE)


@pytest.mark.parametrize(
    ("text", "width", "lines"),
    [
        ("short", 80, ["short"]),
        ("  indented words go on", 12, ["  indented", "  words go", "  on"]),
        ("a column   and another of a table", 12, ["a column   and another of a table"]),
        ("antidisestablishmentarianism is one word", 10, ["antidisestablishmentarianism", "is one", "word"]),
        ("字字 字字 字字", 9, ["字字 字字", "字字"]),
        ("", 10, [""]),
    ],
)
def test_what_a_line_may_be(text: str, width: int, lines: list[str]) -> None:
    assert wrap(text, width) == lines


def test_an_interval_is_one_unit() -> None:
    assert units("3 (1 to 2). [−1.0, 2.0] 95 % 1e-05 to 2e-03; to 7") == [
        *("3", "(1 to 2).", "[−1.0, 2.0]", "95 %", "1e-05 to 2e-03;", "to", "7")
    ]


def test_a_line_that_is_cut_ends_behind_a_word() -> None:
    assert (
        cut("Norms, ratios and cosines of contributions, from one", 45) == "Norms, ratios and cosines of contributions…"
    )
    assert cut("fits", 4) == "fits"


HEADINGS = ["estimator", "reference", "other", "difference", "p"]
ROWS = [
    ["prediction depth of tokens", "7.96 (7.40 to 8.57)", "8.02 (7.52 to 8.63)", "+0.06 (−0.08 to +0.20)", "0.41"],
    ["90 % of the effects", "11.3 (11.2 to 11.4)", "–", "–", "–"],
]


@pytest.mark.parametrize("width", [40, 80, 120])
def test_tables_break_no_word_and_no_interval(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console, "terminal_width", lambda: width)
    console.write_table(HEADINGS, ROWS)
    text = capsys.readouterr().out
    assert all(cell_len(line) <= width for line in text.splitlines())
    for row in ROWS:
        for cell in row:
            assert all(unit in text for unit in units(cell)), cell


def test_a_file_holds_whole_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    console.write(SENTENCE)
    assert capsys.readouterr().out == SENTENCE + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    console.write(SENTENCE)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert " ".join(lines) == SENTENCE
