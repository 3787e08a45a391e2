"""Integrated gradients: which token at which block carries the probability of the answer, and in which direction.

Source: csordas2025 (integrated gradients).
"""

from typing import Final

from bathyscope.pages.figures.kind import Drawing, FigureKind
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.heat_map import Side
from bathyscope.pages.figures.kit.lines import BLOCK_LABEL, PARTS, Axis, Curve, chart
from bathyscope.pages.figures.kit.token_map import BLOCK_LABEL as SHORT_BLOCK_LABEL
from bathyscope.pages.figures.kit.token_map import UNANSWERED, Reading, token_panels
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.provenance import measure_options
from bathyscope.runs.run import Run

_SITES: Final = {"block": "output of the block", "attention": "attention's contribution", "mlp": "MLP's contribution"}
_MISSING: Final = Axis(
    "How far attributions miss what they explain", BLOCK_LABEL, "missing, in size (dimensionless)", "auto"
)


def _drawing(run: Run, options: FigureOptions) -> Drawing:
    """Maps of the first prompts, site under site, each site in the same colours for all; then how complete they are."""
    data = run["integrated_gradients"]
    over = measure_options(run, "integrated_gradients").get("baseline", "tokens")
    start = "its mean over the prompt's tokens" if over == "tokens" else f"its mean over {over}"
    note = (
        "The probability of the answer's tokens, added up, attributed to each token at each block by integrated "
        f"gradients, on the straight path from {start}. Red: what is there raises the "
        "probability; blue: it lowers it. Equal colours are equal values within a site. The last token predicts "
        "nothing that is measured and is not drawn. "
    )
    readings = {}
    if "attribution" in data:
        rows = Side(SHORT_BLOCK_LABEL, "block")
        for site in map(str, data["site"].values):
            values, what = data["attribution"].sel(site=site), f"Attribution to the {_SITES.get(site, site)}"
            readings[site] = Reading(
                values, what, rows, "attribution\n(dimensionless, linear)", "attribution", "signed"
            )
    if "completeness" in data:
        data = data.assign(completeness=abs(data["completeness"]))
        note += (
            "Completeness: how far the attributions of a block, added up, miss the difference of probabilities that "
            "they explain (0: exact). Lines: means over prompts, each counting the same. "
        )
    panels, said = token_panels(data, readings, options, UNANSWERED)
    curves = [
        Curve("completeness", style.PART_NAMES[site], PARTS[site], "prompts", {"site": site})
        for site in map(str, data["site"].values)
    ]
    complete = chart("completeness", data, _MISSING, curves, options)
    return Drawing(panels if complete is None else [*panels, complete], note + said)


FIGURE: Final = FigureKind("integrated_gradients", "Integrated gradients", ("attribution", "completeness"), _drawing)
