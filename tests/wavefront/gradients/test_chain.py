"""A chain is the model itself from any boundary on, and counts the memory that autograd keeps."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from support import naive, naive_gradients, waves, zoo
from torch import nn

from bathyscope.wavefront.gradients.chain import AnswerChain, saved_bytes
from bathyscope.wavefront.gradients.differentiable import differentiating

NAMES = ["llama", "gpt2", "gemma4", "falcon_h1", "llama_dynamic", "llama_longrope", "granite"]
ANSWER = 3


def chain(name: str, ids: list[int]) -> AnswerChain:
    anatomy = waves.loaded(name).anatomy
    with differentiating(anatomy.model):
        return AnswerChain(anatomy, anatomy.blocks, torch.tensor(ids), ANSWER)


@pytest.mark.parametrize("name", NAMES)
def test_rows_of_the_clean_stream_give_the_models_probability_from_every_boundary(name: str) -> None:
    model = zoo.build(name)
    (ids,) = zoo.prompts(model, (9,))
    made = chain(name, ids)
    expected = float(naive_gradients.probability(model, ids, ANSWER).detach())
    assert made.probability == pytest.approx(expected, rel=1e-5)
    with torch.no_grad():
        for boundary, h in enumerate(naive.boundaries(model, naive.blocks_of(model), ids)):
            rows = h[None, : made.tokens].repeat(3, 1, 1)
            assert made.predict(rows, boundary).tolist() == pytest.approx([expected] * 3, rel=1e-5)


def test_tokens_that_no_prediction_of_the_answer_sees_are_left_out() -> None:
    assert chain("llama", [5, 6, 7, 8, 9]).tokens == 4
    # rotary tables that depend on the length stay those of the whole prompt
    assert chain("llama_dynamic", [5, 6, 7, 8, 9]).tokens == 5


def test_a_single_token_is_never_run_alone() -> None:
    """Families take one token for a step of generation."""
    model, anatomy = zoo.build("llama"), waves.loaded("llama").anatomy
    made = AnswerChain(anatomy, anatomy.blocks, torch.tensor([5, 6]), 1)
    assert made.tokens == 2
    assert made.probability == pytest.approx(float(naive_gradients.probability(model, [5, 6], 1).detach()), rel=1e-5)


def test_memory_of_a_row_shrinks_with_the_blocks_that_are_left() -> None:
    sizes = chain("llama", [5, 6, 7, 8, 9]).row_bytes
    blocks = [before - after for before, after in pairwise(sizes)]
    assert len(sizes) == 6
    # what attention and MLP multiply: at least queries, keys, values, gate and up of four tokens
    assert min(blocks) > 4 * 4 * (64 + 2 * 32 + 2 * 96)
    assert max(blocks) < 2 * min(blocks)
    assert sizes[-1] >= ANSWER * 120 * 4


def test_each_storage_counts_once_and_weights_not_at_all() -> None:
    linear = nn.Linear(8, 8, bias=False).requires_grad_(False)
    leaf = torch.randn(5, 8, requires_grad=True)
    with saved_bytes(linear) as since:
        grown = linear(leaf).exp()  # keeps its result
        assert since() == 5 * 8 * 4
        product = grown * grown  # keeps the same storage again
        assert since() == 0
        product.sigmoid().sum()
        assert since() == 5 * 8 * 4


def test_nothing_is_counted_afterwards() -> None:
    with saved_bytes(nn.Identity()) as since:
        assert since() == 0
    torch.randn(3, requires_grad=True).exp()
    assert since() == 0
