"""What a run holds, as a table."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from bathyscope.errors import OptionError
from bathyscope.explorer.places import by_place
from bathyscope.store.run import Run, open_run
from bathyscope.store.selecting import Some
from bathyscope.surgery.plan import is_plan, open_plan

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
    """The results of one measure summed up over prompts, or what the run holds; of what ``prune`` wrote, its table.

    A row has a variable's mean at one block or boundary, each prompt counting the same, with its 95 % interval over
    prompts; a measure that has none (``effective_depth``) is given as it is. Maps of blocks by blocks, and values of
    single tokens, are among the raw values alone.

    Args:
        run: a run, or the folder of one.
        measure: which measure, or ``verdict`` for its readings; None = a row for every variable of every measure.
        cluster: of the verdict: label of prompts that belong together, such as document; they are resampled as one.
        raw: every value of every prompt instead (:meth:`Run.to_dataframe`).
        partial: read an unfinished run: the prompts that are done.
        prompts, variables, blocks: a part of the run alone (:meth:`Run.select`), such as ``prompts="level=2"``.

    Raises:
        OptionError: the run does not hold the measure, or nothing that is called as what is selected; a cluster
            without the verdict, or that makes no clusters.
        StoreError: there is no run, or it is not finished.

    Example:
        >>> bathyscope.show(run, "drop").columns.tolist()
        ['variable', 'what', 'place', 'mean', 'ci_low', 'ci_high', 'units']
    """
    import pandas as pd

    selected = any(one is not None for one in (prompts, variables, blocks))
    if not isinstance(run, Run) and is_plan(run):
        if measure is not None or cluster is not None or raw or selected:
            raise OptionError(
                f"{str(run)!r} holds a choice that prune made, whose table is one; leave out measure, cluster, raw, "
                "prompts, variables and blocks."
            )
        return open_plan(run).table
    opened = run if isinstance(run, Run) else open_run(run, partial=partial)
    if selected:
        opened = opened.select(prompts=prompts, variables=variables, blocks=blocks)
    if measure == "verdict":
        return pd.DataFrame(opened.verdict_by(cluster).rows())
    if cluster is not None:
        raise OptionError(
            f"cluster={cluster!r} (--cluster) belongs to the verdict's intervals; give measure='verdict' (--measure "
            "verdict) with it. Those of effective_depth and depth_score are a survey's options."
        )
    if measure is None:
        return pd.DataFrame(contents(opened))
    rows = [] if raw else summary(opened, measure)
    return pd.DataFrame(rows) if rows else opened.to_dataframe(measure)


def summary(run: Run, measure: str) -> list[dict[str, Any]]:
    """A row for every variable and block or boundary of a measure: mean over prompts and its interval.

    Raises:
        OptionError: the run does not hold the measure.
    """
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
        for one in by_place(run[measure], run.identity.seed)
        for place, mean, interval in zip(one.places, one.mean, one.intervals, strict=True)
    ]


def contents(run: Run) -> list[dict[str, str]]:
    """Every variable of every measure: its dimensions, units and meaning."""
    return [
        {
            "measure": measure,
            "variable": str(name),
            "dimensions": " × ".join(str(dim) for dim in values.dims),
            "units": str(values.attrs.get("units", "")),
            "meaning": str(values.attrs.get("long_name", "")),
        }
        for measure in run.measures
        for name, values in run[measure].data_vars.items()
    ]
