"""Depth while a model trains: ``from bathyscope.training import DepthCallback``."""

from bathyscope.surveying.training.callback import DepthCallback

__all__ = ["DepthCallback"]
