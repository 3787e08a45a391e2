"""Curves from which depths are read, and the scale of depths, for every reader of a run.

No model library is imported here.
"""

import numpy as np
import xarray as xr

from bathyscope.labels import token_weights
from bathyscope.statistics.effective_depth import DepthInputs, blocks_done


def depth_inputs(residual: xr.Dataset, lens: xr.Dataset, skip: xr.Dataset | None) -> DepthInputs:
    """What depth estimators work on, per prompt: cosines by block, lens by block input, token depths, skip effects."""
    lens = one_norm(lens)
    inputs = lens.isel(boundary=slice(0, -1))
    future = None
    if skip is not None and "effect_future" in skip and "block" in skip["part"].values:
        future = skip["effect_future"].sel(part="block", reduction="max")

    def curves(name: str, dataset: xr.Dataset, axis: str) -> np.ndarray:
        return np.asarray(dataset[name].transpose("prompt", axis).values, dtype=np.float64)

    return DepthInputs(
        cosine=np.mean([curves(name, residual, "block") for name in ("cos_attn", "cos_mlp", "cos_block")], axis=0),
        kl=curves("kl_lens_final", inputs, "boundary"),
        overlap=curves("overlap", inputs, "boundary"),
        n_tokens=token_weights(residual),
        n_lens=token_weights(lens),
        effect_future=None if future is None else np.asarray(future.values, dtype=np.float64),
        settle_depth=np.asarray(lens["settle_depth"].values, dtype=np.float64),
        prediction_depth=np.asarray(lens["prediction_depth"].values, dtype=np.float64),
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
