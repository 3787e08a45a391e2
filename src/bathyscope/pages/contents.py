"""What a run holds, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bathyscope.errors import OptionError
from bathyscope.runs.by_place import by_place
from bathyscope.runs.run import Run, open_run
from bathyscope.runs.selecting import Some
from bathyscope.surgery.plan import is_plan, open_plan
from bathyscope.surgery.repaired import is_repaired, open_repaired

if TYPE_CHECKING:
    import pandas as pd


def show(
    run: Run | str | Path,
    measure: str | None = None,
    *,
    cluster: str | None = None,
    raw: bool = False,
    partial: bool = False,
    prompts: Some | None = None,
    variables: Some | None = None,
    blocks: Some | None = None,
) -> pd.DataFrame:
    """Return the results of one measure summed up over prompts, or what the run holds.

    Of what ``prune`` or ``repair`` wrote it is the table.

    A row has a variable's mean at one block or boundary, each prompt counting the same, with its 95 % interval over
    prompts; a measure that has none (``effective_depth``) is given as it is. Maps of blocks by blocks, and values of
    single tokens, are among the raw values alone.

    Args:
        run: a run, or the folder of one.
        measure: which measure, or ``verdict`` for its readings; None = a row for every variable of every measure.
        cluster: label of prompts that belong together, such as document; intervals resample them as one.
        raw: every value of every prompt instead (:meth:`Run.to_dataframe`).
        partial: read an unfinished run: the prompts that are done.
        prompts, variables, blocks: a part of the run alone (:meth:`Run.select`), such as ``prompts="level=2"``.

    Raises:
        OptionError: the run does not hold the measure, or nothing that is called as what is selected; a cluster
            where nothing is resampled, or that makes no clusters.
        StoreError: there is no run, or it is not finished.

    Example:
        >>> bathyscope.show(run, "drop").columns.tolist()
        ['variable', 'what', 'place', 'mean', 'ci_low', 'ci_high', 'units']
    """
    import pandas as pd

    selected = any(one is not None for one in (prompts, variables, blocks))
    if not isinstance(run, Run) and (is_plan(run) or is_repaired(run)):
        if measure is not None or cluster is not None or raw or partial or selected:
            raise OptionError(
                f"{str(run)!r} holds what {'prune chose' if is_plan(run) else 'repair measured'}, whose table is one; "
                "leave out measure, cluster, raw, partial, prompts, variables and blocks."
            )
        return open_plan(run).table if is_plan(run) else open_repaired(run).to_dataframe()
    if raw and measure in (None, "verdict"):
        raise OptionError(
            "raw=True (--raw) gives every value of one measure; name it with measure= (--measure), such as lens."
        )
    opened = run if isinstance(run, Run) else open_run(run, partial=partial)
    if selected:
        opened = opened.select(prompts=prompts, variables=variables, blocks=blocks)
    if measure == "verdict":
        return pd.DataFrame(opened.verdict_by(cluster).rows())
    if cluster is not None and (measure is None or raw):
        raise OptionError(
            f"cluster={cluster!r} (--cluster) is of intervals, and {'raw values have' if raw else 'a list has'} none; "
            "name a measure, or measure='verdict' (--measure verdict), with it."
        )
    if measure is None:
        return opened.to_dataframe()
    rows = [] if raw else summary(opened, measure, cluster)
    if cluster is not None and not rows:
        raise OptionError(
            f"cluster={cluster!r} (--cluster): the intervals of {measure} were made by the survey; survey with its own "
            f"option, {measure}={{'cluster': {cluster!r}}} (--{measure}.cluster {cluster}), where it has one."
        )
    return pd.DataFrame(rows) if rows else opened.to_dataframe(measure)


def summary(run: Run, measure: str, cluster: str | None = None) -> list[dict[str, Any]]:
    """A row for every variable and block or boundary of a measure: mean over prompts and its interval.

    Prompts of one ``cluster``, a label, are resampled as one.
    """
    results = run[measure]
    if cluster is not None:
        run.prompts.clusters(cluster)
    return [
        {
            "variable": one.key,
            "what": one.label,
            "place": place,
            "mean": float(mean),
            "ci_low": interval.low,
            "ci_high": interval.high,
            "units": one.units,
        }
        for one in by_place(results, run.identity.seed, cluster)
        for place, mean, interval in zip(one.places, one.mean, one.intervals, strict=True)
    ]
