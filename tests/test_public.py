"""The public face: every command has a Python verb and every verb a command, and names load when they are used."""

from __future__ import annotations

import inspect
import subprocess
import sys
from importlib.metadata import entry_points
from types import ModuleType

import pytest

import bathyscope
from bathyscope import errors, extend
from bathyscope.analysis.between.map_results import open_maps
from bathyscope.cli.app import app
from bathyscope.cli.contents import every_command
from bathyscope.measures.jacobian.files import open_lens
from bathyscope.surgery.benchmarks import open_evaluation
from bathyscope.surgery.plan.opening import open_plan
from bathyscope.surgery.repairing.repaired import open_repaired
from bathyscope.surveying.training.steps import open_course

TABLE = {
    "badge": "badge",
    "card": "card",
    "check": "check",
    "cka": "cka",
    "compare": "compare",
    "course": "course",
    "demo": "demo",
    "depth-performance": "depth_performance",
    "diff": "diff",
    "estimate": "estimate",
    "evaluate": "evaluate",
    "exit-advice": "exit_advice",
    "export": "export",
    "fit-lens": "fit_lens",
    "grid": "grid",
    "group": "group",
    "join": "join",
    "maps": "maps",
    "names": "names",
    "plot": "plot",
    "probe": "probe",
    "prune": "prune",
    "push": "push",
    "repair": "repair",
    "repeat-scan": "repeat_scan",
    "report": "report",
    "reproduce": "reproduce",
    "show": "show",
    "solved": "solved",
    "solved-by": "solved_by",
    "survey": "survey",
    "written": "written",
}
"""Last word of a command, such as ``compare group``, or format → verb."""
FORMATS = {"badge", "card"}
"""Verbs that are formats of ``show``."""
PYTHON_ONLY = {
    # what the command line does on the way, or what stays in memory
    *("load", "open", "scheduled"),
    # survey --states
    "survey_states",
    # inside of a training loop
    "watch",
    # a module, for authors of measures and families
    "extend",
}


def test_every_command_has_a_verb_and_every_verb_a_command() -> None:
    others = {entry.name for entry in entry_points(group="bathyscope.commands")}
    commands = {words[-1] for words in every_command()}
    assert {name for name in app if not name.startswith("-")} - others <= commands
    assert commands | FORMATS == set(TABLE)
    verbs = {name for name in bathyscope.__all__ if not isinstance(getattr(bathyscope, name), type)}
    assert verbs == set(TABLE.values()) | PYTHON_ONLY


def test_every_name_is_there_and_listed() -> None:
    assert [name for name in bathyscope.__all__ if not hasattr(bathyscope, name)] == []
    assert set(bathyscope.__all__) <= set(dir(bathyscope))
    assert all(callable(getattr(bathyscope, verb)) for verb in TABLE.values())


def test_names_are_listed_before_they_are_loaded() -> None:
    code = "import sys, bathyscope; assert 'survey' in dir(bathyscope); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_module_of_training_is_loaded_when_it_is_first_named() -> None:
    code = (
        "import sys, bathyscope; early = 'torch' in sys.modules; "
        "sys.exit(early or bathyscope.training.DepthCallback.__name__ != 'DepthCallback')"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_dir_fits_one_glance() -> None:
    assert len(dir(bathyscope)) <= 50
    assert not any(name.startswith("open_") for name in dir(bathyscope))


MOVED = ("ExitAdvice", "Family", "FittedLens", "Measure", "MeasureProbe", "Range", "Repaired", "RepeatScan", "Site")
MOVED += ("WrittenDepth", "variable")
"""Names that stood in the package itself before ``extend`` had them."""
OLD = {
    "grouped": ("group", bathyscope.group),
    "open_course": ("open", open_course),
    "open_evaluation": ("open", open_evaluation),
    "open_lens": ("open", open_lens),
    "open_maps": ("open", open_maps),
    "open_plan": ("open", open_plan),
    "open_repaired": ("open", open_repaired),
    "PruningError": ("errors.PruningError", errors.PruningError),
    "RepairError": ("errors.RepairError", errors.RepairError),
    **{name: (f"extend.{name}", getattr(extend, name)) for name in MOVED},
}


@pytest.mark.parametrize("name", OLD)
def test_a_name_of_the_version_before_works_and_names_its_replacement(name: str) -> None:
    replacement, value = OLD[name]
    assert name not in dir(bathyscope)
    # Each use says so, and not the first alone.
    for _ in range(2):
        with pytest.warns(DeprecationWarning, match=f"bathyscope.{name} is called bathyscope.{replacement} now"):
            assert getattr(bathyscope, name) is value


def test_extension_points_are_listed_before_they_are_loaded() -> None:
    code = "import sys, bathyscope; assert 'Family' in dir(bathyscope.extend); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
    with pytest.raises(AttributeError, match="has no attribute 'Famly'"):
        _ = extend.Famly  # type: ignore[attr-defined]


MODULES = {name: one for name in extend.__all__ if isinstance(one := getattr(extend, name), ModuleType)}


def test_modules_of_extend_hold_what_they_list() -> None:
    assert set(MODULES) == {"figures", "prompts", "statistics"}
    for module in MODULES.values():
        assert module.__all__ == sorted(module.__all__)
        assert [name for name in module.__all__ if not hasattr(module, name)] == []
        assert inspect.getdoc(module)


def test_dir_lists_the_public_names_alone() -> None:
    assert dir(bathyscope) == sorted([*bathyscope.__all__, "__version__"])
    assert not {"Any", "TYPE_CHECKING", "found", "homes", "lazy", "version"} & set(dir(bathyscope))
