"""Transformer against MoEUT: accuracy by module, effective depths, what differs, and erasure maps of four problems.

Drawn from what ``studies.sharing.experiment`` gives. Source: csordas2025 (trained comparison).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import Final, TypeVar

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase

from bathyscope.extend.figures import Colours, HeatMap, Panel, Side, arrange, heat_map_panel, style

One = TypeVar("One")

_LOOKS: Final = ((style.BLUE, "o"), (style.VERMILION, "s"))
LOSS_NAMES: Final = {"all": "loss on all tokens", "answer": "loss on the answer"}
_SPLIT_TITLES: Final = {"interpolate": "Held-out problems like those of training", "extrapolate": "Harder problems"}
_ROW_INCHES: Final = 0.11
_FRAME_INCHES: Final = 1.3
_WIDE: Final = (style.PAIRED_UP_TO, 3.2)
_MAP_CELL: Final = (4.7, 2.5)
_NAMES: Final = {
    "kl": "KL",
    "overlap": "top-k overlap",
    "settle": "settle depth of tokens",
    "prediction": "prediction depth of tokens",
}
"""Of estimators whose names say too little."""
_VISIBLE: Final = str.maketrans({" ": "␣", "\n": "⏎"})


def draw(data: xr.Dataset) -> Figure:
    """All panels under a caption."""
    figure = arrange(caption(data), panels(data))
    with style.applied():
        figure.draw_without_rendering()
    return figure


def caption(data: xr.Dataset) -> str:
    """What is compared, and what marks, whiskers and colours are."""
    recipes, seeds = data["recipe"].values.tolist(), data.sizes["seed"]
    counts = " and ".join(f"{int(data['parameters'].sel(recipe=name).max()):,}" for name in recipes)
    blocks = " and ".join(f"{int(data['n_blocks'].sel(recipe=name).max())}" for name in recipes)
    return (
        f"{recipes[0]} against {recipes[1]}: {counts} parameters, {blocks} execution steps, {seeds} seeds. Accuracy: "
        f"share of up to {data.attrs['asked']} problems of each module whose whole answer is right; small marks: "
        "seeds; large hollow ones: their means; dashed: always the commonest answer. Effective depths: one line a "
        "seed, 95 % intervals over prompts. Differences: "
        f"{recipes[0]} less {recipes[1]}, paired by seed, with Student's 95 % intervals over {seeds} seeds"
        f"{', wide as they are for so few' if seeds < 5 else ''}; not corrected for their number. "
        "Rank correlations: 95 % intervals; over all models they take these for independent, which models of one "
        "recipe are not. "
        f"Erasure: seed {data['seed'].values[0]}; equal colours are equal values in all maps of one problem, and where "
        "a column fades, the token is no longer needed; triangles: tokens at which a token of the answer is predicted."
    )


def panels(data: xr.Dataset) -> list[Panel]:
    """Accuracy by split, effective depths by loss, differences, depth and accuracy, and the maps of every problem."""
    return [*_accuracies(data), *_depths(data), _differences(data), *_correlations(data), *_maps(data)]


def _accuracies(data: xr.Dataset) -> Iterator[Panel]:
    for split in data["split"].values.tolist():
        own = data["accuracy"].sel(split=split)
        has_value = own.notnull().any(("recipe", "loss", "seed")).values
        own = own.isel(module=has_value)
        guess = data["commonest"].sel(split=split).isel(module=has_value, recipe=0, loss=0, seed=0)
        rows = own.sizes["module"] * (own.sizes["recipe"] * own.sizes["loss"] + 1)
        size = (_WIDE[0], _FRAME_INCHES + 0.3 + _ROW_INCHES * rows)
        title = _SPLIT_TITLES[split]
        yield Panel(
            f"accuracy_{split}", partial(_draw_accuracy, own=own, guess=guess, title=title), _said(own, title), size
        )


def _draw_accuracy(figure: FigureBase, own: xr.DataArray, guess: xr.DataArray, title: str) -> None:
    ax = figure.subplots()
    rows = _rows(own["module"].values.tolist(), list(_series(own)))
    for place, module, (recipe, loss) in rows:
        colour, marker = _look(own, recipe)
        seeds = own.sel(module=module, recipe=recipe, loss=loss).values
        face = colour if loss == own["loss"].values[0] else style.PAPER
        ax.plot(
            seeds,
            [place] * len(seeds),
            marker,
            color=colour,
            markerfacecolor=face,
            label=f"{recipe}, {LOSS_NAMES[loss]}" if module == own["module"].values[0] else None,
        )
        ax.plot([seeds.mean()], [place], marker, color=colour, markerfacecolor="none", markersize=8)
    for module in own["module"].values:
        places = [place for place, name, _ in rows if name == module]
        ax.vlines(guess.sel(module=module), places[0] - 0.5, places[-1] + 0.5, color=style.MUTED, linestyle="--")
    _name_rows(ax, rows)
    ax.set_xlim(-0.03, 1.03)
    ax.set_xlabel("answers that are right to the end (share)")
    ax.set_title(title)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7)


def _depths(data: xr.Dataset) -> Iterator[Panel]:
    own = data[["ratio", "ratio_low", "ratio_high"]]
    own = own.isel(estimator=own["ratio"].notnull().any(("recipe", "loss", "seed")).values)
    size = (_WIDE[0], _FRAME_INCHES + _ROW_INCHES * own.sizes["estimator"] * (2 * own.sizes["seed"] + 1))
    for loss in data["loss"].values.tolist():
        title = f"Effective depth, {LOSS_NAMES[loss]}"
        shown = own.sel(loss=loss)
        yield Panel(f"depth_{loss}", partial(_draw_depths, own=shown, title=title), _said(shown["ratio"], title), size)


def _draw_depths(figure: FigureBase, own: xr.Dataset, title: str) -> None:
    ax = figure.subplots()
    models = list(itertools.product(own["recipe"].values.tolist(), own["seed"].values.tolist()))
    rows = _rows(own["estimator"].values.tolist(), models)
    for place, estimator, (recipe, seed) in rows:
        colour, marker = _look(own, recipe)
        one = own.sel(estimator=estimator, recipe=recipe, seed=seed)
        ax.hlines(place, one["ratio_low"], one["ratio_high"], color=colour, linewidth=2, alpha=0.6)
        first = estimator == own["estimator"].values[0] and seed == own["seed"].values[0]
        ax.plot(one["ratio"], [place], marker, color=colour, label=recipe if first else None)
    _name_rows(ax, [(place, _estimator_name(name), one) for place, name, one in rows])
    ax.set_xlabel("steps done / execution steps")
    ax.set_title(title)
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _differences(data: xr.Dataset) -> Panel:
    own = data[["difference", "difference_low", "difference_high"]]
    shares = (own["units"] == "1") & own["difference"].notnull().any("loss")
    own = own.isel(quantity=shares.values)
    rows = own.sizes["quantity"] * (own.sizes["loss"] + 1)
    size = (_WIDE[0] + 1, _FRAME_INCHES + _ROW_INCHES * rows)
    first, second = data["recipe"].values.tolist()
    label = f"{first} less {second} (share, or depth ratio)"
    return Panel("differences", partial(_draw_differences, own=own, label=label), _said_differences(own, label), size)


def _draw_differences(figure: FigureBase, own: xr.Dataset, label: str) -> None:
    ax = figure.subplots()
    rows = _rows(own["quantity"].values.tolist(), own["loss"].values.tolist())
    for place, quantity, loss in rows:
        one = own.sel(quantity=quantity, loss=loss)
        first = loss == own["loss"].values[0]
        ax.hlines(place, one["difference_low"], one["difference_high"], color=style.INK, linewidth=1.5, alpha=0.5)
        ax.plot(
            one["difference"],
            [place],
            "D",
            color=style.INK,
            markerfacecolor=style.INK if first else style.PAPER,
            label=LOSS_NAMES[loss] if quantity == own["quantity"].values[0] else None,
        )
    ax.axvline(0, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    _name_rows(ax, rows)
    ax.set_xlabel(label)
    ax.set_title("Differences, paired by seed")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _correlations(data: xr.Dataset) -> list[Panel]:
    """How depths go with accuracy on harder problems, over models; none where too few have both."""
    if "correlation" not in data:
        return []
    own = data[["correlation", "correlation_low", "correlation_high", "correlation_models"]]
    own = own.isel(depth_of=own["correlation"].notnull().any("over").values)
    if not own.sizes["depth_of"]:
        return []
    size = (_WIDE[0], _FRAME_INCHES + _ROW_INCHES * own.sizes["depth_of"] * 3)
    said = "; ".join(
        f"{one}: {', '.join(f'{value:+.2f}' for value in own['correlation'].sel(depth_of=one).values)}"
        for one in own["depth_of"].values
    )
    alt = (
        f"Rank correlation of depth with accuracy on harder problems: over all models, within recipe and loss. {said}."
    )
    return [Panel("correlations", partial(_draw_correlations, own=own), alt, size)]


def _draw_correlations(figure: FigureBase, own: xr.Dataset) -> None:
    ax = figure.subplots()
    kinds = {"all": "over all models", "within": "within recipe and loss"}
    rows = _rows(own["depth_of"].values.tolist(), list(kinds))
    for place, name, over in rows:
        one = own.sel(depth_of=name, over=over)
        ax.hlines(place, one["correlation_low"], one["correlation_high"], color=style.INK, linewidth=1.5, alpha=0.5)
        face = style.INK if over == "all" else style.PAPER
        label = kinds[over] if name == own["depth_of"].values[0] else None
        ax.plot(one["correlation"], [place], "D", color=style.INK, markerfacecolor=face, label=label)
    ax.axvline(0, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    _name_rows(ax, rows)
    ax.set_xlim(-1.03, 1.03)
    ax.set_xlabel(f"rank correlation (Spearman; {int(own['correlation_models'].max())} models, 95 % intervals)")
    ax.set_title("Depth and accuracy on harder problems")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2)


def _maps(data: xr.Dataset) -> Iterator[Panel]:
    """Of every problem a map for each model, with the first seed: other seeds may have other tokens."""
    for number, probe in enumerate(data["probe"].values.tolist()):
        own = data.isel(seed=0).sel(probe=probe)
        maps = [_map(own.sel(recipe=recipe, loss=loss)) for recipe, loss in _series(own["erasure"])]
        yield heat_map_panel(f"erasure_{number}", maps, f"Erasing one token: {probe}", cell=_MAP_CELL, columns=2)


def _map(one: xr.Dataset) -> HeatMap:
    # the last token predicts nothing that is measured
    stop, start = int(one["n_tokens"]) - 1, int(one["answer_start"])
    values = one["erasure"].transpose("token", "boundary").values[:stop, : int(one["n_blocks"]) + 1]
    pieces = tuple(str(piece).translate(_VISIBLE) for piece in one["piece"].values[:stop])
    result = "solved" if one["solved"] else "not solved"
    return HeatMap(
        values=values,
        title=f"{one['recipe'].item()}, {LOSS_NAMES[one['loss'].item()]} ({result})",
        rows=Side("token (␣ space, ⏎ end of line)", "token", pieces, tuple(range(max(start - 1, 0), stop))),
        columns=Side("boundary (index)", "boundary"),
        quantity="change of the output (L2, 0 to √2)",
        short="change of the output",
        colours=Colours.spanning(values, "linear", clips=False),
    )


def _estimator_name(name: str) -> str:
    plain = name.removeprefix("interpolated_")
    text = _NAMES.get(plain, plain.replace("_", " "))
    return text if plain == name else f"{text}, interpolated"


def _series(own: xr.DataArray) -> Iterator[tuple[str, str]]:
    return itertools.product(own["recipe"].values.tolist(), own["loss"].values.tolist())


def _look(own: xr.DataArray | xr.Dataset, recipe: str) -> tuple[str, str]:
    return _LOOKS[own["recipe"].values.tolist().index(recipe)]


def _rows(names: list[str], members: list[One]) -> list[tuple[int, str, One]]:
    """Place, name and member of each row; a free row parts the names."""
    step = len(members) + 1
    return [(step * i + j, name, member) for i, name in enumerate(names) for j, member in enumerate(members)]


def _name_rows(ax: Axes, rows: list[tuple[int, str, One]]) -> None:
    names = dict.fromkeys(name for _, name, _ in rows)
    ticks = [np.mean([place for place, own, _ in rows if own == name]) for name in names]
    ax.set_yticks(ticks, [name.replace("_", " ") for name in names])
    ax.set_ylim(rows[-1][0] + 0.8, -0.8)
    ax.grid(visible=False, axis="y")


def _said(own: xr.DataArray, title: str) -> str:
    mean = own.mean("seed")
    others = [dim for dim in mean.dims if dim != "recipe"]
    said = []
    for recipe in own["recipe"].values.tolist():
        one = mean.sel(recipe=recipe).stack(row=others)
        cells = [f"{' '.join(map(str, row))} {value:.2f}" for row, value in zip(one["row"].values, one.values)]
        said.append(f"{recipe}: {', '.join(cells)}")
    return f"{title}, means over seeds. {'; '.join(said)}."


def _said_differences(own: xr.Dataset, label: str) -> str:
    said = []
    for loss in own["loss"].values.tolist():
        one = own.sel(loss=loss)
        apart = one.isel(quantity=((one["difference_low"] > 0) | (one["difference_high"] < 0)).values)
        cells = [f"{name} {value:+.2f}" for name, value in zip(apart["quantity"].values, apart["difference"].values)]
        said.append(f"{LOSS_NAMES[loss]}: {', '.join(cells) or 'none'}")
    return f"{label}. Intervals that leave out 0: {'; '.join(said)}."
