"""Skips these tests without the extra, and lends them tasks."""

from __future__ import annotations

import pytest
from support.harness_tasks import bundled, files, own_task

pytest.importorskip("lm_eval", reason="the extra is not installed: pip install 'bathyscope[eval]'")
pytest.importorskip("accelerate", reason="the extra is not installed: pip install 'bathyscope[eval]'")

__all__ = ["bundled", "files", "own_task"]
