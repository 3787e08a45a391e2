"""Names of packages that are imported when they are first asked for."""

import subprocess
import sys
from pathlib import Path

import pytest

import bathyscope
from bathyscope.core.lazy import homes, load_name

SOURCE = """
from typing import TYPE_CHECKING
from json import dumps
if TYPE_CHECKING:
    import ast
    from math import floor as floor, pi as circle
"""


def test_what_is_imported_for_type_checkers_is_known_by_its_name_here(tmp_path: Path) -> None:
    (tmp_path / "package.py").write_text(SOURCE)
    assert homes(str(tmp_path / "package.py")) == {"floor": "math:floor", "circle": "math:pi"}


def test_a_name_is_loaded_from_its_home_and_others_are_refused() -> None:
    assert load_name("package", {"floor": "math:floor"}, "floor")(2.5) == 2
    with pytest.raises(AttributeError, match="module 'package' has no attribute 'ceil'"):
        load_name("package", {"floor": "math:floor"}, "ceil")


@pytest.mark.parametrize(
    ("code", "meant"), [("bathyscope.surveys", "survey"), ("bathyscope.extend.Measures", "Measure")]
)
def test_a_near_miss_is_told_where_python_shows_the_error(code: str, meant: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import bathyscope; {code}"], capture_output=True, text=True, check=False
    )
    assert done.stderr.strip().endswith(f"Did you mean: {meant!r}?")


def test_every_name_of_the_package_has_one_home() -> None:
    assert bathyscope._LAZY["group"] == bathyscope._RENAMED["grouped"][0] == "bathyscope.analysis.depths:grouped"
    assert bathyscope._LAZY["open"] == "bathyscope.pages.opening:open_result"
    assert len(bathyscope.__all__) == len(set(bathyscope.__all__)) > len(bathyscope._LAZY) > 35
    with pytest.raises(AttributeError, match="module 'bathyscope' has no attribute 'surveys'"):
        _ = bathyscope.surveys  # type: ignore[attr-defined]
