"""Where two models part: drift along the depth, grafts, changes of weights, and drift by token. Drawn from ``diff``."""

from collections.abc import Sequence
from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import FigureBase

from bathyscope.analysis.between.diff_text import begins_apart, first_beyond
from bathyscope.core.estimates import write_number
from bathyscope.core.text import level_text, visible
from bathyscope.pages.figures.kind import Drawing, Panel
from bathyscope.pages.figures.kit import style
from bathyscope.pages.figures.kit.axes import block_axis
from bathyscope.pages.figures.kit.colours import Colours
from bathyscope.pages.figures.kit.heat_map import (
    HeatMap,
    Side,
    describe_largest,
    measure_token_map,
)
from bathyscope.pages.figures.kit.multiples import draw_alone
from bathyscope.pages.figures.kit.series import BLOCK_LABEL, BOUNDARY_LABEL, PARTS, Look
from bathyscope.pages.figures.kit.token_map import SHORT_BOUNDARY_LABEL, TOKEN_LABEL
from bathyscope.prompts.parts import resampled

_SHOWN_PROMPTS: Final = 2
_GRAFTS: Final = {
    "graft": ("block of B in A", Look(style.BLUE, "o", "-")),
    "graft_back": ("block of A in B", Look(style.VERMILION, "s", "--")),
}
_CUMULATIVE: Final = {
    "cumulative": ("blocks up to this one of B in A", Look(style.BLUE, "o", "-")),
    "cumulative_back": ("blocks up to this one of A in B", Look(style.VERMILION, "s", "--")),
}


def drawing(data: xr.Dataset) -> Drawing:
    """Draw drift, its parts, both grafts, what they add up to, weights against effects, and drift by token."""
    first = first_beyond(data)
    begins = "within rounding"
    if first is not None:
        place = "in front of block 0" if begins_apart(data) else f"behind block {first}"
        begins = f"first above what rounding may explain {place}"
    panels = [
        Panel("drift", partial(_draw_drift, data=data), f"Drift of the streams by boundary, {begins}."),
        Panel("grafts", partial(_draw_grafts, data=data), f"Effect of single grafts: {_listed(data, 'graft')}."),
        Panel(
            "cumulative",
            partial(_draw_cumulative, data=data),
            f"Effect of all blocks up to one: {_listed(data, 'cumulative')}.",
        ),
    ]
    if np.isfinite(data["part_drift_mean"].values).any():
        panels.append(Panel("parts", partial(_draw_parts, data=data), "Drift of what attention and MLP add, by block."))
    if np.isfinite(data["weight_change"].values).any():
        panels.append(
            Panel(
                "weights",
                partial(_draw_weights, data=data),
                f"Change of each block's weights against its effect: {_listed(data, 'weight_change')}.",
            )
        )
    panels += [_token_panel(data, place) for place in _most_parted(data)]
    note = (
        f"A = {data.attrs['model']}, B = {data.attrs['other']}, {data.sizes['prompt']} prompts; bands: "
        f"{level_text(float(data.attrs['level']))} intervals over {resampled(data.attrs.get('cluster'))}. Broken: what "
        "rounding may explain, the largest over prompts, each of which is compared with its own; dotted: the largest "
        "drift of a prompt. A graft puts one block of one model into the other, with all else as it was; the dotted "
        "line is the sum of the single grafts up to a block. Where the curve and the sum part, single blocks do not "
        "explain the difference. Maps: drift at every token, of the prompts whose predictions differ most; triangles: "
        "the models predict different next tokens there."
    )
    return Drawing(panels, note, heading="Where the two models part", blocks=data.sizes["block"])


def _listed(data: xr.Dataset, name: str) -> str:
    values = data[name if name == "weight_change" else f"{name}_mean"].values
    return ", ".join(f"{block}: {write_number(value, '.3g')}" for block, value in enumerate(values))


def _band(ax: Axes, x: np.ndarray, data: xr.Dataset, name: str, label: str, look: Look) -> None:
    low, high = (data[f"{name}_{end}"].values for end in ("low", "high"))
    ax.fill_between(x, low, high, color=look.colour, alpha=0.15, linewidth=0)
    ax.plot(
        x, data[f"{name}_mean"].values, look.line, marker=look.marker, color=look.colour, markersize=3.5, label=label
    )


