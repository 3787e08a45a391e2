"""Depth score: where in the model the blocks stand that the prediction of an answer needs at earlier tokens.

Block s is skipped before token t. Its effect on later blocks, E[s,l] = ‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6), and on the
output, O[s] = ‖y − ȳ‖₂, is measured from t on where answer tokens are predicted. With e_s = Σ_l E[s,l] / max(L−1−s, 1)
(layer effect) or e_s = O[s] (output effect) the score is d = Σ_s s·e_s / Σ_s e_s, s counted from 0. If harder problems
made deeper use of the model, it would rise with difficulty; a test over prompts says whether it does.
Source: csordas2025, depth score.
"""

import random
from collections import Counter
from collections.abc import Sequence

import numpy as np
import xarray as xr

from bathyscope.errors import PromptError, warn
from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.depth_score_levels import check_label, level_results
from bathyscope.measures.effects import Cell, EffectMeasure, EffectProbe
from bathyscope.measures.of.depth_score import DECLARATION, DepthScoreOptions
from bathyscope.prompts.parts import clusters
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.crossing import centre_of_mass, layer_effect
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.probe import FinalStates, RowsView
from bathyscope.wavefront.rows import Request, SkipBefore

STEP, MARGIN, COUNT = 4, 4, 4
PROTECT_FIRST = 1


class DepthScore(EffectMeasure[DepthScoreOptions], declared=DECLARATION):
    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        options = self.options
        self.positions = answer_positions(prompts, options.positions, options.first_answer_token, seed)
        self._require_measurable(prompts)
        measured = [(p, starts) for p, starts in zip(prompts, self.positions) if starts]
        self._by = check_label(options.by, [p for p, _ in measured])
        if options.cluster is not None:
            clusters([p for p, _ in measured], options.cluster)
        tail_tokens = sum(len(p) - t for p, starts in measured for t in starts)
        self._tails = tail_tokens / sum(len(p) for p, _ in measured)

    def _require_measurable(self, prompts: Sequence[TokenizedPrompt]) -> None:
        reasons = Counter(
            _reason(p, self.options.positions) for p, starts in zip(prompts, self.positions) if not starts
        )
        listed = ", ".join(f"{count} {reason}" for reason, count in reasons.items())
        if reasons.total() == len(prompts):
            raise PromptError(
                f"depth_score measures the prediction of the answer, and none of the {len(prompts)} prompts can be "
                f"measured ({listed}). Give answer= with text=, or answer_tokens= with ids=, and a question of at "
                "least three tokens before it; for positions='every' answers of more than four tokens."
            )
        if reasons:
            warn(f"depth_score: {reasons.total()} of {len(prompts)} prompts are not measured ({listed}).")

    def measures_prompt(self, number: int) -> bool:
        return bool(self.positions[number])

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return facts.n_blocks * (1 + self._tails) / 2

    def cells(self, n_blocks: int) -> Sequence[Cell]:
        # the last block has no later block to change, and at later tokens no output
        return super().cells(n_blocks - 1)

    def before(self, cell: Cell, prompt: int, t: int) -> Request:
        return SkipBefore(cell[1], prompt, t, PROTECT_FIRST)

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return DepthScoreProbe(self, facts, batch, indices)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset:
        return level_results(merged, self._by, self.options, seed)


class DepthScoreProbe(EffectProbe):
    """Effects at the tokens that predict the answer, for one batch; prompts without such a token are not measured."""

    def __init__(self, measure: DepthScore, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> None:
        # the last token predicts nothing of the answer, and is measured only where a fault is repeated
        super().__init__(measure, facts, batch, indices, end=-1 if measure.options.first_answer_token else None)
        self._output = np.empty(0)

    def rows(self, view: RowsView) -> None:
        if view.prompt is not None:
            super().rows(view)

    def finish(self, final: FinalStates) -> None:
        self._output = self.output_later(final, control=True)[:, 0]

    def result(self) -> xr.Dataset:
        effect, output = self.effect("future")[:, 0], self._output
        layer = layer_effect(effect)
        data = {
            "effect": effect,
            "layer_effect": layer,
            "output_effect": output,
            "prompt_score_layer": centre_of_mass(layer),
            "prompt_score_output": centre_of_mass(output),
        }
        return self.dataset(DECLARATION, data)


def answer_positions(
    prompts: Sequence[TokenizedPrompt], positions: str, first_answer_token: bool, seed: int
) -> list[tuple[int, ...]]:
    """The tokens t of every prompt, in order; none where it has no answer, or no t with a token to skip before it.

    With a the index of the answer's first token and A its number of tokens, t = a − 1 + k, which predicts answer
    token k: k = 0, or k of 0, 4, 8, … below A − 4, shuffled by one generator that runs through all prompts, the
    first four. With ``first_answer_token`` False t is one more.
    """
    generator = random.Random(seed)
    shift = 1 if first_answer_token else 0
    positions_of_prompts: list[tuple[int, ...]] = []
    for prompt in prompts:
        answer = prompt.answer_tokens or 0
        first = len(prompt) - answer - shift
        offsets = range(0, answer - MARGIN, STEP) if positions == "every" else range(min(answer, 1))
        # tokens before PROTECT_FIRST are never skipped
        candidates = [first + k for k in offsets if first + k > PROTECT_FIRST]
        # One generator through all prompts, as published: which tokens a prompt gets depends on those before it.
        generator.shuffle(candidates)
        positions_of_prompts.append(tuple(candidates[:COUNT]))
    return positions_of_prompts


def _reason(prompt: TokenizedPrompt, positions: str) -> str:
    if prompt.answer_tokens is None:
        return "without an answer"
    if positions == "every" and prompt.answer_tokens <= MARGIN:
        return f"with an answer of at most {MARGIN} tokens"
    return "whose answer begins too early for any token to be skipped before it"
