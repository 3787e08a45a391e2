"""Depth by group of prompts: every estimator on each group of a run's prompts, and how the groups differ.

Groups are two samples: different prompts, each group resampled on its own.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import combinations
from pathlib import Path
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope.analysis.depths.cohorts import OTHER_MINUS_REFERENCE, Contrasted, apart, columns_of, contrasted
from bathyscope.analysis.depths.group_context import (
    SHARE,
    compare_with_untrained,
    differences_between,
    untrained_controls,
    warn_of_common_beginnings,
)
from bathyscope.analysis.depths.named_places import place_estimators
from bathyscope.analysis.depths.side import chosen_estimators, readable_estimators, require_all_blocks, sides_of
from bathyscope.analysis.depths.tables import group_tables
from bathyscope.analysis.options import GroupLabel, GroupOptions
from bathyscope.core.arrays import FloatArray, collect
from bathyscope.core.calls import takes
from bathyscope.core.result import LabelledResult
from bathyscope.errors import OptionError, warn
from bathyscope.labels import Label, Table, interval, labelled
from bathyscope.measures.curves import one_norm
from bathyscope.prompts.parts import FEWEST_CLUSTERS, level_name, members_by_value
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.runs.table import tidy
from bathyscope.statistics.correction import holm
from bathyscope.statistics.crossing import centre_of_mass
from bathyscope.statistics.difference import Contrast
from bathyscope.statistics.effective_depth import DepthEstimate, Estimator, blocks_done, estimate_each
from bathyscope.statistics.effective_depth import estimators as estimators_of
from bathyscope.statistics.permutation import permutation_p, share_clusters
from bathyscope.statistics.reading import Reading, only_entry
from bathyscope.statistics.sampling import Sampling

MOST: Final = 12
"""Groups that are compared pair by pair; a label with more values than that names prompts rather than groups."""
FEW: Final = 5
"""Prompts of a group below which its intervals are rough."""
_SOURCE: Final = "hu2025, effective depth; csordas2025, depth score"
_by_group = partial(Label, "estimator group", source=_SOURCE)
_by_pair = partial(Label, "pair estimator", source=_SOURCE)
_BOOTSTRAP: Final = "bootstrap over prompts"
_TABLE: Final[Table] = {
    "value": _by_group("effective depth ratio of the group", formula="depth / L"),
    **interval("ci", _by_group, "its interval", formula=_BOOTSTRAP),
    "depth": _by_group("effective depth of the group", "block", "blocks done"),
    "n": _by_group("prompts in use", "prompt"),
    "reason": _by_group("why there is no value or no interval", ""),
    "difference": _by_pair("difference of ratio", formula="other − reference"),
    **interval("difference", _by_pair, "the interval of the difference", formula=_BOOTSTRAP),
    "effect_size": _by_pair("difference over the spread of single prompts", formula="Cohen's d"),
    "untrained_difference": Label(
        "untrained pair estimator",
        "difference of ratio in each untrained control",
        source="own",
        formula="as difference",
    ),
    "p_value": _by_pair("two-sided p-value of no difference", formula="permutations of prompts over groups"),
    "p_holm": _by_pair("p-value corrected for all pairs and estimators", formula="Holm"),
}


@takes(GroupOptions)
def grouped(
    run: Run | str | Path,
    by: GroupLabel,
    *,
    estimators: Sequence[str] | None = None,
    cluster: str | None = None,
    resamples: int = 2000,
    permutations: int = 9999,
    level: float = 0.95,
    seed: int = 0,
) -> LabelledResult:
    """Every depth estimator on each group of a run's prompts, with intervals, and the differences between groups.

    Args:
        run: a run, or the folder of one, with residual, lens or skip (the effective depths that are read off each),
            depth_score, or erasure or patching of named places (where a place is left, and where what patching puts
            there brings the other answer along), or several of these.
        ...: the options of ``GroupOptions``.

    Returns:
        A result; its ``data`` holds the following.
        By (estimator, group): value, the ratio of blocks done to L, its interval ci_low and ci_high, depth, n (prompts
        in use) and reason (why something is missing); deep_thinking_ratio is a share of tokens and no depth. By (pair,
        estimator), other − reference: difference, difference_low and difference_high, effect_size, p_value
        (permutations; where a cluster has prompts in both groups, that of the interval), and p_holm, corrected for all
        tests of the dataset. Whole-numbered estimators have no p-value; the interpolated ones are their test. Where the
        run has untrained controls, untrained_difference by (untrained, pair, estimator) is the same difference in each.

    Raises:
        OptionError: no such label or estimator, a label with one value or too many, or that makes no clusters, a run
            without any estimator, or an option out of its range.
        StoreError: a folder holds no finished run.

    Example:
        >>> bathyscope.group("runs/model", by="level").group.values.tolist()
        ['1', '2', '3']
    """
    opened = run if isinstance(run, Run) else open_run(run)
    require_all_blocks(opened, "This run")
    member = opened.clusters(cluster)
    groups = _groups(opened, by)
    sampling = Sampling(resamples, level, seed)
    if member is not None:
        _warn_of_few_clusters(groups, member)
    estimator_of = {name: replace(estimator, cluster=member) for name, estimator in _estimators(opened).items()}
    names = chosen_estimators(estimator_of if estimators is None else estimators, estimator_of, "This run has")
    warn_of_common_beginnings(opened, names)
    blocks = opened.n_blocks
    by_group = [{name: estimator_of[name].take(members) for name in names} for members in groups.values()]
    estimates = [estimate_each(estimator_of_group, blocks, sampling) for estimator_of_group in by_group]
    # A group's estimate is in blocks; differences are of the ratio, as ``compare`` has them. A share has no unit.
    unit_of = {name: 1 if name == SHARE else blocks for name in names}
    readings = [{name: group[name].ratio(unit_of[name]) for name in names} for group in by_group]
    pairs = list(combinations(readings, 2))
    outcomes = [[_difference(reference[name], other[name], sampling) for name in names] for reference, other in pairs]
    p_values = np.array(
        [
            [
                _p_value(reference[name], other[name], outcome.contrast, permutations, seed)
                for name, outcome in zip(names, differences)
            ]
            for (reference, other), differences in zip(pairs, outcomes)
        ]
    )
    coords = {
        "estimator": list(names),
        "group": list(groups),
        "pair": [f"{other} − {reference}" for reference, other in combinations(groups, 2)],
        "prompts": ("group", [int(members.sum()) for members in groups.values()]),
        "reference": ("pair", [reference for reference, _ in combinations(groups, 2)]),
        "other": ("pair", [other for _, other in combinations(groups, 2)]),
    }
    attrs = {"by": by, "run": opened.caption(), "n_blocks": blocks, "level": level, "resamples": resamples}
    attrs |= {"permutations": permutations, "seed": seed, **({} if cluster is None else {"cluster": cluster})}
    values = {**_group_variables(by_group, estimates, unit_of), **columns_of(outcomes, _TABLE)}
    values |= {"p_value": p_values, "p_holm": holm(p_values)}
    if untrained := untrained_controls(opened):
        coords["untrained"] = list(untrained)
        values["untrained_difference"] = np.array(
            [differences_between(groups.values(), _estimators(control), unit_of) for control in untrained.values()]
        )
    data = labelled(_TABLE, values, coords).assign_attrs(attrs)
    return LabelledResult(data, _conclude(data), tidy, figure="grouped", lay_out=group_tables)


def _conclude(data: xr.Dataset) -> str:
    """Return how many differences between groups stand out."""
    low, high, p_holm = (data[name].values for name in ("difference_low", "difference_high", "p_holm"))
    intervals, tests = int(np.isfinite(low).sum()), int(np.isfinite(p_holm).sum())
    if not intervals:
        return f"No difference between groups by {data.attrs['by']} has an interval."
    alpha = 1 - data.attrs["level"]
    return (
        f"{int(((low > 0) | (high < 0)).sum())} of {intervals} differences between groups by {data.attrs['by']} have "
        f"an interval without 0. After Holm's correction {int((p_holm < alpha).sum())} of {tests} p-values are below "
        f"{alpha:.2g}.{compare_with_untrained(data)}"
    )


def _groups(run: Run, by: str) -> dict[str, NDArray[np.bool_]]:
    """Which prompts belong to each group, by its name.

    Warns of prompts without the label, and of groups that are too small for intervals.
    """
    groups = {level_name(level): members for level, members in members_by_value(run.prompts, by).items()}
    if len(groups) < 2:
        same = ", ".join(groups) or "none"
        raise OptionError(f"All labelled prompts have the same {by} ({same}); a comparison needs two.")
    if len(groups) > MOST:
        raise OptionError(
            f"The label {by!r} has {len(groups)} values ({', '.join(list(groups)[:4])} …), and groups are compared "
            f"pair by pair; at most {MOST} are allowed. Give a label with fewer values."
        )
    sizes = {name: int(members.sum()) for name, members in groups.items()}
    if unlabelled := len(run.prompts) - sum(sizes.values()):
        warn(f"{unlabelled} of {len(run.prompts)} prompts have no label {by!r} and belong to no group.")
    small = [f"{name} ({size})" for name, size in sizes.items() if size < FEW]
    if small:
        warn(
            f"Groups of fewer than {FEW} prompts: {', '.join(small)}. Their intervals are rough, and a group of "
            "one prompt has none."
        )
    return groups


def _warn_of_few_clusters(groups: Mapping[str, NDArray[np.bool_]], member: NDArray[np.intp]) -> None:
    counts = {name: np.unique(member[members]).size for name, members in groups.items()}
    few = [f"{name} ({count})" for name, count in counts.items() if count < FEWEST_CLUSTERS]
    if few:
        warn(f"Groups of fewer than {FEWEST_CLUSTERS} clusters: {', '.join(few)}. Their intervals say next to nothing.")


def _estimators(run: Run) -> dict[str, Estimator]:
    """Every estimator of which any prompt has a value."""
    estimator_of: dict[str, Estimator] = {}
    if readable := readable_estimators(run):
        (side,) = sides_of([run], readable)
        of_side = estimators_of(side.curves, side.options.kl_fraction, side.options.overlap_threshold)
        estimator_of |= {name: of_side[name] for name in readable}
        if "lens" in run.measures and SHARE in run["lens"]:
            share = np.asarray(one_norm(run["lens"])[SHARE].values, dtype=np.float64)[:, None]
            weights, limits = side.curves.weights(SHARE), (0.0, 1.0)
            estimator_of[SHARE] = Estimator(share, weights, only_entry, limits, curve=SHARE, explain=_why_none)
    if "depth_score" in run.measures:
        estimator_of |= _scores(run["depth_score"])
    estimator_of |= place_estimators(run)
    estimator_of = {name: estimator for name, estimator in estimator_of.items() if not np.isnan(estimator.values).all()}
    if not estimator_of and run.stored is not None:
        raise OptionError(
            "This run is of stored states, and depths of groups are read off the lens at all boundaries, or need the "
            "blocks. Survey states of all boundaries with measures=['lens'], or the model itself."
        )
    if not estimator_of:
        raise OptionError(
            f"This run holds {', '.join(run.measures) or 'nothing'}; depths of groups are read off residual, lens or "
            "skip, off depth_score, or off named places of erasure and patching. Survey again with "
            "measures=[..., 'lens'], or with erasure={'positions': {'at': 'label:city'}}."
        )
    return estimator_of


def _scores(depth_score: xr.Dataset) -> dict[str, Estimator]:
    """Depth scores of groups: the centre of mass of the mean effect, as the measure itself has it for a level."""
    estimator_of = {}
    for kind in ("layer", "output"):
        effect = depth_score[f"{kind}_effect"].sel(reduction="max").transpose("prompt", "skipped").values
        name, ones = f"depth_score_{kind}", np.ones(len(effect))
        limits, offset = (0.0, effect.shape[1] - 1.0), blocks_done("centre_of_mass")
        estimator_of[name] = Estimator(
            effect, ones, centre_of_mass, limits, curve=name, explain=_why_no_score, offset=offset
        )
    return estimator_of


def _difference(reference: Reading, other: Reading, sampling: Sampling) -> Contrasted:
    return contrasted(
        (reference, other), OTHER_MINUS_REFERENCE, apart([len(reference.weights), len(other.weights)]), sampling
    )


def _p_value(reference: Reading, other: Reading, difference: Contrast, permutations: int, seed: int) -> float:
    # prompts of one cluster in both groups cannot be dealt out whole: the interval, which pairs them, is the test
    if reference.whole is not None or share_clusters(reference, other):
        return difference.p_value
    # Prompts are dealt out again and again: exact for any estimator, however few prompts a group has.
    return permutation_p(reference, other, permutations=permutations, seed=seed)


def _group_variables(
    by_group: Sequence[Mapping[str, Estimator]],
    estimates: Sequence[Mapping[str, DepthEstimate]],
    unit_of: Mapping[str, int],
) -> dict[str, Any]:
    """Return the variables of groups, [estimator][group]."""
    cells = [[of_group[name] for of_group in estimates] for name in unit_of]
    depth, unit = collect(cells, "depth"), np.array(list(unit_of.values()))[:, None]
    return {
        "value": depth / unit,
        "ci_low": collect(cells, "ci_low") / unit,
        "ci_high": collect(cells, "ci_high") / unit,
        "depth": np.where(unit == 1, np.nan, depth),
        "n": [[int((~np.isnan(group[name].values).all(axis=1)).sum()) for group in by_group] for name in unit_of],
        "reason": collect(cells, "reason"),
    }


def _why_none(mean: FloatArray) -> str:
    return "no prompt of the group has a value"


def _why_no_score(mean: FloatArray) -> str:
    return "the effect is zero at every block" if np.isfinite(mean).all() else _why_none(mean)
