"""Studies take the public names of the instrument; what they take from inside is listed here, with the reason."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import bathyscope

STUDIES = Path(__file__).parents[1]
INSIDE = {
    ("tests/campaign/test_campaign.py", "bathyscope.surveying.papers.reproductions"): "it checks its table of models, "
    "and what is stated of the papers' figures and numbers, against those of the papers",
    ("pruning/experiment.py", "bathyscope.surgery.choosing.search"): "it judges the search itself, led by pairs where "
    "``prune`` would measure all subsets",
    ("pruning/experiment.py", "bathyscope.surgery.trial.ledger"): "all sizes and all subsets share the costs that were "
    "measured, hours of which every ``prune`` would repeat",
    ("pruning/experiment.py", "bathyscope.wavefront.histories"): "what the two before count in",
    ("instruments/enough.py", "bathyscope.runs.kept"): "it simulates how sure the reading itself is",
    ("instruments/enough.py", "bathyscope.runs.readings"): "the same of the other readings",
    ("instruments/enough.py", "bathyscope.surveying.until"): "it simulates the decision itself to survey no further",
    ("real_model/timing.py", "bathyscope.wavefront.compare"): "it counts the time that surveys spend inside of it",
    ("real_model/timing.py", "bathyscope.wavefront.reader"): "the same",
    ("real_model/timing.py", "bathyscope.surveying.rates"): "it predicts by the processor's own clock",
}
"""File and module of the instrument → why the study needs it, which looks at that very part."""
PUBLIC = ("bathyscope", "bathyscope.errors", "bathyscope.extend", "bathyscope.training")


def taken_from_inside(path: Path) -> set[str]:
    """Modules of the instrument that a file imports or names in a string, but for public ones."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {node.value}
    named = (name for name in found if re.fullmatch(r"bathyscope(\.\w+)+", name))
    return {home for home in map(home_of, named) if not is_public(home)}


def home_of(name: str) -> str:
    """The module that a dotted name leads to, or that of which it is a name."""
    place, home = Path(bathyscope.__file__).parent, "bathyscope"
    for part in name.split(".")[1:]:
        place /= part
        if not place.is_dir() and not place.with_suffix(".py").is_file():
            break
        home = f"{home}.{part}"
    return home


def is_public(name: str) -> bool:
    return name in PUBLIC or name.startswith("bathyscope.extend.")


def test_studies_take_public_names() -> None:
    files = [path for path in sorted(STUDIES.rglob("*.py")) if path != Path(__file__)]
    assert len(files) > 150
    found = {(str(path.relative_to(STUDIES)), name) for path in files for name in taken_from_inside(path)}
    assert found == set(INSIDE)
    assert len(INSIDE) <= 10
    assert all(INSIDE.values())


def test_what_is_taken_from_inside_is_noticed(tmp_path: Path) -> None:
    file = tmp_path / "study.py"
    lines = (
        "import bathyscope, bathyscope.runs.run",
        "from bathyscope import survey, surgery",
        "from bathyscope.extend.statistics import Sampling",
        "def f():",
        "    from bathyscope.statistics.trend import trend",
        'patch("bathyscope.pages.page.report"), "bathyscope of the sea", "bathyscope.survey"',
    )
    file.write_text("\n".join(lines), encoding="utf-8")
    assert taken_from_inside(file) == {
        "bathyscope.runs.run",
        "bathyscope.surgery",
        "bathyscope.statistics.trend",
        "bathyscope.pages.page",
    }
