"""Skip maps with values under the pointer, for a page that carries plotly's library inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

import plotly.graph_objects as go
import plotly.io
import plotly.offline

from bathyscope.report.figures import skip, style
from bathyscope.report.figures.effect_map import EffectMap
from bathyscope.report.figures.options import FigureOptions

if TYPE_CHECKING:
    from bathyscope.store.run import Run


def plotly_library() -> str:
    """The whole of plotly.js (about 5 MB), once for a page."""
    return str(plotly.offline.get_plotlyjs())


def skip_plots(run: Run, options: FigureOptions, anchor: str) -> list[str]:
    """One HTML element per map; ``anchor`` keeps their ids apart between runs."""
    return [
        plotly.io.to_html(
            _figure(shown),
            full_html=False,
            include_plotlyjs=False,
            div_id=f"{anchor}-skip-{name}-interactive",
            config={"displayModeBar": False, "responsive": True, "plotlyServerURL": ""},
        )
        for name, shown in skip.maps(run, options).items()
    ]


def _figure(shown: EffectMap) -> go.Figure:
    heat = go.Heatmap(
        z=shown.visible,
        zmin=0,
        zmax=shown.ceiling,
        colorscale=style.EFFECT_MAP,
        hovertemplate="skipped block %{y}<br>affected block %{x}<br>change %{z:.4g}<extra></extra>",
        colorbar={
            "title": {"text": "relative change<br>(dimensionless, linear)"},
            "orientation": "h",
            "y": -0.35,
        },
    )
    figure = go.Figure(heat)
    figure.update_layout(
        title={"text": f"{shown.title}<br><sub>{shown.reduction}</sub>", "x": 0.02, "font": {"size": 14}},
        height=520,
        margin={"l": 50, "r": 10, "t": 60, "b": 60},
        plot_bgcolor=style.VOID,
        paper_bgcolor=style.PAPER,
        font={"color": style.INK, "size": 12},
        template="none",
    )
    figure.update_xaxes(title_text="affected block (0-based index)", showgrid=False, zeroline=False)
    figure.update_yaxes(
        title_text="skipped block (0-based index)", autorange="reversed", showgrid=False, zeroline=False
    )
    return figure
