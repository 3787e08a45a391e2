"""Integrated gradients: which token, at which block and site, carries the probability of the answer.

IG[l,t] = Σ_d (x − x̃)[t,d] · average over α of ∂P/∂x[t,d] at α x + (1 − α) x̃, where x is a block's output or a
contribution, x̃ its mean over the prompt's tokens, and P the sum of the answer tokens' probabilities, each given
all tokens before it. Source: csordas2025, integrated gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

import numpy as np
import xarray as xr

from bathyscope.errors import OptionError, did_you_mean, warn
from bathyscope.gradients.chain import Chain
from bathyscope.gradients.differentiable import require_differentiable
from bathyscope.gradients.differentiating import differentiating
from bathyscope.gradients.integrate import Integrator
from bathyscope.gradients.path import BASELINES, SITES
from bathyscope.gradients.quadrature import Quadrature, gauss_legendre, left_riemann
from bathyscope.gradients.trajectory import Trajectory
from bathyscope.measures.answered import measurable
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, require_range, variable
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.probe import BaselineView

MODES = ("fast", "exact")
_SOURCE = "csordas2025, integrated gradients"


@dataclass(frozen=True)
class IntegratedGradientsOptions:
    """Options of integrated gradients.

    Args:
        sites: what is integrated over: the block's output, and attention's and the MLP's contribution. Where a
            family has no separable parts, all three (the default) leave NaN for the parts, and any other choice
            that names a part is refused.
        mode: "fast" = Gauss–Legendre nodes; "exact" = the papers' left sum over equal steps.
        steps: of the left sum.
        nodes: of the Gauss–Legendre rule.
        refine: in the fast mode double the nodes, twice at most, at a block and site whose attributions miss what
            they explain by more than 1e-4 of the largest.
        max_tokens: longer prompts are left out, since they cost much; None = no limit.
        baseline: "tokens" = x̃ is the mean of x over the prompt's tokens; "channels" = each token's mean over its
            channels (a fault of hu2025's published code).
    """

    sites: tuple[str, ...] = SITES
    mode: str = "fast"
    steps: int = 256
    nodes: int = 32
    refine: bool = True
    max_tokens: int | None = 64
    baseline: str = "tokens"

    @property
    def rules(self) -> tuple[Quadrature, ...]:
        """Where on the path gradients are taken; those after the first where the ones before are inaccurate."""
        if self.mode == "exact":
            return (left_riemann(self.steps),)
        return tuple(gauss_legendre(self.nodes * factor) for factor in ((1, 2, 4) if self.refine else (1,)))


class IntegratedGradients(Measure[IntegratedGradientsOptions]):
    """Attribution of the answer's probability to tokens, blocks and sites."""

    name = "integrated_gradients"
    options_type = IntegratedGradientsOptions
    needs_answers = True

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        options = self.options
        for name, given, allowed in (
            ("mode", (options.mode,), MODES),
            ("baseline", (options.baseline,), BASELINES),
            ("sites", options.sites, SITES),
        ):
            for value in given:
                if value not in allowed:
                    raise OptionError(
                        f"{self.name}: {name}={value!r} is unknown.{did_you_mean(value, allowed)} "
                        f"Allowed: {', '.join(allowed)}."
                    )
        if not options.sites or len(set(options.sites)) < len(options.sites):
            raise OptionError(
                f"{self.name}: sites={list(options.sites)} is not allowed; give each of {', '.join(SITES)} at most "
                "once, and at least one."
            )
        require_range(f"{self.name}: steps", options.steps, 1, 65536)
        require_range(f"{self.name}: nodes", options.nodes, 1, 256)
        self._sites = self._available(facts)
        self._measured = measurable(self.name, prompts, options.max_tokens, "with the length and with L²")
        require_differentiable(facts.anatomy, self.name)
        self._width = max(len(prompts[n]) for n in self._measured)
        self._pieces = {n: facts.pieces(prompts[n].ids) for n in self._measured}

    def _available(self, facts: ModelFacts) -> tuple[str, ...]:
        """The asked sites that this model has."""
        asked = self.options.sites
        if facts.checks.parts or asked == ("block",):
            return asked
        if set(asked) != set(SITES):
            facts.require_parts(f"{self.name} of {' and '.join(site for site in asked if site != 'block')}")
        warn(
            f"{self.name}: this {facts.anatomy.family.name} model has no separable contributions of attention and "
            "MLP; their attributions are missing, those of whole blocks are given.",
        )
        return ("block",)

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        if self.options.max_tokens is not None and tokens > self.options.max_tokens:
            return 0.0
        sites = len(self.options.sites) if facts.checks.parts else 1
        # for every block forward and backward through the later ones, half of all on average
        return float(sites * len(self.options.rules[0].nodes) * (facts.n_blocks - 1))

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        pieces = [self._pieces.get(i) for i in indices]
        return IntegratedGradientsProbe(self.options, self._sites, facts, batch, pieces, self._width)


class IntegratedGradientsProbe(MeasureProbe):
    """Keeps the plain forward of the measured prompts and integrates once the wave has passed.

    Args:
        sites: those of the options that the model has.
        pieces: per prompt of the batch its tokens as texts; None = it is not measured.
        width: length of the ``token`` dimension.
    """

    def __init__(
        self,
        options: IntegratedGradientsOptions,
        sites: Sequence[str],
        facts: ModelFacts,
        batch: Batch,
        pieces: Sequence[Sequence[str] | None],
        width: int,
    ) -> None:
        measured = [prompt for prompt, own in enumerate(pieces) if own is not None]
        super().__init__(wants_parts=bool(measured) and any(site != "block" for site in sites))
        self._options, self._sites, self._facts, self._batch = options, tuple(sites), facts, batch
        self._pieces, self._width = pieces, width
        self._kept = [Trajectory(prompt, batch.lengths[prompt]) for prompt in measured]
        shape = (batch.size, len(options.sites), facts.n_blocks)
        self._attribution = np.full((*shape, width), np.nan)
        self._completeness = np.full(shape, np.nan)
        self._probability = np.full(batch.size, np.nan)

    def baseline(self, view: BaselineView) -> None:
        for kept in self._kept:
            kept.add(view)

    def after(self, wave: Wavefront, step: Callable[[float], None]) -> None:
        if not self._kept:
            return
        n_blocks, rules = self._facts.n_blocks, self._options.rules
        total = sum(kept.length for kept in self._kept)
        done = 0.0
        with differentiating(wave.anatomy.model), ExitStack() as stack:
            # a backward pass needs all blocks that its forward pass went through
            blocks = [stack.enter_context(wave.provider.block(index)) for index in range(n_blocks)]
            for kept in self._kept:
                ids = self._batch.ids_BT[kept.prompt, : kept.length].clone()
                chain = Chain(wave.anatomy, blocks, ids, self._answer(kept))
                self._probability[kept.prompt] = chain.probability
                integrator = Integrator(wave.anatomy, chain, kept, rules, wave.policy.tokens)
                for index in range(n_blocks):
                    self._integrate(integrator, index)
                    done += kept.length * (n_blocks - index)
                    step(done / (total * n_blocks * (n_blocks + 1) / 2))
        self._kept = []

    def _integrate(self, integrator: Integrator, index: int) -> None:
        kept = integrator.trajectory
        found = integrator.integrate(index, self._sites, self._options.baseline)
        for site, integral in zip(self._sites, found):
            at = (kept.prompt, self._options.sites.index(site), index)
            # the last token is seen by no prediction of the answer
            self._attribution[at][: kept.length] = 0.0
            self._attribution[at][: len(integral.attribution_T)] = integral.attribution_T.cpu().numpy()
            self._completeness[at] = integral.completeness

    def _answer(self, kept: Trajectory) -> int:
        answer = self._batch.answers[kept.prompt]
        assert answer is not None
        return answer

    def result(self) -> xr.Dataset:
        dims = ("prompt", "site", "block")
        starts = [
            length - (answer or 0) if own is not None else -1
            for own, length, answer in zip(self._pieces, self._batch.lengths, self._batch.answers)
        ]
        data = {
            "attribution": variable(
                (*dims, "token"),
                self._attribution,
                "integrated gradients of the answer's probability",
                "1",
                formula=_FORMULA[self._options.baseline],
                source=_SOURCE,
                direction="positive = what the token carries there raises the probability of the answer",
            ),
            "completeness": variable(
                dims,
                self._completeness,
                "completeness residual of the attributions",
                "1",
                formula="Σ_t attribution − (P(x) − P(x̃))",
                source=_SOURCE,
                direction="0 = the attributions add up to the difference that they explain",
            ),
            "probability": variable(
                ("prompt",),
                self._probability,
                "sum of the answer tokens' probabilities",
                "1",
                formula="P(x) = Σ_j p(y_j | all tokens before y_j)",
                source=_SOURCE,
            ),
            "answer_start": variable(
                ("prompt",),
                np.array(starts, dtype=np.int64),
                "first token of the answer (−1 = not measured)",
                "token",
                source=_SOURCE,
            ),
        }
        pieces = np.full((self._batch.size, self._width), "", dtype=object)
        for prompt, own in enumerate(self._pieces):
            pieces[prompt, : len(own or ())] = own or ()
        coords = {
            "site": list(self._options.sites),
            "block": np.arange(self._facts.n_blocks),
            "token": np.arange(self._width),
            "piece": (("prompt", "token"), pieces),
        }
        return xr.Dataset(data, coords)


_FORMULA = {
    "tokens": "Σ_d (x − x̃)·∫₀¹ ∂P/∂x dα at α x + (1−α) x̃, x̃ = mean of x over the prompt's tokens",
    "channels": "Σ_d (x − x̃)·∫₀¹ ∂P/∂x dα at α x + (1−α) x̃, x̃ = mean of x over channels",
}
