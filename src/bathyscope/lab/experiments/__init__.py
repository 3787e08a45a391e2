"""Experiments on trained models: recipes, seeds and measures that answer one question together."""

from bathyscope.lab.experiments.depth_family import DepthFamily, depth_family
from bathyscope.lab.experiments.problem_depth import ProblemDepth, problem_depth
from bathyscope.lab.experiments.sharing import Sharing, sharing

__all__ = ["DepthFamily", "ProblemDepth", "Sharing", "depth_family", "problem_depth", "sharing"]
