"""Options of verbs: the dataclasses that flags and recipes are made of are the arguments of the Python calls."""

from __future__ import annotations

import inspect
import subprocess
import sys
import typing
from collections.abc import Callable, Sequence
from dataclasses import MISSING, fields
from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_origin

import pytest

import bathyscope
from bathyscope.analysis import options as analysis
from bathyscope.analysis.probes import ing_probe, subjoiner, wic_probe
from bathyscope.cli.arguments import LOADING
from bathyscope.core.bundles import names_in
from bathyscope.core.result import Result
from bathyscope.measures.options import FitLensOptions
from bathyscope.model.options import LoadOptions
from bathyscope.pages.files.export import save_figures
from bathyscope.pages.options import FileOptions, PageOptions, PlotOptions, ReproduceOptions
from bathyscope.surgery import options as surgery
from bathyscope.surveying.options import BUNDLES, CourseOptions, EstimateOptions, StatesOptions, SurveyOptions

SECTIONS = ("model", "measures", "surveying", "surgery", "analysis", "pages")
VERBS: dict[type, Callable[..., Any]] = {
    LoadOptions: bathyscope.load,
    SurveyOptions: bathyscope.survey,
    StatesOptions: bathyscope.survey_states,
    EstimateOptions: bathyscope.estimate,
    surgery.PruneOptions: bathyscope.prune,
    surgery.RepairOptions: bathyscope.repair,
    surgery.RepeatScanOptions: bathyscope.repeat_scan,
    surgery.ExitAdviceOptions: bathyscope.exit_advice,
    surgery.EvaluateOptions: bathyscope.evaluate,
    surgery.ExportOptions: bathyscope.export,
    analysis.CompareOptions: bathyscope.compare,
    analysis.GroupOptions: bathyscope.group,
    analysis.SimilarityOptions: bathyscope.cka,
    analysis.MapsOptions: bathyscope.maps,
    analysis.DepthPerformanceOptions: bathyscope.depth_performance,
    analysis.SolvedOptions: bathyscope.solved,
    analysis.SolvedByOptions: bathyscope.solved_by,
    analysis.WrittenOptions: bathyscope.written,
    FitLensOptions: bathyscope.fit_lens,
    CourseOptions: bathyscope.course,
    analysis.WicOptions: wic_probe,
    analysis.IngOptions: ing_probe,
    analysis.SubjoinerOptions: subjoiner,
    PageOptions: bathyscope.report,
    FileOptions: save_figures,
    PlotOptions: bathyscope.plot,
    ReproduceOptions: bathyscope.reproduce,
}
OBJECTS = {
    # arguments that commands name themselves, or that a shell cannot write
    *("model", "other", "models", "run", "runs", "source", "target", "shallow", "deep", "folder", "table", "options"),
    *("prompts", "calibration", "test", "verify", "train", "validation", "corpus", "words", "tasks", "data"),
    *("schedule", "by", "pairs", "paired", "tokenizer", "family", "rates", "clock", "loading", "variables"),
    *("progress", "command", "out", "checkpoints", "panel", "ax"),
    # what the survey takes several options in
    *("growing", "writing", "placement"),
}
WIDER = {
    LoadOptions: ("dtype", "device"),
    SurveyOptions: ("prompts", "measures", "schedule"),
    StatesOptions: ("states", "head", "prompts", "measures", "boundaries", "dtype"),
    EstimateOptions: ("prompts", "measures", "dtype", "device"),
    surgery.PruneOptions: ("data",),
    surgery.EvaluateOptions: ("schedules", "data"),
    PageOptions: ("out",),  # what a command need not write
    PlotOptions: ("blocks", "labels", "prompt", "tokens"),
    ReproduceOptions: ("figures",),
}
"""Options that calls take as more kinds of values than a shell can write."""


def members(hint: Any) -> set[Any]:
    """The alternatives of an annotation; a Path is written as a text in a shell."""
    kinds = set(get_args(hint)) if get_origin(hint) in (UnionType, typing.Union) else {hint}
    return kinds - {Path}


@pytest.mark.parametrize("options_type", VERBS, ids=lambda options_type: options_type.__name__)
def test_options_are_the_arguments_of_the_call(options_type: type) -> None:
    verb = VERBS[options_type]
    arguments = inspect.signature(verb).parameters
    bundled = names_in(BUNDLES) if options_type is SurveyOptions else []
    taken, written = typing.get_type_hints(verb, include_extras=True), typing.get_type_hints(options_type)
    declared = {option.name: option for option in fields(options_type)}
    assert [name for name in declared if name not in arguments] == bundled
    assert set(bundled) & set(arguments) == set()
    lacking = {name for name, argument in arguments.items() if argument.kind is not argument.VAR_KEYWORD} - set(
        declared
    )
    assert lacking <= OBJECTS
    for name, option in declared.items():
        if name in bundled:
            continue
        default = arguments[name].default
        assert option.default is not MISSING, name
        assert option.default == (None if default is inspect.Parameter.empty else default), name
        # Ranges and other marks stand in the dataclass alone.
        is_wider = name in WIDER.get(options_type, ())
        assert (members(taken[name]) != members(written[name])) is is_wider, name


def test_check_takes_what_its_command_gives() -> None:
    assert {option.name for option in fields(LOADING)} <= set(inspect.signature(bathyscope.check).parameters)


def test_options_import_nothing_heavy() -> None:
    modules = ", ".join(f"bathyscope.{room}.options" for room in SECTIONS)
    heavy = ("torch", "transformers", "xarray", "pandas", "scipy", "matplotlib")
    code = f"""
import sys, {modules}
imported = [name for name in {heavy!r} if name in sys.modules]
sys.exit(str(imported) if imported else 0)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def results_of_verbs() -> Sequence[type]:
    """What verbs that act on models, runs or tables are annotated to return."""
    verbs = [
        *("survey", "survey_states", "join", "estimate", "grid", "check"),
        *("compare", "group", "cka", "diff", "maps", "solved", "probe", "depth_performance"),
        *("fit_lens", "course", "written"),
        *("prune", "repair", "repeat_scan", "exit_advice", "evaluate", "reproduce"),
    ]
    return [returned_class(getattr(bathyscope, name)) for name in verbs]


def returned_class(verb: Callable[..., Any]) -> type:
    """The class that a verb is annotated to return, also where annotations are texts."""
    annotation = inspect.signature(verb).return_annotation
    if isinstance(annotation, str):
        annotation = getattr(sys.modules[inspect.unwrap(verb).__module__], annotation)
    assert isinstance(annotation, type)
    return annotation


def declared_names(kind: type) -> set[str]:
    """The annotated names of a class and of those it is derived from."""
    return {name for base in kind.__mro__ for name in getattr(base, "__annotations__", {})}


def test_verbs_return_results() -> None:
    parts = ("data", "text", "to_dataframe", "record")
    lacking = {
        kind.__name__: [part for part in parts if not hasattr(kind, part) and part not in declared_names(kind)]
        for kind in results_of_verbs()
    }
    assert {name: missing for name, missing in lacking.items() if missing} == {}
    assert issubclass(Result, typing.Protocol)  # type: ignore[arg-type]
