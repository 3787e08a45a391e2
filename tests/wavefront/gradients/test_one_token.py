"""Rows that own one token each are the block itself at that token, with the others' keys and values held still."""

from __future__ import annotations

import pytest
import torch
from support import waves, zoo

from bathyscope.model.anatomy.cache import CaptureCache
from bathyscope.wavefront.gradients.differentiable import differentiating
from bathyscope.wavefront.gradients.one_token import OneTokenRows

NAMES = ["llama", "mistral", "gpt2", "bloom", "mpt", "falcon_alibi", "deepseek_v3", "gemma2", "opt", "diffllama"]


@pytest.mark.parametrize("name", NAMES)
def test_outputs_and_own_gradients_are_those_of_the_whole_prompt(name: str) -> None:
    anatomy = waves.loaded(name).anatomy
    (ids,) = zoo.prompts(zoo.build(name), (11,))
    replay, index = anatomy.replay(torch.tensor([ids])), 1
    block, arguments = anatomy.blocks[index], replay.recording.blocks[index]
    draw = torch.Generator().manual_seed(3)
    resid = torch.randn(1, 11, anatomy.width, generator=draw)
    weights = torch.randn(11, anatomy.width, generator=draw)
    with differentiating(anatomy.model):
        whole, captured = resid.clone().requires_grad_(), CaptureCache()
        out = replay.run(block, index, whole, None, cache=captured)
        wanted = [
            torch.autograd.grad((out[0, t] * weights[t]).sum(), whole, retain_graph=True)[0][0, t] for t in range(11)
        ]
        rows = OneTokenRows(arguments, captured, replay.attends(index, captured), 11)
        assert rows.is_possible
        for tokens in (range(11), range(4, 9)):
            leaf = resid[0, tokens.start : tokens.stop, None].clone().requires_grad_()
            own = rows.run(block, leaf, tokens, {})
            assert torch.allclose(own[:, 0], out[0, tokens.start : tokens.stop], atol=1e-5)
            (found,) = torch.autograd.grad((own[:, 0] * weights[tokens.start : tokens.stop]).sum(), leaf)
            assert torch.allclose(found[:, 0], torch.stack(wanted[tokens.start : tokens.stop]), atol=1e-5)
