"""A schedule on the real model: the library's own forward and ``generate``, with the blocks in another order."""

from bathyscope.surgery.scheduled_model import scheduled

__all__ = ["scheduled"]
