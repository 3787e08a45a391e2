"""Measure the two interventions on a real model, and store what the page is made of."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import torch
import xarray as xr

import bathyscope
from bathyscope import Model, Prompt, Run
from studies.common.files import netcdf, write_file
from studies.interventions.closer import look_closer
from studies.interventions.expected import LETTERS, MASSIVE_PROMPTS, PAIR_PROMPTS, WRITE_BOUND
from studies.real_model.measuring import control
from studies.real_model.models import RealModel
from studies.real_model.sources import text_windows

RESULTS: Final = Path(__file__).with_name("results")
Study = Literal["pairs", "pairs_untrained", "massive", "closer"]
STUDIES: Final[tuple[Study, ...]] = ("pairs", "pairs_untrained", "massive", "closer")
"""Each is a file of its own for every model."""
UNTRAINED: Final = "untrained_0"
VARIANTS: Final = ("as it is", "clamped", "left out")
_HALVES: Final = {"drop": "dropped", "swap": "swapped"}
_PROFILE: Final = ("residual", "lens", "skip", "drop", "effective_depth")
_CURVES: Final[Mapping[str, tuple[str, ...]]] = {
    "residual": ("largest", "norm_resid", "norm_resid_rest"),
    "lens": ("top1_kept", "cross_entropy"),
    "skip": ("output_all",),
    "drop": ("loss", "baseline_loss", "kl"),
}
"""What is stored of each measure, by prompt and boundary or block."""


def measure(
    real: RealModel,
    folder: Path,
    data: Path,
    only: Sequence[Study] = STUDIES,
    results: Path = RESULTS,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Measure what is not stored yet.

    Args:
        folder: of the model, as ``studies.real_model fetch`` stores it.
        data: folder with ``text/wikitext2_valid.txt``.
        tell: takes a line about what is done next.
    """
    for study in only:
        file = results / f"{study}__{real.key}.nc"
        # blocks that are named there are those of SmolLM2
        if file.exists() or (study == "closer" and real.key != "smollm2"):
            continue
        tell(f"{study}: {real.short}")
        model = control(UNTRAINED if study == "pairs_untrained" else real.key, folder)
        started = time.process_time()
        if study == "massive":
            bound = WRITE_BOUND[real.key]
            dataset = massive_activations(model, windows(data, MASSIVE_PROMPTS[real.key]), bound)
        elif study == "closer":
            dataset = look_closer(model, windows(data, MASSIVE_PROMPTS[real.key]), WRITE_BOUND[real.key])
        else:
            dataset = neighbours(model, windows(data, PAIR_PROMPTS[real.key]))
        dataset.attrs |= {
            "model": f"{UNTRAINED}, of the configuration of {real.name}" if "untrained" in study else real.origin,
            "blocks": model.n_blocks,
            "weight_hash": model.weight_hash,
            "cpu_seconds": round(time.process_time() - started, 1),
            "threads": torch.get_num_threads(),
            "versions": json.dumps({library: version(library) for library in ("torch", "transformers")}),
        }
        write_file(file, netcdf(dataset))


def windows(data: Path, count: int) -> list[Prompt]:
    """Return pieces of WikiText-2 that are as far apart as they can be."""
    return text_windows(LETTERS)(data, count)


def neighbours(model: Model, prompts: Sequence[Any]) -> xr.Dataset:
    """Return the loss of every prompt without each block, and with each pair of neighbours swapped and in parallel."""
    run = bathyscope.survey(model, prompts, ["drop", "swap"], swap={"parallel": True}, progress=False)
    drop, swap = run["drop"], run["swap"]
    curves = {
        "loss_dropped": ("block", drop["loss"].transpose("prompt", ...)),
        "kl_dropped": ("block", drop["kl"].transpose("prompt", ...)),
        **{f"{name}_swapped": ("pair", swap[name].transpose("prompt", ...)) for name in ("loss", "kl")},
        **{f"{name}_parallel": ("pair", swap[f"{name}_parallel"].transpose("prompt", ...)) for name in ("loss", "kl")},
    }
    variables: dict[str, Any] = {name: (("prompt", dim), array.values) for name, (dim, array) in curves.items()}
    variables |= {name: (("prompt",), drop[name].values) for name in ("baseline_loss", "n_averaged")}
    return xr.Dataset(variables)


def massive_activations(model: Model, prompts: Sequence[Any], bound: float) -> xr.Dataset:
    """Return the depth profile of a model as it is, with its contributions clamped, and with large numbers left out.

    Args:
        bound: above it a number of a contribution is clamped to it, or left out.
    """
    requests = {"as it is": None, "clamped": f"clamp:{bound:g}", "left out": f"zero:{bound:g}"}
    # a profile shows no effects on later tokens, which would take four fifths of the time
    skip = {"positions": [[]] * len(prompts), "output_reductions": ["mean"]}
    runs = {
        name: bathyscope.survey(model, prompts, list(_PROFILE), bound=text, skip=skip, progress=False)
        for name, text in requests.items()
    }
    assert tuple(runs) == VARIANTS
    dataset = xr.concat([_profile(run) for run in runs.values()], "variant").assign_coords(variant=list(VARIANTS))
    heads = {name: run.record()["head"] for name, run in runs.items()}
    return dataset.assign_attrs(heads=json.dumps(heads), bound=bound)


def _profile(run: Run) -> xr.Dataset:
    variables: dict[str, Any] = {}
    for measure_name, names in _CURVES.items():
        for name in names:
            array = run[measure_name][name]
            # one norm of the lens, one part and one reduction of skip
            chosen = {dim: 0 for dim in array.dims if dim in ("norm", "part", "reduction")}
            array = array.isel(chosen).reset_coords(drop=True).transpose("prompt", ...)
            dims = ["block" if dim in ("dropped", "skipped") else str(dim) for dim in array.dims]
            variables[f"{measure_name}.{name}"] = (dims, np.asarray(array.values, np.float64))
    variables["n_averaged"] = (("prompt",), run["drop"]["n_averaged"].values)
    variables["n_tokens"] = (("prompt",), run["residual"]["n_tokens"].values)
    return xr.Dataset(variables)
