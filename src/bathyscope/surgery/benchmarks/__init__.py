"""Benchmarks of lm-evaluation-harness under schedules (extra ``[eval]``). Source: lad2024, layer interventions."""

from bathyscope.surgery.benchmarks.evaluating import evaluate, open_evaluation
from bathyscope.surgery.benchmarks.result import Evaluation

__all__ = ["Evaluation", "evaluate", "open_evaluation"]
