"""A run in a sentence: the caption of figures and tables."""

from __future__ import annotations

from collections.abc import Mapping

import xarray as xr

from bathyscope.core.text import counted, legible, without_folders
from bathyscope.runs.manifest import Identity
from bathyscope.runs.merge import PROMPT


def caption(identity: Identity, datasets: Mapping[str, xr.Dataset], noise_holds: bool, noise: bool = True) -> str:
    """Model, data, prompts and tokens, precision, noise floor; of a part of a run, how many of its prompts are there.

    Args:
        noise_holds: whether effects beyond the noise floor are more than rounding.
        noise: whether to write the noise floors.
    """
    prompts = [dataset.sizes[PROMPT] for dataset in datasets.values() if PROMPT in dataset.sizes]
    tokens = [dataset["n_tokens"] for dataset in datasets.values() if "n_tokens" in dataset.coords]
    of_all = f"{prompts[0]} of " if prompts and prompts[0] != identity.prompts else ""
    extent = [f"{of_all}{counted(identity.prompts, 'prompt')}"]
    if tokens:
        extent.append(counted(int(tokens[0].sum()), "token"))
    extent.append(identity.dtype)
    floor = _floors(datasets["noise"]) if noise and "noise" in datasets else ""
    # Below float32 the control and the plain forward round alike, and effects do not: the floor is no bound then.
    unheld = "" if noise_holds or not floor else f" (without the rounding of {identity.dtype} itself)"
    model = without_folders(identity.model)
    if identity.adapters is not None:
        model = f"{model} with adapters ({identity.adapters})"
    if identity.unpacked_from is not None:
        model = f"{model} (unpacked from {identity.unpacked_from})"
    if identity.states is not None:
        count, all_of = len(identity.states["boundaries"]), identity.n_blocks
        share = "all boundaries" if count == (all_of or -1) + 1 else f"{count} of {(all_of or 0) + 1} boundaries"
        model = f"stored states of {model} ({share})"
    return legible(f"{model} on {without_folders(identity.dataset)}: {', '.join(extent)}{floor}{unheld}.")


def _floors(noise: xr.Dataset) -> str:
    """``; noise floor 1e-7 (skip); 0 elsewhere``: the largest value of each measure."""
    entries: dict[str, float] = {}
    for name, values in noise.data_vars.items():
        largest = values.max([dim for dim in values.dims if dim != "measure"])
        labels = noise["measure"].values if largest.dims else [name]
        entries |= {str(label): float(v) for label, v in zip(labels, largest.values.flat, strict=True)}
    if not entries:
        return ""
    above = [f"{value:.1g} ({name})".replace("e-0", "e-") for name, value in entries.items() if value]
    if not above:
        return "; noise floor 0"
    return f"; noise floor {', '.join(above)}{'; 0 elsewhere' if len(above) < len(entries) else ''}"
