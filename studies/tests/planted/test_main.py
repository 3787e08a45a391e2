"""``python -m studies.planted`` writes the table into a page, or prints it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from studies.planted import Cell, __main__
from studies.planted.page import BEGIN, END


@pytest.fixture(autouse=True)
def _one_model(monkeypatch: pytest.MonkeyPatch, cells_of: Callable[[str], dict[str, Cell]]) -> None:
    monkeypatch.setattr(__main__, "table", lambda: {"relay": cells_of("relay")})


def test_into_a_page(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"{BEGIN}\n{END}\n", encoding="utf-8")
    __main__.main([str(page)])
    assert "| `drop` | ✓ |" in page.read_text(encoding="utf-8")


def test_onto_the_screen(capsys: pytest.CaptureFixture[str]) -> None:
    __main__.main([])
    assert "### relay" in capsys.readouterr().out
