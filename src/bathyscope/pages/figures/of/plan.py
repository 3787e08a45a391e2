"""Costs of a plan's candidates on the test prompts: a row for each, with its interval."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.core.text import level_text
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.forest import EstimateRow, draw_rows
from bathyscope.prompts.parts import resampled

_ROW_INCHES: Final = 0.24
_AROUND_INCHES: Final = 1.1


def drawing(data: xr.Dataset) -> Drawing:
    """Draw the costs of all candidates in one panel."""
    columns = ("candidate", "test_cost", "test_cost_low", "test_cost_high", "indistinguishable")
    rows = [
        EstimateRow(str(name), style.BLUE, cost, low, high, "o", hollow=not alike)
        for name, cost, low, high, alike in zip(*(data[column].values for column in columns))
    ]
    costs = ", ".join(f"{row.label} {row.value:.4g}" for row in rows)
    size = (style.PANEL_SIZE[0], _AROUND_INCHES + _ROW_INCHES * len(rows))
    note = (
        f"Cost of leaving out {int(data.attrs['size'])} of {int(data.attrs['n_units'])} on {data.sizes['prompt']} test "
        f"prompts, by the rule that chose them; whiskers: {level_text(float(data.attrs['level']))} intervals over "
        f"{resampled(data.attrs.get('cluster'))}. "
        "Hollow marks differ clearly from the best (paired bootstrap, corrected for all pairs)."
    )
    panel = Panel("costs", partial(_draw_costs, rows=rows), f"Test costs in nats per token: {costs}.", size)
    return Drawing([panel], note, heading="What candidates cost on other text")


def _draw_costs(figure: FigureBase, rows: Sequence[EstimateRow]) -> None:
    ax = figure.subplots()
    draw_rows(ax, rows, size=5)
    ax.set(xlabel="cost (nats per token)", title="Cost on the test prompts")
