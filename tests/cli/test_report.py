"""``bathyscope report``: pages and figures from runs on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from bathyscope.cli import main


@pytest.fixture(scope="module")
def lens_run(tmp_path_factory: pytest.TempPathFactory, model_folder: Path, prompts_file: Path) -> Path:
    """A run of one measure, which is drawn quickly."""
    out = tmp_path_factory.mktemp("runs") / "lens"
    arguments = ["survey", str(model_folder), "--prompts", str(prompts_file), "--measures", "lens"]
    assert main([*arguments, "--out", str(out), "--quiet"]) == 0
    return out


def test_page_and_figures(lens_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page, figures = tmp_path / "sub" / "page.html", tmp_path / "figures"
    arguments = ["report", str(lens_run), "--out", str(page), "--title", "A house", "--weighting", "prompts"]
    assert main([*arguments, "--figures", str(figures), "--formats", "svg"]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed[-1] == str(page)
    assert "<title>A house" in page.read_text(encoding="utf-8")
    assert sorted(printed[:-1]) == sorted(str(path) for path in figures.iterdir())
    assert {path.suffix for path in figures.iterdir()} == {".svg"}


def test_two_runs_get_a_folder_of_figures_each(lens_run: Path, tmp_path: Path) -> None:
    assert main(["report", str(lens_run), str(lens_run), "--figures", str(tmp_path), "--formats", "svg"]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"1-lens", "2-lens", "side-by-side"}


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--out", "x.html"], 2, "No run given"),
        (["{run}"], 2, "Nothing to write"),
        (["{run}", "--out", "{tmp}/x.html", "--interactive"], 2, "Unknown option: --interactive"),
        (["{run}", "--figures", "{tmp}", "--formats", "gif"], 2, "gif"),
        (["{run}", "--figures", "{tmp}", "--no-text"], 2, "--no-text is for the page alone"),
        (["{run}", "--figures", "{tmp}", "--variables", "kl"], 2, "--variables is for the page alone"),
        (["{run}", "--out", "{tmp}/x.html", "--panels"], 2, "give --figures too"),
        (["{run}", "--out", "{tmp}/x.html", "--formats", "svg"], 2, "give --figures too"),
        (["{run}", "--out", "{tmp}/x.html", "--weighting", "words"], 2, "--weighting"),
        (["{run}", "--out", "{tmp}/x.html", "--cluster", "book"], 2, "The prompts of this run have no label 'book'"),
        (["{run}", "--figures", "{tmp}/x", "--cluster", "book"], 2, "The prompts of this run have no label 'book'"),
        (["{tmp}", "--out", "{tmp}/x.html"], 5, "There is no run in"),
        (["{run}", "--out", "{run}/manifest.json/x.html"], 5, "Cannot write"),
        (["{run}", "--out", "{tmp}/x\0.html"], 2, "holds a null character"),
    ],
)
def test_wrong_requests(
    lens_run: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    code: int,
    words: str,
) -> None:
    assert main(["report", *(a.format(run=lens_run, tmp=tmp_path) for a in arguments)]) == code
    assert words in capsys.readouterr().err


@pytest.mark.parametrize("name", ["2-lens", "side-by-side"])
def test_figures_are_not_written_through_a_link(
    name: str, lens_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outside, figures = tmp_path / "outside", tmp_path / "figures"
    outside.mkdir()
    figures.mkdir()
    (figures / name).symlink_to(outside)
    assert main(["report", str(lens_run), str(lens_run), "--figures", str(figures), "--formats", "svg"]) == 5
    assert f"{name}' is a link" in " ".join(capsys.readouterr().err.split())
    assert list(outside.iterdir()) == []
