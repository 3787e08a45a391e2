"""Where an answer ends: behind its last token, where the full model itself writes a token that ends a text.

Answers of files and chats stop before that token, so that their tokens alone do not tell whether a model without some
blocks still ends them. Where the full model ends an answer, the token that it writes there becomes the answer's last
one. Where it would go on, as models do that were never taught to stop there, the loss of an end says nothing.
"""

from collections.abc import Collection
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from bathyscope.model import Model
from bathyscope.model.writing import ends_of
from bathyscope.prompts.prompts import Prompts
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import Tree, TreeRun, without


def ended_answers(prompts: Prompts, ends: Collection[int]) -> NDArray[np.bool_]:
    """Return which prompts have an answer whose last token is one that ends a text, [prompts]."""
    return np.array([bool(prompt.answer_tokens) and prompt.ids[-1] in ends for prompt in prompts], dtype=bool)


def with_ends(model: Model, prompts: Prompts) -> Prompts:
    """Return the prompts with the token by which the full model ends their answers; others as they are.

    Answers that have one already, or fill the model's context, stay as they are.
    """
    ends, most = ends_of(model), model.max_tokens
    ended = ended_answers(prompts, ends)
    open_ones = [
        place
        for place, prompt in enumerate(prompts)
        if prompt.answer_tokens and not ended[place] and (most is None or len(prompt) < most)
    ]
    if not ends or not open_ones:
        return prompts
    items = list(prompts.items)
    for place, token in zip(open_ones, _next_tokens(model, prompts.some(open_ones))):
        if token in ends:
            prompt = items[place]
            answer_tokens = (prompt.answer_tokens or 0) + 1
            items[place] = replace(prompt, ids=(*prompt.ids, token), answer_tokens=answer_tokens)
    # what a run stores of these prompts does not hold the further tokens
    return replace(prompts, items=tuple(items), record=None)


def _next_tokens(model: Model, prompts: Prompts) -> list[int]:
    """Return the most probable token behind each prompt, by the model as it is."""
    wave = Wavefront(model.anatomy, tails=model.checks.tails)
    tokens = [0] * len(prompts)
    for places in plan_batches(prompts.lengths, 1, wave.policy.tokens, model.anatomy.equal_lengths):
        batch = Batch.of([prompts[place].ids for place in places], model.device)

        def land(_numbers: object, resid_BTD: Tensor, places: list[int] = places) -> None:
            last = [len(prompts[place]) - 1 for place in places]
            top1_B = wave.reader.top1(resid_BTD[list(range(len(places))), last])
            for place, token in zip(places, top1_B.tolist()):
                tokens[place] = token

        TreeRun(wave, batch).run(Tree([without(model.n_blocks, ())]), land)
    return tokens
