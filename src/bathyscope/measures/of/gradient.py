"""Gradient by depth: how strongly the loss reacts to the residual stream at each boundary.

G_b[t] = ∂(mean next-token loss of the prompt)/∂h_b[t]. Its *own* part is the gradient of token t's own loss, which
reaches its readout without leaving the token; the rest acts on later tokens' losses, through attention. Source:
csordas2025, integrated gradients (the gradient itself, without a path).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from bathyscope.labels import Label
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.options import NoOptions

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from torch import Tensor

    from bathyscope.prompts.prompt import TokenizedPrompt
    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.engine import Wavefront
    from bathyscope.wavefront.probe import BaselineView

_label = partial(
    Label,
    "prompt boundary",
    units="nats",
    source="gradient by depth; csordas2025, integrated gradients",
    direction="higher = the loss reacts more to the residual stream",
)

DECLARATION: Final = Declaration(
    "gradient",
    "Norm of the loss's gradient at every boundary, and its own-position part.",
    table={
        "norm": _label("norm of the mean loss's gradient (mean over tokens)", formula="‖∂(mean loss)/∂h_b[t]‖₂"),
        "norm_own": _label(
            "norm of the gradient through the token's own position (mean over tokens)",
            formula="‖∂(own loss / tokens with a loss)/∂h_b[t]‖₂",
        ),
        "norm_rest": _label(
            "norm of the gradient through other positions (mean over tokens)",
            formula="‖∂(mean loss)/∂h_b[t] − ∂(own loss / tokens with a loss)/∂h_b[t]‖₂",
        ),
    },
    order=110,
    synonyms=("saliency", "gradients", "grad_norm"),
    panels={"norms": ("norm", "norm_own", "norm_rest")},
    question="how does the loss reach each depth?",
    rows="backward passes",
)


class Gradient(Measure[NoOptions], declared=DECLARATION):
    by_prompt = True
    keeps_boundaries = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        from bathyscope.wavefront.gradients.differentiable import unavailable_when_streamed

        return super().unavailable(facts, prompts) or unavailable_when_streamed(facts.anatomy)

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        from bathyscope.wavefront.gradients.differentiable import require_differentiable

        require_differentiable(facts.anatomy, self.name)

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        # forward and backward over all tokens at once, and once more with a row for every token, or else a
        # backward pass for every token
        return 4.0 if facts.checks.tails else 2.0 + tokens

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return GradientProbe(facts, batch)


class GradientProbe(MeasureProbe):
    """Keeps the plain forward and goes back through it once the wave has passed."""

    def __init__(self, facts: ModelFacts, batch: Batch) -> None:
        from bathyscope.wavefront.gradients.trajectory import Trajectory

        super().__init__()
        self._facts = facts
        self._batch = batch
        self._trajectories = [Trajectory(prompt, length) for prompt, length in enumerate(batch.lengths)]
        self._norms: list[np.ndarray] = []

    def baseline(self, view: BaselineView) -> None:
        for trajectory in self._trajectories:
            trajectory.add(view)

    def after(self, wave: Wavefront, step: Callable[[float], None]) -> None:
        import torch

        from bathyscope.wavefront.gradients.depth import DepthGradients
        from bathyscope.wavefront.gradients.differentiable import differentiating

        facts, boundaries = self._facts, self._facts.n_blocks + 1
        # Not in ``finish``: the wave has released its rows by now, and gradients have their memory.
        with differentiating(wave.anatomy.model):
            for done, trajectory in enumerate(self._trajectories):
                ids = self._batch.ids_BT[trajectory.prompt, : trajectory.length].clone()
                gradients = DepthGradients(facts.anatomy, facts.checks, trajectory.boundaries, ids)
                norms: list[Tensor] = []  # from the last boundary to the first
                for boundary, total_TD, own_TD in gradients.sweep():
                    gradients_KTD = torch.stack([total_TD, own_TD, total_TD - own_TD])
                    norms.append(torch.linalg.vector_norm(gradients_KTD, dim=-1).mean(-1))
                    step((done + (boundaries - boundary) / boundaries) / len(self._trajectories))
                self._norms.append(torch.stack(norms[::-1], dim=1).double().cpu().numpy())
        self._trajectories = []

    def result(self) -> xr.Dataset:
        import numpy as np

        data = dict(zip(("norm", "norm_own", "norm_rest"), np.stack(self._norms, axis=1)))
        return DECLARATION.dataset(data, {"boundary": np.arange(self._facts.n_blocks + 1)})
