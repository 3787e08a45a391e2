"""Maps at cuts: folded as they would be applied, fitted as plain least squares fits them."""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy

import numpy as np
import pytest
import torch
from support import naive, waves, zoo
from support.zoo.pathologies import MASSIVE, WRITER
from torch import Tensor, nn

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.model import load
from bathyscope.schedule import Schedule
from bathyscope.surgery.repairing.cuts import Cut, cuts_of, fold, last_matrix, repaired_by_maps
from bathyscope.surgery.scheduled.copying import ScheduledCopy

IDS = torch.tensor(zoo.prompts(zoo.build("llama"), (60,) * 8, seed=3))


def copied(name: str, text: str) -> ScheduledCopy:
    model = waves.loaded(name)
    return ScheduledCopy(model.hf, Schedule.parse(text, model.n_blocks), model.anatomy.family)


def test_cuts_stand_where_blocks_are_missing() -> None:
    assert cuts_of(Schedule((1, 2, 5, 6), 8)) == [Cut(1, 5), Cut(3, 8)]
    assert cuts_of(Schedule((0,), 4)) == [Cut(0, 4)]
    with pytest.raises(OptionError, match="nothing to repair"):
        cuts_of(Schedule.standard(4))


@pytest.mark.parametrize("name", ["llama", "gpt2", "granite", "opt", "bloom", "gpt_neox"])
def test_a_folded_map_is_the_map_behind_the_matrix(name: str) -> None:
    copy = copied(name, "drop:2")
    with torch.no_grad():
        own = load(copy.hf)
        matrix = last_matrix(own.anatomy, 1)
        width = own.anatomy.width
        map_EE = torch.eye(width, dtype=torch.float64) + 0.1 * torch.randn(width, width, dtype=torch.float64)
        shift = 0.1 * torch.randn(width, dtype=torch.float64) if matrix.bias is not None else None
        before = matrix.weight
        hook = matrix.register_forward_hook(
            lambda _m, _a, y: y @ map_EE.float() + (0.0 if shift is None else shift.float())
        )
        wanted = copy.hf(IDS[:2], use_cache=False).logits
        hook.remove()
        fold(matrix, map_EE, shift)
        found = copy.hf(IDS[:2], use_cache=False).logits
    assert float((found - wanted).abs().max() / wanted.abs().max()) < 1e-5
    assert matrix.weight is not before
    assert 1 <= len(copy.changes()) <= 2


@pytest.mark.parametrize("name", ["olmo2", "mixtral", "mamba"])
def test_no_matrix_is_found_where_none_gives_what_is_added(name: str) -> None:
    with pytest.raises(ModelError, match="nothing can be folded into block 1"):
        last_matrix(waves.loaded(name).anatomy, 1)


def test_a_block_that_takes_the_keys_of_another_is_looked_at_with_them() -> None:
    """Gemma 4's last blocks; a norm follows their MLPs, so that they are refused as others of their kind are."""
    with pytest.raises(ModelError, match="nothing can be folded into block 4"):
        last_matrix(waves.loaded("gemma4").anatomy, 4)


def gaps(model_states: Tensor, copy: ScheduledCopy, slot: int) -> float:
    """Σ ‖h_b − stream behind the slot‖² / ‖h_b‖² over all tokens."""
    seen: list[Tensor] = []
    hook = copy.slots[slot].register_forward_hook(lambda _m, _a, out: seen.append(out))
    with torch.no_grad():
        copy.hf(IDS, use_cache=False)
    hook.remove()
    wanted, found = model_states.double(), seen[0].double()
    return float(((wanted - found).square().sum(-1) / wanted.square().sum(-1)).sum())


def plain_states(blocks: Sequence[nn.Module], hf: nn.Module, boundary: int, ids: Tensor = IDS) -> Tensor:
    seen: list[Tensor] = []
    hook = blocks[boundary - 1].register_forward_hook(lambda _m, _a, out: seen.append(out))
    with torch.no_grad():
        hf(ids, use_cache=False)
    hook.remove()
    return seen[0]


def test_a_map_brings_the_stream_nearer_than_a_number_and_a_number_nearer_than_nothing() -> None:
    model = waves.loaded("llama")
    wanted = plain_states(naive.blocks_of(model.hf), model.hf, 3)
    found = {}
    for rung in ("none", "scale", "linear"):
        copy = copied("llama", "drop:2")
        if rung != "none":
            repaired_by_maps(model, copy, load(copy.hf), [IDS.tolist()], [IDS[:1].tolist()], scalar=rung == "scale")
        found[rung] = gaps(wanted, copy, 1)
    assert found["linear"] < 0.9 * found["scale"]
    assert found["scale"] < found["none"]


