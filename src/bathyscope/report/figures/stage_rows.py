"""What the figures of stages share: which signatures they show, and what they call them."""

import textwrap
from typing import Final

import xarray as xr

WIDTH: Final = 7.2
ROW_INCHES: Final = 0.85
"""Height of one signature."""
_LABEL_LETTERS: Final = 20

NAMES: Final = {
    "drop_kl": "KL without the block",
    "attention_prev5": "attention to the previous 5 tokens",
    "prediction_neurons": "prediction neurons",
    "suppression_neurons": "suppression neurons",
    "lens_entropy": "lens entropy behind the block",
    "lens_kl": "lens KL behind the block",
    "mlp_norm": "norm of the MLP's contribution",
}
_UNITS: Final = {
    "attention_prev5": "dimensionless",
    "prediction_neurons": "share, dimensionless",
    "suppression_neurons": "share, dimensionless",
    "mlp_norm": "activation units",
}


def usable(data: xr.Dataset) -> xr.Dataset:
    """The dataset with the signatures that are cut."""
    return data.isel(curve=data["left_out"].values == "")


def said_of(one: xr.Dataset) -> str:
    """Name and unit of a signature."""
    name = str(one["curve"].item())
    return f"{NAMES[name]} ({_UNITS.get(name, one['curve_units'].item())})"


def row_label(text: str) -> str:
    """A text as it stands beside a row."""
    return textwrap.fill(text, _LABEL_LETTERS)
