"""Survey a model and its controls, job by job, and store what the claims are read off."""

from __future__ import annotations

import gc
import json
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import xarray as xr

import bathyscope
from bathyscope import Model, Run
from studies.real_model.jobs import JOBS, SHUFFLED, UNTRAINED, Job
from studies.real_model.models import SMOLLM2, RealModel
from studies.real_model.timing import peak_memory, reset_peak_memory

RESULTS: Final = Path(__file__).with_name("results")
_LARGE: Final = 5000
"""Numbers from which on a variable is compressed."""


def results_folder(real: RealModel, results: Path = RESULTS) -> Path:
    """Return where results of a model are, of the folder of all."""
    return results / real.results


def measure(
    folder: Path,
    data: Path,
    results: Path = RESULTS,
    jobs: Sequence[Job] = JOBS,
    tell: Callable[[str], None] = lambda _: None,
    real: RealModel = SMOLLM2,
) -> None:
    """Measure every job that is not stored on as many prompts as it now takes, the cheapest first.

    Args:
        folder: of the model, as ``fetch`` stores it.
        data: folder with the data sets.
        results: folder of one netCDF file for each job and model.
        tell: takes a line about what is done next.
        real: which model it is.
    """
    results.mkdir(parents=True, exist_ok=True)
    # the model itself first: without its controls a row is already worth reading; each is loaded once
    names = [real.key, *UNTRAINED, SHUFFLED]
    tasks = [(job, name) for name in names for job in jobs if name in job.names(real)]
    loaded: tuple[str, Model] | None = None
    for job, name in tasks:
        file = results / f"{job.name}__{name}.nc"
        if is_measured(file, job.count(real, name)):
            continue
        tell(f"{job.name}: {name}")
        if loaded is None or loaded[0] != name:
            # the model before may be part of cycles, and would share the memory
            loaded = None
            gc.collect()
            loaded = name, control(name, folder)
        dataset = measure_job(job, name, loaded[1], data, real)
        # renamed when it is whole, so that an interrupted measurement leaves nothing that looks finished
        partial = file.with_suffix(".partial")
        dataset.to_netcdf(partial, engine="h5netcdf", encoding=_compressed(dataset))
        partial.rename(file)


def is_measured(file: Path, count: int) -> bool:
    """Return whether a file holds a job on as many prompts as the job now takes."""
    if not file.exists():
        return False
    with xr.open_dataset(file, engine="h5netcdf") as stored:
        # files of the first versions hold the prompts that were measured, and no number that was requested
        measured = stored.attrs.get("prompts", stored.sizes.get("prompt", 0))
        return int(stored.attrs.get("requested", measured)) == count


def _compressed(dataset: xr.Dataset) -> dict[str, dict[str, Any]]:
    """How large variables are written; the folder is kept under version control."""
    return {str(name): {"zlib": True} for name, array in dataset.data_vars.items() if array.size > _LARGE}


def measure_job(job: Job, name: str, model: Model, data: Path, real: RealModel = SMOLLM2) -> xr.Dataset:
    """Return what a job stores of one model, with what it took.

    Args:
        name: of the model or a control of it.
        model: that one, loaded.
        data: folder with the data sets.
        real: which model it is.
    """
    # a job's peak is its own, and neither that of loading nor of the jobs before
    reset_peak_memory()
    started, cpu = time.perf_counter(), time.process_time()
    count = job.count(real, name)
    dataset = _survey_job(job, model, data, count) if job.compute is None else job.compute(model, data, count)
    dataset.attrs |= {
        "job": job.name,
        "model": name,
        "weights": real.origin if name == real.key else f"{name}, of the configuration of {real.name}",
        "data": job.data,
        "requested": count,
        "weight_hash": model.weight_hash,
        "blocks": model.n_blocks,
        "versions": json.dumps({library: version(library) for library in ("bathyscope", "torch", "transformers")}),
        "threads": torch.get_num_threads(),
        "cpu_seconds": time.process_time() - cpu,
        "wall_seconds": time.perf_counter() - started,
        "peak_bytes": peak_memory(),
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return dataset


def _survey_job(job: Job, model: Model, data: Path, count: int) -> xr.Dataset:
    """The job's variables as ``measure.variable``, the tokens of each prompt, and its label."""
    assert job.source is not None
    run = bathyscope.survey(model, job.source(data, count), list(job.measures), progress=False, **job.options)
    variables: dict[str, Any] = {}
    for measure_name, names in job.variables.items():
        dataset = run[measure_name]
        for variable in names:
            array = dataset[variable]
            chosen = {dim: value for dim, value in job.choice.items() if dim in array.dims}
            array = array.sel(chosen).reset_coords(drop=True)
            variables[f"{measure_name}.{variable}"] = (array.dims, np.asarray(array.values, np.float32))
        for coordinate in ("n_tokens", "hops", "steps"):
            if coordinate in dataset.coords:
                variables[coordinate] = (("prompt",), dataset[coordinate].values)
    identity = {"prompts": run.identity.prompts, "prompt_hash": run.identity.prompt_hash}
    return xr.Dataset(variables).assign_attrs(noise_floor=_noise(run), **identity)


def _noise(run: Run) -> str:
    """Measure → largest difference of the control row from the plain forward."""
    if "noise" not in run:
        return "{}"
    floor = run["noise"]["floor"]
    return json.dumps(dict(zip(floor["measure"].values.tolist(), floor.values.tolist())))


def control(name: str, folder: Path) -> Model:
    """Return the model, an untrained one of its configuration, or the model with its middle blocks in another order.

    Args:
        name: ``untrained_SEED``, ``shuffled``, or that of the model.
        folder: of the model.
    """
    from transformers import AutoConfig, AutoModelForCausalLM

    if name == SHUFFLED:
        hf: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        layers = list(hf.model.layers)
        order = np.random.default_rng(0).permutation(np.arange(1, len(layers) - 1))
        hf.model.layers = torch.nn.ModuleList([layers[0], *(layers[block] for block in order), layers[-1]])
        for place, layer in enumerate(hf.model.layers):
            layer.self_attn.layer_idx = place
        if getattr(hf.config, "layer_types", None):
            # masks and rotary bases are chosen by place, and a block takes its own along
            types = [hf.config.layer_types[0], *(hf.config.layer_types[block] for block in order)]
            hf.config.layer_types = [*types, hf.config.layer_types[-1]]
    elif name.startswith("untrained_"):
        torch.manual_seed(int(name.rpartition("_")[2]))
        hf = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    else:
        return bathyscope.load(folder, dtype="float32")
    return bathyscope.load(hf.eval(), tokenizer=_tokenizer(folder))


@cache
def _tokenizer(folder: Path) -> Any:
    """The model's own, which its controls read with."""
    return bathyscope.load(folder, dtype="float32").tokenizer
