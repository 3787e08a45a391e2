"""Probes of "-ing" by single neurons and ensembles. Drawn from what ``bathyscope.probe("ing", …)`` gives.

Source: lad2024 (prediction and suppression neurons).
"""

from __future__ import annotations

import xarray as xr

from bathyscope.report.figures.kind import Drawing
from bathyscope.report.figures.lines import Axis, Series, looks, panel
from bathyscope.report.figures.summary import Summary


def drawing(data: xr.Dataset) -> Drawing:
    """Accuracy against the number of neurons, for either kind."""
    curves = [
        Series(
            f"{name} neurons",
            data["size"].values,
            Summary(*(data[f"ensemble_{one}"].sel(kind=name).values for one in ("accuracy", "ci_low", "ci_high"))),
            look,
            "ensemble_accuracy",
        )
        for name, look in zip(data["kind"].values.tolist(), looks(data.sizes["kind"]))
    ]
    axis = Axis(
        'Does the next token end in "ing"?',
        "neurons together (number)",
        "accuracy (share of contexts)",
        rules={float(data["top1_accuracy"]): "the model's top-1"},
    )
    made = panel("ensembles", curves, axis)
    note = (
        "Accuracy on held-out contexts of probes of the first so many neurons, added in the order of their accuracy on "
        "the other half; bands: bootstrap intervals over contexts."
    )
    return Drawing([] if made is None else [made], note)
