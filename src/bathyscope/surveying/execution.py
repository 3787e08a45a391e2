"""A plan that is carried out: its shards are computed and written, and what is derived from all of them."""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import xarray as xr

from bathyscope.measures.guard import told_by_name, warn_of_nan
from bathyscope.prompts.parts import with_copies
from bathyscope.prompts.prompts import prompts_hash
from bathyscope.runs.growth import Growth
from bathyscope.runs.parts import Part
from bathyscope.runs.prompts import PROMPTS, PROMPTS_FILE, encode_prompts
from bathyscope.runs.run import Run, open_run
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
    mine = range(len(plan.shards)) if part is None else part.shards(len(plan.shards))
    record = {"command": command, "notes": plan.notes}
    growth = None if out is None else Growth.of(out, plan.identity(), partial(_hash_of_first, plan), grow=grow)
    opened: AbstractContextManager[RunWriter] = (
        RunWriter.open(out, plan.identity(), record) if growth is None else growth.writer(record)
    )
    run = None
    with opened as writer:
        if writer.is_finished:
            if PROMPTS in writer.lost:
                writer.attach(PROMPTS, PROMPTS_FILE, encode_prompts(plan.prompts, plan.facts.keeps_text))
            run = writer.run()
        else:
            stored = (
                None if growth is None else EarlierResults(growth, plan.facts, plan.prompts, plan.measures, plan.seed)
            )
            writer.attach(PROMPTS, PROMPTS_FILE, encode_prompts(plan.prompts, plan.facts.keeps_text))
            missing = [index for index in writer.missing if index in mine]
            Computation(plan, stored).compute(missing, writer.write, progress)
            if part is None:
                run = writer.finish(derive(plan, writer.merged()))
    # a run that has grown lies in its folder only when the writer has put it in the place of the smaller one
    if run is not None and growth is None:
        return run
    assert out is not None
    return open_run(out, partial=part is not None)


def _hash_of_first(plan: SurveyPlan, count: int) -> str:
    return plan.prompts.hash if count == len(plan.prompts) else prompts_hash(plan.prompts[:count])


def derive(plan: SurveyPlan, merged: Mapping[str, xr.Dataset]) -> dict[str, xr.Dataset]:
    """Return run-level results: summaries, derived measures, and the noise floor over all prompts.

    Args:
        merged: results by prompt, of all shards.
    """
    results: dict[str, xr.Dataset] = {}
    copy_of = plan.prompts.copy_of  # for intervals; stored results tell it by their prompts
    for measure in plan.observing:
        with told_by_name(measure, "summarise()"):
            summary = measure.summarise(plan.facts, with_copies(merged[measure.name], copy_of), plan.seed)
        warn_of_nan(measure, merged[measure.name])
        if summary is not None:
            results[measure.name] = with_summary(merged[measure.name], summary)
    # in the order of the plan, since one derived measure may need another
    for measure in plan.measures:
        if measure.derived:
            with told_by_name(measure, "derive()"):
                inputs = {name: with_copies(values, copy_of) for name, values in {**merged, **results}.items()}
                results[measure.name] = measure.derive(plan.facts, inputs, plan.seed)
    if NOISE in merged:
        results[NOISE] = noise_floor(merged[NOISE])
    return results
