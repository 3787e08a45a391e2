"""Act on a real model: leave blocks out, ask tasks, repair, reload, stop early, run blocks twice.

Each act is one JSON file in the folder of results and is measured once; what is large (plans, checkpoints, states of
training, answers) lies in a working folder, from which an interrupted act goes on.
"""

from __future__ import annotations

import json
import resource
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr

import bathyscope
from bathyscope import Model
from bathyscope.extend.statistics import share_difference_interval, share_interval
from studies.common.files import write_file
from studies.real_model.models import SMOLLM2, RealModel
from studies.real_model.reloading import compare_reloaded
from studies.real_model.sources import benchmark_files, text_windows

RULES: Final = ("choice", "block influence", "angular distance", "greedy")
"""Candidates of a plan that are asked tasks."""
DOCUMENTS: Final = 10
"""First documents of each task."""
HEALING: Final = {0: (10.0, 384), 1: (5.0, 96)}
"""By order of the text: minutes of processor time, and pieces of text, some of which are kept aside to choose the rung.
"""
LEVEL: Final = 0.95
_BUDGET: Final = 4000
"""All blocks alone, but not all pairs of 30 blocks, which would take 4,525 calls of a block for each batch."""

calibration_text: Final = text_windows(200, 0.0, 0.5)
test_text: Final = text_windows(200, 0.5, 1.0)


@dataclass(frozen=True)
class Place:
    """Where the model, the data and what acts write are.

    Args:
        folder: of the model.
        data: folder with the data sets.
        results: folder of one JSON file for each act.
        work: folder of plans, checkpoints, states and answers.
        real: which model it is.
    """

    folder: Path
    data: Path
    results: Path
    work: Path
    real: RealModel = SMOLLM2

    @cached_property
    def model(self) -> Model:
        """The model in float32."""
        return bathyscope.load(self.folder, dtype="float32")

    def file(self, name: str) -> Path:
        """Return the file of an act."""
        return self.results / f"act_{name}.json"

    def read(self, name: str) -> dict[str, Any]:
        """Return the record of an act that was carried out."""
        record: dict[str, Any] = json.loads(self.file(name).read_text(encoding="utf-8"))
        return record


def prune(place: Place, size: int) -> dict[str, Any]:
    """Choose blocks to leave out on one half of WikiText-2, judge on the other half, and reload the checkpoint."""
    plan = bathyscope.prune(
        place.model,
        calibration_text(place.data, 6),
        test_text(place.data, 12),
        drop=size,
        out=place.work / f"prune_{size}",
        budget=_BUDGET,
        measured=8,
        random=8,
        progress=False,
    )
    folder = place.work / f"pruned_{size}"
    plan.export(folder)
    with bathyscope.scheduled(place.model, str(plan.schedule)) as hf:
        reloaded = compare_reloaded(hf, folder)
    return {**plan.record(), "reloaded": reloaded}


def ask_tasks(place: Place) -> dict[str, Any]:
    """Ask the whole model, and the model without what each rule leaves out, the first documents of three tasks."""
    # of one size: a schedule takes a minute for each ten documents
    size = place.real.repaired
    left_out = {row["candidate"]: row["subset"] for row in place.read(f"prune_{size}")["candidates"]}
    schedules = list(dict.fromkeys(left_out[rule] for rule in RULES))
    files = benchmark_files(place.data)
    evaluation = bathyscope.evaluate(
        place.model, list(files), schedules, data=files, limit=DOCUMENTS, out=place.work / "tasks"
    )
    correct = evaluation.data["correct"]
    full = correct.sel(schedule="standard")
    rows = [
        {"size": size, "rule": rule, "schedule": left_out[rule], **difference}
        for rule in RULES
        for difference in task_differences(correct.sel(schedule=left_out[rule]), full)
    ]
    return {"documents": DOCUMENTS, "harness": evaluation.data.attrs["harness"], "rows": rows}


