"""Read by Python when it starts, where this folder is on its path: ``support/any_machine.py`` is loaded behind torch.

It waits for torch, which most programs of the tests import late or not at all.
"""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any


def _install() -> None:
    file = Path(__file__).resolve().parents[1] / "any_machine.py"
    spec = importlib.util.spec_from_file_location("_any_machine", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    module.install()


class _BehindTorch(importlib.abc.MetaPathFinder):
    """Finds torch as others do, and replaces its kernels when it is loaded."""

    def find_spec(self, name: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        if name != "torch":
            return None
        # Others only look whether there is a torch, and import it later or never.
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_and_install(module: ModuleType) -> None:
                load(module)
                _install()

            spec.loader.exec_module = load_and_install  # type: ignore[method-assign]
        return spec


if os.environ.get("BATHYSCOPE_TESTS_ON_ANY_MACHINE"):
    sys.meta_path.insert(0, _BehindTorch())
