"""A made-up census of neurons, as a run with a tokenizer holds it."""

from __future__ import annotations

import numpy as np
import xarray as xr
from support.synthetic import made_up

from bathyscope.measures.neurons import BINS, SIDES, TOP
from bathyscope.measures.token_classes import CLASSES


def neurons(L: int, rng: np.random.Generator, *, width: int = 64, threshold: float = 10.0) -> xr.Dataset:
    """Moments of ``width`` neurons a block, heavier-tailed with depth, and a profile of every class of tokens."""
    kurtosis = 3 + rng.gamma(0.4, 1 + 6 * np.linspace(0, 1, L)[:, None], (L, width))
    skew = rng.normal(0, 1, (L, width))
    classes, values = len(CLASSES), {}
    for name, drawn in {"mean": rng.normal(0, 1e-3, (L, width)), "variance": rng.gamma(2, 0.01, (L, width))}.items():
        values[name] = drawn
    moments = {**values, "skew": skew, "kurtosis": kurtosis}
    kinds = {"prediction_fraction": skew > 0, "suppression_fraction": skew < 0}
    shares = rng.dirichlet(np.ones(BINS), (classes, TOP, len(SIDES)))
    edges = np.linspace(-rng.uniform(0.1, 3, (classes, TOP)), rng.uniform(0.1, 3, (classes, TOP)), BINS + 1, axis=-1)
    listed = {
        "top_block": rng.integers(0, L, (classes, TOP)),
        "top_neuron": rng.integers(0, width, (classes, TOP)),
        "top_effect": -np.sort(-rng.gamma(2, 0.3, (classes, TOP))) * rng.choice([-1, 1], (classes, TOP)),
        "top_skew": rng.normal(0, 1, (classes, TOP)),
        "top_kurtosis": 3 + rng.gamma(1, 4, (classes, TOP)),
    }
    data = {
        **moments,
        **{name: ((kurtosis > threshold) & signed).mean(1) for name, signed in kinds.items()},
        "n_neurons": np.full(L, width),
        "zero_neurons": np.zeros(L, dtype=int),
        **listed,
        "class_tokens": rng.integers(10, 900, classes),
        "histogram": shares,
        "histogram_edge": edges,
    }
    coords = {"block": np.arange(L), "token_class": list(CLASSES), "side": list(SIDES)}
    return made_up("neurons", data, coords).assign_attrs(kurtosis=threshold, padding_tokens=0)
