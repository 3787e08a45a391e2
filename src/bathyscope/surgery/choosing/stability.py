"""How sure a choice is: how often it would be made again, and what it costs on other domains than its own.

Nothing is run for how often: the costs of all subsets that were measured are known by prompt, and resampled calibration
prompts choose among them. For other domains the choice from each domain is run on the test prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.prompts.parts import cluster_names, copies_in, drawn_together, parts
from bathyscope.prompts.prompts import Prompts
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.strata import Strata, cheapest_again
from bathyscope.surgery.choosing.search import CHOICE, CHOICE_FROM, Candidates, Search
from bathyscope.surgery.plan.stability_text import FEWEST_DISTINCT
from bathyscope.surgery.trial.domains import Domains

JOINT: Final = "all domains"
"""What a transfer table calls the joint choice."""
_EQUAL: Final = 1e-6
"""Nats: mean costs that are no further apart differ by what float32 rounds, and are equal."""


def shares_again(
    candidates: Candidates,
    search: Search,
    calibration: Prompts,
    sampling: Sampling,
    cluster: str | None,
    strata: Strata | None,
) -> dict[str, Any]:
    """Return how often bootstraps of the calibration prompts choose each candidate, and each unit.

    Subsets of equal costs share a bootstrap. Copies of a prompt are drawn as one, and too few distinct prompts have no
    shares: they are NaN.

    Args:
        sampling: of the test prompts; its clusters are replaced by those of the calibration prompts.
        cluster: label of prompts that belong together, which counts here where calibration prompts have it.
        strata: of the calibration prompts.
    """
    pool = candidates.pool
    drawn_as_one = _drawn_as_one(calibration, cluster)
    if _count_distinct(calibration, cluster, strata) < FEWEST_DISTINCT:
        shares = np.full(len(pool), np.nan)
    else:
        is_each_alone = len(np.unique(drawn_as_one)) == len(drawn_as_one)
        sampling = replace(sampling, cluster=None if is_each_alone else drawn_as_one)
        shares = cheapest_again(search.losses(pool), sampling, strata, rounding=_EQUAL)
    share_by_subset = dict(zip(pool, shares.tolist()))
    singles = [subsets[0] if len(subsets) == 1 else None for subsets in candidates.subsets.values()]
    return {
        "chosen_again": np.array([np.nan if s is None else share_by_subset.get(s, np.nan) for s in singles]),
        "blocks_again": np.array(
            [sum(share for subset, share in share_by_subset.items() if unit in subset) for unit in search.units]
        ),
    }


def distinct_attrs(calibration: Prompts, cluster: str | None, strata: Strata | None) -> dict[str, str | int]:
    """Return how many calibration prompts bootstraps can tell apart, and by which label where these are clusters."""
    attrs: dict[str, str | int] = {"calibration_distinct": _count_distinct(calibration, cluster, strata)}
    if cluster is not None and _clusters(calibration, cluster) is not None:
        attrs["calibration_cluster"] = cluster
    return attrs


def _count_distinct(calibration: Prompts, cluster: str | None, strata: Strata | None) -> int:
    """Return how many prompts, or clusters, bootstraps can tell apart; of the domain that has fewest."""
    drawn_as_one = _drawn_as_one(calibration, cluster)
    groups = [drawn_as_one] if strata is None else [drawn_as_one[strata.number_P == n] for n in range(strata.size)]
    return min(len(np.unique(group)) for group in groups)


@dataclass(frozen=True, eq=False)
class Transfer:
    """What the choice from each domain costs on the test prompts of each domain, arrays [choices, domains].

    Args:
        names: of the domains, in the order of the columns; rows are these and the joint choice.
        cost, low, high: mean costs with their own intervals.
        excess, excess_low, excess_high: costs less those of the domain's own choice, paired by prompt, with intervals
            that all hold together.
    """

    names: tuple[str, ...]
    cost: FloatArray
    low: FloatArray
    high: FloatArray
    excess: FloatArray
    excess_low: FloatArray
    excess_high: FloatArray

    @property
    def values(self) -> dict[str, FloatArray]:
        """The arrays of a plan."""
        ends = {"domain_cost_low": self.low, "domain_cost_high": self.high}
        return {
            "domain_cost": self.cost,
            **ends,
            "transfer": self.excess,
            "transfer_low": self.excess_low,
            "transfer_high": self.excess_high,
        }


def transfer_table(
    domains: Domains, cost_by_name: Mapping[str, FloatArray], strata: Strata, sampling: Sampling
) -> Transfer:
    """Return the transfer table of choices.

    Args:
        cost_by_name: candidate → its cost on each test prompt.
        strata: the domain of each test prompt.
        sampling: of the test prompts.
    """
    from_domains = [cost_by_name[CHOICE_FROM.format(domain=name)] for name in domains.names]
    rows = [*from_domains, cost_by_name[CHOICE]]
    compared = len(domains.names) ** 2  # each choice against another domain's own, and the joint one against all
    together = replace(sampling, level=1 - (1 - sampling.level) / compared)
    table = np.full((6, len(rows), len(domains.names)), np.nan)
    for column, own_cost_P in enumerate(from_domains):
        members = strata.number_P == column
        for row, cost_P in enumerate(rows):
            costs, excess = cost_P[members], (cost_P - own_cost_P)[members]
            interval = mean_interval(costs, sampling.take(members))
            excess_interval = mean_interval(excess, together.take(members))
            table[:, row, column] = (costs.mean(), *interval, excess.mean(), *excess_interval)
    return Transfer(domains.names, *table)


def _drawn_as_one(calibration: Prompts, label: str | None) -> IntArray:
    """Return a number for each prompt, [prompts]; prompts of one number are of the same tokens or cluster."""
    numbers = _clusters(calibration, label)
    if numbers is None:
        numbers = copies_in(calibration)
    return np.arange(len(calibration)) if numbers is None else numbers


def _clusters(calibration: Prompts, label: str | None) -> IntArray | None:
    """Return the cluster of each calibration prompt, [prompts]; None where no two belong together by the label.

    The label is asked for of the test prompts: that prompts which choose lack it, or lie in one or two clusters, is no
    mistake.
    """
    if label is None or label not in calibration.labels:
        return None
    member = parts(cluster_names(calibration, label))[1].copy()
    unlabelled = member < 0
    member[unlabelled] = len(member) + np.arange(unlabelled.sum())
    is_each_alone = len(np.unique(member)) == len(member)
    return None if is_each_alone else drawn_together(member, copies_in(calibration))
