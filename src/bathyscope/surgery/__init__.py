"""A schedule on the real model: the library's own forward and ``generate``, with the blocks in another order; and the
checkpoint of such a model."""

from bathyscope.surgery.exporting import export
from bathyscope.surgery.scheduled_model import scheduled

__all__ = ["export", "scheduled"]
