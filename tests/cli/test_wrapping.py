"""Lines for a terminal of 80 columns: no word and no interval is broken, and nothing is lost."""

from __future__ import annotations

import sys

import pytest
from rich.cells import cell_len

from bathyscope.cli import table_printing
from bathyscope.cli.wrapping import cut, units, wrap
from bathyscope.core.tables import TextTable
from bathyscope.surgery.plan.tables import shorten_schedule

SENTENCE = (
    "A token is final after 8.0 (7.4 to 8.6) of 12 blocks on average (the last block still changes 31 %); "
    "90 % of the effect on output is done by 11.3 [−0.08, +0.08] or −1.5 to +2.25, and no other."
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
        ("Time:   about 1.4 s of it", 20, ["Time:   about 1.4 s", "        of it"]),
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
    monkeypatch.setattr(table_printing, "terminal_width", lambda: width)
    table_printing.write_table(HEADINGS, ROWS)
    text = capsys.readouterr().out
    assert all(cell_len(line) <= width for line in text.splitlines())
    for row in ROWS:
        for cell in row:
            assert all(unit in text for unit in units(cell)), cell


def test_a_narrow_terminal_leaves_out_what_is_optional_and_says_so(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    headings, row = ["estimator", "difference", "d", "> 0"], ["prediction", "+0.061", "−0.9", "72 %"]
    for width, missing in ((40, []), (32, ["> 0"]), (26, ["> 0", "d"])):
        monkeypatch.setattr(table_printing, "terminal_width", lambda width=width: width)
        table_printing.write_table(headings, [row], "A title that is longer than its table", optional=("> 0", "d"))
        text = capsys.readouterr().out
        assert text.startswith("A title that is longer than its table\n")
        for heading, cell in zip(headings, row):
            assert (cell in text) == (heading not in missing), (width, heading)
        assert ("Left out, too wide for this terminal" in text) == bool(missing)


def test_an_indented_name_is_whole_in_a_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table_printing, "terminal_width", lambda: 40)
    table_printing.write_table(
        ["Variable", "Meaning"], [["  n_averaged_cross_entropy", "tokens that were averaged over"]]
    )
    assert "  n_averaged_cross_entropy  " in capsys.readouterr().out


def test_blocks_that_are_left_out_are_numbers_at_a_terminal() -> None:
    assert shorten_schedule("drop:1,drop:14,drop:7") == "1,14,7"
    for schedule in ("drop:1.attention,drop:2", "swap:3", "16 subsets"):
        assert shorten_schedule(schedule) == schedule


@pytest.mark.parametrize("at_terminal", [True, False])
def test_a_file_keeps_what_a_terminal_shortens(
    at_terminal: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: at_terminal)
    table = TextTable(["name", "left out"], [["drop:3", "drop:1,drop:14"]], short={"left out": shorten_schedule})
    table_printing.print_table(table)
    printed = capsys.readouterr().out
    assert ("drop:1,drop:14" in printed) != at_terminal
    assert "drop:3" in printed


def test_a_file_holds_whole_lines(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    table_printing.write(SENTENCE)
    assert capsys.readouterr().out == SENTENCE + "\n"
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    table_printing.write(SENTENCE)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 2
    assert " ".join(lines) == SENTENCE
