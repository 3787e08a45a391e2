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


def pairs(L: int, prompts: int, rng: np.random.Generator, like: xr.Dataset) -> xr.Dataset:
    """Neighbours make up for each other; blocks far apart do the same work."""
    b = np.arange(L)
    shape = (prompts, L, L)
    noise = rng.normal(0, 0.01, shape)
    interaction = 0.5 * np.exp(-np.abs(b[:, None] - b)) - 0.1 + noise + noise.swapaxes(1, 2)
    cost = 1.0 + interaction
    interaction[:, b, b] = np.nan
    mean = interaction.mean(axis=0)
    by_prompt, over = ("prompt", "dropped", "other"), ("dropped", "other")
    return xr.Dataset(
        {
            "cost": (by_prompt, cost, _attrs("cost", "nats")),
            "interaction": (by_prompt, interaction, _attrs("interaction", "nats")),
            "interaction_mean": (over, mean, _attrs("mean interaction", "nats")),
            "interaction_low": (over, mean - 0.02, _attrs("lower end", "nats")),
            "interaction_high": (over, mean + 0.02, _attrs("upper end", "nats")),
        },
        coords={**{name: like[name] for name in ("prompt_id", "n_tokens", "dataset")}, "dropped": b, "other": b},
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


def _attrs(name: str, units: str = "1") -> dict[str, str]:
    return {"long_name": name, "units": units, "formula": "made up", "source": "synthetic"}
