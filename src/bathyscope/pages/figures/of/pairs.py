"""Pairs of blocks left out: their cost, and how much it exceeds the costs of each alone. Source: own."""

from dataclasses import replace
from typing import Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope.core.text import true_minus
from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit.colours import Colours, choose_scale
from bathyscope.pages.figures.kit.heat_map import HeatMap, Side
from bathyscope.pages.figures.kit.multiples import make_map_panel
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.prompts.parts import resampled
from bathyscope.runs.run import Run

_MAPS: Final = {"interaction": "Interaction of two blocks", "cost": "Cost of two blocks"}


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw a map of interactions, with stars where their interval leaves 0, and a map of costs."""
    data = run["pairs"]
    panels = [
        make_map_panel(name, _make_map(data, name, title, options)) for name, title in _MAPS.items() if name in data
    ]
    note = (
        "Two blocks left out at once, means over prompts. Interaction: their cost minus the sum of each alone. "
        "Above 0 each block can replace the other, so the loss of both costs more; below 0 the second has less to do "
        f"without the first. {_describe_intervals(run)}The diagonal of the costs is each block alone. Grey: each pair "
        "is in the upper triangle once."
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


def _make_map(data: xr.Dataset, name: str, title: str, options: FigureOptions) -> HeatMap:
    """Make the upper triangle of a map; what block 0 does with others is said in words where it outweighs them."""
    # Axes count places, so blocks that were not left out need blank rows and columns.
    every = np.arange(int(data["dropped"].max()) + 1)
    first, second = every[:, None], every[None, :]
    means = data[name].transpose("prompt", "dropped", "other").mean("prompt").reindex(dropped=every, other=every)
    grid = np.where(second > first if name == "interaction" else second >= first, means.values, np.nan)
    quantity = f"{name} (nats{{scale}})"
    starred = _find_starred(data, every) if name == "interaction" else np.zeros_like(grid, dtype=bool)
    if starred.any():
        quantity += "; star: its interval leaves 0"
    hatched: tuple[int, ...] = ()
    # Without block 0 nothing is left of most models, and its costs would leave all others in one colour.
    if np.isfinite(grid[1:]).any() and np.isfinite(grid[0]).any():
        low, high = np.nanmin(grid[0]), np.nanmax(grid[0])
        quantity += true_minus(f"\nnot coloured: with block 0, {low:.3g} to {high:.3g}")
        grid[0], hatched = np.nan, (0,)
    seen = grid[np.isfinite(grid)]
    scale = choose_scale(seen, options.scale) if seen.min() > 0 else "linear"
    colours = Colours.spanning(grid, scale, clips=False)
    if seen.min() < 0:
        colours = replace(colours, low=float(seen.min()), high=max(float(seen.max()), 0.0))
    return HeatMap(
        values=grid,
        title=title,
        rows=Side("block left out (0-based index)", "block"),
        columns=Side("other block left out (0-based index)", "other block"),
        quantity=quantity.format(scale=", log" if scale == "log" else ""),
        short=name,
        colours=colours,
        hatched=hatched,
        starred=tuple((int(row), int(column)) for row, column in np.argwhere(starred & np.isfinite(grid))),
    )


def _find_starred(data: xr.Dataset, every: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Return which pairs have an interval without 0; none where the run is part of another and has no intervals."""
    if not {"interaction_low", "interaction_high"} <= set(data):
        return np.zeros((len(every), len(every)), dtype=bool)
    low, high = (
        data[f"interaction_{end}"].reindex(dropped=every, other=every).transpose("dropped", "other").values
        for end in ("low", "high")
    )
    return np.asarray((low > 0) | (high < 0))


FIGURE: Final = FigureKind("pairs", "Two blocks left out", tuple(_MAPS), _make_drawing)
