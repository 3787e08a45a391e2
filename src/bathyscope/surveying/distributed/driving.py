"""A survey by workers on a Ray cluster: the one process that writes the run, and computes nothing itself."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, get_args

from bathyscope.core.progress import ProgressBar
from bathyscope.core.text import without_folders
from bathyscope.errors import OptionError
from bathyscope.model import AnyModel, Model
from bathyscope.model.identity import ModelIdentity, identity_of
from bathyscope.model.options import Attention
from bathyscope.prompts.in_memory import Source, listed_once
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.folder import Folder
from bathyscope.runs.manifest import RUN
from bathyscope.runs.opening import controls_in
from bathyscope.runs.prompts import PROMPTS, PROMPTS_FILE
from bathyscope.runs.run import Run
from bathyscope.runs.stored_run import CONTROLS, control_folders
from bathyscope.runs.writer import RunWriter
from bathyscope.surveying.asking import Survey
from bathyscope.surveying.controls import Control
from bathyscope.surveying.distributed.cluster import connected
from bathyscope.surveying.distributed.pool import Pool, WorkerTask
from bathyscope.surveying.distributed.worker import Planned, WorkOrder

_AT_ONCE: Final = 16
"""Shards of a streamed model that are handed out together, so that they share a reading of its weights."""


def survey_by_workers(
    request: Survey,
    model: AnyModel,
    prompts: Source | Prompts,
    out: str | Path | None,
    controls: Sequence[Control],
    *,
    loading: Mapping[str, Any],
    workers: int | None,
    address: str | None,
    timeout: float,
    command: str | None,
    progress: bool,
) -> Run:
    """Survey by workers that compute its shards. Arguments are those of ``survey``.

    Raises:
        OptionError, PromptError, ModelError, StoreError: as ``survey``; Ray or its cluster cannot be used; workers that
            would not compute the same, or are lost again and again.
    """
    # a mistyped measure is refused before workers are started
    _ = request.declared
    name, loading, identity = by_name(model, loading)
    folder = None if out is None else Path(out).expanduser()
    if folder is not None and folder.exists():
        # another process that writes there is named before workers are started
        Folder(folder, RUN).close()
        control_folders(folder)
    # what is sent to every worker must be there more than once
    source: Source | Prompts = listed_once(prompts)
    order = WorkOrder(name, loading, identity, request, source, controls, str(Path.cwd()))
    use_gpus = not str(loading.get("device") or "").startswith("cpu")
    with connected(address, workers, use_gpus) as (number, gpus), _pool(order, number, gpus, timeout) as pool:
        run = _carried_out(pool, "", folder, command, progress)
        asked_for = {control.label for control in controls}
        control_runs = {} if folder is None else controls_in(folder, besides=asked_for)
        for control in controls:
            place = None if folder is None else folder / CONTROLS / control.label
            control_runs[control.label] = _carried_out(pool, control.label, place, command, progress)
    return replace(run, controls=control_runs)


@contextmanager
def _pool(order: WorkOrder, workers: int, gpus: int, timeout: float) -> Iterator[Pool]:
    pool = Pool(order, workers, gpus, timeout)
    try:
        yield pool
    finally:
        pool.close()


def _carried_out(pool: Pool, label: str, out: Path | None, command: str | None, progress: bool) -> Run:
    """Return the run of the model or of a control; shards are written as they come."""
    plan = pool.planned(label)
    record = {"command": command, "notes": plan.notes, "versions": plan.versions}
    with RunWriter.open(out, plan.identity, record) as writer:
        if writer.is_finished:
            if PROMPTS in writer.lost:
                writer.attach(PROMPTS, PROMPTS_FILE, plan.prompts)
            return writer.run()
        writer.attach(PROMPTS, PROMPTS_FILE, plan.prompts)
        total = sum(plan.work)
        done = total - sum(plan.work[index] for index in writer.missing)
        tasks = [_task(plan, indices) for indices in _handed_out(plan, writer.missing)]
        with ProgressBar(
            f"surveying {without_folders(plan.identity['model'])}", total, done, quiet=not progress
        ) as bar:
            for _, shards in pool.results(label, tasks):
                for index, datasets in shards.items():
                    writer.write(index, datasets)
                    done += plan.work[index]
                bar.advance_to(done)
        # by a worker: derived measures may look at weights, which this process has not loaded
        [(_, derived)] = pool.results(label, [WorkerTask("the run-level results", "derived", (writer.merged(),))])
        return writer.finish(derived)


def _handed_out(plan: Planned, missing: Sequence[int]) -> list[list[int]]:
    at_once = _AT_ONCE if plan.is_streamed else 1
    return [list(missing[first : first + at_once]) for first in range(0, len(missing), at_once)]


def _task(plan: Planned, indices: list[int]) -> WorkerTask:
    ranges = plan.identity["plan"]
    what = f"shard {indices[0]} (prompts {ranges[indices[0]][0]} to {ranges[indices[-1]][1] - 1})"
    return WorkerTask(what, "shards", (indices,))


def by_name(model: AnyModel, loading: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], ModelIdentity | None]:
    """Return a model as every worker can load it: its name, how, and its identity where it is known."""
    if isinstance(model, str | Path):
        return str(model), loading, None
    if not isinstance(model, Model) or not getattr(model.hf.config, "_name_or_path", ""):
        raise OptionError(
            "engine='ray' has every worker load the model, and this one is in memory alone; give its name or folder "
            "(save it by save_pretrained first), and what load() is to be told in loading={...}."
        )
    attn = str(getattr(model.hf.config, "_attn_implementation", None))
    arguments: dict[str, Any] = {
        "dtype": str(model.dtype).removeprefix("torch."),
        "revision": model.revision,
        # of a kind, since each worker has a GPU of its own
        "device": model.device.type,
        "placement": model.placement,
        "tokenizer": model.given_tokenizer,
        "trust_remote_code": model.trust_remote_code,
        "attn": attn if attn in get_args(Attention) else None,
        "base": None if model.adapter is None else model.adapter.base,
    }
    return model.name, {**arguments, **loading}, identity_of(model)
