"""What candidates cost on the test prompts, and how many units may go within a cost."""

from collections.abc import Mapping, Sequence

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.best import compared_with_best
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling
from bathyscope.surgery.choosing import RANDOM, Found, Search, Subset
from bathyscope.surgery.ledger import Ledger
from bathyscope.surgery.plan import encoded, result
from bathyscope.wavefront.histories import without


class Proof:
    """What candidates cost on the test prompts.

    Args:
        ledger: of calibration and test prompts.
        search: on its calibration prompts.
        sampling: of the test prompts, for intervals.
    """

    def __init__(self, ledger: Ledger, search: Search, sampling: Sampling) -> None:
        self._ledger, self._search, self._sampling = ledger, search, sampling

    def largest(self, max_cost: float | None) -> int:
        """Return how many units can go: from one on, until the upper end of the interval is not below ``max_cost``.

        Sizes are tried in order and the first that fails ends it, so that no correction for their number is needed. 0
        where not even one can go.
        """
        assert max_cost is not None
        for size in range(1, len(self._search.units)):
            costs = self._test([self._search.find(size).choice])[0]
            if not mean_interval(costs, self._sampling).high < max_cost:
                return size - 1
        return len(self._search.units) - 1

    def judged(self, found: Found, size: int, attrs: Mapping[str, str | float]) -> bytes:
        """The plan as the bytes of a file."""
        names, ledger = list(found.candidates), self._ledger
        cost = np.stack([self._test(own).mean(axis=0) for own in found.candidates.values()])
        calibration = [self._search.costs(own, "measuring") for own in found.candidates.values()]
        against = compared_with_best(cost, self._sampling)
        n_blocks, alone = ledger.model.n_blocks, [own[0] for own in found.candidates.values()]
        detailed = ledger.values(
            "test", [without(n_blocks, own) for own in alone], ("loss", "kl", "agreement"), title="comparing"
        )
        several = np.array([len(own) > 1 for own in found.candidates.values()])
        values = {
            "subset": np.array([_subset(name, own) for name, own in found.candidates.items()], dtype=object),
            "calibration_cost": np.array([float(own.mean()) for own in calibration]),
            "test_cost": against.mean,
            "test_cost_low": against.low,
            "test_cost_high": against.high,
            "p_value": against.p_value,
            "indistinguishable": against.indistinguishable.astype(np.int64),
            "test_kl": np.where(several, np.nan, detailed["kl"].mean(axis=1)),
            "test_agreement": np.where(several, np.nan, detailed["agreement"].mean(axis=1)),
            "cost": cost,
            "full_loss": ledger.full_loss["test"],
        }
        samples = ledger.samples
        said: dict[str, str | int | float] = {
            f"{role}_{what}": number
            for role, own in samples.items()
            for what, number in (
                ("prompts", len(own)),
                ("tokens", sum(own.lengths)),
                ("calls", ledger.calls[role]),
                ("data", own.dataset),
                ("hash", own.hash),
            )
        }
        tells: dict[str, str | int | float] = {
            "model": ledger.model.name,
            "n_blocks": n_blocks,
            "n_units": len(self._search.units),
            "size": size,
            "how": found.how,
            "exhaustive": int(found.exhaustive),
            **self._sampling.record,
        }
        coords = {"prompt_id": samples["test"].coords()["prompt_id"]}
        return encoded(result(names, values, coords, {**tells, **said, **attrs}))

    def _test(self, subsets: Sequence[Subset]) -> FloatArray:
        histories = [without(self._ledger.model.n_blocks, subset) for subset in subsets]
        return self._ledger.values("test", histories, title="testing")["loss"]


def _subset(name: str, subsets: Sequence[Subset]) -> str:
    return f"{len(subsets)} subsets" if name == RANDOM else _said(subsets[0])


def _said(subset: Subset) -> str:
    return ",".join(str(unit) for unit in sorted(subset))
