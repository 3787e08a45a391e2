"""Swap cosines: whether two blocks contribute the same in the other order. Source: lad2024, swap cosines."""

from typing import Final

from bathyscope.pages.figures.kind import Drawing, FigureKind, drop_empty
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.lines import make_chart
from bathyscope.pages.figures.kit.series import PLACES, Axis, Curve, Look
from bathyscope.pages.figures.kit.summary import describe
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.runs.run import Run

_CURVES: Final = (
    Curve("self", "same block, other place", Look(style.BLUE, "o")),
    Curve("index", "same place, other block", Look(style.VERMILION, "s", "--")),
    Curve("adjacent", "neighbours, normal order", Look(style.MUTED, "D", ":")),
)


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw one panel for attention's contributions and one for the MLP's."""
    data = run["swap_cosine"]
    panels = []
    for part in map(str, data["part"].values):
        title = f"Contributions of {style.PART_NAMES[part]}, blocks swapped"
        axis = Axis(title, PLACES["swapped"], "cosine ({unit})", rules={0.0: ""})
        panels.append(make_chart(part, data.sel(part=part), axis, _CURVES, options))
    note = (
        "Block ℓ+1 runs before block ℓ. Cosine of what block ℓ adds in the normal run with what it adds in the other "
        "place (same block), with what block ℓ+1 adds in its place (same place), and with what block ℓ+1 adds in the "
        "normal run (neighbours). 1: the same direction; 0: orthogonal. Same block near 1: the block does the "
        "same work in either place. Same place near 1: the work belongs to the depth and not to the block. "
        f"{describe(options, data.sizes['prompt'])}"
    )
    return Drawing(drop_empty(panels), note)


FIGURE: Final = FigureKind(
    "swap_cosine", "What swapped blocks write", tuple(curve.name for curve in _CURVES), _make_drawing
)
