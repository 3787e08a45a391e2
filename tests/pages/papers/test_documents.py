"""The page of the papers: its table of figures is the one that is reproduced, and its commands run as printed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from bathyscope.cli import main
from bathyscope.pages.papers.figures import chosen_figures
from bathyscope.pages.papers.reproduce import ReproductionPlan
from bathyscope.surveying.papers.reproductions import REPRODUCTIONS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "papers.md").read_text(encoding="utf-8")
COMMANDS = re.findall(r"^bathyscope (reproduce .*)$", PAGE, re.MULTILINE)


def rows() -> list[tuple[str, str, str]]:
    """Paper, numbers and what to type, of every row of the table."""
    found, paper = [], ""
    for line in re.findall(r"^\|(.*)\|$", PAGE.partition("| paper | figures |")[2], re.MULTILINE):
        first, numbers, *_, typed = (cell.strip() for cell in line.split("|"))
        paper = first or paper
        if paper in REPRODUCTIONS:
            found.append((paper, numbers, typed.strip("`")))
    return found


def expanded(numbers: str) -> set[str]:
    """``6a–d, 32–34`` one by one."""
    found: set[str] = set()
    for part in re.split(r"[;,] *", numbers):
        first, _, last = part.partition("–")
        if not last:
            found.add(first)
        elif last.isdecimal():
            found |= {str(number) for number in range(int(first), int(last) + 1)}
        else:
            found |= {f"{first[:-1]}{chr(letter)}" for letter in range(ord(first[-1]), ord(last) + 1)}
    return found


@pytest.mark.parametrize("paper", REPRODUCTIONS)
def test_the_table_has_every_figure_once(paper: str) -> None:
    listed = [number for name, numbers, _ in rows() if name == paper for number in expanded(numbers)]
    assert sorted(listed) == sorted(number for one in REPRODUCTIONS[paper].figures for number in one.numbers)


def test_figures_run_to_the_last_of_each_paper_without_a_gap() -> None:
    """Appendices included; 2, 3, 4 and 13 of lad2024 are not reproduced."""
    last = {"csordas2025": 43, "hu2025": 9, "lad2024": 26}
    left_out = {"lad2024": {2, 3, 4, 13}}
    for paper, count in last.items():
        numbers = {number for one in REPRODUCTIONS[paper].figures for number in one.numbers}
        found = {int(number.rstrip("abcd")) for number in numbers if number.rstrip("abcd").isdecimal()}
        assert found == set(range(1, count + 1)) - left_out.get(paper, set()), paper


@pytest.mark.parametrize(("paper", "numbers", "typed"), rows())
def test_what_is_typed_is_what_the_row_says(paper: str, numbers: str, typed: str) -> None:
    chosen = chosen_figures(REPRODUCTIONS[paper], typed.split(","))
    assert {number for one in chosen for number in one.numbers} == expanded(numbers)


@pytest.mark.parametrize("command", COMMANDS)
def test_commands_run_as_printed(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Up to what they would load: everything that is typed is read and planned."""
    for name in ("llama", "one", "other", "data"):
        (tmp_path / name).mkdir()
    (tmp_path / "pile.txt").write_text("one by one", encoding="utf-8")
    (tmp_path / "mine.jsonl").write_text('{"ids": [1, 2, 3]}\n', encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    plans = []
    planned = ReproductionPlan.of

    def stopped(*given: object, **named: object) -> ReproductionPlan:
        plans.append(planned(*given, **named))  # type: ignore[arg-type]
        raise KeyboardInterrupt

    monkeypatch.setattr(ReproductionPlan, "of", stopped)
    typed = shlex.split(command.partition(">")[0])
    if "--list" in typed:
        assert main(typed) == 0
        assert capsys.readouterr().out
        return
    main(typed)
    assert plans[0].cells
    assert len(COMMANDS) == 7
