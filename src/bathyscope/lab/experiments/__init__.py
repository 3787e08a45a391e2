"""Experiments on trained models: recipes, seeds and measures that answer one question together."""

from bathyscope.lab.experiments.problem_depth import ProblemDepth, problem_depth

__all__ = ["ProblemDepth", "problem_depth"]
