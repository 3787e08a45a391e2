"""``bathyscope report``: pages and figures from runs on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from bathyscope.cli import main


def test_page_and_figures(run_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, figures = tmp_path / "sub" / "page.html", tmp_path / "figures"
    arguments = ["report", str(run_folder), "--out", str(page), "--title", "A house", "--reduction", "mean"]
    assert main([*arguments, "--figures", str(figures), "--formats", "svg"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == str(page)
    assert "<title>A house" in page.read_text(encoding="utf-8")
    assert sorted(printed[:-1]) == sorted(str(path) for path in figures.iterdir())
    assert {path.suffix for path in figures.iterdir()} == {".svg"}


def test_two_runs_get_a_folder_of_figures_each(run_folder: Path, tmp_path: Path) -> None:
    assert (
        main(["report", str(run_folder), str(run_folder), "--figures", str(tmp_path), "--formats", "svg"])
        == 0
    )
    assert {path.name for path in tmp_path.iterdir()} == {"1-house", "2-house"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--out", "x.html"], 2, "No run given"),
        (["{run}"], 2, "Nothing to write"),
        (["{run}", "--figures", "{tmp}", "--formats", "gif"], 2, "gif"),
        (["{run}", "--out", "{tmp}/x.html", "--weighting", "words"], 2, "--weighting"),
        (["{tmp}", "--out", "{tmp}/x.html"], 5, "There is no run in"),
        (["{run}", "--out", "{run}/manifest.json/x.html"], 5, "Cannot write"),
    ],
)
def test_wrong_requests(
    run_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    assert main(["report", *(a.format(run=run_folder, tmp=tmp_path) for a in arguments)]) == code
    assert words in capsys.readouterr().err
