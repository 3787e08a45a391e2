"""A file of code as a module of its own, whatever has imported it before."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def fresh_module(path: Path, name: str) -> ModuleType:
    """A new module of a file, so that nothing that another copy remembers reaches it."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up
    spec.loader.exec_module(module)
    return module
