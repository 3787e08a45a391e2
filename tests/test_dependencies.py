"""What is imported is declared: in the core what every use needs, in an extra what only its feature loads."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = {"src/bathyscope": "pyproject.toml", "packages/bathyscope-lab/src": "packages/bathyscope-lab/pyproject.toml"}
OWN = {"bathyscope", "bathyscope_lab"}
DISTRIBUTIONS = {
    "yaml": "pyyaml",
    "sklearn": "scikit-learn",
    "lm_eval": "lm-eval",
    "huggingface_hub": "huggingface-hub",
}
"""Where a package is imported by another name than it is installed."""
ENGINES = {"accelerate", "h5netcdf"}
"""Declared without an import: what transformers places models with, and what xarray opens the files of a run with."""


def imports(path: Path) -> Iterator[tuple[str, bool]]:
    """The distributions that a file imports, and whether as soon as it is itself imported."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    lazy = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test))
        for inner in ast.walk(node)
    }
    for node in ast.walk(tree):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names = [node.module]
        for name in names:
            top = name.partition(".")[0]
            if top not in sys.stdlib_module_names and top not in OWN:
                yield DISTRIBUTIONS.get(top, top), id(node) not in lazy


def declared(project: str) -> tuple[set[str], set[str]]:
    """Distributions of the core, and of all extras but those for development and for the site of documents."""
    table = tomllib.loads((ROOT / project).read_text(encoding="utf-8"))["project"]

    def names(requirements: list[str]) -> set[str]:
        return {re.split(r"[<>=!~;\[ ]", one, maxsplit=1)[0].lower() for one in requirements}

    extras = table.get("optional-dependencies", {})
    return names(table["dependencies"]), {
        n for key, own in extras.items() if key not in ("dev", "docs") for n in names(own)
    }


@pytest.mark.parametrize("package", PACKAGES)
def test_what_is_imported_is_declared(package: str) -> None:
    core, extras = declared(PACKAGES[package])
    at_once: set[str] = set()
    later: set[str] = set()
    for path in (ROOT / package).rglob("*.py"):
        for name, immediate in imports(path):
            (at_once if immediate else later).add(name)
    instrument = declared("pyproject.toml")[0]
    assert at_once - core - (instrument if package != "src/bathyscope" else extras) == set()
    assert later - core - extras - instrument == set()


def test_what_is_declared_is_imported() -> None:
    used = {name for path in (ROOT / "src/bathyscope").rglob("*.py") for name, _ in imports(path)}
    core, extras = declared("pyproject.toml")
    assert (core | extras) - used == ENGINES
