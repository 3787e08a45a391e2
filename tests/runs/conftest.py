"""Folders in which even a privileged test process meets permissions."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

NOBODY = 65534


@pytest.fixture
def unprivileged_folder() -> Iterator[Path]:
    """A folder of the effective user; where the tests run as root, they act as nobody for the while."""
    with tempfile.TemporaryDirectory() as outer:
        folder = Path(outer) / "folder"
        folder.mkdir()
        if os.geteuid() != 0:
            yield folder
            folder.chmod(0o755)
            return
        os.chmod(outer, 0o755)
        os.chown(folder, NOBODY, NOBODY)
        os.seteuid(NOBODY)
        try:
            yield folder
        finally:
            os.seteuid(0)
            folder.chmod(0o755)
