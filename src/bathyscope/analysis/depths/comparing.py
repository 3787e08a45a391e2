"""Runs compared: for every estimator of effective depth the difference of its ratio, with its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from bathyscope.analysis.depths.cohorts import Cohort, Contrasted, cohorts_of, contrasted, why_no_interval
from bathyscope.analysis.depths.draws import draw_as_one
from bathyscope.analysis.depths.equivalence import bound_text, equivalence_bounds, require_bound
from bathyscope.analysis.depths.leading import block_data, lead, reading_data
from bathyscope.analysis.depths.questions import (
    Pairs,
    PlannedContrast,
    plan_comparisons,
    require_pairs,
)
from bathyscope.analysis.depths.result import Comparison, ComparisonRow, comparison_data, run_data
from bathyscope.analysis.depths.side import ComparedPrompts, chosen_estimators, differing_options, sides_of
from bathyscope.analysis.options import Against, CompareOptions, Question, Unit
from bathyscope.core.calls import takes
from bathyscope.errors import OptionError, describe_value
from bathyscope.options import require_no_dict
from bathyscope.prompts.parts import FEWEST_CLUSTERS
from bathyscope.prompts.prompt import whole_number
from bathyscope.prompts.prompts import copies_in_words
from bathyscope.runs.names import run_names
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.statistics.effective_depth import ESTIMATORS, DepthEstimate
from bathyscope.statistics.sampling import Sampling


@takes(CompareOptions)
def compare(
    runs: Sequence[Run | str | Path],
    *,
    question: Question | None = None,
    pairs: Pairs | None = None,
    all_pairs: bool = False,
    paired: bool | None = None,
    by: str | None = None,
    against: Against = "blocks",
    estimators: Sequence[str] | None = None,
    cluster: str | None = None,
    equivalence: float | None = None,
    equivalence_unit: Unit = "ratio",
    resamples: int = 2000,
    level: float = 0.95,
    seed: int = 0,
) -> Comparison:
    """Compares the effective depths of runs, estimator by estimator.

    Runs on the same prompts are paired: one resample of the prompts serves both. Others are two samples. The
    headline is the ratio depth/L of blocks done, since models differ in L; depths themselves are compared for equal L.

    Args:
        runs: runs, or folders of runs; each is compared with the first, unless pairs or a question say otherwise.
        ...: the options of ``CompareOptions``.
        pairs: which runs to compare, as numbers in the list: (reference, other).
        paired: whether prompts are paired: True = by prompt id in any case, False = never; None = where the runs
            measured the same prompts as far as can be seen.

    Raises:
        OptionError: too few runs, the same run twice, missing measures, unknown names, options that do not go
            together, or runs that the question cannot be asked of; a label that makes no clusters; a bound of
            equivalence that is not above 0, or in blocks of unequal models; a unit of it without a bound.
        StoreError: a folder holds no finished run.

    Example:
        >>> bathyscope.compare(["runs/shallow", "runs/model"], resamples=200)
        <Comparison model − shallow. ...>
    """
    chosen = list(chosen_estimators(ESTIMATORS if estimators is None else estimators, ESTIMATORS, "There is"))
    require_pairs(pairs, question, all_pairs)
    require_bound(equivalence, equivalence_unit)
    opened = _opened(runs)
    _check_pairs(pairs, len(opened))
    sides = draw_as_one(sides_of(opened, chosen), cluster, paired=paired)
    plan = plan_comparisons(sides, question, pairs=pairs, all_pairs=all_pairs, by=by, against=against)
    bounds = equivalence_bounds(plan, question, equivalence, equivalence_unit)
    # A run may be in several contrasts; its own estimate is computed and listed once.
    compared = list({id(side): side for comparison in plan.contrasts for side in comparison.sides}.values())
    rows, notes = [], [*plan.notes, *_copy_notes(opened), *_cluster_notes(compared, cluster)]
    # prompts that cannot be paired are refused before any resampling
    matched = [cohorts_of(comparison.sides, paired) for comparison in plan.contrasts]
    sampling = Sampling(resamples, level, seed)
    estimates_of = {id(side): side.estimates(sampling) for side in compared}
    for comparison, (cohorts, remarks), bound in zip(plan.contrasts, matched, bounds):
        unit = "different prompts" if cluster is None else "clusters"
        row = _answer(comparison, cohorts, remarks, estimates_of, chosen, sampling, bound, unit)
        rows.append(row)
        notes += [*row.notes, *differing_options(comparison.sides)]
    attrs = {"quantity": plan.quantity, "level": level, "resamples": resamples}
    data = comparison_data(plan, rows, chosen, bounds).assign_attrs(attrs)
    if cluster is not None:
        data.attrs["cluster"] = cluster
    if None not in bounds:
        data.attrs["bound"] = bound_text(equivalence, equivalence_unit)
    labels, leading = data["comparison"].values.tolist(), [row.leading for row in rows]
    return Comparison(
        data,
        run_data(compared, estimates_of, chosen),
        tuple(dict.fromkeys(notes)),
        tuple(compared),
        reading_data(labels, leading),
        block_data(labels, leading),
    )


def _answer(
    comparison: PlannedContrast,
    cohorts: list[Cohort],
    notes: list[str],
    estimates_of: Mapping[int, dict[str, DepthEstimate]],
    estimators: Sequence[str],
    sampling: Sampling,
    bound: float | None,
    unit: str,
) -> ComparisonRow:
    readings = [side.readings() for side in comparison.sides]
    outcomes, reasons = [], []
    for name in estimators:
        by_side = [readings_of_side[name] for readings_of_side in readings]
        outcomes.append(contrasted(by_side, comparison.coefficients, cohorts, sampling, bound))
        why = [estimates_of[id(side)][name].reason for side in comparison.sides]
        reasons.append(_reason(comparison, outcomes[-1], why, unit))
    kind = "paired" if len(cohorts) == 1 else "two-sample" if len(cohorts) == len(comparison.sides) else "partly paired"
    return ComparisonRow(kind, outcomes, reasons, notes, lead(comparison, cohorts, sampling, unit))


def _reason(comparison: PlannedContrast, outcome: Contrasted, reasons: Sequence[str], unit: str) -> str:
    if math.isnan(outcome.contrast.estimate):
        without = [n for n in range(len(comparison.sides)) if math.isnan(outcome.estimates.get(n, math.nan))]
        return "; ".join(
            f"{comparison.sides[n].name}: {reasons[n] or 'no estimate from the prompts that are compared'}"
            for n in without
        )
    return why_no_interval(outcome.contrast, unit)


def _copy_notes(runs: Sequence[Run]) -> list[str]:
    """Which runs have prompts that are copies of others."""
    copied = [(name, run) for name, run in zip(run_names(runs), runs) if run.copies]
    return [f"{name}: {copies_in_words(run.copies, len(run.prompts))}" for name, run in copied]


def _cluster_notes(sides: Sequence[ComparedPrompts], label: str | None) -> list[str]:
    """How many clusters there are; an OptionError where a part of a run has too few."""
    if label is None:
        return []
    for side in sides:
        if side.n_clusters < FEWEST_CLUSTERS:
            raise OptionError(
                f"cluster={label!r} (--cluster): {side.name} has prompts of {side.n_clusters} {label}, and "
                f"{FEWEST_CLUSTERS} at least are needed to tell how far they lie apart. Give another label, or leave "
                "it out."
            )
    counts = ", ".join(f"{side.name} {side.n_clusters}" for side in sides)
    return [f"prompts of one {label} are resampled as one; number of these: {counts}"]


def _opened(runs: Sequence[Run | str | Path]) -> list[Run]:
    if not isinstance(runs, Iterable):
        raise OptionError(f"compare() takes a list of runs or of their folders, not {runs!r:.60}.")
    require_no_dict(runs, "runs")
    # an array has no truth value, so it is listed before it is looked at
    listed = [] if isinstance(runs, Run | str | Path) else list(runs)
    if not listed:
        what = "a single one" if isinstance(runs, Run | str | Path) else "no run"
        raise OptionError(f"compare() takes a list of runs or of their folders, and got {what}: compare([one, other]).")
    other = [run for run in listed if not isinstance(run, Run | str | Path)]
    if other:
        raise OptionError(
            f"compare() takes a list of runs or of their folders, and one of these is {describe_value(other[0])}."
        )
    return [run if isinstance(run, Run) else open_run(run) for run in listed]


def _check_pairs(pairs: Pairs | None, runs: int) -> None:
    if pairs is None:
        return
    if isinstance(pairs, str) or not isinstance(pairs, Sequence):
        raise OptionError(f"pairs={describe_value(pairs)} is no list; give pairs of numbers, such as [(0, 1)].")
    compared: set[frozenset[int | None]] = set()
    for pair in pairs:
        numbers = [whole_number(number) for number in pair] if isinstance(pair, Sequence) else []
        is_pair = len(numbers) == 2 and numbers[0] != numbers[1]
        if not is_pair or not all(number is not None and 0 <= number < runs for number in numbers):
            raise OptionError(
                f"The pair {describe_value(pair)} does not name two of the {runs} runs; a pair is (reference, other), "
                f"different numbers from 0 to {runs - 1}."
            )
        # a pair the other way round is the same difference, and counting it twice would change the corrected p-values
        if frozenset(numbers) in compared:
            raise OptionError(f"The pair {describe_value(pair)} is compared twice; give every two runs once.")
        compared.add(frozenset(numbers))
    if not pairs:
        raise OptionError("pairs=[] names nothing to compare; leave it out, or give pairs such as [(0, 1)].")
