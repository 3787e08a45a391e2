"""Logit lens: what the model would predict if it stopped at a boundary, compared with what it does predict.

p_b = softmax(T(W_U norm_f(h_b))). Source: csordas2025, hu2025, lad2024 (logit lens). From each token's lens
also the boundaries at which its prediction settles (``settling``).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.errors import OptionError, PromptError, did_you_mean
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts, require_range, variable
from bathyscope.measures.settling import is_deep, prediction_depth, settle_depth
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.probe import BaselineView, FinalStates

NORMS = ("recompute", "frozen")
POSITIONS = ("all", "inner", "answer")
HITS = (1, 3, 5, 10)
_METRICS = (
    "kl_to_reference",
    "kl_from_reference",
    "jsd",
    "entropy",
    "overlap",
    "top1_agreement",
    "rank",
    "loss",
    "kl_top_p",
    "kl_tail",
)


@dataclass(frozen=True)
class LensOptions:
    """Options of the logit lens.

    Args:
        k: tokens in the top-k overlap.
        norm: "recompute" = the final norm computed on h_b; "frozen" = divided by the final boundary's scale.
        bias: use the final norm's bias in the frozen lens.
        top_p: probability mass of the top set that KL is split by.
        positions: what means are over: "all" = every token of a prompt (the cross-entropy: every one that has a next
            token); "inner" = all but the first and the last; "answer" = those that predict the answer's tokens.
    """

    k: int = 5
    norm: tuple[str, ...] = ("recompute",)
    bias: bool = True
    top_p: float = 0.9
    positions: str = "all"


class Lens(Measure[LensOptions]):
    """Readout at every boundary, from one plain forward."""

    name = "lens"
    options_type = LensOptions

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        for norm in self.options.norm:
            if norm not in NORMS:
                raise OptionError(
                    f"lens: norm={norm!r} is unknown.{did_you_mean(norm, NORMS)} Allowed: {', '.join(NORMS)}."
                )
        if not self.options.norm:
            raise OptionError("lens: norm is empty; give at least one of recompute, frozen.")
        if self.options.positions not in POSITIONS:
            raise OptionError(
                f"lens: positions={self.options.positions!r} is unknown."
                f"{did_you_mean(self.options.positions, POSITIONS)} Allowed: {', '.join(POSITIONS)}."
            )
        unanswered = next((p for p in prompts if not p.answer_tokens), None)
        if self.options.positions == "answer" and unanswered is not None:
            raise PromptError(
                f"lens: prompt {unanswered.id!r} has no answer, and positions='answer' looks at nothing else; leave "
                "that prompt out, give its answer, or give positions='all'."
            )
        short = next((p for p in prompts if len(p) < 3), None)
        if self.options.positions == "inner" and short is not None:
            raise PromptError(
                f"lens: prompt {short.id!r} has {len(short)} tokens, and positions='inner' leaves out the first and "
                "the last; leave that prompt out, or give positions='all'."
            )
        require_range("lens: k", self.options.k, 1, facts.anatomy.vocabulary)
        require_range("lens: top_p", self.options.top_p, 1e-6, 1.0)
        if "frozen" in self.options.norm:
            width = torch.zeros(1, facts.anatomy.width, dtype=next(facts.anatomy.model.parameters()).dtype)
            width = width.to(next(facts.anatomy.model.parameters()).device)
            facts.anatomy.readout.frozen(width, width)  # refuses unknown kinds of norm before any compute

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return len(self.options.norm) * (facts.n_blocks + 1.0)

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return LensProbe(self.options, facts, batch)


class LensProbe(MeasureProbe):
    """Keeps the boundaries of the plain forward and reads them all out at the end."""

    def __init__(self, options: LensOptions, facts: ModelFacts, batch: Batch) -> None:
        super().__init__()
        self._options = options
        self._facts = facts
        self._batch = batch
        self._boundaries: list[Tensor] = []
        self._found: list[dict[str, Tensor]] = []

    def baseline(self, view: BaselineView) -> None:
        self._boundaries.append(self._batch.flat(view.before_BTD))

    def finish(self, final: FinalStates) -> None:
        last = self._batch.flat(final.baseline_BTD)
        readout, bias = final.readout, self._options.bias

        def frozen(resid_ND: Tensor, final_ND: Tensor) -> Tensor:
            return readout.frozen(resid_ND, final_ND, bias)

        reads: dict[str, Callable[[Tensor, Tensor], Tensor] | None] = {"recompute": None, "frozen": frozen}
        for norm in self._options.norm:
            found = compare(
                readout,
                last,
                [*self._boundaries, last],
                _METRICS,
                vocabulary=self._facts.anatomy.vocabulary,
                targets_N=self._batch.next_ids_N,
                read_row=reads[norm],
                k=self._options.k,
                top_p=self._options.top_p,
            )
            rank = found.pop("rank")
            found["mrr"] = 1 / rank
            for k in HITS:
                found[f"hits{k}"] = (rank <= k).double()
            found["settle_depth"] = settle_depth(found["jsd"])
            found["deep"] = is_deep(found["settle_depth"], self._facts.n_blocks)
            found["prediction_depth"] = prediction_depth(found["top1_agreement"])
            self._found.append({name: self._per_prompt(values) for name, values in found.items()})
        self._boundaries.clear()

    def _per_prompt(self, values_BN: Tensor) -> Tensor:
        """Mean over each prompt's tokens that have a value: [boundary, N] → [prompt, boundary], [N] → [prompt]."""
        pieces = zip(self._batch.split(values_BN), self._batch.answers)
        return torch.stack([piece[..., self._looked_at(answer)].nanmean(-1) for piece, answer in pieces])

    def _looked_at(self, answer_tokens: int | None) -> slice:
        """The positions of one prompt that its means are over."""
        if self._options.positions == "answer":
            assert answer_tokens is not None
            return slice(-1 - answer_tokens, -1)
        return slice(1, -1) if self._options.positions == "inner" else slice(None)

    def result(self) -> xr.Dataset:
        several = len(self._options.norm) > 1
        dims = ("norm", "prompt", "boundary") if several else ("prompt", "boundary")

        def gathered(name: str) -> Tensor:
            stacked = torch.stack([found[name] for found in self._found])
            return stacked if several else stacked[0]

        data = {
            name: variable(
                dims,
                gathered(metric),
                long_name,
                units,
                formula=formula.format(k=self._options.k, p=self._options.top_p),
                source=source,
                direction=direction,
            )
            for name, (metric, long_name, units, formula, source, direction) in _VARIABLES.items()
        }
        for name, (found_as, long_name, units, formula, source) in _TOKEN_DEPTHS.items():
            data[name] = variable(
                dims[:-1], gathered(found_as), long_name, units, formula=formula, source=source, direction=_LATER
            )
        data["hits"] = variable(
            (*dims, "k"),
            torch.stack([gathered(f"hits{k}") for k in HITS], dim=-1),
            "final top-1 token among the lens's top k",
            "1",
            formula="mean over tokens of [rank ≤ k]",
            source="csordas2025, logit lens",
            direction="higher = closer to the final prediction",
        )
        coords: dict[str, object] = {"boundary": np.arange(self._facts.n_blocks + 1), "k": list(HITS)}
        if several:
            coords["norm"] = list(self._options.norm)
        dataset = xr.Dataset(data, coords)
        dataset.attrs["norm"] = ",".join(self._options.norm)
        return dataset


