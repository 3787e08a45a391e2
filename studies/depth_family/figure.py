"""A depth family: effective depth ratio and depth against the number of blocks, by estimator, and the trends.

Drawn from what ``studies.depth_family.experiment`` gives. Source: hu2025 (effective depth over model sizes).
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure, FigureBase
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from bathyscope.extend.figures import Panel, arrange, log_axis, looks, style
from studies.common.console import capitalised
from studies.depth_family.profiles import PROFILES

_LOOKS: Final = ((style.BLUE, "o"), (style.VERMILION, "s"), (style.GREEN, "^"), (style.PURPLE, "D"), (style.INK, "v"))
_PAIR_SIZE: Final = (5.7, 2.5)
_SLOPES_WIDTH: Final = 7.6
_ROW_INCHES: Final = 0.24
_FRAME_INCHES: Final = 1.5
_APART: Final = 0.045
"""Of log₂ of the number of blocks, between marks that would lie on each other."""


def draw(data: xr.Dataset) -> Figure:
    """All panels under a caption."""
    figure = arrange(caption(data), panels(data))
    with style.applied():
        figure.draw_without_rendering()
    return figure


def caption(data: xr.Dataset) -> str:
    """What marks, whiskers and lines are, and what the trends can say."""
    said = (
        f"Models of one recipe and other numbers of blocks, surveyed on the same prompts ({data.attrs['prompts']}). "
        f"Marks: models, by where their norms stand; whiskers: {float(data.attrs['level']):.0%} intervals over "
        "prompts; lines: means over seeds; dotted: what models would show that do the same at the same relative depth. "
        "Activations and gradients: a line a model, with its interval over prompts."
    )
    return f"{said} {data.attrs['note']}".strip()


def panels(data: xr.Dataset) -> list[Panel]:
    """The slopes; then for each estimator with any value a panel of ratio and depth beside each other."""
    made = []
    if "norms" in data.coords:
        rows = data.sizes["estimator"] * data.sizes["norms"]
        size = (_SLOPES_WIDTH, _FRAME_INCHES + _ROW_INCHES * rows)
        made.append(Panel("slopes", partial(_draw_slopes, data=data), _said_slopes(data), size))
    for name in data["estimator"].values.tolist():
        own = data.sel(estimator=name)
        if bool(own["ratio"].notnull().any()):
            made.append(Panel(name, partial(_draw_pair, own=own, name=name), _said(own, name), _PAIR_SIZE))
    for name, profile in PROFILES.items():
        made.append(Panel(name, partial(_draw_profile, data=data, name=name), _said_profile(data, name, profile.title)))
    return made


def _looks(data: xr.Dataset) -> dict[str, tuple[str, str]]:
    """Colour and marker of each place of norms, in the order of the members."""
    names = dict.fromkeys(data["member_norms"].values.tolist())
    return dict(zip(names, _LOOKS * len(names)))


def _draw_pair(figure: FigureBase, own: xr.Dataset, name: str) -> None:
    left, right = figure.subplots(1, 2)
    for ax, kind in ((left, "ratio"), (right, "depth")):
        for place, (norms, (colour, marker)) in enumerate(_looks(own).items()):
            members = own.isel(member=own["member_norms"].values == norms)
            _draw_members(ax, members, kind, f"{norms} norms", colour, marker, place * _APART)
            if "norms" in own.coords and norms in own["norms"].values:
                _draw_lines(ax, members, own.sel(norms=norms), kind, colour)
        _block_axis(ax, own["blocks"].values)
    left.set_ylabel("blocks done / L")
    left.set_ylim(-0.03, 1.05)
    right.set_ylabel("depth (block)")
    right.set_ylim(bottom=min(0.0, right.get_ylim()[0]))
    left.set_title(_title(name))
    named = dict(zip(*reversed(left.get_legend_handles_labels())))
    figure.legend(named.values(), named.keys(), loc="outside lower center", ncols=4)


def _draw_members(ax: Axes, members: xr.Dataset, kind: str, label: str, colour: str, marker: str, shift: float) -> None:
    """Marks with whiskers; models of one depth stand beside each other."""
    blocks, value = members["blocks"].values, members[kind].values
    seeds = np.array([np.sum(blocks[:number] == own) for number, own in enumerate(blocks)])
    x = blocks * 2.0 ** (shift + seeds * _APART / 2)
    low, high = members[f"{kind}_low"].values, members[f"{kind}_high"].values
    ax.vlines(x, low, high, color=colour, linewidth=1.6, alpha=0.6)
    ax.plot(x, value, marker, color=colour, markersize=5, linestyle="none", label=label)


def _draw_lines(ax: Axes, members: xr.Dataset, own: xr.Dataset, kind: str, colour: str) -> None:
    """Means over seeds, and the line of equal relative depth through the mean of all."""
    mean = members[kind].groupby("blocks").mean("member")
    blocks = mean["blocks"].values.astype(float)
    ax.plot(blocks, mean.values, "-", color=colour, linewidth=1.2, alpha=0.8)
    # slope_proportional = o · Σ c_i / L_i, c the weights of the slope over log₂ L
    every = members["blocks"].values.astype(float)
    centred = np.log2(every) - np.log2(every).mean()
    offset = float(own["slope_proportional"]) / float((centred / every).sum() / (centred**2).sum())
    relative = float((members["ratio"].values - offset / every).mean())
    fine = np.geomspace(blocks.min(), blocks.max(), 60)
    ratio = relative + offset / fine
    line = ratio if kind == "ratio" else fine * ratio
    ax.plot(fine, line, ":", color=style.INK, linewidth=1.2, zorder=1, label="same relative depth")


def _draw_profile(figure: FigureBase, data: xr.Dataset, name: str) -> None:
    """A line a member over the share of its depth, with its interval over prompts."""
    ax = figure.subplots()
    profile = PROFILES[name]
    for look, member in zip(looks(data.sizes["member"]), data["member"].values):
        own = data.sel(member=member)
        blocks = int(own["blocks"])
        own = own.isel(boundary=slice(0, blocks + 1))
        x = own["boundary"].values / blocks
        ax.plot(x, own[name], look.line, color=look.colour, marker=look.marker, markersize=2.5, label=str(member))
        ax.fill_between(x, own[f"{name}_low"], own[f"{name}_high"], color=look.colour, alpha=0.2, linewidth=0)
    log_axis(ax)
    ax.set_xlim(-0.02, 1.02)
    ax.set_xlabel("share of the depth (dimensionless)")
    ax.set_ylabel(f"{profile.axis}, log scale")
    ax.set_title(capitalised(profile.title))
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=2, fontsize=7)


def _said_profile(data: xr.Dataset, name: str, title: str) -> str:
    said = []
    for member in data["member"].values:
        own = data[name].sel(member=member).dropna("boundary")
        said.append(f"{member}: {float(own[0]):.3g} at the first boundary, {float(own[-1]):.3g} at the last")
    return f"{capitalised(title)} over the share of the depth. {'; '.join(said)}."


def _block_axis(ax: Axes, blocks: np.ndarray) -> None:
    ticks = np.unique(blocks)
    ax.set_xscale("log", base=2)
    ax.xaxis.set_major_locator(FixedLocator(ticks.tolist()))
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    ax.set_xlim(ticks.min() / 1.25, ticks.max() * 1.25)
    ax.set_xlabel("blocks L, log scale")


def _draw_slopes(figure: FigureBase, data: xr.Dataset) -> None:
    ax = figure.subplots()
    looks = _looks(data)
    series = data["norms"].values.tolist()
    names = data["estimator"].values.tolist()
    for row, name in enumerate(names):
        for number, norms in enumerate(series):
            one, (colour, marker) = data.sel(estimator=name, norms=norms), looks[norms]
            place = row + 0.6 * (number + 0.5) / len(series) - 0.3
            # the interval over seeds is the wider one, drawn thin around that over prompts
            ax.hlines(place, one["model_low"], one["model_high"], color=colour, linewidth=1, alpha=0.7)
            ax.hlines(place, one["prompt_low"], one["prompt_high"], color=colour, linewidth=3, alpha=0.5)
            ax.plot(one["slope"], [place], marker, color=colour, markersize=5, label=None if row else f"{norms} norms")
            label = "same relative depth" if not row and not number else None
            proportional = one["slope_proportional"].where(one["slope"].notnull())
            ax.plot(proportional, [place], "|", color=style.INK, markersize=9, label=label)
    ax.axvline(0, color=style.MUTED, linewidth=0.9, linestyle=(0, (4, 3)))
    ax.set_yticks(range(len(names)), [name.replace("_", " ") for name in names])
    ax.set_ylim(len(names) - 0.5, -0.5)
    ax.grid(visible=False, axis="y")
    ax.set_xlabel("change of the ratio for each doubling of blocks")
    ax.set_title("Is the ratio stable as blocks grow?")
    figure.legend(*ax.get_legend_handles_labels(), loc="outside lower center", ncols=3)


def _title(name: str) -> str:
    said = name.replace("_", " ").replace("kl", "KL")
    return capitalised(said)


def _said(own: xr.Dataset, name: str) -> str:
    said = [
        f"{member}: {float(ratio):.2f} of {int(blocks)} blocks"
        for member, ratio, blocks in zip(own["member"].values, own["ratio"].values, own["blocks"].values)
        if np.isfinite(ratio)
    ]
    return f"{_title(name)}: effective depth ratio by number of blocks. {'; '.join(said)}."


def _said_slopes(data: xr.Dataset) -> str:
    said = []
    for norms in data["norms"].values.tolist():
        own = data.sel(norms=norms)
        there = int(own["slope"].notnull().sum())
        said.append(
            f"{norms} norms: {int(own['stable'].sum())} of {there} intervals hold 0, "
            f"{int(own['proportional'].sum())} the slope of the same relative depth"
        )
    return f"Slope of the ratio over log₂ of the number of blocks, by estimator. {'; '.join(said)}."
