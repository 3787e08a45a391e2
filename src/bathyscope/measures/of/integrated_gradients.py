"""Integrated gradients: which token, at which block and site, carries the probability of the answer.

IG[l,t] = Σ_d (x − x̃)[t,d] · average over α of ∂P/∂x[t,d] at α x + (1 − α) x̃, where x is a block's output or a
contribution, x̃ its mean over the prompt's tokens, and P the sum of the answer tokens' probabilities, or logits, each
given all tokens before it. Source: csordas2025, integrated gradients; hu2025 (of logits).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Annotated, Final, Literal

from bathyscope.core.descriptions import described
from bathyscope.errors import OptionError, warn
from bathyscope.labels import Label
from bathyscope.measures.answered import AnsweredMeasure, AnsweredProbe
from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.measures.options import Shortest
from bathyscope.options import Distinct, Range
from bathyscope.prompts.prompt import TokenizedPrompt

if TYPE_CHECKING:
    import xarray as xr

    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.engine import Wavefront
    from bathyscope.wavefront.gradients.integrate import Integrator, Quadrature
    from bathyscope.wavefront.probe import BaselineView

SITES: Final = ("block", "attention", "mlp")
BASELINES: Final = {"tokens": "mean of x over the prompt's tokens", "channels": "mean of x over channels"}
"""What x̃ is."""
TARGETS: Final = {"probability": "p(y_j | all tokens before y_j)", "logit": "logit of y_j after all tokens before it"}
"""What of an answer's token y_j is summed to P."""
_label = partial(Label, source="csordas2025, integrated gradients")


