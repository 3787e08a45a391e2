"""Integrated gradients: which token at which block carries the probability of the answer, and in which direction.

Source: csordas2025 (integrated gradients).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
import xarray as xr

from bathyscope.report.figures import style
from bathyscope.report.figures.colours import Colours
from bathyscope.report.figures.heat_map import HeatMap, Side
from bathyscope.report.figures.kind import FigureKind, Panel
from bathyscope.report.figures.lines import BLOCK_LABEL, Axis, Look, panel, series
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.token_map import BLOCK_LABEL as SHORT_BLOCK_LABEL
from bathyscope.report.figures.token_map import Reading, describe_maps, measured_prompts, token_map, token_panels
from bathyscope.report.provenance import measure_options

if TYPE_CHECKING:
    from bathyscope.store.run import Run

_LOOKS: Final = {
    "block": Look(style.BLOCK, "^"),
    "attention": Look(style.ATTENTION, "o", "--"),
    "mlp": Look(style.MLP, "s", ":"),
}
_SITES: Final = {"block": "output of the block", "attention": "attention's contribution", "mlp": "MLP's contribution"}


def maps(run: Run, options: FigureOptions) -> dict[str, HeatMap]:
    """Maps of the first prompts that were measured, site after site; each site in the same colours for all prompts."""
    data = run["integrated_gradients"]
    if "attribution" not in data:
        return {}
    values = data["attribution"]
    sites = [str(site) for site in values["site"].values]
    colours = {site: Colours.spanning(np.asarray(values.sel(site=site)), "signed", clips=False) for site in sites}
    return {
        f"{site}_{prompt}": token_map(
            data.isel(prompt=prompt).sel(site=site), "attribution", "block", _reading(site), colours[site]
        )
        for prompt in measured_prompts(values)[: options.prompts_shown]
        for site in sites
        if values.isel(prompt=prompt).sel(site=site).notnull().any()
    }


def panels(run: Run, options: FigureOptions) -> list[Panel]:
    """The maps of each prompt shown, site under site, then how complete the attributions are."""
    made = token_panels(maps(run, options))
    complete = _completeness(run["integrated_gradients"], options)
    return made if complete is None else [*made, complete]


def note(run: Run, options: FigureOptions) -> str:
    """What is attributed, what signs mean, and which prompts are shown."""
    data, shown = run["integrated_gradients"], maps(run, options)
    over = measure_options(run, "integrated_gradients").get("baseline", "tokens")
    start = "its mean over the prompt's tokens" if over == "tokens" else f"its mean over {over}"
    said = (
        "The probability of the answer's tokens, added up, attributed to each token at each block by integrated "
        f"gradients, on the straight path from {start}. Red: what is there raises the "
        "probability; blue: it lowers it. Equal colours are equal values within a site. The last token predicts "
        "nothing that is measured and is not drawn. "
    )
    if "completeness" in data:
        said += (
            "Completeness: how far the attributions of a block, added up, miss the difference of probabilities that "
            "they explain (0: exact). Lines: means over prompts, each counting the same. "
        )
    values = data["attribution"] if "attribution" in data else data["completeness"]
    return said + describe_maps(shown, measured_prompts(values), data.sizes["prompt"])


def _reading(site: str) -> Reading:
    return Reading(
        f"Attribution to the {_SITES.get(site, site)}",
        Side(SHORT_BLOCK_LABEL, "block"),
        "attribution\n(dimensionless, linear)",
        "attribution",
    )


def _completeness(data: xr.Dataset, options: FigureOptions) -> Panel | None:
    if "completeness" not in data:
        return None
    curves = [
        series(
            data.sel(site=site), "completeness", style.PART_NAMES[str(site)], _LOOKS[str(site)], options, "prompts", abs
        )
        for site in data["site"].values
    ]
    axis = Axis("How far attributions miss what they explain", BLOCK_LABEL, "missing, in size (dimensionless)", "auto")
    return panel("completeness", curves, axis)


FIGURE: Final = FigureKind(
    name="integrated_gradients",
    measure="integrated_gradients",
    heading="Integrated gradients",
    needs=("attribution", "completeness"),
    panels=panels,
    note=note,
    maps=maps,
)
draw, caption = FIGURE.draw, FIGURE.caption
