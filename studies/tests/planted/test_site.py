"""The pages of figures show built models on which the figure misleads."""

from __future__ import annotations

from pathlib import Path

from support.fresh import fresh_module

from studies import planted

DOCS = Path(__file__).resolve().parents[3] / "docs"


def test_models_that_mislead_are_drawn(tmp_path: Path) -> None:
    generate = fresh_module(DOCS / "generate.py", "docs_generate")
    assert generate.planted(tmp_path, ["lens"])[0].is_file()


def test_models_that_mislead_are_there() -> None:
    generate = fresh_module(DOCS / "generate.py", "docs_generate")
    assert {name for name, _ in generate.MISLED.values()} <= set(planted.CONSTRUCTIONS)
