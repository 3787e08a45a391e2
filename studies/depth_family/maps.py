"""Maps between members of a depth family: does a boundary's best partner sit at the same relative depth?

Each map is a file of ``bathyscope diff maps`` in the experiment's folder. Source: csordas2025, maps between models.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import xarray as xr

import bathyscope
from bathyscope import Model, maps
from bathyscope.errors import StoreError
from bathyscope.extend.prompts import tokenized
from studies.common.files import netcdf, write_file

ARROW: Final = " → "
_STATISTICS: Final = ("slope", "deviation", "rank_correlation")
DIAGONAL: Final = (
    *(f"{name}{end}" for name in _STATISTICS for end in ("", "_low", "_high")),
    "deviation_chance",
    "deviation_constant",
)
EXPLAINED: Final = ("r2", "r2_least", "r2_most")
"""Of the maps between best partners: the mean share of variance that they explain, its least and its most."""


def diagonal(
    pairs: Mapping[str, tuple[Model, Model]],
    prompts: Any,
    folder: Path,
    *,
    resamples: int,
    level: float,
    seed: int,
    progress: bool,
) -> xr.Dataset:
    """The diagonal statistics of each map, named ``map_…`` (map, direction), and what it took (``map_seconds``).

    Args:
        pairs: name → source and target.
        folder: of the files; maps that are there already are read.
        resamples, level, seed: as for ``maps``.

    Raises:
        StoreError: a file there holds maps of other models, prompts or options.
        OptionError, PromptError: as ``maps``.
    """
    settings: dict[str, Any] = {"resamples": resamples, "level": level, "seed": seed}
    found = []
    for name, (source, target) in pairs.items():
        file = folder / f"{name.replace(ARROW, '-to-')}.nc"
        identity = {
            "source_weights": source.weight_hash,
            "target_weights": target.weight_hash,
            "prompt_hash": tokenized(source, prompts, seed=seed).hash,
            **settings,
        }
        if file.is_file():
            own = _kept(file, identity)
        else:
            began = time.monotonic()
            own = maps(source, target, prompts, progress=progress, **settings).data
            own = own.assign_attrs(identity, seconds=time.monotonic() - began)
            write_file(file, netcdf(own, group="maps"))
        kept = own[list(DIAGONAL)].reset_coords(drop=True).assign(seconds=own.attrs["seconds"])
        found.append(kept.assign(explained(own)))
    if not found:
        return xr.Dataset()
    made = xr.concat(found, "map", combine_attrs="drop").assign_coords(map=list(pairs))
    return made.rename({name: f"map_{name}" for name in (*DIAGONAL, *EXPLAINED, "seconds")})


def explained(own: xr.Dataset) -> xr.Dataset:
    """``EXPLAINED`` (direction) of a map file."""
    picked = {
        "best_target": own["r2"].sel(target=own["best_target"]),
        "best_source": own["r2"].sel(source=own["best_source"]),
    }
    data = {
        name: ("direction", [float(getattr(picked[one], how)()) for one in own["direction"].values.tolist()])
        for name, how in zip(EXPLAINED, ("mean", "min", "max"))
    }
    return xr.Dataset(data, {"direction": own["direction"].values})


def _kept(file: Path, identity: Mapping[str, Any]) -> xr.Dataset:
    kept: xr.Dataset = bathyscope.open(file).data
    unlike = [key.replace("_", " ") for key, value in identity.items() if kept.attrs.get(key) != value]
    if unlike:
        raise StoreError(
            f"{file} holds maps with other {', '.join(unlike)}; give the same models, prompts and options to go on, or "
            "another folder."
        )
    return kept
