"""Direct effects: what each later block alone makes of one block's contribution being absent from its input.

Block l sees h_l − c_s at the tokens where block s is left out, all other contributions staying as they are;
E_direct[s,l] = ‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6) per token, reduced over tokens as skip effects are, with a diagonal
of 0. Source: csordas2025, local effects.
"""

from collections.abc import Sequence

import xarray as xr

from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.effects import Cell, EffectMeasure, EffectProbe
from bathyscope.measures.of.direct import DECLARATION, DirectOptions
from bathyscope.measures.of.skip import REACHES
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.rows import Request, SkipBefore, SkipRow


class Direct(EffectMeasure[DirectOptions], declared=DECLARATION):
    keeps_boundaries = True

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return facts.n_blocks * (1 + self.tails_per_prompt) / 2

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return 0.0

    def everywhere(self, cell: Cell) -> Request:
        return SkipRow(cell[1], self.options.protect_first, "direct")

    def before(self, cell: Cell, prompt: int, t: int) -> Request:
        return SkipBefore(cell[1], prompt, t, self.options.protect_first, "direct")

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return DirectProbe(self, facts, batch, indices)


class DirectProbe(EffectProbe):
    """Direct effects of one batch."""

    def result(self) -> xr.Dataset:
        data = {f"effect_{reach}": self.effect(reach)[:, 0] for reach in REACHES}
        if self._names:
            data["effect_at"] = self.effect_at()[:, :, 0]
        return self.dataset(DECLARATION, data)
