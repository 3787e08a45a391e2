"""Accuracies of probes: of word meaning (WiC) at every boundary, and of "-ing" by ensembles of neurons.

Drawn from the result of ``bathyscope.probe``. Source: lad2024 (probes of word meaning; prediction and suppression
neurons).
"""

from collections.abc import Mapping, Sequence

import xarray as xr

from bathyscope.pages.figures.kind import Drawing, drop_empty
from bathyscope.pages.figures.kit.lines import make_panel
from bathyscope.pages.figures.kit.series import BOUNDARY_LABEL, Axis, Series, looks
from bathyscope.pages.figures.kit.summary import Summary


def wic(data: xr.Dataset) -> Drawing:
    """Draw accuracy by boundary, a line for each kind of features."""
    axis = Axis(
        "Does a word mean the same in two sentences?",
        BOUNDARY_LABEL,
        "accuracy (share of pairs)",
        rules={float(data["majority"]): "majority label"},
    )
    probes = {f"probe of {name}": data.sel(features=name) for name in data["features"].values.tolist()}
    note = "Accuracy of linear probes on held-out pairs of sentences; bands: bootstrap intervals over pairs."
    columns = ("boundary", "accuracy", "ci_low", "ci_high")
    return _make_drawing("accuracy", probes, columns, axis, note, data.sizes["boundary"] - 1)


def ing(data: xr.Dataset) -> Drawing:
    """Draw accuracy against the number of neurons, for either kind."""
    axis = Axis(
        'Does the next token end in "ing"?',
        "neurons together (number)",
        "accuracy (share of contexts)",
        rules={float(data["top1_accuracy"]): "the model's top-1"},
    )
    probes = {f"{name} neurons": data.sel(kind=name) for name in data["kind"].values.tolist()}
    note = (
        "Accuracy on held-out contexts of probes of a growing number of neurons, added in the order of their accuracy "
        "on the other half; bands: bootstrap intervals over contexts."
    )
    columns = ("size", "ensemble_accuracy", "ensemble_ci_low", "ensemble_ci_high")
    return _make_drawing("ensembles", probes, columns, axis, note)


def _make_drawing(
    name: str,
    probes: Mapping[str, xr.Dataset],
    columns: Sequence[str],
    axis: Axis,
    note: str,
    blocks: int | None = None,
) -> Drawing:
    """Draw a line with its band for every probe; ``columns`` are place, accuracy and interval."""
    place, accuracy, *ends = columns
    curves = [
        Series(
            label, probe[place].values, Summary(*(probe[column].values for column in (accuracy, *ends))), look, accuracy
        )
        for (label, probe), look in zip(probes.items(), looks(len(probes)))
    ]
    accuracy_panel = make_panel(name, curves, axis)
    return Drawing(drop_empty([accuracy_panel]), note, blocks=blocks)