def test_the_number_is_that_of_least_squares() -> None:
    model, copy = waves.loaded("llama"), copied("llama", "drop:2")
    added: list[Tensor] = []
    hook = copy.slots[1].mlp.register_forward_hook(lambda _m, _a, out: added.append(out))
    before = copy.slots[1].mlp.down_proj.weight.clone()
    stream = plain_states(list(copy.slots), copy.hf, 2)
    hook.remove()
    wanted = plain_states(naive.blocks_of(model.hf), model.hf, 3)
    x, y = ((value / wanted.norm(dim=-1, keepdim=True)).double().numpy() for value in (added[0], wanted - stream))
    (factor,), *_ = np.linalg.lstsq(x.reshape(-1, 1), y.ravel(), rcond=None)
    repaired_by_maps(model, copy, load(copy.hf), [IDS.tolist()], [IDS[:1].tolist()], scalar=True)
    torch.testing.assert_close(copy.slots[1].mlp.down_proj.weight.data, (1 + float(factor)) * before)


@pytest.mark.filterwarnings("error::RuntimeWarning")
@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_an_mlp_that_adds_nothing_is_multiplied_by_one(name: str) -> None:
    """As in a block that a model has grown by: no number makes anything of it, and none is 0 / 0."""
    copy = copied(name, "drop:2")
    matrix = last_matrix(load(copy.hf).anatomy, 1)
    # parameters of its own, as a folded map has: the copy shares those of the whole model
    for parameter, value in list(matrix.named_parameters()):
        setattr(matrix, parameter, nn.Parameter(torch.zeros_like(value), requires_grad=False))
    repaired_by_maps(waves.loaded(name), copy, load(copy.hf), [IDS.tolist()], [IDS.tolist()], scalar=True)
    assert not matrix.weight.any()
    assert copy.hf(IDS).logits.isfinite().all()


def test_a_copy_is_the_scheduled_model_and_takes_no_weights_of_its_own() -> None:
    model, copy = waves.loaded("gemma3"), copied("gemma3", "drop:1")
    with torch.no_grad(), bathyscope.scheduled(model, "drop:1") as hf:
        assert torch.equal(copy.hf(IDS, use_cache=False).logits, hf(IDS, use_cache=False).logits)
    lent = {value.data_ptr() for value in model.hf.state_dict().values()}
    assert {value.data_ptr() for value in copy.hf.state_dict().values()} <= lent
    assert copy.changes() == {}


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_the_map_is_that_of_least_squares_in_units_of_the_stream(name: str) -> None:
    """Against lstsq on weighted rows, with an intercept where the matrix has a bias; penalties are chosen on the same
    tokens, so that the map is the one without a penalty."""
    model, copy = waves.loaded(name), copied(name, "drop:2")
    added: list[Tensor] = []
    own = load(copy.hf)
    matrix = last_matrix(own.anatomy, 1)
    hook = matrix.register_forward_hook(lambda _m, _a, out: added.append(out))
    stream = plain_states(list(copy.slots), copy.hf, 2)
    hook.remove()
    wanted = plain_states(naive.blocks_of(model.hf), model.hf, 3)
    scale = 1 / wanted.flatten(0, 1).norm(dim=-1, keepdim=True).double().numpy()
    x, y = (value.flatten(0, 1).double().numpy() for value in (added[0], wanted - stream))
    x = x if matrix.bias is None else np.concatenate([x, np.ones_like(scale)], axis=1)
    weights, *_ = np.linalg.lstsq(x * scale, y * scale, rcond=None)
    expected = (added[0].flatten(0, 1).double().numpy() + x @ weights).reshape(wanted.shape)
    repaired_by_maps(model, copy, own, [IDS.tolist()], [IDS.tolist()], scalar=False)
    found: list[Tensor] = []
    hook = last_matrix(own.anatomy, 1).register_forward_hook(lambda _m, _a, out: found.append(out))
    with torch.no_grad():
        copy.hf(IDS, use_cache=False)
    hook.remove()
    np.testing.assert_allclose(found[0].double().numpy(), expected, atol=2e-4 * np.abs(expected).max())


def test_a_massive_activation_is_repaired_as_well_as_other_tokens() -> None:
    """The block before the cut writes a vector a hundred times as long as all others, at position 0 alone.

    What it writes in that channel at other tokens is small and tells nothing of the rest: a map that is fitted without
    position 0 multiplies chance by the massive value there.
    """
    hf = deepcopy(zoo.build("gpt2_sink"))
    projection = hf.transformer.h[WRITER].mlp.c_proj.weight
    with torch.no_grad():
        projection[1:, MASSIVE] = 0.02 * torch.randn(len(projection) - 1, generator=torch.Generator().manual_seed(1))
    model = load(hf)
    wanted = plain_states(naive.blocks_of(hf), hf, 3)
    relative = {}
    for rung in ("none", "linear"):
        copy = ScheduledCopy(hf, Schedule.parse("drop:2", model.n_blocks), model.anatomy.family)
        if rung == "linear":
            repaired_by_maps(model, copy, load(copy.hf), [IDS.tolist()], [IDS[:2].tolist()], scalar=False)
        found = plain_states(list(copy.slots), copy.hf, 2)
        relative[rung] = ((wanted - found).norm(dim=-1) / wanted.norm(dim=-1)).double().numpy()
    assert relative["linear"][:, 1:].mean() < 0.95 * relative["none"][:, 1:].mean()
    assert relative["linear"][:, 0].mean() < 0.1 * relative["linear"][:, 1:].mean()
