"""Made-up swap cosines and CKA, with the shapes and bounds of the definitions."""

from __future__ import annotations

import numpy as np
import xarray as xr
from support.synthetic import made_up, prompt_coords

PARTS = ["attention", "mlp"]
TOKENS = ["last", "all", "rest"]


def swap_cosine(L: int, prompts: int, rng: np.random.Generator, like: xr.Dataset) -> xr.Dataset:
    """A block that stays itself in the other place, the better the deeper it is."""
    depth = np.linspace(0.3, 0.95, L - 1)
    curves = {"self": depth, "index": 0.2 * depth, "adjacent": 0.25 * (1 - depth)}
    noise = {name: rng.normal(0, 0.02, (prompts, len(PARTS), L - 1)) for name in curves}
    values = {name: curve + noise[name] for name, curve in curves.items()}
    return made_up("swap_cosine", values, {**prompt_coords(like), "part": PARTS, "swapped": np.arange(L - 1)})


def pairs(L: int, prompts: int, rng: np.random.Generator, like: xr.Dataset) -> xr.Dataset:
    """Neighbours make up for each other; blocks far apart do the same work."""
    b = np.arange(L)
    shape = (prompts, L, L)
    noise = rng.normal(0, 0.01, shape)
    interaction = 0.5 * np.exp(-np.abs(b[:, None] - b)) - 0.1 + noise + noise.swapaxes(1, 2)
    cost = 1.0 + interaction
    interaction[:, b, b] = np.nan
    mean = interaction.mean(axis=0)
    values = {
        "cost": cost,
        "interaction": interaction,
        "interaction_mean": mean,
        "interaction_low": mean - 0.02,
        "interaction_high": mean + 0.02,
    }
    return made_up("pairs", values, {**prompt_coords(like), "dropped": b, "other": b})


def cka(L: int, like: xr.Dataset) -> xr.Dataset:
    """Similarity that falls with the distance between boundaries, 1 on the diagonal."""
    b = np.arange(L + 1)
    distance = np.abs(b[:, None] - b) / L
    values = np.stack([np.exp(-rate * distance) for rate in (3, 1, 2)])
    reach = 0.1 * distance
    ends = {"cka": values, "ci_low": values - reach, "ci_high": values + reach}
    coords = {"tokens": TOKENS, "boundary": b, "boundary_other": b}
    dataset = made_up("cka", ends, {**prompt_coords(like), **coords})
    for name in ("ci_low", "ci_high"):
        dataset[name].attrs["level"] = "0.9"
    return dataset
