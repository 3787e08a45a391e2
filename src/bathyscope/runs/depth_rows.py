"""A run's effective depths as plain rows, for tables, files and records."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol, TypedDict, cast

from bathyscope.errors import OptionError
from bathyscope.measures.curves import in_blocks_done

if TYPE_CHECKING:
    import xarray as xr

MEASURE: Final = "effective_depth"


class HasMeasures(Protocol):
    """A run, or anything else that holds datasets of measures by name."""

    @property
    def measures(self) -> tuple[str, ...]:
        """Names of the measures."""

    def __getitem__(self, measure: str) -> xr.Dataset: ...


class DepthRow(TypedDict):
    """One estimate; None where there is no number."""

    estimator: str
    depth: float | None
    ci_low: float | None
    ci_high: float | None
    ratio: float | None
    index: float | None
    crossing_share: float | None
    reason: str


def effective_depth_rows(run: HasMeasures) -> list[DepthRow]:
    """Return one row per estimator, ready for csv or json (no NaN).

    Raises:
        OptionError: the run does not hold effective_depth.
    """
    if MEASURE not in run.measures:
        raise OptionError(
            f"This run holds no {MEASURE!r} (it holds: {', '.join(run.measures) or 'nothing'}). "
            f"Survey again with measures=[..., {MEASURE!r}]."
        )
    columns = list(DepthRow.__annotations__)
    frame = in_blocks_done(run[MEASURE])[columns[1:]].to_dataframe().reset_index()[columns].astype(object)
    return cast(list[DepthRow], frame.where(frame.notna(), None).to_dict("records"))
