"""What the commands of the laboratory's experiments share: flags, and the files that they write."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from studies.common.console import quiet_libraries, say
from studies.common.flags import call_flags, options_flags

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

Changes = Annotated[list[str] | None, Parameter(metavar="KEY=VALUE", negative=(), show_default=False)]
"""``--set``, several times."""
Quiet = Annotated[bool, Parameter(negative=(), show_default=False)]
GIVEN = ("options", "out", "progress", "changes")
"""Arguments of an experiment that its command makes itself; the others are flags as they are."""


def experiment_flags(experiment: Callable[..., xr.Dataset], options_type: type) -> list[inspect.Parameter]:
    """A flag for every option and every other argument."""
    return [*options_flags(options_type), *call_flags(experiment, leave_out=GIVEN)]


def write_results(found: xr.Dataset, draw: Callable[[xr.Dataset], Figure], out: Path, name: str, quiet: bool) -> None:
    """The results as ``NAME.nc`` and their figure as ``NAME.png``."""
    from bathyscope.extend.figures import render
    from studies.common.files import netcdf, write_file

    results, figure = out / f"{name}.nc", out / f"{name}.png"
    write_file(results, netcdf(found))
    write_file(figure, render(draw(found), "png"))
    say(f"Written: {figure}, {results}", quiet)


def carried_out(
    experiment: Callable[..., xr.Dataset],
    options_type: type[Any],
    given: Mapping[str, Any],
    out: Path,
    changes: Sequence[str] | None,
    quiet: bool,
) -> xr.Dataset:
    """The experiment's results; of what was given, the fields of ``options_type`` are its options."""
    names = {field.name for field in fields(options_type)}
    options = options_type(**{name: value for name, value in given.items() if name in names})
    others = {name: value for name, value in given.items() if name not in names}
    if "changes" in inspect.signature(experiment).parameters:
        others["changes"] = tuple(changes or ())
    with quiet_libraries(downloads=not quiet):
        return experiment(options, out, progress=not quiet, **others)
