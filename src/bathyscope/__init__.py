"""bathyscope: how a language model uses its depth.

import bathyscope
model = bathyscope.load("Qwen/Qwen2.5-1.5B")
run = bathyscope.survey(model, "gsm8k:10", measures=["residual", "lens", "skip", "effective_depth"])
run["skip"].effect_future
bathyscope.report([run], "qwen.html")
"""

from __future__ import annotations

import importlib
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bathyscope.anatomy.family import Family, Site
from bathyscope.errors import BathyscopeError, ModelError, OptionError, PromptError, PruningError, StoreError
from bathyscope.labels import variable
from bathyscope.options import Range
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.schedule import Schedule

if TYPE_CHECKING:
    from bathyscope.between.cka import cka
    from bathyscope.between.map_results import open_maps
    from bathyscope.between.maps import maps
    from bathyscope.catalogue import names
    from bathyscope.checking import check
    from bathyscope.comparison import compare
    from bathyscope.comparison import grouped as group
    from bathyscope.comparison import grouped as grouped
    from bathyscope.contents import show
    from bathyscope.cost import estimate
    from bathyscope.demonstration import demo
    from bathyscope.distributed.joining import join
    from bathyscope.engines import survey
    from bathyscope.evaluation import evaluate, open_evaluation
    from bathyscope.exits.advice import exit_advice
    from bathyscope.exits.result import ExitAdvice
    from bathyscope.grids import grid
    from bathyscope.measures.base import Measure, MeasureProbe
    from bathyscope.model import Model, load
    from bathyscope.performance import depth_performance
    from bathyscope.probing.probe import probe
    from bathyscope.report import report
    from bathyscope.report.plotting import plot
    from bathyscope.reproducing.reproduce import reproduce
    from bathyscope.solving import solved, solved_by
    from bathyscope.store.pushing import push
    from bathyscope.store.run import Run
    from bathyscope.store.run import open_run as open
    from bathyscope.surgery.exporting import export
    from bathyscope.surgery.plan import Plan, open_plan
    from bathyscope.surgery.pruning import prune
    from bathyscope.surgery.repairing import repair
    from bathyscope.surgery.repeats import RepeatScan, repeat_scan
    from bathyscope.surgery.scheduled_model import scheduled

__version__ = version("bathyscope")

# torch and transformers take seconds to import; `bathyscope --help` and reading a run must not wait for them
_LAZY = {
    "Measure": "bathyscope.measures.base:Measure",
    "MeasureProbe": "bathyscope.measures.base:MeasureProbe",
    "Model": "bathyscope.model:Model",
    "Run": "bathyscope.store.run:Run",
    "check": "bathyscope.checking:check",
    "cka": "bathyscope.between.cka:cka",
    "compare": "bathyscope.comparison:compare",
    "demo": "bathyscope.demonstration:demo",
    "depth_performance": "bathyscope.performance:depth_performance",
    "estimate": "bathyscope.cost:estimate",
    "evaluate": "bathyscope.evaluation:evaluate",
    "exit_advice": "bathyscope.exits.advice:exit_advice",
    "ExitAdvice": "bathyscope.exits.result:ExitAdvice",
    "export": "bathyscope.surgery.exporting:export",
    "grid": "bathyscope.grids:grid",
    "group": "bathyscope.comparison:grouped",
    "grouped": "bathyscope.comparison:grouped",
    "join": "bathyscope.distributed.joining:join",
    "load": "bathyscope.model:load",
    "maps": "bathyscope.between.maps:maps",
    "names": "bathyscope.catalogue:names",
    "open": "bathyscope.store.run:open_run",
    "open_evaluation": "bathyscope.evaluation:open_evaluation",
    "open_maps": "bathyscope.between.map_results:open_maps",
    "open_plan": "bathyscope.surgery.plan:open_plan",
    "Plan": "bathyscope.surgery.plan:Plan",
    "plot": "bathyscope.report.plotting:plot",
    "probe": "bathyscope.probing.probe:probe",
    "prune": "bathyscope.surgery.pruning:prune",
    "push": "bathyscope.store.pushing:push",
    "repair": "bathyscope.surgery.repairing:repair",
    "repeat_scan": "bathyscope.surgery.repeats:repeat_scan",
    "RepeatScan": "bathyscope.surgery.repeats:RepeatScan",
    "report": "bathyscope.report:report",
    "reproduce": "bathyscope.reproducing.reproduce:reproduce",
    "scheduled": "bathyscope.surgery.scheduled_model:scheduled",
    "show": "bathyscope.contents:show",
    "solved": "bathyscope.solving:solved",
    "solved_by": "bathyscope.solving:solved_by",
    "survey": "bathyscope.engines:survey",
}

__all__ = [
    "BathyscopeError",
    "ExitAdvice",
    "Family",
    "Measure",
    "MeasureProbe",
    "Model",
    "ModelError",
    "OptionError",
    "Plan",
    "Prompt",
    "PromptError",
    "PromptSet",
    "PruningError",
    "Range",
    "RepeatScan",
    "Run",
    "Schedule",
    "Site",
    "StoreError",
    "check",
    "cka",
    "compare",
    "demo",
    "depth_performance",
    "estimate",
    "evaluate",
    "exit_advice",
    "export",
    "grid",
    "group",
    "grouped",
    "join",
    "load",
    "maps",
    "names",
    "open",
    "open_evaluation",
    "open_maps",
    "open_plan",
    "plot",
    "probe",
    "prune",
    "push",
    "repair",
    "repeat_scan",
    "report",
    "reproduce",
    "scheduled",
    "show",
    "solved",
    "solved_by",
    "survey",
    "variable",
]


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'bathyscope' has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
