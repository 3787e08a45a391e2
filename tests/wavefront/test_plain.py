"""The plain forward: which contribution is which, and what is read only where it is asked for."""

from __future__ import annotations

import pytest
import torch
from support import naive, waves, zoo

from bathyscope.model.anatomy.calls import called
from bathyscope.wavefront.plain import PlainForward


@pytest.mark.parametrize("parts", [True, False])
def test_contributions_are_those_of_attention_and_mlp(parts: bool) -> None:
    model = waves.loaded("llama")
    ids = torch.tensor(zoo.prompts(model.hf, (12, 12)))
    plain = PlainForward(model.anatomy, model.anatomy.replay(ids), parts=parts, weights=False)
    given: dict[str, torch.Tensor] = {}
    with torch.no_grad():
        for index, block in enumerate(model.anatomy.blocks):
            modules = [("attention", block.self_attn), ("mlp", block.mlp)]
            before = plain.resid_BTD
            with called(modules, lambda call: given.update({call.path: call.value.clone()})):
                view = plain.advance(block, index)
            assert view.block == index
            assert view.before_BTD is before
            assert view.after_BTD is plain.resid_BTD
            assert view.weights is None
            if not parts:
                assert (view.attention_BTD, view.mlp_BTD) == (None, None)
                continue
            assert view.attention_BTD is not None
            assert torch.equal(view.attention_BTD, given["attention"])
            assert view.mlp_BTD is not None
            assert torch.equal(view.mlp_BTD, given["mlp"])
    expected = torch.stack([naive.boundaries(model.hf, naive.blocks_of(model.hf), own)[-1] for own in ids.tolist()])
    torch.testing.assert_close(plain.resid_BTD, expected, rtol=1e-5, atol=1e-5)
    plain.require_finite()
