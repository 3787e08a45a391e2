"""Integrated gradients: which token at which block raises or lowers the probability of the answer.

Source: csordas2025 (integrated gradients).
"""

from typing import Final

import xarray as xr

from bathyscope.pages.figures.kind import Drawing, FigureKind, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.heat_map import Side
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import BLOCK_LABEL, PARTS, Axis, Curve
from bathyscope.pages.figures.kit.token_map import FIXED, SHORT_BLOCK_LABEL, UNANSWERED, TokenGrid, make_token_panels
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.runs.run import Run

_SITES: Final = {"block": "output of the block", "attention": "attention's contribution", "mlp": "MLP's contribution"}
_MISSING: Final = Axis(
    "How far attributions miss what they explain", BLOCK_LABEL, "missing, in size (dimensionless)", "auto"
)


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw maps of the first prompts, one below the other for each site, and how complete they are."""
    data = run["integrated_gradients"]
    measured = measure_options(run, "integrated_gradients")
    over, target = measured.get("baseline", "tokens"), measured.get("target", "probability")
    start = "its mean over the prompt's tokens" if over == "tokens" else f"its mean over {over}"
    note = (
        f"The summed {target} of the answer's tokens, attributed to each token at each block by integrated "
        f"gradients, on the straight path from {start}. Red: the stream there raises the "
        f"{target}; blue: it lowers it. Equal colours are equal values in all maps. {FIXED} The last token predicts "
        "nothing that is measured and is not drawn. "
    )
    values_by_name: dict[str, TokenGrid] = {}
    if "attribution" in data:
        depth = Side(SHORT_BLOCK_LABEL, "block")
        attribution = _blank_fixed(data)
        for site in map(str, data["site"].values):
            values_by_name[site] = TokenGrid(
                attribution.sel(site=site),
                f"Attribution to the {_SITES.get(site, site)}",
                depth,
                "attribution (dimensionless, linear)",
                "attribution",
                "signed",
                site if values_by_name else "prompt",
            )
    if "completeness" in data:
        data = data.assign(completeness=abs(data["completeness"]))
        note += (
            "Completeness: how far the summed attributions of a block miss the difference that they "
            "explain (0: exact). Lines: means over prompts (each prompt counts the same). "
        )
    panels, remarks = make_token_panels(data, values_by_name, options, UNANSWERED)
    curves = [
        Curve("completeness", style.PART_NAMES[site], PARTS[site], "prompts", {"site": site})
        for site in map(str, data["site"].values)
    ]
    complete = make_chart("completeness", data, _MISSING, curves, options)
    return Drawing(drop_empty([*panels, complete]), note + remarks)


def _blank_fixed(data: xr.Dataset) -> xr.DataArray:
    """Blank what is 0 by definition: the last block's output at a token that predicts no token of the answer."""
    values = data["attribution"]
    if "answer_start" not in data:
        return values
    at_end = values["block"] == values["block"].max()
    return values.where(~(at_end & (values["token"] < data["answer_start"] - 1)))


FIGURE: Final = FigureKind(
    "integrated_gradients", "Integrated gradients", ("attribution", "completeness"), _make_drawing
)
