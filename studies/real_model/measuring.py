"""Survey the model and its controls, job by job, and store what the claims are read off."""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import xarray as xr

import bathyscope
from bathyscope.model import Model
from bathyscope.runs.run import Run
from studies.real_model.jobs import JOBS, Job

RESULTS: Final = Path(__file__).with_name("results")


def measure(
    folder: Path,
    data: Path,
    results: Path = RESULTS,
    jobs: Sequence[Job] = JOBS,
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Survey every job that is not stored yet, the cheapest first; what is stored is left as it is.

    Args:
        folder: of the model, as ``fetch`` stores it.
        data: folder with the data sets.
        results: folder of one netCDF file for each job and model.
        tell: takes a line about what is done next.
    """
    results.mkdir(parents=True, exist_ok=True)
    # the model itself first: without its controls a row is already worth reading
    tasks = [(job, name) for job in jobs for name in job.models]
    for job, name in sorted(tasks, key=lambda task: task[1] != "smollm2"):
        file = results / f"{job.name}__{name}.nc"
        if file.exists():
            continue
        tell(f"{job.name}: {name}")
        stored = _surveyed(job, name, folder, data)
        # renamed when it is whole, so that an interrupted measurement leaves nothing that looks finished
        partial = file.with_suffix(".partial")
        stored.to_netcdf(partial, engine="h5netcdf")
        partial.rename(file)


def _surveyed(job: Job, name: str, folder: Path, data: Path) -> xr.Dataset:
    model = control(name, folder)
    started, cpu = time.perf_counter(), time.process_time()
    prompts = job.source(data, job.prompts[name != "smollm2"])
    run = bathyscope.survey(model, prompts, list(job.measures), progress=False, **job.options)
    dataset = _kept(run, job)
    dataset.attrs = {
        "job": job.name,
        "model": name,
        "data": job.data,
        "prompts": run.identity.prompts,
        "weight_hash": model.weight_hash,
        "prompt_hash": run.identity.prompt_hash,
        "blocks": model.n_blocks,
        "noise_floor": _noise(run),
        "versions": json.dumps({library: version(library) for library in ("bathyscope", "torch", "transformers")}),
        "threads": torch.get_num_threads(),
        "cpu_seconds": time.process_time() - cpu,
        "wall_seconds": time.perf_counter() - started,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        "measured": datetime.now(UTC).isoformat(timespec="seconds"),
    }
    return dataset


def _kept(run: Run, job: Job) -> xr.Dataset:
    """The job's variables as ``measure.variable``, and the tokens of each prompt."""
    variables: dict[str, Any] = {}
    for measure_name, names in job.kept.items():
        dataset = run[measure_name]
        for variable in names:
            array = dataset[variable]
            chosen = {dim: value for dim, value in job.choice.items() if dim in array.dims}
            array = array.sel(chosen).reset_coords(drop=True)
            variables[f"{measure_name}.{variable}"] = (array.dims, np.asarray(array.values, np.float32))
        if "n_tokens" in dataset.coords:
            variables["n_tokens"] = (("prompt",), dataset["n_tokens"].values)
        if "hops" in dataset.coords:
            variables["hops"] = (("prompt",), dataset["hops"].values)
    return xr.Dataset(variables)


def _noise(run: Run) -> str:
    """Measure → largest difference of the control row from the plain forward."""
    if "noise" not in run:
        return "{}"
    floor = run["noise"]["floor"]
    return json.dumps(dict(zip(floor["measure"].values.tolist(), floor.values.tolist())))


def control(name: str, folder: Path) -> Model:
    """The model, an untrained one of its configuration, or the model with its middle blocks in another order."""
    from transformers import AutoConfig, AutoModelForCausalLM

    if name == "smollm2":
        return bathyscope.load(folder, dtype="float32")
    tokenizer = bathyscope.load(folder, dtype="float32").tokenizer
    if name == "shuffled":
        hf: Any = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
        layers = list(hf.model.layers)
        order = np.random.default_rng(0).permutation(np.arange(1, len(layers) - 1))
        hf.model.layers = torch.nn.ModuleList([layers[0], *(layers[block] for block in order), layers[-1]])
        for place, layer in enumerate(hf.model.layers):
            layer.self_attn.layer_idx = place
    else:
        torch.manual_seed(int(name.rpartition("_")[2]))
        hf = AutoModelForCausalLM.from_config(AutoConfig.from_pretrained(folder), dtype=torch.float32)
    return bathyscope.load(hf.eval(), tokenizer=tokenizer)