@described
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
        target: what of the answer's tokens is attributed: their probability, as in csordas2025, or their logit, as in
            hu2025.
    """

    sites: Annotated[tuple[Literal["block", "attention", "mlp"], ...], Distinct()] = SITES
    mode: Literal["fast", "exact"] = "fast"
    steps: Annotated[int, Range(1, 65536)] = 256
    nodes: Annotated[int, Range(1, 256)] = 32
    refine: bool = True
    max_tokens: Annotated[int | None, Range(2, none="no limit")] = 64
    shortest: Shortest = 3
    baseline: Literal["tokens", "channels"] = "tokens"
    target: Literal["probability", "logit"] = "probability"


DECLARATION: Final = Declaration(
    "integrated_gradients",
    "Attribution of the answer's probability to tokens, blocks and sites.",
    IntegratedGradientsOptions,
    {
        "attribution": _label(
            "prompt site block token",
            "integrated gradients of the answer's {target=probability}",
            formula=f"Σ_d (x − x̃)·∫₀¹ ∂P/∂x dα at α x + (1−α) x̃, x̃ = {{baseline={BASELINES['tokens']}}}, "
            f"P = Σ_j {{summed={TARGETS['probability']}}}",
            direction="positive = what the token carries there raises the {target=probability} of the answer",
        ),
        "completeness": _label(
            "prompt site block",
            "completeness residual of the attributions",
            formula="Σ_t attribution − (P(x) − P(x̃))",
            direction="0 = the attributions add up to the difference that they explain",
        ),
        "probability": _label(
            "prompt",
            "sum of the answer tokens' probabilities",
            formula="Σ_j p(y_j | all tokens before y_j)",
        ),
        "logit": _label("prompt", "sum of the answer tokens' logits", formula="Σ_j logit of y_j", optional=True),
        "answer_start": _label("prompt", "first token of the answer (−1 = not measured)", "token"),
    },
    needs_answers=True,
    order=100,
    synonyms=("ig", "attribution"),
    example={"nodes": 4},
    panels={
        **dict.fromkeys(("prompt_", "attention_", "mlp_"), ("attribution",)),
        "completeness": ("completeness",),
    },
    question="which contributions does the answer rest on?",
    rows="backward passes",
)


class IntegratedGradients(AnsweredMeasure[IntegratedGradientsOptions], declared=DECLARATION):
    growth = "with the length and with L²"
    keeps_boundaries = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        from bathyscope.wavefront.gradients.differentiable import unavailable_when_streamed

        return super().unavailable(facts, prompts) or unavailable_when_streamed(facts.anatomy)

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        from bathyscope.wavefront.gradients.differentiable import require_differentiable

        self._require_mode_of_option()
        self.sites = self._available(facts)
        self.choose(facts, prompts)
        require_differentiable(facts.anatomy, self.name)

    def _require_mode_of_option(self) -> None:
        """Refuse the number of nodes or steps of the other mode, which would change nothing."""
        mode, name, other = {"fast": ("exact", "steps", "fast"), "exact": ("fast", "nodes", "exact")}[self.options.mode]
        value = getattr(self.options, name)
        if value != getattr(IntegratedGradientsOptions, name):
            raise OptionError(
                f"integrated_gradients: {name}={value} is of mode={mode!r}, and mode={other!r} takes none; give "
                f"mode={mode!r}, or leave {name} out."
            )

    def _available(self, facts: ModelFacts) -> tuple[str, ...]:
        """The asked sites that this model has."""
        sites = self.options.sites
        if facts.checks.parts or sites == ("block",):
            return sites
        if set(sites) != set(SITES):
            facts.require_parts(f"{self.name} of {' and '.join(site for site in sites if site != 'block')}")
        warn(
            f"{self.name}: this {facts.anatomy.family.name} model has no separable contributions of attention and "
            "MLP; their attributions are missing, those of whole blocks are given.",
        )
        return ("block",)

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        sites = len(self.options.sites) if facts.checks.parts else 1
        # for every block forward and backward through the later ones, half of all on average
        return float(sites * len(rules(self.options)[0].nodes) * (facts.n_blocks - 1))

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return IntegratedGradientsProbe(self, facts, batch, indices)


def rules(options: IntegratedGradientsOptions) -> tuple[Quadrature, ...]:
    """Where on the path gradients are taken; those after the first where the ones before are inaccurate."""
    from bathyscope.wavefront.gradients.integrate import gauss_legendre, left_riemann

    if options.mode == "exact":
        return (left_riemann(options.steps),)
    return tuple(gauss_legendre(options.nodes * factor) for factor in ((1, 2, 4) if options.refine else (1,)))


class IntegratedGradientsProbe(AnsweredProbe):
    """Keeps the plain forward of the measured prompts and integrates once the wave has passed."""

    def __init__(self, measure: IntegratedGradients, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> None:
        import numpy as np

        from bathyscope.wavefront.gradients.trajectory import Trajectory

        super().__init__(measure, facts, batch, indices)
        self._sites = measure.sites
        self.wants_parts = bool(self._measured) and any(site != "block" for site in self._sites)
        self._trajectories = [Trajectory(prompt, batch.lengths[prompt]) for prompt in self._measured]
        shape = (batch.size, len(measure.options.sites), facts.n_blocks)
        self._attribution = np.full((*shape, self._width), np.nan)
        self._completeness = np.full(shape, np.nan)
        self._probability = np.full(batch.size, np.nan)
        self._score = np.full(batch.size, np.nan)

    def baseline(self, view: BaselineView) -> None:
        for trajectory in self._trajectories:
            trajectory.add(view)

    def after(self, wave: Wavefront, step: Callable[[float], None]) -> None:
        from bathyscope.model.streaming.lending import lent
        from bathyscope.wavefront.gradients.chain import AnswerChain
        from bathyscope.wavefront.gradients.differentiable import differentiating
        from bathyscope.wavefront.gradients.integrate import Integrator

        if not self._trajectories:
            return
        n_blocks = self._facts.n_blocks
        total = sum(trajectory.length for trajectory in self._trajectories)
        done = 0.0
        with differentiating(wave.anatomy.model), ExitStack() as stack:
            # a backward pass needs all blocks that its forward pass went through
            blocks = [stack.enter_context(lent(block)) for block in wave.anatomy.blocks]
            for trajectory in self._trajectories:
                ids = self._batch.ids_BT[trajectory.prompt, : trajectory.length].clone()
                chain = AnswerChain(wave.anatomy, blocks, ids, self.answer(trajectory.prompt), self._options.target)
                self._probability[trajectory.prompt] = chain.probability
                self._score[trajectory.prompt] = chain.score
                integrator = Integrator(chain, trajectory, rules(self._options), wave.policy.tokens)
                # A path of block l runs the L − l blocks behind it, which is also its share of the progress.
                for index in range(n_blocks):
                    self._integrate(integrator, index)
                    done += trajectory.length * (n_blocks - index)
                    step(done / (total * n_blocks * (n_blocks + 1) / 2))
        self._trajectories = []

    def _integrate(self, integrator: Integrator, index: int) -> None:
        trajectory = integrator.trajectory
        integrals = integrator.integrate(index, self._sites, self._options.baseline)
        for site, integral in zip(self._sites, integrals):
            at = (trajectory.prompt, self._options.sites.index(site), index)
            # the last token is seen by no prediction of the answer
            self._attribution[at][: trajectory.length] = 0.0
            self._attribution[at][: len(integral.attribution_T)] = integral.attribution_T.numpy()
            self._completeness[at] = integral.completeness

    def result(self) -> xr.Dataset:
        import numpy as np

        data = {
            "attribution": self._attribution,
            "completeness": self._completeness,
            "probability": self._probability,
            "answer_start": self.answer_start(),
        }
        target = self._options.target
        if target == "logit":
            data["logit"] = self._score
        coords = {"site": list(self._options.sites), "block": np.arange(self._facts.n_blocks), **self.token_coords()}
        texts = {"baseline": BASELINES[self._options.baseline], "target": target, "summed": TARGETS[target]}
        return DECLARATION.dataset(data, coords, **texts)
