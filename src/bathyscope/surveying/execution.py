"""A plan that is carried out: its shards are computed and written, and what is derived from all of them."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from pathlib import Path

import xarray as xr

from bathyscope.measures.guard import require_dataset, require_shapes, told_by_name, warn_of_nan
from bathyscope.model.guessing import warn_of_foreign_prompts
from bathyscope.model.ranks import is_first, of_first, require_same, size
from bathyscope.prompts.parts import with_copies
from bathyscope.prompts.prompts import prompts_hash
from bathyscope.runs.growth import Growth
from bathyscope.runs.opening import without_controls
from bathyscope.runs.parts import Part
from bathyscope.runs.prompts import PROMPTS, PROMPTS_FILE, encode_prompts
from bathyscope.runs.run import Run
from bathyscope.runs.shards import Datasets
from bathyscope.runs.writer import RunWriter
from bathyscope.surveying.assembly import NOISE, noise_floor, with_summary
from bathyscope.surveying.computing import Computation
from bathyscope.surveying.growing import EarlierResults
from bathyscope.surveying.plan import SurveyPlan


def carry_out(
    plan: SurveyPlan,
    out: Path | None,
    command: str | None = None,
    progress: bool = True,
    part: Part | None = None,
    grow: bool = False,
) -> Run:
    """Return the run of a plan, computed or, where it is finished, as stored; of a part the unfinished run.

    Args:
        out: folder of the run, which a part needs; None = in memory.
        grow: a smaller run in the folder becomes this one.

    Raises:
        StoreError: the folder belongs to another configuration, is altered, or cannot be written.
    """
    if size() > 1:
        return _carry_out_on_ranks(plan, out, command, progress, part)
    mine = range(len(plan.shards)) if part is None else part.shards(len(plan.shards))
    record = {"command": command, "notes": plan.notes}
    growth = None if out is None else Growth.of(out, plan.identity(), partial(_hash_of_first, plan), grow=grow)
    opened: AbstractContextManager[RunWriter] = (
        RunWriter.open(out, plan.identity(), record) if growth is None else growth.writer(record)
    )
    run = None
    with opened as writer:
        if writer.is_finished:
            run = _finished_run(writer, plan)
        else:
            stored = (
                None if growth is None else EarlierResults(growth, plan.facts, plan.prompts, plan.measures, plan.seed)
            )
            missing = [index for index in _begun(writer, plan) if index in mine]
            Computation(plan, stored).compute(missing, writer.write, progress)
            if part is None:
                run = writer.finish(derive(plan, writer.merged()))
    # a run that has grown is in its folder only when the writer has put it in the place of the smaller one
    if run is not None and growth is None:
        return run
    assert out is not None
    # its controls grow after it: until then they have other prompts than it
    return without_controls(out, partial=part is not None)


def _carry_out_on_ranks(
    plan: SurveyPlan, out: Path | None, command: str | None, progress: bool, part: Part | None
) -> Run:
    """Carry a plan out on all ranks of a split model: all compute every shard, and the first one writes.

    Returns:
        The run, on all ranks.
    """
    # calls of other sizes are other collectives, and which shards are computed is said by the part
    require_same("prompts or options", [plan.identity(), plan.memory, plan.call_tokens, str(part)])
    with ExitStack() as stack:
        writer: RunWriter | None = None
        if is_first():
            opened = RunWriter.open(out, plan.identity(), {"command": command, "notes": plan.notes})
            writer = stack.enter_context(opened)
        if of_first(lambda: _require_writer(writer).is_finished):
            return of_first(lambda: _finished_run(_require_writer(writer), plan))
        mine = range(len(plan.shards)) if part is None else part.shards(len(plan.shards))
        missing = of_first(lambda: [index for index in _begun(_require_writer(writer), plan) if index in mine])
        Computation(plan).compute(missing, _nothing if writer is None else writer.write, progress)
        if part is not None:
            return of_first(lambda: without_controls(_require_folder(out), partial=True))
        merged = of_first(lambda: _require_writer(writer).merged())
        # what is derived may need weights, of which each rank has a part
        results = derive(plan, merged)
        return of_first(lambda: _require_writer(writer).finish(results))


def _require_writer(writer: RunWriter | None) -> RunWriter:
    assert writer is not None, "rank 0 alone reads and writes a run"
    return writer


def _require_folder(out: Path | None) -> Path:
    assert out is not None, "a part has a folder"
    return out


def _nothing(index: int, results: Datasets) -> None:
    """Let go of results that another rank writes."""


def _begun(writer: RunWriter, plan: SurveyPlan) -> list[int]:
    """Store the prompts of a run that begins or goes on; return which shards are to be computed."""
    writer.attach(PROMPTS, PROMPTS_FILE, encode_prompts(plan.prompts, plan.facts.keeps_text))
    if writer.missing:
        writer.note_ranks(plan.model.ranks)
    return writer.missing


def _finished_run(writer: RunWriter, plan: SurveyPlan) -> Run:
    """Return a run that is finished, with its prompts stored again where their file was removed."""
    if PROMPTS in writer.lost:
        writer.attach(PROMPTS, PROMPTS_FILE, encode_prompts(plan.prompts, plan.facts.keeps_text))
    return writer.run()


def _hash_of_first(plan: SurveyPlan, count: int) -> str:
    return plan.prompts.hash if count == len(plan.prompts) else prompts_hash(plan.prompts[:count])


def derive(plan: SurveyPlan, merged: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return run-level results: summaries, derived measures, and the noise floor over all prompts.

    Args:
        merged: results by prompt, of all shards.
    """
    results: dict[str, xr.Dataset] = {}
    model = plan.model
    # controls and models without blocks may predict badly, and stored states were checked where they were opened
    altered = plan.control is not None or model.origin is not None or model.schedule is not None
    if "lens" in merged and not altered and model.states is None:
        warn_of_foreign_prompts(model.name, merged["lens"], model.n_blocks, model.predictable)
    copy_of = plan.prompts.copy_of  # for intervals; stored results tell it by their prompts
    for measure in plan.observing:
        with told_by_name(measure, "summarise()"):
            summary = measure.summarise(plan.facts, with_copies(merged[measure.name], copy_of), plan.seed)
        warn_of_nan(measure, merged[measure.name])
        if summary is not None:
            require_dataset(measure, summary, "summarise()")
            require_shapes(measure, summary, plan.facts, range(len(plan.prompts)))
            results[measure.name] = with_summary(merged[measure.name], summary)
    # in the order of the plan, since one derived measure may need another
    for measure in plan.measures:
        if measure.derived:
            with told_by_name(measure, "derive()"):
                inputs = {name: with_copies(values, copy_of) for name, values in {**merged, **results}.items()}
                derived = measure.derive(plan.facts, inputs, plan.seed)
                results[measure.name] = require_dataset(measure, derived, "derive()")
            require_shapes(measure, derived, plan.facts, range(len(plan.prompts)))
    if NOISE in merged:
        results[NOISE] = noise_floor(merged[NOISE])
    return results
