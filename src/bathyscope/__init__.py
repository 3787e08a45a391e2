"""bathyscope: how a language model uses its depth.

import bathyscope
model = bathyscope.load("Qwen/Qwen2.5-1.5B")
run = bathyscope.survey(model, "gsm8k:10", measures=["residual", "lens", "skip", "effective_depth"])
run["skip"].effect_future
bathyscope.report([run], "qwen.html")
"""

from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any

from bathyscope.core.above import enter_above
from bathyscope.core.lazy import homes, load_name
from bathyscope.errors import (
    BathyscopeError,
    ModelError,
    OptionError,
    PromptError,
    StoreError,
)
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.schedule import Schedule

if TYPE_CHECKING:
    from bathyscope.analysis.between.cka import cka as cka
    from bathyscope.analysis.between.diff import diff as diff
    from bathyscope.analysis.between.maps import maps as maps
    from bathyscope.analysis.depths import compare as compare
    from bathyscope.analysis.depths import grouped as group
    from bathyscope.analysis.performance import depth_performance as depth_performance
    from bathyscope.analysis.probes.probe import probe as probe
    from bathyscope.analysis.solving import solved as solved
    from bathyscope.analysis.solving import solved_by as solved_by
    from bathyscope.analysis.written import written as written
    from bathyscope.measures.jacobian.fitting import fit_lens as fit_lens
    from bathyscope.model import Model as Model
    from bathyscope.model import load as load
    from bathyscope.model.checking import check as check
    from bathyscope.pages.catalogue import names as names
    from bathyscope.pages.contents import show as show
    from bathyscope.pages.demonstration import demo as demo
    from bathyscope.pages.files.badge import badge as badge
    from bathyscope.pages.files.card import card as card
    from bathyscope.pages.opening import open_result as open
    from bathyscope.pages.page import report as report
    from bathyscope.pages.papers.reproduce import reproduce as reproduce
    from bathyscope.pages.plotting import plot as plot
    from bathyscope.runs.opening import push as push
    from bathyscope.runs.run import Run as Run
    from bathyscope.surgery.benchmarks import evaluate as evaluate
    from bathyscope.surgery.choosing.pruning import prune as prune
    from bathyscope.surgery.choosing.repeats import repeat_scan as repeat_scan
    from bathyscope.surgery.exits.advice import exit_advice as exit_advice
    from bathyscope.surgery.exporting import export as export
    from bathyscope.surgery.plan.plan import Plan as Plan
    from bathyscope.surgery.repairing.repair import repair as repair
    from bathyscope.surgery.scheduled.running import scheduled as scheduled
    from bathyscope.surveying.cost import estimate as estimate
    from bathyscope.surveying.distributed.joining import join as join
    from bathyscope.surveying.engines import survey as survey
    from bathyscope.surveying.grids import grid as grid
    from bathyscope.surveying.stored import survey_states as survey_states
    from bathyscope.surveying.training.course import course as course
    from bathyscope.surveying.training.watch import watch as watch

__version__ = version("bathyscope")

# torch and transformers take seconds to import; `bathyscope --help` and reading a run must not wait for them
_LAZY = homes(__file__)
_MODULES = ("extend", "training")

# Runs and other results lie below what draws them, and this file above both.
enter_above(
    {
        "among": "bathyscope.pages.among.standing:among",
        "card": "bathyscope.pages.head.notebook:notebook_html",
        "explore": "bathyscope.pages.explorer.widget:explorer",
        "picture": "bathyscope.pages.figures.results:picture",
        "plot": "bathyscope.pages.plotting:plot",
    }
)

# Names of the version before, where each is now, and what takes its place.
_RENAMED = {
    "grouped": ("bathyscope.analysis.depths:grouped", "bathyscope.group"),
    "open_course": ("bathyscope.surveying.training.steps:open_course", "bathyscope.open"),
    "open_evaluation": ("bathyscope.surgery.benchmarks:open_evaluation", "bathyscope.open"),
    "open_lens": ("bathyscope.measures.jacobian.files:open_lens", "bathyscope.open"),
    "open_maps": ("bathyscope.analysis.between.map_results:open_maps", "bathyscope.open"),
    "open_plan": ("bathyscope.surgery.plan.opening:open_plan", "bathyscope.open"),
    "open_repaired": ("bathyscope.surgery.repairing.repaired:open_repaired", "bathyscope.open"),
    **{name: (f"bathyscope.errors:{name}", f"bathyscope.errors.{name}") for name in ("PruningError", "RepairError")},
    **{
        name: (f"bathyscope.extend:{name}", f"bathyscope.extend.{name}")
        for name in (
            *("ExitAdvice", "Family", "FittedLens", "Measure", "MeasureProbe", "Range", "Repaired", "RepeatScan"),
            *("Site", "WrittenDepth", "variable"),
        )
    },
}

__all__ = ["BathyscopeError", "ModelError", "OptionError", "PromptError", "StoreError"]
__all__ += ["Prompt", "PromptSet", "Schedule", "extend", "group", "open"]
__all__ += sorted(_LAZY.keys() - set(__all__))


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    if name in _RENAMED:
        place, replacement = _RENAMED[name]
        from bathyscope.errors import warn

        warn(
            f"bathyscope.{name} is called {replacement} now, and the old name goes with the next version.",
            DeprecationWarning,
        )
        return load_name(__name__, {name: place}, name)
    globals()[name] = load_name(__name__, _LAZY, name)
    return globals()[name]


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
