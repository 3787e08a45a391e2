"""Probes of word meaning (WiC): accuracy at every boundary. Drawn from what ``bathyscope.probe("wic", …)`` gives.

Source: lad2024 (probes of word meaning).
"""

from __future__ import annotations

import xarray as xr

from bathyscope.report.figures.kind import Drawing
from bathyscope.report.figures.lines import BOUNDARY_LABEL, Axis, Series, looks, panel
from bathyscope.report.figures.summary import Summary


def drawing(data: xr.Dataset) -> Drawing:
    """A line for each kind of features."""
    curves = [
        Series(
            f"probe of {name}",
            data["boundary"].values,
            Summary(*(data[column].sel(features=name).values for column in ("accuracy", "ci_low", "ci_high"))),
            look,
            "accuracy",
        )
        for name, look in zip(data["features"].values.tolist(), looks(data.sizes["features"]))
    ]
    axis = Axis(
        "Does a word mean the same in two sentences?",
        BOUNDARY_LABEL,
        "accuracy (share of pairs)",
        rules={float(data["majority"]): "majority label"},
    )
    made = panel("accuracy", curves, axis)
    note = "Accuracy of linear probes on held-out pairs of sentences; bands: bootstrap intervals over pairs."
    return Drawing([] if made is None else [made], note, blocks=data.sizes["boundary"] - 1)
