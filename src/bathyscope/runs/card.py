"""A run in a sentence, its caption; and in a notebook, with its verdict, a small picture and what it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING, Final

import xarray as xr

from bathyscope.core.text import without_folders
from bathyscope.runs.manifest import Identity
from bathyscope.runs.merge import PROMPT

if TYPE_CHECKING:
    from bathyscope.runs.verdict import Verdict


def caption(identity: Identity, datasets: Mapping[str, xr.Dataset], noise_holds: bool, noise: bool = True) -> str:
    """Model, data, prompts and tokens, precision, noise floor; of a part of a run, how many of its prompts are there.

    Args:
        noise_holds: whether effects beyond the noise floor are more than rounding.
        noise: whether to write the noise floors.
    """
    prompts = [dataset.sizes[PROMPT] for dataset in datasets.values() if PROMPT in dataset.sizes]
    tokens = [dataset["n_tokens"] for dataset in datasets.values() if "n_tokens" in dataset.coords]
    of_all = f"{prompts[0]} of " if prompts and prompts[0] != identity.prompts else ""
    extent = [f"{of_all}{_counted(identity.prompts, 'prompt')}"]
    if tokens:
        extent.append(_counted(int(tokens[0].sum()), "token"))
    extent.append(identity.dtype)
    floor = _floors(datasets["noise"]) if noise and "noise" in datasets else ""
    # Below float32 the control and the plain forward round alike, and effects do not: the floor is no bound then.
    unheld = "" if noise_holds or not floor else f" (without the rounding of {identity.dtype} itself)"
    model = without_folders(identity.model)
    if identity.adapters is not None:
        model = f"{model} with adapters ({identity.adapters})"
    if identity.gguf is not None:
        model = f"{model} (unpacked from {identity.gguf['quantisation']})"
    return f"{model} on {without_folders(identity.dataset)}: {', '.join(extent)}{floor}{unheld}."


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _floors(noise: xr.Dataset) -> str:
    """``; noise floor skip 1.2e-07, drop 0``: the largest value of each measure."""
    entries: dict[str, float] = {}
    for name, values in noise.data_vars.items():
        largest = values.max([dim for dim in values.dims if dim != "measure"])
        labels = noise["measure"].values if largest.dims else [name]
        entries |= {str(label): float(v) for label, v in zip(labels, largest.values.flat, strict=True)}
    listed = ", ".join(f"{name} {value:.2g}" for name, value in entries.items())
    return f"; noise floor {listed}" if listed else ""


_WIDTH: Final = 360
_LEFT: Final = 70
_ROW: Final = 20


def card(verdict: Verdict | None, caption: str, place: str, datasets: Mapping[str, xr.Dataset]) -> str:
    """The card as HTML.

    Args:
        verdict: None = the run has no lens to judge by.
        place: where the run lies.
    """
    text, seen, details = ("", "", "") if verdict is None else (verdict.text, picture(verdict), verdict.details)
    measure_rows = "".join(
        f"<tr><td>{escape(name)}</td><td>{escape(_variables(dataset))}</td></tr>" for name, dataset in datasets.items()
    )
    return (
        f"<div><p><strong>{escape(text)}</strong></p>{seen}"
        f"<p>{escape(' '.join(details))}</p><p>{escape(caption)}<br><small>{escape(place)}</small></p>"
        f"<details><summary>What it holds</summary><table><tr><th>measure</th><th>variables</th></tr>"
        f"{measure_rows}</table>"
        "</details></div>"
    )


def picture(verdict: Verdict) -> str:
    """The readings on one line of blocks done each, 0 to L: a mark, and a bar for its interval."""
    readings = [reading for reading in (verdict.readable, verdict.own, verdict.later) if not math.isnan(reading.value)]
    scale = (_WIDTH - _LEFT - 20) / verdict.n_blocks
    parts = []
    for row, reading in enumerate(readings):
        y = 12 + row * _ROW
        parts.append(f'<text x="0" y="{y + 4}">{reading.name}</text>')
        parts.append(f'<path d="M{_LEFT} {y}h{verdict.n_blocks * scale:.1f}" stroke="currentColor" opacity=".25"/>')
        if not math.isnan(reading.low):
            bar = f"M{_LEFT + reading.low * scale:.1f} {y}h{(reading.high - reading.low) * scale:.1f}"
            parts.append(f'<path d="{bar}" stroke="#0072b2" stroke-width="5"/>')
        parts.append(f'<circle cx="{_LEFT + reading.value * scale:.1f}" cy="{y}" r="4" fill="#d55e00"/>')
    y = 12 + len(readings) * _ROW + 4
    parts.append(f'<text x="{_LEFT}" y="{y}">0</text>')
    end = f"{_LEFT + verdict.n_blocks * scale:.1f}"
    parts.append(f'<text x="{end}" y="{y}" text-anchor="middle">{verdict.n_blocks}</text>')
    label = escape(verdict.text)
    # Plain SVG in the page's own colour: a notebook shows it without scripts, in light and in dark.
    return (
        f'<svg width="{_WIDTH}" height="{y + 4}" role="img" aria-label="{label}" font-size="11" fill="currentColor">'
        f"{''.join(parts)}</svg>"
    )


def _variables(dataset: xr.Dataset) -> str:
    return ", ".join(f"{name} ({', '.join(map(str, v.dims))})" for name, v in dataset.data_vars.items())
