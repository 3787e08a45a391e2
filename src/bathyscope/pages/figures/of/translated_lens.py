"""Translated lens: what can be read at each boundary through a linear map to the last one, next to the plain lens.

Sources: Din et al. 2023, linear shortcuts; Belrose et al. 2023, tuned lens.
"""

from typing import Final

import xarray as xr

from bathyscope.labels import token_weights
from bathyscope.pages.figures.kind import Drawing, FigureKind, Panel, drop_empty
from bathyscope.pages.figures.kit import strip, style
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import BOUNDARY_LABEL, Axis, Curve, Look
from bathyscope.pages.figures.kit.strip import PromptValues, Scale
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.pages.text.provenance import measure_options
from bathyscope.runs.run import Run

_LOOKS: Final = {"translated": Look(style.BLUE), "lens": Look(style.VERMILION, "s", "--")}
_PANELS: Final = {
    "kl": ("Distance from the final prediction", "KL(final ‖ read) ({unit})"),
    "top1_agreement": ("Same top-1 token as in the end", "share of tokens ({unit})"),
}


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw KL and top-1 agreement by boundary, and where predictions settle, for both readers."""
    data = run["translated_lens"]
    panels = [_make_curve_panel(name, data, options) for name in _PANELS] + [_make_depth_panel(data, options)]
    read = int((data["n_averaged"] > 0).sum())
    answers = measure_options(run, "translated_lens").get("positions") == "answer"
    tokens = " that predict the answers" if answers else ", without position 0,"
    note = (
        "Translated: the stream at each boundary, mapped to the last one by least squares on other prompts, and read "
        f"out by the model itself. Lens: read without a map. Means are over the tokens{tokens} of the "
        f"{read} prompts that no map was fitted to. {describe(options, read)} Prediction depth: the first boundary "
        f"after which the top-1 token no longer changes{_describe_means(data)}. Decodable information need not be used "
        "yet."
    )
    return Drawing(drop_empty(panels), note)


def _make_curve_panel(name: str, data: xr.Dataset, options: FigureOptions) -> Panel | None:
    title, height = _PANELS[name]
    curves = [Curve(name, reader, look, at={"reader": reader}) for reader, look in _LOOKS.items()]
    return make_chart(name, data, Axis(title, BOUNDARY_LABEL, height), curves, options)


def _make_depth_panel(data: xr.Dataset, options: FigureOptions) -> Panel | None:
    depths, weights = data["prediction_depth"], token_weights(data, "prediction_depth")
    rows = [PromptValues(reader, depths.sel(reader=reader), weights) for reader in _LOOKS]
    last = int(data["boundary"].values[-1])
    scale = Scale("Where predictions settle", "boundary (index, mean over tokens)", 0, last, whole=True)
    return strip.make_panel("prediction_depth", rows, scale, options)


def _describe_means(data: xr.Dataset) -> str:
    """Write the mean depths of both readers; empty for part of a run with some of its prompts."""
    if "decodable" not in data:
        return ""
    decodable, readable = (f"{float(data[name]):.1f}" for name in ("decodable", "readable"))
    return f"; on average over prompts {decodable} translated (decodable) and {readable} by the lens on these tokens"


FIGURE: Final = FigureKind("translated_lens", "Translated lens", tuple(_PANELS), _make_drawing)
