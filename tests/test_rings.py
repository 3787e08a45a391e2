"""Imports go inwards only, read from the source without importing anything."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bathyscope

ROOT = Path(bathyscope.__file__).parent
RINGS = (
    ("arrays", "errors", "interrupts", "lazy", "strict", "text"),
    ("plug_ins", "recipes", "labels"),
    ("schedule", "statistics", "options"),
    ("streaming",),
    ("anatomy",),
    ("wavefront",),
    ("gradients", "prompts"),
    ("measures",),
    ("verdict",),
    # presets are data and know nothing of a survey, which takes them by name
    ("assembly", "sharding", "store", "papers", "progress", "bundled"),
    ("model",),
    ("controls",),
    ("surveying", "surgery"),
    ("explorer",),
    (
        "checking",
        "contents",
        "cost",
        "comparison",
        "between",
        "probing",
        "evaluation",
        "solving",
        "performance",
        "exits",
    ),
    # what prune chooses is asked tasks, which run under the schedules of surgery
    ("report", "distributed", "surgery.pruning"),
    ("engines",),
    ("reproducing", "demonstration", "catalogue", "grids"),
    ("cli",),
)
RANK = {name: rank for rank, ring in enumerate(RINGS) for name in ring}
FACADE = ("__init__", "__main__")
PURE = ("arrays", "errors", "text", "schedule", "statistics", "verdict")
FILES = sorted(ROOT.rglob("*.py"))
_READING = ("store", "statistics", "comparison", "performance", "papers", "explorer", "report", "labels", "options")
LIGHT = [path for path in FILES if path.relative_to(ROOT).parts[0].removesuffix(".py") in _READING]
LIGHT += [ROOT / "between" / "map_results.py"]
LIGHT += [
    ROOT / "cli" / "commands" / f"{name}.py" for name in ("show", "report", "compare", "group", "depth_performance")
]
"""What reads and shows results: nothing here waits for torch."""
REPOSITORY = Path(__file__).parents[1]
_LAB = {"bathyscope", "bathyscope_lab"}
HOUSES = {
    "src": {"bathyscope"},
    "packages/bathyscope-lab/src": _LAB,
    "studies/common": {*_LAB, "studies.common"},
    **{
        f"studies/{n}": {*_LAB, "studies.common", f"studies.{n}"}
        for n in ("depth_family", "problem_depth", "pruning", "repairing", "sharing")
    },
    "studies/planted": {*_LAB, "studies.planted"},
}
"""Folder → the packages that its files may import, of those in this repository."""


def ring_of(path: Path) -> str:
    """The package or module under ``bathyscope`` that a file belongs to."""
    return place(path.relative_to(ROOT).with_suffix("").parts)


def place(parts: Sequence[str]) -> str:
    """The ring's member that a dotted name belongs to: a package inside of another only where ``RINGS`` names it."""
    nested = ".".join(parts[:2])
    return nested if nested in RANK else parts[0]


