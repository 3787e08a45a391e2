"""Two published scores of how little blocks do, for which nothing is left out.

Block influence, and the angle over a window of blocks at the last token.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from bathyscope.core.arrays import FloatArray
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import Unit
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import BaselineView


@dataclass(frozen=True)
class Influence:
    """Two published scores of how little blocks do.

    Args:
        units: unit → 1 − mean cosine, over all tokens, of the stream behind it with and without what it adds. For a
            block that is its output and input. Source: ShortGPT (block influence).
        angles: [boundaries, boundaries], mean over prompts of the angle between the stream at two boundaries at the
            last token, over π. Source: Gromov et al. (angular distance).
    """

    units: dict[Unit, float]
    angles: FloatArray

    def least(self, count: int) -> frozenset[Unit]:
        """Return the units of least influence, earlier ones first where equal."""
        return frozenset(sorted(self.units, key=lambda unit: (self.units[unit], unit))[:count])

    def window(self, count: int) -> frozenset[Unit]:
        """Return the ``count`` consecutive blocks over which the stream turns least."""
        starts = range(len(self.angles) - count)
        first = min(starts, key=lambda start: (self.angles[start, start + count], start))
        return frozenset(Unit(block) for block in range(first, first + count))


def measure_influence(wave: Wavefront, batches: Sequence[Batch], units: Sequence[Unit]) -> Influence:
    """Measure both scores in one plain forward of every batch."""
    probe = _Cosines(units, wave.anatomy.n_blocks + 1)
    for batch in batches:
        probe.batch = batch
        wave.run(batch, [probe])
    return Influence({unit: 1 - total / probe.tokens for unit, total in probe.totals.items()}, probe.angles())


class _Cosines(Probe):
    """Sums over batches.

    Args:
        boundaries: L + 1.
    """

    batch: Batch

    def __init__(self, units: Sequence[Unit], boundaries: int) -> None:
        super().__init__(wants_parts=any(unit.part != "block" for unit in units))
        self.totals = dict.fromkeys(units, 0.0)
        self.tokens = self._prompts = 0
        self._last: list[Tensor] = []
        self._angles = np.zeros((boundaries, boundaries))

    def baseline(self, view: BaselineView) -> None:
        after = view.after_BTD.double()
        added = {"block": view.after_BTD - view.before_BTD, "attention": view.attention_BTD, "mlp": view.mlp_BTD}
        for unit in self.totals:
            part = added[unit.part] if unit.block == view.block else None
            if part is not None:
                # the stream without what the unit adds; of a block that is its input
                cosine_BT = torch.cosine_similarity(after, after - part.double(), dim=-1)
                self.totals[unit] += float(cosine_BT[self.batch.valid_BT].sum())
        if view.block == 0:
            self.tokens += sum(self.batch.lengths)
            self._prompts += self.batch.size
            self._last = [self._states_at_last(view.before_BTD)]
        self._last.append(self._states_at_last(view.after_BTD))
        if len(self._last) == len(self._angles):
            directions_BLD = torch.nn.functional.normalize(torch.stack(self._last, dim=1), dim=-1)
            # rounding takes cosines beyond ±1, where there is no angle
            cosines = (directions_BLD @ directions_BLD.mT).clamp(-1, 1)
            self._angles += (cosines.arccos() / torch.pi).sum(0).cpu().numpy()

    def angles(self) -> FloatArray:
        """Return means over the prompts that were run."""
        return self._angles / self._prompts

    def _states_at_last(self, resid_BTD: Tensor) -> Tensor:
        rows = torch.arange(self.batch.size, device=resid_BTD.device)
        return resid_BTD[rows, torch.tensor(self.batch.lengths, device=resid_BTD.device) - 1].double()
