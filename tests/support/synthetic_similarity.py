"""Made-up swap cosines and CKA, with the shapes and bounds of the definitions."""

from __future__ import annotations

import numpy as np
import xarray as xr

PARTS = ["attention", "mlp"]
TOKENS = ["last", "all", "rest"]


def swap_cosine(L: int, prompts: int, rng: np.random.Generator, like: xr.Dataset) -> xr.Dataset:
    """A block that stays itself in the other place, the better the deeper it is."""
    depth = np.linspace(0.3, 0.95, L - 1)
    curves = {"self": depth, "index": 0.2 * depth, "adjacent": 0.25 * (1 - depth)}
    noise = {name: rng.normal(0, 0.02, (prompts, len(PARTS), L - 1)) for name in curves}
    return xr.Dataset(
        {
            name: (("prompt", "part", "swapped"), curve + noise[name], _attrs(f"cosine {name}"))
            for name, curve in curves.items()
        },
        coords={
            **{name: like[name] for name in ("prompt_id", "n_tokens", "dataset")},
            "part": PARTS,
            "swapped": np.arange(L - 1),
        },
    )


def cka(L: int, like: xr.Dataset) -> xr.Dataset:
    """Similarity that falls with the distance between boundaries, 1 on the diagonal."""
    b = np.arange(L + 1)
    distance = np.abs(b[:, None] - b) / L
    values = np.stack([np.exp(-rate * distance) for rate in (3, 1, 2)])
    reach = 0.1 * distance
    dims = ("tokens", "boundary", "boundary_other")
    return xr.Dataset(
        {
            "cka": (dims, values, _attrs("CKA")),
            "ci_low": (dims, values - reach, {**_attrs("lower end"), "level": "0.9"}),
            "ci_high": (dims, values + reach, {**_attrs("upper end"), "level": "0.9"}),
        },
        coords={
            **{name: like[name] for name in ("prompt_id", "n_tokens", "dataset")},
            "tokens": TOKENS,
            "boundary": b,
            "boundary_other": b,
        },
    )


def _attrs(name: str) -> dict[str, str]:
    return {"long_name": name, "units": "1", "formula": "made up", "source": "synthetic"}
