"""The contents of a run as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bathyscope.core.calls import checked
from bathyscope.core.common_options import PromptCluster
from bathyscope.core.cycles import Cycle
from bathyscope.core.result import PageResult
from bathyscope.errors import OptionError
from bathyscope.runs.by_place import ByPlace, by_place
from bathyscope.runs.folder import is_course
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.runs.selecting import Some, is_by_place
from bathyscope.surgery.plan.opening import is_plan, open_plan
from bathyscope.surgery.repairing.repaired import is_repaired, open_repaired
from bathyscope.surveying.training.steps import open_course

if TYPE_CHECKING:
    import pandas as pd


def _opened_act(run: object) -> PageResult | None:
    """Return what prune, repair, course or diff returned or wrote; None for anything else."""
    if isinstance(run, PageResult):
        return run
    if not isinstance(run, str | Path):
        return None
    if is_plan(run):
        return open_plan(run)
    if is_repaired(run):
        return open_repaired(run)
    return open_course(run) if is_course(Path(run).expanduser()) else None


@checked
def show(
    run: Run | PageResult | str | Path,
    measure: str | None = None,
    *,
    cluster: PromptCluster = None,
    raw: bool = False,
    partial: bool = False,
    prompts: Some | None = None,
    variables: Some | None = None,
    blocks: Some | None = None,
) -> pd.DataFrame:
    """Return the results of one measure summarised over prompts, or a list of what the run holds.

    For what ``prune``, ``repair``, ``course`` or ``diff`` returned, and for its folder, return its table.

    A row has a variable's mean at one block or boundary, with its 95 % interval over prompts, each of which counts the
    same. Measures without intervals (``effective_depth``) are returned as they are. Maps of blocks by blocks, and
    values of single tokens, are only among the raw values.

    Args:
        run: a run or its folder.
        measure: which measure, or ``verdict`` for its readings; None = a row for every variable of every measure.
        raw: return every value of every prompt instead (:meth:`Run.to_dataframe`).
        partial: read the finished prompts of an unfinished run.
        prompts, variables, blocks: only a part of the run (:meth:`Run.select`), such as ``prompts="level=2"``.

    Raises:
        OptionError: the run lacks the measure or the selected part; blocks of a measure that has none; a cluster where
            nothing is resampled, or that makes no clusters.
        StoreError: the run is missing or unfinished.

    Example:
        >>> bathyscope.show(run, "drop").columns.tolist()
        ['variable', 'what', 'place', 'mean', 'ci_low', 'ci_high', 'units']
    """
    import pandas as pd

    selected = any(part is not None for part in (prompts, variables, blocks))
    other = _opened_act(run)
    if other is not None:
        if measure is not None or cluster is not None or raw or partial or selected:
            where = f"{str(run)!r} is the folder of" if isinstance(run, str | Path) else "This is"
            raise OptionError(
                f"{where} a {other.kind}, which has a single table. Remove measure, cluster, raw, partial, "
                "prompts, variables and blocks."
            )
        return other.to_dataframe()
    assert not isinstance(run, PageResult)
    if raw and measure in (None, "verdict"):
        raise OptionError(
            "raw=True (--raw) shows the values of one measure. Name it with measure= (--measure), such as lens."
        )
    opened = run if isinstance(run, Run) else open_run(run, partial=partial)
    if selected:
        opened = opened.select(prompts=prompts, variables=variables, blocks=blocks)
    if measure == "verdict":
        return pd.DataFrame(opened.verdict_by(cluster).rows())
    if cluster is not None and (measure is None or raw):
        raise OptionError(
            f"cluster={cluster!r} (--cluster) applies to intervals, and {'raw values have' if raw else 'a list has'} "
            "none. Also name a measure, or measure='verdict' (--measure verdict), and no raw values."
        )
    if measure is None:
        return opened.to_dataframe()
    if "blocks" in opened.cut and not is_by_place(opened[measure]):
        raise OptionError(
            f"{measure} has no values by block, so that blocks= (--blocks) would change nothing. Leave it out."
        )
    rows = [] if raw else summary(opened, measure, cluster)
    if cluster is not None and not rows:
        raise OptionError(
            f"cluster={cluster!r} (--cluster) cannot change the intervals of {measure}, which its survey computed. "
            f"Survey again with {measure}={{'cluster': {cluster!r}}} (--{measure}.cluster {cluster}), if it has it."
        )
    return pd.DataFrame(rows) if rows else opened.to_dataframe(measure)


def _address(cycle: Cycle | None, values: ByPlace, place: int) -> dict[str, int]:
    """Return loop and block of a step; empty for models without loops, and at boundaries, which lie between steps."""
    if cycle is None or values.dim == "boundary":
        return {}
    return {"loop": cycle.loop[place], "block_in_loop": cycle.block_in_loop[place]}


def summary(run: Run, measure: str, cluster: str | None = None) -> list[dict[str, Any]]:
    """Return a row for every variable and place of a measure: mean over prompts and interval.

    Prompts of one ``cluster``, a label, are resampled as one.
    """
    results = run[measure]
    if cluster is not None:
        run.prompts.clusters(cluster)
    return [
        {
            "variable": values.key,
            "what": values.label,
            "place": place,
            **_address(run.cycle, values, place),
            "mean": float(mean),
            "ci_low": interval.low,
            "ci_high": interval.high,
            "units": values.units,
        }
        for values in by_place(results, run.identity.seed, cluster)
        for place, mean, interval in zip(values.places, values.mean, values.intervals, strict=True)
    ]
