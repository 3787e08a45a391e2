"""Imports go inwards only, read from the source without importing anything."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import bathyscope
from bathyscope.core import above

ROOT = Path(bathyscope.__file__).parent
FLOORS = {
    "cli": 12,
    "extend": 12,  # names of the rooms below for those who build on them
    "pages": 11,
    "analysis": 10,
    "surveying": 9,
    "surgery": 8,
    "runs": 7,
    "measures": 6,
    "wavefront": 5,
    "model": 4,
    "prompts": 3,
    "statistics": 3,
    "core": 2,
    "training": 10,  # a short name for the callback, which lives in surveying
    "schedule": 3,
    **dict.fromkeys(("errors", "labels", "options"), 1),
}
"""Room, or file at the root of the package → its floor: imports only point to a lower one, and to its own room."""
MOST_ENTRIES = 20
MOST_FILES = 8
"""At the top of a room that has rooms inside."""
RESOURCES = ("files", "PackageLoader")
"""Calls that read files of a package, whose name they take, and import nothing of it."""
DIVIDED = ("pages", "surgery")
"""Rooms that have rooms inside; a file at their top counts as one."""
FACADE = ("__init__", "__main__")
PURE = (
    "core/arrays.py",
    "core/text.py",
    "errors.py",
    "schedule.py",
    "runs/judging.py",
    "runs/verdict.py",
    "statistics",
)
FILES = sorted(ROOT.rglob("*.py"))
LIGHT_PLACES = (
    "runs",
    "statistics",
    "analysis/depths",
    "analysis/performance.py",
    "analysis/between/map_results.py",
    "surveying/papers",
    "pages",
    "labels.py",
    "options.py",
    *(f"cli/commands/{name}.py" for name in ("show", "report", "compare", "group", "depth_performance")),
)
"""What reads and shows results: nothing here waits for torch."""
COMPUTING_PAGES = ("pages/demonstration.py", "pages/catalogue.py", "pages/contents.py", "pages/papers")
"""Pages that survey models, or list what measures there are, themselves."""
REPOSITORY = Path(__file__).parents[1]
HOMES = {
    "bathyscope": ROOT.parent,
    "bathyscope_lab": REPOSITORY / "packages" / "bathyscope-lab" / "src",
    "studies": REPOSITORY,
}
"""Package of this repository → the folder that holds it."""
_LAB = {"bathyscope", "bathyscope_lab"}
STUDIES = ("depth_family", "growth", "instruments", "nulls", "parting", "problem_depth", "pruning", "real_model")
STUDIES += ("repairing", "sharing")
HOUSES = {
    "src": {"bathyscope"},
    "packages/bathyscope-lab/src": _LAB,
    "studies/common": {*_LAB, "studies.common"},
    **{f"studies/{n}": {*_LAB, "studies.common", f"studies.{n}"} for n in STUDIES},
    "studies/planted": {*_LAB, "studies.planted"},
}
"""Folder → the packages that its files may import, of those in this repository."""
HAS_STUDIES = (REPOSITORY / "studies").is_dir()
"""The instrument and its tests need none."""


def room_of(path: Path) -> str:
    """The room, or the root file, that a file of the package belongs to."""
    return path.relative_to(ROOT).with_suffix("").parts[0]


def lies_in(path: Path, places: Sequence[str]) -> bool:
    """Whether a file is one of these places of the package or lies inside of one."""
    return any(path == ROOT / place or (ROOT / place) in path.parents for place in places)


LIGHT = [path for path in FILES if lies_in(path, LIGHT_PLACES) and not lies_in(path, COMPUTING_PAGES)]


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


def named_by_strings(path: Path) -> list[str]:
    """Modules of this repository that a file names in a string, as imports by name do; not for the files inside."""
    nodes = list(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))
    calls = [node for node in nodes if isinstance(node, ast.Call) and ast.unparse(node.func) in RESOURCES]
    folders = [argument for call in calls for argument in call.args]
    texts = [
        node.value
        for node in nodes
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in folders
    ]
    names = [text.partition(":")[0] for text in texts if re.fullmatch(r"[a-z]\w*(\.\w+)+(:\w+)?", text)]
    return [name for name in names if any(files_named(name))]


def upward_arrows(room: str, names: Sequence[str]) -> list[str]:
    """What is wrong with the imports of a room's file, one sentence each."""
    if room not in FLOORS:
        return [f"{room} has no floor yet; give it one in FLOORS"]
    faults = []
    for name in names:
        top, _, inside = name.partition(".")
        target = inside.partition(".")[0]
        if top != "bathyscope" or target == room:
            continue
        if target not in FLOORS:
            if room != "cli":
                faults.append(f"{room} imports {name} from the public face, which only the command line may")
        elif FLOORS[target] >= FLOORS[room] and not FLOORS[target] == FLOORS[room] == FLOORS["errors"]:
            faults.append(f"{room} imports {name}, which is no floor below it")
    return faults


