"""Benchmarks of lm-evaluation-harness under schedules (extra ``[eval]``). Source: lad2024, layer interventions."""

from typing import TYPE_CHECKING, Any

from bathyscope.core.lazy import homes, load_name

if TYPE_CHECKING:
    from bathyscope.surgery.benchmarks.evaluating import evaluate as evaluate
    from bathyscope.surgery.benchmarks.evaluating import open_evaluation as open_evaluation
    from bathyscope.surgery.benchmarks.result import Evaluation as Evaluation

# a mistyped task is refused from the names in the harness's files, which need no torch
_LAZY = homes(__file__)

__all__ = sorted(_LAZY)


def __getattr__(name: str) -> Any:
    return load_name(__name__, _LAZY, name)