def task_differences(without: xr.DataArray, full: xr.DataArray) -> Iterable[dict[str, Any]]:
    """Yield accuracy with and without blocks and the paired difference, of each task and of all documents together.

    Args:
        without, full: whether documents are answered correctly, by ``task`` and ``document``.
    """
    tasks = full["task"].values.tolist()
    for name, chosen in [*((task, [task]) for task in tasks), ("all", tasks)]:
        pruned, whole = (
            np.concatenate([answers.sel(task=task).values for task in chosen]) for answers in (without, full)
        )
        answered = ~np.isnan(pruned) & ~np.isnan(whole)
        pruned, whole = pruned[answered], whole[answered]
        low, high = share_difference_interval(pruned, whole, level=LEVEL)
        yield {
            "task": name,
            "documents": len(whole),
            "full": float(whole.mean()),
            "full_interval": [float(end) for end in share_interval(whole, level=LEVEL)],
            "pruned": float(pruned.mean()),
            "difference": float(pruned.mean() - whole.mean()),
            "low": float(low),
            "high": float(high),
        }


def repair(place: Place, order: int = 0) -> dict[str, Any]:
    """Repair the middle choice of blocks by a number, a map and some minutes of training, and reload what is proved.

    Args:
        order: of ``HEALING``, and seed of the order in which the text is trained on and of the pieces that are kept
            aside; 0 = as it is.
    """
    minutes, pieces = HEALING[order]
    windows = text_windows(320, 0.0, 0.5)(place.data, pieces)
    if order:
        windows = [windows[number] for number in np.random.default_rng(order).permutation(len(windows))]
    repaired = bathyscope.repair(
        place.model,
        place.read(f"prune_{place.real.repaired}")["schedule"],
        windows,
        test=text_windows(320, 0.5, 1.0)(place.data, 12),
        how="heal",
        minutes=minutes,
        clock=time.process_time,
        rate=2e-4,
        state=place.work / (f"healing_{order}" if order else "healing"),
        resamples=2000,
        level=LEVEL,
        progress=False,
    )
    record = repaired.record() | {"windows": pieces, "minutes": minutes}
    if repaired.proved and not order:
        folder = repaired.export(place.work / "repaired")
        record["reloaded"] = compare_reloaded(repaired.hf, folder)
    return record


def advise_exits(place: Place) -> dict[str, Any]:
    """Predict whether drafting with the first blocks pays, and run it."""
    windows = text_windows(160)(place.data, 10)
    advice = bathyscope.exit_advice(
        place.model, windows[:7], verify=windows[7:], new_tokens=16, longest=4, progress=False
    )
    return advice.record()


def scan_repeats(place: Place) -> dict[str, Any]:
    """Run every window of one and two blocks twice in a row."""
    scan = bathyscope.repeat_scan(place.model, text_windows(160)(place.data, 10), longest=2, progress=False)
    return scan.record()


Act = Callable[[Place], dict[str, Any]]


def acts_on(real: RealModel) -> Mapping[str, Act]:
    """Return the acts on a model by name, in an order in which each finds what it needs."""
    return {
        **{f"prune_{size}": partial(prune, size=size) for size in real.removed},
        "repeats": scan_repeats,
        "exits": advise_exits,
        "repair": repair,
        "repair_again": partial(repair, order=1),
        "tasks": ask_tasks,
    }


def act(place: Place, names: Sequence[str] | None = None, tell: Callable[[str], None] = lambda _: None) -> None:
    """Carry out every act that has no file of results yet.

    Args:
        names: of acts; None = all.
        tell: takes a line about what is done next.
    """
    place.results.mkdir(parents=True, exist_ok=True)
    place.work.mkdir(parents=True, exist_ok=True)
    acts = acts_on(place.real)
    for name in names or acts:
        if place.file(name).exists():
            continue
        tell(name)
        started, cpu = time.perf_counter(), time.process_time()
        record = acts[name](place)
        record["weights"] = place.real.origin
        record["took"] = {
            "cpu_seconds": time.process_time() - cpu,
            "wall_seconds": time.perf_counter() - started,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }
        # a repair is of a folder, whose place on this machine is nobody else's business
        text = json.dumps(record, indent=1, allow_nan=False).replace(
            json.dumps(str(place.folder)), json.dumps(place.folder.name)
        )
        write_file(place.file(name), f"{text}\n".encode())
