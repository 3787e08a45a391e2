"""What candidates of a plan cost on the test prompts: a row each, with its interval."""

from functools import partial
from typing import Final

import xarray as xr
from matplotlib.figure import FigureBase

from bathyscope.prompts.parts import resampled
from bathyscope.report.figures import style
from bathyscope.report.figures.kind import Drawing, Panel
from bathyscope.surgery.plan import Plan

_ROW_INCHES: Final = 0.24
_AROUND_INCHES: Final = 1.1


def drawing(plan: Plan) -> Drawing:
    """One panel."""
    data = plan.data
    names = data["candidate"].values.tolist()
    told = ", ".join(f"{name} {cost:.4g}" for name, cost in zip(names, data["test_cost"].values))
    size = (style.PANEL_SIZE[0], _AROUND_INCHES + _ROW_INCHES * len(names))
    note = (
        f"Cost of leaving out {int(data.attrs['size'])} of {int(data.attrs['n_units'])} on {data.sizes['prompt']} test "
        f"prompts, by the rule that chose them; whiskers: {float(data.attrs['level']):.0%} intervals over "
        f"{resampled(data.attrs.get('cluster'))}. "
        "Hollow marks can be told from the best (paired bootstrap, corrected for all pairs)."
    )
    panel = Panel("costs", partial(_draw, data=data), f"Test costs in nats per token: {told}.", size)
    return Drawing([panel], note, heading="What candidates cost on other text")


def _draw(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    for row, alike in enumerate(data["indistinguishable"].values):
        one = data.isel(candidate=row)
        ax.hlines(row, one["test_cost_low"], one["test_cost_high"], color=style.BLUE, linewidth=1.6, alpha=0.6)
        face = style.BLUE if alike else style.PAPER
        ax.plot([one["test_cost"]], [row], "o", color=style.BLUE, markerfacecolor=face, markersize=5)
    ax.set_yticks(range(data.sizes["candidate"]), data["candidate"].values.tolist())
    ax.set_ylim(data.sizes["candidate"] - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("cost (nats per token)")
    ax.set_title("Cost on the test prompts")
