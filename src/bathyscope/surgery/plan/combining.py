"""How a plan combines test prompts, so that losses, changed predictions and costs are of the same ones.

Without domains every prompt counts alike. With domains a cost is the mean over domains, which count alike however many
prompts they have, or that of the domain where it is largest (``joint``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from bathyscope.core.arrays import FloatArray
from bathyscope.statistics.strata import Strata

if TYPE_CHECKING:
    import xarray as xr

PROMPT_DOMAIN: Final = "prompt_domain"
"""Variable of a plan: the domain of each test prompt."""
WORST: Final = "worst"
_EQUAL: Final = 1e-6
"""Nats by which costs that are combined again may differ from those that a plan holds."""


@dataclass(frozen=True, eq=False)
class Combining:
    """How values of test prompts are combined for the choice of a plan.

    Args:
        joint: "mean" over domains, the "worst" of them, or "" without domains.
        domain: the one where the choice costs most; "" where it is not one domain that counts, or unknown.
        weight_P: how much each prompt counts; None = unknown, as in older plans that do not say whose each prompt is.
        counts_rates: rates of the choice, such as its top-1 agreement, are combined in this way too.
    """

    joint: str
    domain: str
    weight_P: FloatArray | None
    counts_rates: bool

    @classmethod
    def of(cls, data: xr.Dataset) -> Combining:
        """Return how a plan's arrays combine prompts."""
        joint = str(data.attrs.get("joint", ""))
        if not joint:
            n_prompts = data.sizes["prompt"]
            return cls("", "", np.full(n_prompts, 1 / n_prompts), counts_rates=True)
        names = _domains_of_prompts(data)
        if "cost" not in data or not names:
            return cls(joint, "", None, counts_rates=PROMPT_DOMAIN in data)
        order = list(dict.fromkeys(names))
        strata = Strata(np.array([order.index(name) for name in names]), joint == WORST)
        cost_XP = data["cost"].values[:1]
        domain = order[int(strata.worst_stratum(cost_XP)[0])] if strata.worst else ""
        return cls(joint, domain, strata.weights(cost_XP)[0], counts_rates=PROMPT_DOMAIN in data)

    def combine(self, values_P: FloatArray) -> float:
        """Return the combined mean of values by prompt; NaN where it is unknown how they are combined."""
        return counted_mean(self.weight_P, values_P) if self.weight_P is not None else float("nan")

    @property
    def loss(self) -> str:
        """What the combined loss is called."""
        if self.joint == WORST:
            return f"the loss on {self.domain or 'the worst domain'}"
        return "the mean loss over domains" if self.joint else "the loss"

    @property
    def where(self) -> str:
        """What a cost is the cost of, behind its unit; empty without domains."""
        if self.joint == WORST:
            return f" on {self.domain}, the worst domain" if self.domain else " on the worst domain"
        return " as the mean over domains" if self.joint else ""


def counted_mean(weight_P: FloatArray, values_P: FloatArray) -> float:
    """Return the mean of the prompts that count; NaN where one of them has no value."""
    # a prompt that does not count may hold no number
    return float(np.where(weight_P > 0, weight_P * values_P, 0.0).sum())


def _domains_of_prompts(data: xr.Dataset) -> list[str]:
    """Return the domain of each test prompt; empty where that is unknown."""
    if PROMPT_DOMAIN in data:
        return [str(name) for name in data[PROMPT_DOMAIN].values]
    if "domain" not in data.coords or "prompt_id" not in data.coords or "cost" not in data:
        return []
    # earlier versions have it in the names of prompts alone, where one domain may be called as another begins
    domains = [str(name) for name in data["domain"].values]
    names = [_domain_named_in(str(prompt), domains) for prompt in data["prompt_id"].values]
    if set(names) != set(domains):
        return []
    strata = Strata(np.array([domains.index(name) for name in names]), data.attrs["joint"] == WORST)
    combined = strata.combine(data["cost"].values[:1])
    agrees = np.allclose(combined, data["test_cost"].values[:1], rtol=_EQUAL, atol=_EQUAL, equal_nan=True)
    return names if agrees else []


def _domain_named_in(prompt: str, domains: Sequence[str]) -> str:
    fitting = [name for name in domains if prompt.startswith(f"{name}/")]
    return fitting[0] if len(fitting) == 1 else ""
