"""Curves from which depths are read, and the scale of depths, for every reader of a run.

No model library is imported here.
"""

import numpy as np
import xarray as xr

from bathyscope.labels import token_weights
from bathyscope.statistics.effective_depth import DepthInputs, blocks_done

COSINES = ("cos_attn", "cos_mlp", "cos_block")
"""Variables of residual whose mean is the cosine of a block."""


def depth_inputs(residual: xr.Dataset | None, lens: xr.Dataset | None, skip: xr.Dataset | None) -> DepthInputs:
    """What depth estimators work on, per prompt: cosines by block, lens by block input, token depths, skip effects.

    Args:
        residual, lens, skip: None = not measured: what is read off it is NaN, or None. At least one is needed.
    """
    lens = None if lens is None else one_norm(lens)
    first = next(measured for measured in (residual, lens, skip) if measured is not None)
    n_blocks = first.sizes["boundary"] - 1 if first is lens else first.sizes["block"]
    unknown = np.full((first.sizes["prompt"], n_blocks), np.nan)
    future = None
    if skip is not None and "effect_future" in skip and "block" in skip["part"].values:
        future = skip["effect_future"].sel(part="block", reduction="max")

    def curves(name: str, dataset: xr.Dataset, axis: str) -> np.ndarray:
        return np.asarray(dataset[name].transpose("prompt", axis).values, dtype=np.float64)

    def of_lens(name: str) -> np.ndarray:
        return unknown if lens is None else curves(name, lens.isel(boundary=slice(0, -1)), "boundary")

    def by_token(name: str) -> np.ndarray | None:
        return None if lens is None else np.asarray(lens[name].values, dtype=np.float64)

    cosines = [] if residual is None else [curves(name, residual, "block") for name in COSINES]
    return DepthInputs(
        cosine=np.mean(cosines, axis=0) if cosines else unknown,
        kl=of_lens("kl_lens_final"),
        overlap=of_lens("overlap"),
        n_tokens=token_weights(first),
        n_lens=None if lens is None else token_weights(lens),
        effect_future=None if future is None else np.asarray(future.values, dtype=np.float64),
        settle_depth=by_token("settle_depth"),
        prediction_depth=by_token("prediction_depth"),
    )


def one_norm(lens: xr.Dataset) -> xr.Dataset:
    """The lens whose norm is recomputed, where it was read with several; else the one there is."""
    if "norm" not in lens.dims:
        return lens
    return lens.sel(norm="recompute") if "recompute" in lens["norm"].values else lens.isel(norm=0)


def in_blocks_done(depths: xr.Dataset) -> xr.Dataset:
    """Return a run's effective depths in blocks done; earlier versions stored each criterion's own index."""
    if "index" in depths:
        return depths
    offset = xr.DataArray([blocks_done(str(name)) for name in depths["estimator"].values], dims="estimator")
    moved = {name: depths[name] + offset for name in ("depth", "ci_low", "ci_high")}
    published = {"index": depths["depth"], "ratio": moved["depth"] / depths.attrs["n_blocks"]}
    return depths.assign({**moved, **published})


def as_published(depths: xr.Dataset) -> xr.Dataset:
    """A run's effective depths and their intervals as each criterion's own index, which published tables give."""
    converted = in_blocks_done(depths)
    offset = converted["depth"] - converted["index"]
    return converted.assign({name: converted[name] - offset for name in ("depth", "ci_low", "ci_high")})
