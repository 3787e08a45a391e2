"""The notebooks run from top to bottom, offline, and are committed as text alone."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import matplotlib as mpl
import nbformat
import pytest
from nbclient import NotebookClient

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
FIRST = "first_survey.ipynb"


def cells(name: str, kind: str) -> list[Any]:
    return [cell for cell in nbformat.read(FOLDER / name, 4).cells if cell.cell_type == kind]


def test_there_are_three() -> None:
    assert NOTEBOOKS == ["comparison.ipynb", "dropping.ipynb", FIRST]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_is_committed_without_outputs(name: str) -> None:
    assert (FOLDER / name).stat().st_size < 12_000
    assert all(cell.outputs == [] and cell.execution_count is None for cell in cells(name, "code"))


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_files_that_a_notebook_points_to_are_there(name: str) -> None:
    text = "\n".join(cell.source for cell in cells(name, "markdown"))
    links = re.findall(r"\]\(([^)#]+)", text)
    assert links
    files = [link for link in links if not link.startswith("https://")]
    assert files
    assert [file for file in files if not (FOLDER / file).exists()] == []


def results(book: Any, pattern: str) -> list[Any]:
    """What cells show whose last line is such an expression."""
    code = [cell for cell in book.cells if cell.cell_type == "code"]
    return [cell.outputs[-1].data for cell in code if re.fullmatch(pattern, cell.source.splitlines()[-1])]


@pytest.mark.thorough
def test_the_first_notebook_runs(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """Its code alone, in this process: a kernel of its own would first wait for the libraries."""
    monkeypatch.chdir(FOLDER)
    held: dict[str, Any] = {}
    with mpl.rc_context({"backend": "agg"}):
        for cell in cells(FIRST, "code"):
            exec(compile(cell.source, FIRST, "exec"), held)
    assert held["views"].selection == {"block": 3, "prompt": 0, "token": 5, "boundary": 9}
    printed = capsys.readouterr().out
    assert held["run"].verdict.text in printed
    assert re.search(r"^survey\.html: [\d.]+ MB$", printed, re.MULTILINE)


@pytest.mark.thorough
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_notebook_runs_in_its_own_kernel(name: str) -> None:
    """A cell that fails is an error of the client."""
    book = nbformat.read(FOLDER / name, 4)
    NotebookClient(book, timeout=600, resources={"metadata": {"path": str(FOLDER)}}).execute()
    shown = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output for output in shown if output.output_type == "error"] == []
    assert str(FOLDER.parents[1]) not in str(shown)
    views = [output for output in shown if "Explorer" in output.get("data", {}).get("text/plain", "")]
    assert len(views) == (name != "dropping.ipynb")
    # what a site or an editor without widgets and scripts shows of each picture
    pictures, stills = results(book, r"bathyscope\.plot\(.*\)"), results(book, r"views|.*\.explore\(.*\)")
    assert pictures
    assert all("image/png" in data for data in pictures + stills)
    assert len(stills) == len(views)
    assert all("data:image/png;base64," in data["text/html"] for data in stills)
    assert not any("<script" in data["text/html"] for data in stills)
    assert all("<svg" in data["text/html"] for data in results(book, "run"))