def test_imports_only_point_to_lower_floors() -> None:
    faults = []
    for path in (path for path in FILES if room_of(path) not in FACADE):
        arrows = upward_arrows(room_of(path), [*imported(path), *named_by_strings(path)])
        faults += [f"{path.relative_to(ROOT)}: {fault}" for fault in arrows]
    assert faults == []


@pytest.mark.parametrize(
    ("room", "name", "fault"),
    [
        ("statistics", "bathyscope.runs.run.Run", "no floor below"),
        ("prompts", "bathyscope.statistics.reduce", "no floor below"),
        ("pages", "bathyscope.survey", "from the public face"),
        ("attic", "bathyscope.errors", "no floor yet"),
        ("runs", "bathyscope.statistics.reduce", None),
        ("statistics", "bathyscope.statistics.reduce", None),
        ("labels", "bathyscope.errors", None),
        ("cli", "bathyscope.survey", None),
        ("core", "torch", None),
    ],
)
def test_an_arrow_upwards_is_noticed(room: str, name: str, fault: str | None) -> None:
    faults = upward_arrows(room, [name])
    assert len(faults) == (fault is not None)
    assert all(str(fault) in sentence for sentence in faults)


def test_the_top_of_the_package_fits_on_one_page() -> None:
    entries = [path for path in ROOT.iterdir() if path.name not in ("__pycache__", "py.typed")]
    assert len(entries) <= MOST_ENTRIES, sorted(path.name for path in entries)
    assert {path.name for path in entries if path.is_dir()} <= set(FLOORS)


