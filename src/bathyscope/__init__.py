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
from bathyscope.errors import BathyscopeError, ModelError, OptionError, PromptError, StoreError
from bathyscope.labels import variable
from bathyscope.options import Range
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.schedule import Schedule

if TYPE_CHECKING:
    from bathyscope.between.cka import cka
    from bathyscope.between.maps import maps
    from bathyscope.comparison import compare, grouped
    from bathyscope.measures.base import Measure, MeasureProbe
    from bathyscope.model import Model, load
    from bathyscope.performance import depth_performance
    from bathyscope.report import report
    from bathyscope.solving import solved, solved_by
    from bathyscope.store.run import Run
    from bathyscope.store.run import open_run as open
    from bathyscope.surgery import scheduled
    from bathyscope.surveying import survey

__version__ = version("bathyscope")

__all__ = [
    "BathyscopeError",
    "Family",
    "Measure",
    "MeasureProbe",
    "Model",
    "ModelError",
    "OptionError",
    "Prompt",
    "PromptError",
    "PromptSet",
    "Range",
    "Run",
    "Schedule",
    "Site",
    "StoreError",
    "cka",
    "compare",
    "depth_performance",
    "grouped",
    "load",
    "maps",
    "open",
    "report",
    "scheduled",
    "solved",
    "solved_by",
    "survey",
    "variable",
]

# torch and transformers take seconds to import; `bathyscope --help` and reading a run must not wait for them
_LAZY = {
    "Measure": ("bathyscope.measures.base", "Measure"),
    "MeasureProbe": ("bathyscope.measures.base", "MeasureProbe"),
    "Model": ("bathyscope.model", "Model"),
    "cka": ("bathyscope.between.cka", "cka"),
    "maps": ("bathyscope.between.maps", "maps"),
    "compare": ("bathyscope.comparison", "compare"),
    "depth_performance": ("bathyscope.performance", "depth_performance"),
    "grouped": ("bathyscope.comparison", "grouped"),
    "load": ("bathyscope.model", "load"),
    "solved": ("bathyscope.solving", "solved"),
    "solved_by": ("bathyscope.solving", "solved_by"),
    "survey": ("bathyscope.surveying", "survey"),
    "Run": ("bathyscope.store.run", "Run"),
    "open": ("bathyscope.store.run", "open_run"),
    "report": ("bathyscope.report", "report"),
    "scheduled": ("bathyscope.surgery", "scheduled"),
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module 'bathyscope' has no attribute {name!r}")
    module, attribute = _LAZY[name]
    value = getattr(importlib.import_module(module), attribute)
    globals()[name] = value
    return value
