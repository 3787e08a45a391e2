"""Which tests of measures compare with brute force: what the test files name, read without running them."""

from __future__ import annotations

import ast
from pathlib import Path

MEASURES = Path(__file__).parents[1] / "measures"


def named_in_test_files(constant: str) -> dict[str, tuple[str, ...]]:
    """By file of ``tests/measures`` the names of tests that its constant lists."""
    return {
        path.stem: ast.literal_eval(statement.value)
        for path in sorted(MEASURES.glob("test_*.py"))
        for statement in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == constant
    }


def compared_by_file() -> dict[str, tuple[str, ...]]:
    """By file all tests that compare with brute force: of whole states, and of attention and MLP."""
    whole, parts = map(named_in_test_files, ("BRUTE_FORCE", "BRUTE_FORCE_OF_PARTS"))
    return {file: (*whole.get(file, ()), *parts.get(file, ())) for file in {**whole, **parts}}
