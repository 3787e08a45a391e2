"""What those who build on the instrument import: declarations, classes of results, statistics, prompts and figures.

from bathyscope.extend import Family, Measure, MeasureProbe, Range, Site, variable
from bathyscope.extend.statistics import Sampling, mean_interval
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from bathyscope.core.lazy import homes, load_name

if TYPE_CHECKING:
    from bathyscope.analysis.written import WrittenDepth as WrittenDepth
    from bathyscope.labels import variable as variable
    from bathyscope.measures.base import Measure as Measure
    from bathyscope.measures.base import MeasureProbe as MeasureProbe
    from bathyscope.measures.jacobian.matrices import FittedLens as FittedLens
    from bathyscope.model.anatomy.family import Family as Family
    from bathyscope.model.anatomy.family import Site as Site
    from bathyscope.model.bundled import model_path as bundled_model  # noqa: F401 - listed by its new name
    from bathyscope.options import Range as Range
    from bathyscope.surgery.benchmarks.harness_model import ScheduledLM as ScheduledLM
    from bathyscope.surgery.choosing.repeats import RepeatScan as RepeatScan
    from bathyscope.surgery.exits.result import ExitAdvice as ExitAdvice
    from bathyscope.surgery.repairing.repaired import Repaired as Repaired
    from bathyscope.surgery.scheduled.bounding import bounded as bounded
    from bathyscope.surveying.controls import untrained as untrained

# Declarations of a family or an option need no torch, so each name is imported when it is asked for.
_LAZY = homes(__file__)
_MODULES = ("figures", "prompts", "statistics")

__all__ = sorted([*_LAZY, *_MODULES])


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"{__name__}.{name}")
    globals()[name] = load_name(__name__, _LAZY, name)
    return globals()[name]


def __dir__() -> list[str]:
    return list(__all__)
