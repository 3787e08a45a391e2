"""Replacing a contribution inside its block, and where it may be moved in the residual stream instead."""

from __future__ import annotations

import pytest
import torch
from support import waves, zoo
from torch import Tensor

from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.replay import Replay, State
from bathyscope.model.anatomy.sites import replaced, tapped
from bathyscope.wavefront.gradients.integrate import enters_linearly

NAMES = [entry.name for entry in zoo.entries() if entry.parts]
PARTS = ("attention", "mlp")


def visit(anatomy: Anatomy, name: str) -> tuple[Replay, list[Tensor], list[dict[str, Tensor]], list[State]]:
    """One short prompt: its replay, boundaries, contributions and what blocks pass on before each."""
    replay = anatomy.replay(torch.tensor(zoo.prompts(zoo.build(name), (6,))))
    stream, parts, states, state = [replay.recording.resid0_BTD], [], [], State()
    for index, block in enumerate(anatomy.blocks):
        states.append(dict(state))
        with tapped(block, anatomy.sites) as taken:
            stream.append(replay.run(block, index, stream[-1], None, state=state))
        parts.append(taken)
    return replay, stream, parts, states


def close(found: Tensor, wanted: Tensor) -> bool:
    return bool((found - wanted).abs().max() <= 1e-5 * wanted.abs().max())


@torch.no_grad()
@pytest.mark.parametrize("name", zoo.swept(NAMES))
def test_contributions_are_replaced_exactly(name: str) -> None:
    """Its own contribution changes nothing; another one is what is then added, wherever it enters linearly."""
    anatomy = waves.loaded(name).anatomy
    replay, stream, parts, states = visit(anatomy, name)
    for index, block in enumerate(anatomy.blocks):
        for part in PARTS:
            own = parts[index][part].reshape(stream[0].shape)
            other = own.flip(1) * 0.5
            found = []
            for added in (own, other):
                with replaced(block, anatomy.sites, {part: added}), tapped(block, anatomy.sites) as taken:
                    found.append(replay.run(block, index, stream[index], None, state=dict(states[index])))
                assert close(taken[part].reshape(own.shape), added)
            assert close(found[0], stream[index + 1])
            moved = stream[index + 1] + anatomy.block_scale(block) * (other - own)
            if enters_linearly(anatomy, part):
                assert close(found[1], moved)
            elif part == "attention":
                assert not close(found[1], moved)


def test_gradients_reach_what_was_put_in() -> None:
    anatomy = waves.loaded("bloom").anatomy
    replay, stream, parts, _ = visit(anatomy, "bloom")
    leaf = parts[1]["attention"].detach().requires_grad_()
    with replaced(anatomy.blocks[1], anatomy.sites, {"attention": leaf}):
        out = replay.run(anatomy.blocks[1], 1, stream[1].detach(), None)
    (found,) = torch.autograd.grad(out[0, 3].sum(), leaf)
    assert (found[0, 3] != 0).any()
    assert (found[0, [0, 1, 2, 4, 5]] == 0).all()


def test_hooks_are_gone_after_an_exception() -> None:
    anatomy = waves.loaded("llama").anatomy
    before = [dict(module._forward_hooks) for module in anatomy.blocks[0].modules()]
    with pytest.raises(KeyError), replaced(anatomy.blocks[0], anatomy.sites, {"mlp": torch.zeros(1, 2, 64)}):
        raise KeyError
    assert [dict(module._forward_hooks) for module in anatomy.blocks[0].modules()] == before
