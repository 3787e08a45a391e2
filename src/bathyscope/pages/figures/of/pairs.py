"""Pairs of blocks left out: their cost, and how much it exceeds the costs of each alone. Source: own."""

from typing import Final

import numpy as np
import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.heat_map import Colours, HeatMap, Side
from bathyscope.pages.figures.kit.multiples import make_map_panel
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.provenance import measure_options
from bathyscope.prompts.parts import resampled
from bathyscope.runs.run import Run

_MAPS: Final = {"interaction": "Interaction of two blocks", "cost": "Cost of two blocks"}


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw a diverging map of interactions, and a map of costs."""
    data = run["pairs"]
    panels = [
        make_map_panel(name, _make_map(data[name].mean("prompt"), title))
        for name, title in _MAPS.items()
        if name in data
    ]
    note = (
        "Two blocks left out at once, means over prompts. Interaction: their cost minus the sum of each alone. "
        "Above 0 each block can replace the other, so the loss of both costs more; below 0 the second has less to do "
        f"without the first. {_describe_intervals(run)}The diagonal of the costs is each block alone."
    )
    return Drawing(panels, note)


def _describe_intervals(run: Run) -> str:
    """Say how many interactions differ from 0; empty for part of a run, which has no intervals."""
    data = run["pairs"]
    if not {"interaction_low", "interaction_high"} <= set(data):
        return ""
    low, high = data["interaction_low"].values, data["interaction_high"].values
    upper = np.triu_indices(len(low), 1)
    above, below = int((low[upper] > 0).sum()), int((high[upper] < 0).sum())
    settings = measure_options(run, "pairs")
    cluster = settings.get("cluster")
    units = f"{data.sizes['prompt']} prompts" if cluster is None else resampled(cluster)
    chance = len(upper[0]) * (1 - float(settings.get("level", 0.95)))
    return (
        f"Of {len(upper[0])} pairs the interval over {units} lies above 0 in {above} and below in {below}. "
        f"Intervals are not corrected: about {chance:.2g} would exclude 0 by chance if no two blocks interacted. "
    )


def _make_map(values: xr.DataArray, title: str) -> HeatMap:
    # Axes count places, so blocks that were not left out need blank rows and columns.
    every = range(int(values["dropped"].max()) + 1)
    grid, short = values.reindex(dropped=every, other=every).values, str(values.name)
    return HeatMap(
        values=grid,
        title=title,
        rows=Side("block left out (0-based index)", "block"),
        columns=Side("other block left out (0-based index)", "other block"),
        quantity=f"{short} (nats)",
        short=short,
        colours=Colours.spanning(grid, "signed"),
    )


FIGURE: Final = FigureKind("pairs", "Two blocks left out", tuple(_MAPS), _make_drawing)