@cache
def imported(path: Path) -> list[str]:
    """Dotted names of everything a file imports, wherever in the file."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in nodes), (
        f"{path}: relative imports hide where they lead"
    )
    return [name for node in nodes for name in named(node)]


def named(node: ast.AST) -> list[str]:
    """Dotted names that a statement imports."""
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_inwards(path: Path) -> None:
    own = ring_of(path)
    if own in FACADE:
        return
    assert own in RANK, f"{own} belongs to no ring yet; give it a place in RINGS"
    for name in imported(path):
        parts = name.split(".")
        if parts == ["bathyscope"]:
            assert own == "cli", f"{own} imports the package's public face, which is made of it"
            continue
        if parts[0] != "bathyscope" or place(parts[1:]) == own:
            continue
        other = place(parts[1:])
        if other not in RANK:
            assert own == "cli", f"{own} imports {name} from the public face, which only the command line may"
            continue
        assert RANK[other] < RANK[own], f"{own} (ring {RANK[own]}) imports {name} (ring {RANK[other]})"


def test_no_imports_run_in_a_circle() -> None:
    """Not within a ring either, and neither for type checkers alone nor inside of functions."""
    inside = [path for path in FILES if ring_of(path) not in FACADE]
    arrows = {path: {file for name in imported(path) for file in files_named(name)} - {path} for path in inside}
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(str(path.relative_to(ROOT)) for path in error.args[1][::-1]))


@pytest.mark.parametrize("path", [p for p in FILES if ring_of(p) in PURE], ids=lambda p: str(p.relative_to(ROOT)))
def test_pure_rings_need_no_model_library(path: Path) -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "scipy", "statsmodels", "xarray", "bathyscope"}
    assert {name.split(".")[0] for name in imported(path)} <= allowed


@pytest.mark.parametrize("house", HOUSES)
def test_arrows_lead_to_the_instrument(house: str) -> None:
    """The laboratory and each study could be deleted without the instrument, or another study, noticing."""
    allowed = HOUSES[house]
    for path in sorted((REPOSITORY / house).rglob("*.py")):
        for name in imported(path):
            top, *rest = name.split(".")
            if top in ("bathyscope", "bathyscope_lab", "studies"):
                place = f"studies.{rest[0]}" if top == "studies" and rest else top
                assert place in allowed, f"{path.relative_to(REPOSITORY)} imports {name}"


def test_families_are_data() -> None:
    for path in sorted((ROOT / "anatomy" / "families").glob("*.py")):
        names = set(imported(path)) - {"__future__.annotations"}
        assert names <= {"bathyscope.anatomy.family.Family", "bathyscope.anatomy.family.Site"}, path.name


def test_only_outer_rings_draw_or_talk() -> None:
    edges = {"matplotlib", "jinja2", "cyclopts", "rich"}
    for path in FILES:
        used = {name.split(".")[0] for name in imported(path)} & edges
        assert not used or ring_of(path) in ("report", "cli", "progress", "estimate"), f"{path.name}: {used}"


@pytest.mark.parametrize("path", LIGHT, ids=lambda path: str(path.relative_to(ROOT)))
def test_reading_comparing_and_drawing_load_no_model_library(path: Path) -> None:
    """Neither the file nor anything it imports, whatever that imports in turn."""
    way = way_to(path, {"torch", "transformers"})
    assert not way, " → ".join(way)


def way_to(path: Path, tops: set[str]) -> list[str]:
    """Files and, last, the import by which loading ``path`` loads one of the packages; empty where it does not."""
    ways, known = [[path]], {path}
    while ways:
        way = ways.pop()
        for name in loaded(way[-1]):
            if name.split(".")[0] in tops:
                return [*(str(one.relative_to(ROOT)) for one in way), name]
            new = [one for one in files_of(name) if one not in known]
            known.update(new)
            ways += [[*way, one] for one in new]
    return []


@cache
def loaded(path: Path) -> list[str]:
    """Dotted names that a file imports as soon as it is imported itself."""
    names: list[str] = []
    bodies = [ast.parse(path.read_text(encoding="utf-8")).body]
    while bodies:
        for node in bodies.pop():
            if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
                bodies.append(node.orelse)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                names += named(node)
            elif not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                bodies += [getattr(node, part) for part in ("body", "orelse", "finalbody") if hasattr(node, part)]
                bodies += [handler.body for handler in getattr(node, "handlers", [])]
    return names


@cache
def files_of(name: str) -> list[Path]:
    """The files of this package that importing a dotted name runs: of every package on the way, and of the module."""
    parts = name.split(".")
    places = [ROOT.joinpath(*parts[1:end]) for end in range(2, len(parts) + 1) if parts[0] == "bathyscope"]
    return [file for one in places for file in (one / "__init__.py", one.with_suffix(".py")) if file.is_file()]


def files_named(name: str) -> Iterator[Path]:
    """The file of this package that a dotted name means: a module, or that of which it is imported."""
    for end in range(name.count(".") + 1, 1, -1):
        place = ROOT.joinpath(*name.split(".")[1:end])
        found = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
        if found and name.startswith("bathyscope."):
            yield found[0]
            return


def test_the_way_to_a_library_is_found_through_others() -> None:
    assert way_to(ROOT / "surveying" / "plan.py", {"torch"})
    assert way_to(ROOT / "cli" / "summary.py", {"torch"}) == []
    assert way_to(ROOT / "comparison" / "side.py", {"scipy"})[-1].startswith("scipy")


@pytest.mark.parametrize(
    "module",
    ["bathyscope", "bathyscope.schedule", "bathyscope.statistics.effective_depth", "bathyscope.comparison"],
)
def test_light_modules_do_not_wait_for_torch(module: str) -> None:
    code = f"import sys, {module}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