_LATER = "higher = the prediction is made later"
_TOKEN_DEPTHS = {
    "settle_depth": (
        "settle_depth",
        "settle depth of a token",
        "boundary",
        "mean over tokens of min{b : JSD₂(p_b, p_L) ≤ 0.5}",
        "deep-thinking ratio",
    ),
    "deep_thinking_ratio": (
        "deep",
        "share of tokens that settle late",
        "1",
        "mean over tokens of [settle depth ≥ ⌈0.85·L⌉]",
        "deep-thinking ratio",
    ),
    "prediction_depth": (
        "prediction_depth",
        "prediction depth of a token",
        "boundary",
        "mean over tokens of min{b : argmax p_j = argmax p_L for all j ≥ b}",
        "Baldock et al. 2021, prediction depth",
    ),
}
_VARIABLES = {
    "kl_lens_final": (
        "kl_to_reference",
        "KL of the lens from the final distribution",
        "nats",
        "KL(p_b ‖ p_L)",
        "csordas2025, logit lens; hu2025, logit lens",
        "0 = the final prediction is reached",
    ),
    "kl_final_lens": (
        "kl_from_reference",
        "KL of the final distribution from the lens",
        "nats",
        "KL(p_L ‖ p_b)",
        "logit lens",
        "0 = the final prediction is reached",
    ),
    "jsd": (
        "jsd",
        "Jensen–Shannon divergence of lens and final distribution",
        "bits",
        "JSD₂(p_b, p_L)",
        "deep-thinking ratio",
        "0 = the final prediction is reached",
    ),
    "entropy": ("entropy", "entropy of the lens", "bits", "−Σ p_b log₂ p_b", "lad2024, logit lens", ""),
    "overlap": (
        "overlap",
        "top-k overlap of lens and final distribution",
        "1",
        "|top_k(p_b) ∩ top_k(p_L)| / k, k = {k}",
        "csordas2025, logit lens; hu2025, logit lens",
        "higher = closer to the final prediction",
    ),
    "top1_agreement": (
        "top1_agreement",
        "top-1 agreement of lens and final distribution",
        "1",
        "mean of [argmax p_b = argmax p_L]",
        "csordas2025, logit lens",
        "higher = closer to the final prediction",
    ),
    "mrr": (
        "mrr",
        "reciprocal rank of the final top-1 token",
        "1",
        "mean of 1/rank_b(argmax p_L)",
        "logit lens",
        "higher = closer to the final prediction",
    ),
    "cross_entropy": (
        "loss",
        "cross-entropy of the next token under the lens",
        "nats",
        "−log p_b(next token)",
        "lad2024, logit lens",
        "lower = better",
    ),
    "kl_top_p": (
        "kl_top_p",
        "part of KL(p_b ‖ p_L) in the final top-p set",
        "nats",
        "Σ over the final top-{p} set",
        "lad2024, logit lens",
        "",
    ),
    "kl_tail": (
        "kl_tail",
        "part of KL(p_b ‖ p_L) outside the final top-p set",
        "nats",
        "Σ outside the final top-{p} set",
        "lad2024, logit lens",
        "",
    ),
}