def test_each_room_says_what_it_is_for() -> None:
    page = " ".join((REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8").split())
    charters = {}
    for room in (name for name in FLOORS if (ROOT / name).is_dir()):
        docstring = ast.get_docstring(ast.parse((ROOT / room / "__init__.py").read_text(encoding="utf-8"))) or ""
        charters[room] = docstring.partition("\n")[0].rstrip(".")
    assert len(charters) == 13
    assert [room for room, charter in charters.items() if not charter or charter not in page] == []
    assert [room for room in charters if f"`{room}/`" not in page] == []


def circle_in(arrows: Mapping[str, Collection[str]]) -> list[str]:
    """The nodes of a circle in the order of its arrows, the first one again at the end; empty where there is none."""
    try:
        TopologicalSorter(arrows).prepare()
    except CycleError as error:
        return list(error.args[1][::-1])
    return []


def file_arrows(paths: Iterable[Path]) -> dict[str, set[str]]:
    """Each file → the files of this repository that it imports, by statement or by string."""
    return {
        str(path): {str(file) for name in (*imported(path), *named_by_strings(path)) for file in files_named(name)}
        - {str(path)}
        for path in paths
    }


@pytest.mark.parametrize("house", ["src", "packages/bathyscope-lab/src", *(["studies"] if HAS_STUDIES else [])])
def test_no_imports_run_in_a_circle(house: str) -> None:
    """Not within a room either, and neither for type checkers alone, nor inside of functions, nor by name."""
    paths = (
        [path for path in FILES if room_of(path) not in FACADE]
        if house == "src"
        else [path for path in sorted((REPOSITORY / house).rglob("*.py")) if "tests" not in path.parts]
    )
    arrows = file_arrows(paths)
    assert sum(map(len, arrows.values())) > len(arrows)
    assert circle_in(arrows) == []


def rooms_inside(room: str) -> dict[str, set[str]]:
    """Each room inside of a room → those that it imports."""
    arrows: dict[str, set[str]] = {}
    for path, targets in file_arrows(path for path in FILES if lies_in(path, [room])).items():
        inside = {target for target in map(Path, targets) if lies_in(target, [room])}
        start = Path(path).relative_to(ROOT / room).parts[0]
        arrows.setdefault(start, set()).update(target.relative_to(ROOT / room).parts[0] for target in inside)
    return {start: ends - {start} for start, ends in arrows.items() if start != "__init__.py"}


@pytest.mark.parametrize("room", DIVIDED)
def test_rooms_inside_of_a_room_are_few_and_in_no_circle(room: str) -> None:
    arrows = rooms_inside(room)
    assert sum(map(len, arrows.values())) > len(arrows)
    assert circle_in(arrows) == []
    assert len(list((ROOT / room).glob("*.py"))) <= MOST_FILES
    for inside in (name for name in arrows if not name.endswith(".py")):
        charter = ast.get_docstring(ast.parse((ROOT / room / inside / "__init__.py").read_text(encoding="utf-8"))) or ""
        sentences = re.findall(r"\.(?=\s|$)", charter)
        assert 1 <= len(sentences) <= 3, f"{room}/{inside} says what it is for in one to three sentences: {charter!r}"


def test_a_circle_is_noticed() -> None:
    assert circle_in({"a": ["b"], "b": ["c"], "c": []}) == []
    assert set(circle_in({"a": ["b"], "b": ["c"], "c": ["b"]})) == {"b", "c"}


def test_an_import_by_name_is_noticed(tmp_path: Path) -> None:
    lower, upper = ROOT / "runs" / "run.py", ROOT / "pages" / "plotting.py"
    (tmp_path / "lower.py").write_text('load("bathyscope.pages.plotting:plot"), load("bathyscope_lab.trainer")')
    arrows, lab = file_arrows([tmp_path / "lower.py", upper]), HOMES["bathyscope_lab"] / "bathyscope_lab"
    assert arrows[str(tmp_path / "lower.py")] == {str(upper), str(lab / "trainer.py")}
    assert str(lower) in arrows[str(upper)]
    assert upward_arrows("runs", named_by_strings(tmp_path / "lower.py")[:1]) != []


def test_what_a_run_shows_of_itself_is_entered_from_above() -> None:
    """The one way up: names whose code the package enters, called by no file but those of runs and of results."""
    callers = [path for path in FILES if "bathyscope.core.above.from_above" in imported(path)]
    assert callers == [ROOT / "core" / "result.py", ROOT / "runs" / "run.py"]
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in callers]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    names = {ast.unparse(node.args[0]) for node in calls if ast.unparse(node.func) == "from_above"}
    assert names == {repr(name) for name in above._PLACES}
    assert all(callable(above.from_above(name)) for name in above._PLACES)


def test_pure_rooms_need_no_model_library() -> None:
    allowed = {*sys.stdlib_module_names, "numpy", "scipy", "statsmodels", "xarray", "bathyscope"}
    pure = {str(path.relative_to(ROOT)): path for path in FILES if lies_in(path, PURE)}
    used = {place: {name.split(".")[0] for name in imported(path)} - allowed for place, path in pure.items()}
    assert len(pure) > len(PURE)
    assert {place: libraries for place, libraries in used.items() if libraries} == {}


def test_arrows_lead_to_the_instrument() -> None:
    """The laboratory and each study could be deleted without the instrument, or another study, noticing."""
    faults = []
    for house, allowed in HOUSES.items() if HAS_STUDIES else list(HOUSES.items())[:2]:
        files = sorted((REPOSITORY / house).rglob("*.py"))
        assert files, f"{house} holds no code"
        for path in files:
            for name in imported(path):
                top, *rest = name.split(".")
                place = f"studies.{rest[0]}" if top == "studies" and rest else top
                if top in ("bathyscope", "bathyscope_lab", "studies") and place not in allowed:
                    faults.append(f"{path.relative_to(REPOSITORY)} imports {name}")
    assert faults == []


def test_families_are_data() -> None:
    for path in sorted((ROOT / "model" / "anatomy" / "families").glob("*.py")):
        names = set(imported(path)) - {"__future__.annotations"}
        assert names <= {"bathyscope.model.anatomy.family.Family", "bathyscope.model.anatomy.family.Site"}, path.name


def test_only_outer_rings_draw_or_talk() -> None:
    edges = {"matplotlib", "jinja2", "cyclopts", "rich"}
    for path in FILES:
        used = {name.split(".")[0] for name in imported(path)} & edges
        assert not used or room_of(path) in ("pages", "cli") or path == ROOT / "core" / "progress.py", (
            f"{path.name}: {used}"
        )


def test_reading_comparing_and_drawing_load_no_model_library() -> None:
    """Neither the files nor anything they import, whatever that imports in turn."""
    ways = [way_to(path, {"torch", "transformers"}) for path in LIGHT]
    assert len(ways) > len(LIGHT_PLACES)
    assert [" → ".join(way) for way in ways if way] == []


def way_to(path: Path, tops: set[str]) -> list[str]:
    """Files and, last, the import by which loading ``path`` loads one of the packages; empty where it does not."""
    ways = [[path]]
    seen = {path}
    while ways:
        way = ways.pop()
        for name in loaded(way[-1]):
            if name.split(".")[0] in tops:
                return [*(str(file.relative_to(ROOT)) for file in way), name]
            unseen = [file for file in files_of(name) if file not in seen]
            seen.update(unseen)
            ways += [[*way, file] for file in unseen]
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
    return [file for place in places for file in (place / "__init__.py", place.with_suffix(".py")) if file.is_file()]


def files_named(name: str) -> Iterator[Path]:
    """The file of this repository that a dotted name means: a module, or that of which it is imported."""
    parts = name.split(".")
    for end in range(len(parts) if parts[0] in HOMES else 0, 1, -1):
        place = HOMES[parts[0]].joinpath(*parts[:end])
        files = [file for file in (place.with_suffix(".py"), place / "__init__.py") if file.is_file()]
        if files:
            yield files[0]
            return


def test_the_way_to_a_library_is_found_through_others() -> None:
    assert way_to(ROOT / "surveying" / "plan.py", {"torch"})
    assert way_to(ROOT / "cli" / "summary.py", {"torch"}) == []
    assert way_to(ROOT / "analysis" / "depths" / "side.py", {"scipy"})[-1].startswith("scipy")


def test_light_modules_do_not_wait_for_torch() -> None:
    modules = "bathyscope, bathyscope.schedule, bathyscope.statistics.effective_depth, bathyscope.analysis.depths"
    code = f"import sys, {modules}; sys.exit('torch' in sys.modules or 'transformers' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
