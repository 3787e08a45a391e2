"""What candidates cost on the test prompts, and how many units may go within a cost."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain

import numpy as np
from numpy.typing import NDArray

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import ModelError
from bathyscope.measures.costs import Metric, Values
from bathyscope.statistics.best import Compared, compared_with_best
from bathyscope.statistics.bootstrap import Interval
from bathyscope.statistics.rare import bounded_intervals, carried_by_few
from bathyscope.surgery.choosing.search import Candidates, Search, Subset
from bathyscope.surgery.choosing.stability import JOINT, distinct_attrs, shares_again, transfer_table
from bathyscope.surgery.order.model_of_plan import CHOSEN_BY
from bathyscope.surgery.plan.arrays import FEW_CARRY, encoded, result
from bathyscope.surgery.plan.at_random import RANDOM, spread_of
from bathyscope.surgery.plan.bound import CostBound
from bathyscope.surgery.plan.combining import PROMPT_DOMAIN, counted_mean
from bathyscope.surgery.trial.domains import DOMAIN
from bathyscope.surgery.trial.ledger import Ledger, Role
from bathyscope.surgery.trial.trial import Trial
from bathyscope.wavefront.histories import without

Attributes = Mapping[str, str | int | float]


class Proof:
    """What candidates cost on the test prompts.

    Args:
        trial: whose test prompts judge.
        ledger: of its calibration and test prompts.
        search: on its calibration prompts.
        ended: where costs are over answers, by role, which prompts have an answer that the full model ends.
    """

    def __init__(self, trial: Trial, ledger: Ledger, search: Search, ended: Mapping[Role, NDArray[np.bool_]]) -> None:
        self._trial, self._ledger, self._search, self._ended = trial, ledger, search, ended
        self._strata = None if trial.domains is None else trial.domains.strata(trial.test)

    def largest(self, bound: CostBound) -> int:
        """Return how many units can go: from one on, until the upper end of the interval is not below the bound.

        Sizes are tried in order and the first that fails ends it, so that no correction for their number is needed. 0
        where not even one can go.
        """
        for size in range(1, len(self._search.units)):
            choice = [self._search.find(size).choice]
            costs = self._test(choice)["loss"]
            few_C = self._carried_by_few([choice], costs)
            limit = bound.size
            if bound.is_share:
                costs, limit = bound.excess(costs, self._ledger.full_loss["test"]), 0.0
            if not self._compare_finite(costs, few_C).high[0] < limit:
                return size - 1
        return len(self._search.units) - 1

    def judge(self, candidates: Candidates, size: int, attrs: Attributes, bound: CostBound | None = None) -> bytes:
        """Return the plan as the bytes of a file."""
        ledger = self._ledger
        subsets_by_name = candidates.subsets
        # in one tree, whose common beginnings run once for all candidates
        every = list(dict.fromkeys(chain.from_iterable(subsets_by_name.values())))
        row_by_subset = {subset: row for row, subset in enumerate(every)}
        ended_P = self._ended.get("test", np.zeros(0, dtype=bool))
        metrics: list[Metric] = ["loss", "kl", "agreement"]
        if ended_P.any():
            metrics.append("end")
        detailed = self._test(every, metrics)
        rows = [[row_by_subset[subset] for subset in subsets] for subsets in subsets_by_name.values()]
        cost = np.stack([detailed["loss"][row].mean(axis=0) for row in rows])
        calibration = [self._search.costs(subsets, "measuring") for subsets in subsets_by_name.values()]
        few_C = self._carried_by_few(list(subsets_by_name.values()), cost)
        comparison = self._compare(cost, few_C)
        first_rows = [row[0] for row in rows]
        # a candidate of several subsets is their mean, which no single forward shows
        several = np.array([len(subsets) > 1 for subsets in subsets_by_name.values()])
        texts = [_subset_text(name, subsets) for name, subsets in subsets_by_name.items()]
        values = {
            "subset": np.array(texts, dtype=object),
            "calibration_cost": np.array([float(costs.mean()) for costs in calibration]),
            "test_cost": comparison.mean,
            "test_cost_low": comparison.low,
            "test_cost_high": comparison.high,
            "p_value": comparison.p_value,
            "indistinguishable": comparison.indistinguishable.astype(np.int64),
            "p_against_choice": comparison.p_against_first,
            "test_kl": np.where(several, np.nan, self._combine(detailed["kl"][first_rows], cost)),
            "test_agreement": np.where(several, np.nan, self._combine(detailed["agreement"][first_rows], cost)),
            "cost": cost,
            **spread_of([self._mean_costs(detailed["loss"][np.unique(row)]) for row in rows]),
            "full_loss": ledger.full_loss["test"],
            **({"ends_kept": [detailed["end"][row][:, ended_P].mean() for row in rows]} if ended_P.any() else {}),
            **self._over_bound(bound, cost, few_C),
            **self._prompt_domains(),
            **self._measure_stability(candidates, dict(zip(subsets_by_name, cost))),
        }
        coords = {"prompt_id": self._trial.test.coords()["prompt_id"], **self._stability_coords(candidates)}
        search: dict[str, str | int | float] = {
            "n_units": len(self._search.units),
            "size": size,
            "how": candidates.how,
            "exhaustive": int(candidates.exhaustive),
        }
        if self._trial.calibration is not None:
            attrs = {**attrs, CHOSEN_BY: " ".join(sorted(self._trial.chosen_by))}
        if few_C[0]:
            search[FEW_CARRY] = 1
        about = {**self._trial.attrs, **search, **self._prompt_attrs(), **self._distinct_attrs(candidates), **attrs}
        about |= self._bound_attrs(bound)
        return encoded(result(list(subsets_by_name), values, coords, about))

    def _carried_by_few(self, subsets_C: Sequence[Sequence[Subset]], cost_CP: FloatArray) -> NDArray[np.bool_]:
        """Return of which candidates few prompts carry the cost, going by the prompts that chose and that judge.

        Of domains it is the prompts of any one, since costs differ between them.

        Args:
            subsets_C: of each candidate, which is their mean; the calibration prompts have measured all.
            cost_CP: on the test prompts.
        """
        trial = self._trial
        calibration_CP = np.stack([self._search.losses(subsets).mean(axis=0) for subsets in subsets_C])
        both_CP = np.hstack([calibration_CP, cost_CP])
        domain_P = np.zeros(both_CP.shape[1], dtype=np.int64)
        if trial.domains is not None and trial.calibration is not None and self._strata is not None:
            domain_P = np.append(trial.domains.strata(trial.calibration).number_P, self._strata.number_P)
        # one by one, so that a choice is judged alike alone and among others
        return np.array(
            [
                any(carried_by_few(cost_P[domain_P == domain, None])[0] for domain in np.unique(domain_P))
                for cost_P in both_CP
            ]
        )

    def _compare_finite(self, cost_CP: FloatArray, few_C: NDArray[np.bool_]) -> Compared:
        """Compare candidates that have a cost; one that few prompts carry has an interval only where that holds."""
        compared = compared_with_best(cost_CP, self._trial.sampling, self._strata)
        plain = [Interval(float(low), float(high)) for low, high in zip(compared.low, compared.high)]
        bounded = np.array(bounded_intervals(plain, few_C, cost_CP.T, self._trial.sampling))
        if self._strata is not None:
            # where one expensive prompt more would take means of domains is unknown
            bounded[few_C] = np.nan
        return replace(compared, low=bounded[:, 0], high=bounded[:, 1])

    def _compare(self, cost_CP: FloatArray, few_C: NDArray[np.bool_]) -> Compared:
        """Compare candidates on the test prompts; one whose loss is not a number is worse than any that has one.

        Raises:
            ModelError: the loss without each of them is not a number.
        """
        finite_C = np.isfinite(cost_CP).all(axis=1)
        if not finite_C.any():
            raise ModelError(
                "The loss on the test prompts is not a number without any of the candidates. Load the model in float32 "
                "(--dtype float32)."
            )
        compared = self._compare_finite(cost_CP[finite_C], few_C[finite_C])
        if finite_C.all():
            return compared

        def with_gaps(values: FloatArray) -> FloatArray:
            filled = np.full(len(cost_CP), np.nan)
            filled[finite_C] = values
            return filled

        indistinguishable_C = np.zeros(len(cost_CP), dtype=bool)
        indistinguishable_C[finite_C] = compared.indistinguishable
        return Compared(
            with_gaps(compared.mean),
            with_gaps(compared.low),
            with_gaps(compared.high),
            int(np.flatnonzero(finite_C)[compared.best]),
            with_gaps(compared.p_value),
            indistinguishable_C,
            # a choice without a number is told from nothing
            np.where(np.isfinite(cost_CP[0]).all(), with_gaps(compared.p_against_first), np.nan),
        )

    def _over_bound(
        self, bound: CostBound | None, cost_CP: FloatArray, few_C: NDArray[np.bool_]
    ) -> dict[str, FloatArray]:
        """Return how far candidates are above a bound that is a share of the loss, with intervals."""
        if bound is None or not bound.is_share:
            return {}
        over = self._compare(bound.excess(cost_CP, self._ledger.full_loss["test"]), few_C)
        return {"over_bound": over.mean, "over_bound_low": over.low, "over_bound_high": over.high}

    def _bound_attrs(self, bound: CostBound | None) -> dict[str, float]:
        """Return the bound in nats, which a share of the loss is on these test prompts, and that share."""
        if bound is None or not bound.is_share:
            return {"max_cost": 0.0 if bound is None else bound.size}
        full_loss = float(self._mean_costs(self._ledger.full_loss["test"][None])[0])
        return {"max_cost": bound.size * full_loss, "max_share": bound.size}

    def _combine(self, values_CP: FloatArray, cost_CP: FloatArray) -> FloatArray:
        """Return what candidates do to the prompts that their costs are of, [candidates]."""
        if self._strata is None:
            return values_CP.mean(axis=1)
        weights_CP = self._strata.weights(cost_CP)
        return np.array([counted_mean(weights, values) for weights, values in zip(weights_CP, values_CP)])

    def _mean_costs(self, cost_SP: FloatArray) -> FloatArray:
        """Return the mean cost of single subsets on the test prompts, [subsets]."""
        return cost_SP.mean(axis=1) if self._strata is None else self._strata.combine(cost_SP)

    def _prompt_domains(self) -> dict[str, NDArray[np.object_]]:
        """Return the domain of each test prompt, where there are domains."""
        if self._trial.domains is None:
            return {}
        return {PROMPT_DOMAIN: np.array([str(name) for name in self._trial.test.label(DOMAIN)], dtype=object)}

    def _measure_stability(
        self, candidates: Candidates, cost_by_name: Mapping[str, FloatArray]
    ) -> dict[str, FloatArray]:
        """Return how often the choice would be made again, and what choices from domains cost on others."""
        trial = self._trial
        if not candidates.pool or trial.calibration is None:
            return {}
        strata = None if trial.domains is None else trial.domains.strata(trial.calibration)
        values = shares_again(candidates, self._search, trial.calibration, trial.sampling, trial.cluster, strata)
        if trial.domains is not None and self._strata is not None:
            values |= transfer_table(trial.domains, cost_by_name, self._strata, trial.sampling).values
        return values

    def _distinct_attrs(self, candidates: Candidates) -> dict[str, str | int]:
        """Return how many calibration prompts bootstraps can tell apart, where there are bootstraps."""
        trial = self._trial
        if not candidates.pool or trial.calibration is None:
            return {}
        strata = None if trial.domains is None else trial.domains.strata(trial.calibration)
        return distinct_attrs(trial.calibration, trial.cluster, strata)

    def _stability_coords(self, candidates: Candidates) -> dict[str, object]:
        if not candidates.pool:
            return {}
        coords: dict[str, object] = {"unit": [str(unit) for unit in self._search.units]}
        if self._trial.domains is not None:
            names = self._trial.domains.names
            coords |= {"domain": list(names), "chosen_on": [*names, JOINT]}
        return coords

    def _prompt_attrs(self) -> dict[str, str | int]:
        """Return what the plan says of the prompts of both roles."""
        attrs: dict[str, str | int] = {}
        for role, prompts in self._ledger.samples.items():
            attrs |= {
                f"{role}_prompts": len(prompts),
                f"{role}_tokens": sum(prompts.lengths),
                f"{role}_calls": self._ledger.calls[role],
                f"{role}_data": prompts.dataset,
                f"{role}_hash": prompts.hash,
            }
            if role in self._ended:
                attrs[f"{role}_ended"] = int(self._ended[role].sum())
        return attrs

    def _test(self, subsets: Sequence[Subset], metrics: Sequence[Metric] = ("loss",)) -> Values:
        """Return metric → [subsets, test prompts]; ``loss`` is the cost."""
        histories = [without(self._ledger.model.n_blocks, subset) for subset in subsets]
        return self._ledger.values("test", histories, metrics, title="testing")


def _subset_text(name: str, subsets: Sequence[Subset]) -> str:
    if name == RANDOM:
        # of few blocks there are fewer subsets than were drawn
        different = len(set(subsets))
        draws = "" if different == len(subsets) else f" in {len(subsets)} draws"
        return f"{different} subset{'' if different == 1 else 's'}{draws}"
    return ",".join(str(unit) for unit in sorted(subsets[0]))
