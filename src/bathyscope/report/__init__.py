"""Figures, tables and pages of runs. The package is itself the call ``bathyscope.report(runs, out)``."""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from bathyscope.report.export import save_figures, save_side_by_side
    from bathyscope.report.figures.maps import draw as draw_maps
    from bathyscope.report.figures.options import FigureOptions
    from bathyscope.report.page import report
    from bathyscope.report.table import effective_depth_rows

__all__ = [
    "FigureOptions",
    "draw_maps",
    "effective_depth_rows",
    "report",
    "save_figures",
    "save_side_by_side",
]

# matplotlib takes a second to import; printing a table must not wait for it
_LAZY = {
    "FigureOptions": "bathyscope.report.figures.options:FigureOptions",
    "draw_maps": "bathyscope.report.figures.maps:draw",
    "effective_depth_rows": "bathyscope.report.table:effective_depth_rows",
    "report": "bathyscope.report.page:report",
    "save_figures": "bathyscope.report.export:save_figures",
    "save_side_by_side": "bathyscope.report.export:save_side_by_side",
}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, attribute = _LAZY[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


class _CallablePackage(ModuleType):
    """Lets ``bathyscope.report`` be a function and a package at once. Importing a submodule binds the package
    to that name whenever it happens, so a function of the same name would be lost at some point."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return __getattr__("report")(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
