"""Pairs of blocks left out: what both cost, and how much more than each alone. Source: own."""

from typing import Final

import numpy as np
import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.heat_map import Colours, HeatMap, Side
from bathyscope.pages.figures.kit.multiples import alone
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.provenance import measure_options
from bathyscope.prompts.parts import resampled
from bathyscope.runs.run import Run

_MAPS: Final = {"interaction": "Interaction of two blocks", "cost": "Cost of two blocks"}


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """A diverging map of interactions, and one of costs."""
    data = run["pairs"]
    panels = [alone(name, _map(data[name].mean("prompt"), title)) for name, title in _MAPS.items() if name in data]
    note = (
        "Two blocks left out at once, means over prompts. Interaction: what both cost beyond the sum of each alone. "
        "Above 0 either can make up for the other and both are missed more; below 0 the second has less left to do "
        f"without the first. {_intervals(run)}The diagonal of the costs is each block alone."
    )
    return Drawing(panels, note)


def _intervals(run: Run) -> str:
    """How many interactions are told from none; empty for a part of a run, which has no intervals."""
    data = run["pairs"]
    if not {"interaction_low", "interaction_high"} <= set(data):
        return ""
    low, high = data["interaction_low"].values, data["interaction_high"].values
    upper = np.triu_indices(len(low), 1)
    above, below = int((low[upper] > 0).sum()), int((high[upper] < 0).sum())
    asked = measure_options(run, "pairs")
    cluster = asked.get("cluster")
    units = f"{data.sizes['prompt']} prompts" if cluster is None else resampled(cluster)
    chance = len(upper[0]) * (1 - float(asked.get("level", 0.95)))
    return (
        f"Of {len(upper[0])} pairs the interval over {units} lies above 0 in {above} and below in {below}. "
        f"Each stands for itself: about {chance:.2g} would by chance if no two blocks interacted. "
    )


def _map(values: xr.DataArray, title: str) -> HeatMap:
    # blank where some blocks in between were not left out, since axes count places
    every = range(int(values["dropped"].max()) + 1)
    shown, short = values.reindex(dropped=every, other=every).values, str(values.name)
    return HeatMap(
        values=shown,
        title=title,
        rows=Side("block left out (0-based index)", "block"),
        columns=Side("other block left out (0-based index)", "other block"),
        quantity=f"{short} (nats)",
        short=short,
        colours=Colours.spanning(shown, "signed"),
    )


FIGURE: Final = FigureKind("pairs", "Two blocks left out", tuple(_MAPS), _drawing)
