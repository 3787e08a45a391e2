"""Figures, tables and pages of runs. The package is itself the call ``bathyscope.report(runs, out)``."""

from __future__ import annotations

import sys
from inspect import signature
from types import ModuleType
from typing import TYPE_CHECKING, Any

from bathyscope.lazy import found, homes

if TYPE_CHECKING:
    from bathyscope.report.export import save_figures as save_figures
    from bathyscope.report.export import save_side_by_side as save_side_by_side
    from bathyscope.report.figures.maps import draw as draw_maps
    from bathyscope.report.figures.options import FigureOptions as FigureOptions
    from bathyscope.report.page import report as report
    from bathyscope.report.table import effective_depth_rows as effective_depth_rows

__all__ = ["draw_maps"]

# matplotlib takes a second to import; printing a table must not wait for it
_LAZY = homes(__file__)
__all__ += sorted(_LAZY.keys() - set(__all__))


def __getattr__(name: str) -> Any:
    return found(__name__, _LAZY, name)


class _CallablePackage(ModuleType):
    """Lets ``bathyscope.report`` be a function and a package at once. Importing a submodule binds the package
    to that name whenever it happens, so a function of the same name would be lost at some point."""

    @property
    def __doc__(self) -> str | None:  # type: ignore[override]
        return __getattr__("report").__doc__

    @property
    def __signature__(self) -> Any:
        return signature(__getattr__("report"))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return __getattr__("report")(*args, **kwargs)


sys.modules[__name__].__class__ = _CallablePackage
