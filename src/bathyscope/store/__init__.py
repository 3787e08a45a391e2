"""Runs in memory and on disk: atomic shards with checksums, resuming, reading."""

from bathyscope.store.manifest import Manifest
from bathyscope.store.run import Run, open_run
from bathyscope.store.writer import RunWriter

__all__ = ["Manifest", "Run", "RunWriter", "open_run"]
