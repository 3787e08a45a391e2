"""Maps with values under the pointer, for a page that carries plotly's library inside."""

from __future__ import annotations

import html
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import plotly.graph_objects as go
import plotly.io
import plotly.offline

from bathyscope.report.figures import style
from bathyscope.report.figures.heat_map import HeatMap
from bathyscope.report.figures.kind import FigureKind
from bathyscope.report.figures.options import FigureOptions
from bathyscope.report.figures.token_map import panel_size

if TYPE_CHECKING:
    from bathyscope.store.run import Run

_FEW: Final = 12
_STANDOFF: Final = 20
"""Between the tokens' texts and the name of their axis; without it plotly lets them overlap."""


def plotly_library() -> str:
    """The whole of plotly.js (about 5 MB), once for a page."""
    return str(plotly.offline.get_plotlyjs())


@dataclass(frozen=True)
class Plot:
    """An HTML element, and the width in inches at which it can be read."""

    element: str
    width: float


def plots(kind: FigureKind, run: Run, options: FigureOptions, anchor: str) -> list[Plot]:
    """One element per map of this kind; ``anchor`` keeps their ids apart between runs."""
    maps = {} if kind.maps is None else kind.maps(run, options)
    return [
        Plot(_element(shown, f"{anchor}-{kind.name}-{name}-interactive"), _width(shown)) for name, shown in maps.items()
    ]


def _element(shown: HeatMap, name: str) -> str:
    made = plotly.io.to_html(
        _figure(shown),
        full_html=False,
        include_plotlyjs=False,
        div_id=name,
        config={"displayModeBar": False, "responsive": True, "plotlyServerURL": ""},
    )
    return str(made)


def _width(shown: HeatMap) -> float:
    return style.PANEL_SIZE[0] if shown.columns.pieces is None else panel_size([shown])[0]


def _figure(shown: HeatMap) -> go.Figure:
    colours, logarithmic = shown.colours, shown.colours.kind == "log"
    low, high = (np.log10(end) if logarithmic else end for end in (colours.low, colours.high))
    rows, columns = shown.values.shape
    heat = go.Heatmap(
        z=np.log10(colours.drawable(shown.values)) if logarithmic else shown.values,
        customdata=_texts(shown),
        zmin=low,
        zmax=high,
        colorscale=colours.name,
        hovertemplate="%{customdata}<extra></extra>",
        hoverongaps=False,
        colorbar={"title": {"text": _as_text(shown.quantity)}, "thickness": 15, **_place(shown), **_ticks(shown)},
    )
    figure = go.Figure(heat)
    figure.update_layout(
        title={"text": _as_text(shown.title), "x": 0.02, "font": {"size": 14}},
        height=520,
        margin={"l": 50, "r": 10, "t": 60, "b": 60},
        plot_bgcolor=style.VOID,
        paper_bgcolor=style.PAPER,
        font={"color": style.INK, "size": 12},
        template="none",
    )
    figure.update_xaxes(title_text=_as_text(shown.columns.label), showgrid=False, zeroline=False, **_whole(columns))
    if shown.columns.pieces is not None:
        marked = shown.columns.marked
        pieces = [
            f"<b>{_as_text(piece)}</b>" if place in marked else _as_text(piece)
            for place, piece in enumerate(shown.columns.pieces)
        ]
        figure.update_xaxes(tickvals=list(range(len(pieces))), ticktext=pieces, tickangle=-90, tickfont={"size": 10})
        figure.update_xaxes(automargin=True, title_standoff=_STANDOFF)
    figure.update_yaxes(
        title_text=_as_text(shown.rows.label), autorange="reversed", showgrid=False, zeroline=False, **_whole(rows)
    )
    return figure


def _whole(places: int) -> dict[str, int]:
    """Ticks at whole numbers, where there would otherwise be room for halves."""
    return {"dtick": 1} if places <= _FEW else {}


def _place(shown: HeatMap) -> dict[str, object]:
    """Where the colour bar stands: below, or at the side where the tokens' texts stand below."""
    if shown.columns.pieces is not None:
        return {"title_side": "right"}
    return {"orientation": "h", "y": -0.25, "yanchor": "top", "title_side": "bottom"}


def _texts(shown: HeatMap) -> list[list[str]]:
    """What the pointer shows for each cell."""
    pieces = shown.columns.pieces
    names = [f"{shown.columns.short} {place}" for place in range(shown.values.shape[1])]
    if pieces is not None:
        names = [f"{name} ({piece})" for name, piece in zip(names, pieces)]
    return [
        [
            f"{_as_text(f'{shown.rows.short} {row}')}<br>{_as_text(name)}<br>{_as_text(shown.short)} {value:.4g}"
            for name, value in zip(names, values)
        ]
        for row, values in enumerate(shown.values)
    ]


def _as_text(text: str) -> str:
    """The text itself, where plotly would take some of it for markup."""
    return html.escape(text).replace("\n", "<br>")


def _ticks(shown: HeatMap) -> dict[str, object]:
    """Ticks of a logarithmic colour bar in the values' own units."""
    if shown.colours.kind != "log":
        return {}
    exponents = np.linspace(np.log10(shown.colours.low), np.log10(shown.colours.high), 5)
    return {"tickvals": exponents.tolist(), "ticktext": [f"{10**exponent:.2g}" for exponent in exponents]}
