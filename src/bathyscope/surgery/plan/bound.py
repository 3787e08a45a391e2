"""How much leaving something out may cost: nats per token, or a share of the loss of the full model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import OptionError, describe_value


@dataclass(frozen=True)
class CostBound:
    """What a choice may cost at most.

    Args:
        size: nats per token, or the share of the loss.
        is_share: of the loss of the full model on the test prompts.
    """

    size: float
    is_share: bool

    @classmethod
    def parse(cls, max_cost: float | str) -> CostBound:
        """Return the bound of a number of nats, or of a share such as ``2%``.

        Raises:
            OptionError: neither, or not above 0.
        """
        text = str(max_cost).strip()
        is_share = text.endswith("%")
        try:
            number = math.nan if isinstance(max_cost, bool) else float(text.removesuffix("%"))
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise OptionError(
                f"max_cost={describe_value(max_cost)} is neither a number of nats per token, such as 0.05, nor a share "
                "of the loss, such as '2%'."
            )
        if not 0 < number < math.inf:
            allowed = (
                "a share of the loss above 0 %, such as '2%'" if is_share else "nats per token above 0, such as 0.05"
            )
            raise OptionError(f"max_cost={number:g}{'%' if is_share else ''} is out of range; give {allowed}.")
        return cls(number / 100 if is_share else number, is_share)

    @property
    def setting(self) -> float | str:
        """What a folder's manifest holds."""
        return _share_text(self.size) if self.is_share else self.size

    def excess(self, cost_XP: FloatArray, full_loss_P: FloatArray) -> FloatArray:
        """Return by how much each cost is above its prompt's share of the loss; its mean is below 0 within the bound.

        The loss has an interval as the costs have, and is resampled with them.
        """
        return cost_XP - self.size * full_loss_P


def bound_text(attrs: Mapping[str, Any]) -> str:
    """Return what a plan's choice may cost, in words: ``0.05 nats``, or ``2% of the loss (0.016 nats)``."""
    nats = float(attrs["max_cost"])
    share = float(attrs.get("max_share", 0))
    return f"{_share_text(share)} of the loss ({nats:.4g} nats)" if share else f"{nats:g} nats"


def _share_text(share: float) -> str:
    return f"{100 * share:g}%"
