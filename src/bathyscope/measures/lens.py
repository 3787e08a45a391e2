"""Logit lens: what the model would predict if it stopped at a boundary, compared with what it does predict.

p_b = softmax(T(W_U norm_f(h_b))). Source: csordas2025, hu2025, lad2024 (logit lens). From each token's lens
also the boundaries at which its prediction settles (``settling``).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.errors import PromptError
from bathyscope.measures.answered import require_answers
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.finite import require_finite
from bathyscope.measures.loop_exits import by_rule, gate_advantage, token_exits
from bathyscope.measures.of.lens import DECLARATION, EXIT_RULES, EXIT_THRESHOLDS, LensOptions
from bathyscope.measures.settling import at_boundaries, is_deep, is_kept, is_near_tie, prediction_depth, settle_depth
from bathyscope.measures.token_values import TokenValues
from bathyscope.model.anatomy.gates import has_gate, require_gate
from bathyscope.model.anatomy.plain import home_of
from bathyscope.options import Range
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.places import index
from bathyscope.wavefront.probe import BaselineView, FinalStates

HITS = (1, 3, 5, 10)
_METRICS = {
    "kl_lens_final": "kl_to_reference",
    "kl_final_lens": "kl_from_reference",
    "jsd": "jsd",
    "entropy": "entropy",
    "overlap": "overlap",
    "top1_agreement": "top1_agreement",
    "mrr": "rank",
    "cross_entropy": "loss",
    "kl_top_p": "kl_top_p",
    "kl_tail": "kl_tail",
}
"""Variable → what is compared for it."""
_TOP = ("top_ids", "top_probabilities")


class Lens(Measure[LensOptions], declared=DECLARATION):
    by_prompt = True
    keeps_boundaries = True
    compares_in_all_ways = True

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        if self.options.positions == "answer":
            require_answers(self.name, prompts)
        short = next((p for p in prompts if len(p) < 3), None)
        if self.options.positions == "inner" and short is not None:
            raise PromptError(
                f"lens: prompt {short.id!r} has {len(short)} tokens, and positions='inner' leaves out the first and "
                "the last; leave that prompt out, or give positions='all'."
            )
        if has_gate(facts.anatomy) and facts.has_weights:
            require_gate(facts.anatomy)
        Range(1, facts.anatomy.vocabulary).check(self.options.k, "lens: k")
        if "frozen" in self.options.norm:
            width = torch.zeros(1, facts.anatomy.width, dtype=next(facts.anatomy.model.parameters()).dtype)
            width = width.to(home_of(facts.anatomy.model))
            facts.anatomy.readout.frozen(width, width)  # refuses unknown kinds of norm before any compute

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return float(len(self.options.norm) * len(facts.boundaries))

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return LensProbe(self.options, facts, batch)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        if "exit_depth" not in merged or merged.sizes["prompt"] < 2:
            return None
        return DECLARATION.dataset(gate_advantage(merged, seed), {})


class LensProbe(MeasureProbe):
    """Keeps the boundaries of the plain forward and reads them all out at the end."""

    def __init__(self, options: LensOptions, facts: ModelFacts, batch: Batch) -> None:
        super().__init__()
        self._options = options
        self._facts = facts
        self._batch = batch
        self._boundaries: list[Tensor] = []
        self._results: list[dict[str, Tensor]] = []
        self._gated = has_gate(facts.anatomy)
        self._exits: dict[str, Tensor] = {}

    def baseline(self, view: BaselineView) -> None:
        # Stored, not read at once: the reference is h_L, and boundaries that share a product round alike.
        self._boundaries.append(self._batch.flat(view.before_BTD))

    def finish(self, final: FinalStates) -> None:
        last = self._batch.flat(final.baseline_BTD)
        readout, bias = self._facts.anatomy.readout, self._options.bias

        def norm_by_last(resid_ND: Tensor, final_ND: Tensor) -> Tensor:
            return readout.normed_by(resid_ND, final_ND, bias)

        # the norm whose values of single tokens are kept: the model's own where it was asked for
        of_tokens = "recompute" if "recompute" in self._options.norm else self._options.norm[0]
        # Each norm reads every boundary once, h_L last.
        for norm in self._options.norm:
            comparison = compare(
                final.reader,
                last,
                [*self._boundaries, last],
                (*_METRICS.values(), "final_margin", *(_TOP if self.tokens is not None or self._gated else ())),
                targets_N=self._batch.next_ids_N,
                norm_row=norm_by_last if norm == "frozen" else None,
                k=self._options.k,
                top_p=self._options.top_p,
            )
            values = {name: comparison[metric] for name, metric in _METRICS.items()}
            require_finite("The lens", [values["entropy"], values["kl_lens_final"], values["kl_final_lens"]])
            # Reciprocals, because a mean of ranks would show little but the worst tokens.
            values["mrr"] = 1 / comparison["rank"]
            values["settle_depth"] = at_boundaries(settle_depth(comparison["jsd"]), self._facts.boundaries)
            values["deep_thinking_ratio"] = is_deep(values["settle_depth"], self._facts.n_blocks)
            prediction = prediction_depth(comparison["top1_agreement"])
            values["prediction_depth"] = at_boundaries(prediction, self._facts.boundaries)
            values["top1_kept"] = is_kept(prediction, len(self._facts.boundaries) - 1)
            values["near_ties"] = is_near_tie(comparison["top1_agreement"], comparison["final_margin"])
            if self.tokens is not None and norm == of_tokens:
                self._leave(self.tokens, values, comparison)
            if self._gated and norm == of_tokens:
                self._exits = self._read_exits([*self._boundaries, last], comparison)
            prompt_means = _on_host({name: self._per_prompt(token_values) for name, token_values in values.items()})
            ranks = comparison["rank"]
            hits = self._per_prompt((ranks <= index(HITS, ranks.device)[:, None, None]).double())
            self._results.append({**prompt_means, "hits": hits.movedim(1, -1)})
        self._boundaries.clear()

    def _read_exits(self, boundaries: Sequence[Tensor], comparison: Mapping[str, Tensor]) -> dict[str, Tensor]:
        """Return means over each prompt's tokens of where a gate, or confidence, lets them leave."""
        surest = comparison["top_probabilities"][..., 0]
        exits = token_exits(self._facts.anatomy, self._batch, boundaries, comparison["top1_agreement"], surest)
        means = {name: self._per_prompt(values) for name, values in exits.items()}
        return {name: values if name == "gate_exit" else by_rule(values) for name, values in means.items()}

    def _leave(self, tokens: TokenValues, values: Mapping[str, Tensor], comparison: Mapping[str, Tensor]) -> None:
        """Hands over what is known of single tokens."""
        for name in ("kl_final_lens", "entropy", "settle_depth", "prediction_depth"):
            tokens.put(name, values[name])
        tokens.put("next_probability", (-values["cross_entropy"]).exp())
        tokens.put("top_id", comparison["top_ids"].long().mT)
        tokens.put("top_probability", comparison["top_probabilities"].mT)

    def _per_prompt(self, values_BN: Tensor) -> Tensor:
        """Mean over each prompt's tokens that have a value: [boundary, N] → [prompt, boundary], [N] → [prompt]."""
        pieces = zip(self._batch.split(values_BN), self._batch.answers)
        return torch.stack([piece[..., self._looked_at(answer)].nanmean(-1) for piece, answer in pieces])

    def _looked_at(self, answer_tokens: int | None) -> slice:
        """The positions of one prompt that its means are over."""
        if self._options.positions == "answer":
            assert answer_tokens is not None
            # A token is predicted at the one before it.
            return slice(-1 - answer_tokens, -1)
        return slice(1, -1) if self._options.positions == "inner" else slice(None)

    def _counts(self) -> dict[str, np.ndarray]:
        """How many tokens the means are over, and how many of them have a next one."""
        looked_at = [
            range(n)[self._looked_at(answer)]
            for n, answer in zip(self._batch.lengths, self._batch.answers, strict=True)
        ]
        with_next = [sum(t < n - 1 for t in counted) for counted, n in zip(looked_at, self._batch.lengths)]
        counted = {"n_averaged": [len(counted) for counted in looked_at], "n_averaged_cross_entropy": with_next}
        return {name: np.array(counts, dtype=np.int64) for name, counts in counted.items()}

    def result(self) -> xr.Dataset:
        several = len(self._options.norm) > 1
        stacked = {
            name: torch.stack([norm_results[name] for norm_results in self._results]) for name in self._results[0]
        }
        data: dict[str, Any] = stacked if several else {name: values[0] for name, values in stacked.items()}
        data |= self._counts() | self._exits
        coords: dict[str, object] = {"boundary": np.array(self._facts.boundaries), "k": list(HITS)}
        if self._exits:
            coords |= {"exit_rule": list(EXIT_RULES), "threshold": list(EXIT_THRESHOLDS)}
        if several:
            coords["norm"] = list(self._options.norm)
        dataset = DECLARATION.dataset(data, coords, k=self._options.k, p=self._options.top_p)
        dataset.attrs["norm"] = ",".join(self._options.norm)
        return dataset


def _on_host(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Bring values to the host, those of one shape and type together: every copy is a wait for the device."""
    alike: dict[tuple[torch.dtype, torch.Size], list[str]] = {}
    for name, value in values.items():
        alike.setdefault((value.dtype, value.shape), []).append(name)
    host: dict[str, Tensor] = {}
    for names in alike.values():
        host |= zip(names, torch.stack([values[name] for name in names]).cpu())
    return {name: host[name] for name in values}