def _finish(ax: Axes, x: np.ndarray, label: str, y: str, title: str) -> None:
    block_axis(ax, label, float(x.min()), float(x.max()))
    # Exact zeros, where blocks are equal, have to be seen: no logarithm.
    ax.set_ylim(bottom=0)
    ax.set(ylabel=y, title=title)
    ax.legend(fontsize=6.5)


def _draw_drift(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x = figure.subplots(), data["boundary"].values
    _band(ax, x, data, "drift", "drift", Look(style.BLUE))
    ax.plot(x, data["noise_floor"].values.max(0), **style.BROKEN, label="rounding (largest of a prompt)")
    ax.plot(x, data["drift"].values.max(0), ":", color=style.MUTED, label="largest drift of a prompt")
    if first_beyond(data) is not None:
        boundary = int(np.flatnonzero(data["beyond"].values)[0])
        ax.plot(boundary, data["drift"].values[:, boundary].max(), "v", color=style.VERMILION, label="parts here")
    _finish(ax, x, BOUNDARY_LABEL, "‖h of B − h of A‖ / ‖h of A‖", "How far the streams drift")


def _draw_parts(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x = figure.subplots(), data["block"].values
    for part in data["part"].values.tolist():
        _band(ax, x, data.sel(part=part), "part_drift", style.PART_NAMES[part], PARTS[part])
    _finish(ax, x, BLOCK_LABEL, "difference over the size in A", "What attention and MLP add")


def _draw_grafts(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x = figure.subplots(), data["block"].values
    for name, (label, look) in _GRAFTS.items():
        _band(ax, x, data, name, label, look)
    _finish(ax, x, BLOCK_LABEL, "KL (nats per token)", "What single grafts do")


def _draw_cumulative(figure: FigureBase, data: xr.Dataset) -> None:
    ax, x = figure.subplots(), data["block"].values
    for name, (label, look) in _CUMULATIVE.items():
        _band(ax, x, data, name, label, look)
    ax.plot(x, np.cumsum(data["graft_mean"].values), ":", color=style.MUTED, label="sum of single grafts of B in A")
    _finish(ax, x, BLOCK_LABEL, "KL (nats per token)", "What they add up to")


def _draw_weights(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    change, effect = data["weight_change"].values, data["graft_mean"].values
    ax.plot(change, effect, "o", color=style.GREEN, markersize=4)
    for block, point in enumerate(zip(change, effect)):
        if not np.isfinite(point).all():  # a block without a change that could be counted
            continue
        ax.annotate(str(block), point, (3, 3), textcoords="offset points", fontsize=6.5, color=style.INK)
    ax.set(xlabel="change of the weights over their norm", ylabel="graft of B in A (nats per token)")
    ax.set_title("Change against effect, by block")


def _most_parted(data: xr.Dataset) -> Sequence[int]:
    """Return the prompts whose predictions differ most, in their order."""
    whole = data["output"].values
    chosen = [place for place in np.argsort(-whole, kind="stable")[:_SHOWN_PROMPTS] if whole[place] > 0]
    return sorted(int(place) for place in chosen)


def _token_panel(data: xr.Dataset, prompt: int) -> Panel:
    values_BT = data["token_drift"].values[prompt]
    values_BT = values_BT[:, np.isfinite(values_BT[0])]
    pieces = tuple(visible(str(piece)) for piece in data["piece"].values[prompt][: values_BT.shape[1]])
    kl_T = data["token_kl"].values[prompt]
    differs = data["predicted"].values[prompt] != data["other"].values[prompt]
    heat = HeatMap(
        values=values_BT.T,
        title=f"Drift by token: prompt {data['prompt'].values[prompt]}",
        rows=Side(TOKEN_LABEL, "token", pieces, tuple(np.flatnonzero(differs & np.isfinite(kl_T)).tolist())),
        columns=Side(SHORT_BOUNDARY_LABEL, "boundary"),
        quantity="drift (dimensionless)",
        short="drift",
        colours=Colours.spanning(values_BT, "linear", clips=True),
    )
    alt = f"Heat map of {values_BT.shape[1]} tokens by {values_BT.shape[0]} boundaries. {describe_largest(heat)}."
    return Panel(f"prompt_{prompt}", partial(draw_alone, heat=heat), alt, measure_token_map(heat))
