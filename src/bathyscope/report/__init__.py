"""Figures, tables and pages of runs. The package is itself the call ``bathyscope.report(runs, out)``."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from bathyscope.report.export import save_figures
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.page import report
from bathyscope.report.table import effective_depth_rows, effective_depth_table

__all__ = ["FigureOptions", "effective_depth_rows", "effective_depth_table", "report", "save_figures"]


class _CallablePackage(ModuleType):
    """Lets ``bathyscope.report`` be a function and a package at once. Importing a submodule binds the package
    to that name whenever it happens, so a function of the same name would be lost at some point."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return report(*args, **kwargs)


_CallablePackage.__call__.__doc__ = report.__doc__
sys.modules[__name__].__class__ = _CallablePackage
