"""Planted models compute what they were built to compute, checked against the same work done on symbols in Python."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from bathyscope_lab.models import UniversalTransformerForCausalLM
from torch import Tensor

import bathyscope
from studies.planted import (
    CONSTRUCTIONS,
    backup,
    busy,
    detour,
    either,
    idle,
    near_identity,
    prompts,
    relay,
    rescaling,
    rotated,
    unread,
    unused_copy,
)
from studies.planted.chain import next_symbol
from studies.planted.wiring import (
    ANSWER,
    NEIGHBOUR,
    ONE,
    SECOND,
    SYMBOLS,
    VOCABULARY,
    WIDTH,
    Planted,
    add_detectors,
    add_linear,
    blank_model,
    look_back,
)

CHAINS = {
    "identity": (idle.SEED, 5),
    "doubled_between": (idle.SEED, 5),
    "late": (idle.SEED, 3),
    "detour": (detour.SEED, 2),
    "near_identity": (near_identity.SEED, 5),
    "rescaling": (rescaling.SEED, 5),
    "unread": (unread.SEED, 5),
    "busy": (busy.SEED, 5),
    "rotated": (rotated.SEED, 4),
    "backup": (backup.SEED, 3),
    "unused_copy": (unused_copy.SEED, 3),
    "either": (either.SEED, 3),
}


@pytest.fixture(scope="module")
def ids_BT() -> Tensor:
    return torch.tensor([prompt.ids for prompt in prompts()])


def chained(ids: list[int], seed: int, steps: int) -> list[int]:
    """The symbols of a prompt's tokens after so many steps."""
    symbols = [token % SYMBOLS for token in ids]
    for step in range(steps):
        function = next_symbol(seed, step).tolist()
        before = [symbols[0], *symbols[:-1]]
        symbols = [function[x][y] for x, y in zip(symbols, before)]
    return symbols


@torch.no_grad()
def predicted(model: Planted, ids_BT: Tensor) -> list[list[int]]:
    """The symbol of the token that is predicted at every position."""
    return (model(input_ids=ids_BT).logits.argmax(-1) % SYMBOLS).tolist()


@torch.no_grad()
def boundaries(model: Planted, ids_BT: Tensor) -> Tensor:
    """h_0 … h_L, the last one before the final norm, [L+1, B, T, D]."""
    seen = [model.model.embed_tokens(ids_BT)]
    hooks = [block.register_forward_hook(lambda _m, _a, out: seen.append(out)) for block in model.model.layers]
    model(input_ids=ids_BT)
    for hook in hooks:
        hook.remove()
    return torch.stack(seen)


@pytest.mark.parametrize("name", CHAINS)
def test_a_chain_predicts_what_its_steps_give(name: str, ids_BT: Tensor) -> None:
    seed, steps = CHAINS[name]
    wanted = [chained(ids, seed, steps) for ids in ids_BT.tolist()]
    assert predicted(CONSTRUCTIONS[name].build(), ids_BT) == wanted


def test_a_relay_predicts_the_feature_of_the_token_before(ids_BT: Tensor) -> None:
    order = torch.randperm(SYMBOLS, generator=torch.Generator().manual_seed(relay.SEED)).tolist()
    found = predicted(CONSTRUCTIONS["relay"].build(), ids_BT)
    for ids, symbols in zip(ids_BT.tolist(), found):
        before = [ids[0], *ids[:-1]]
        assert [order[symbol] for symbol in symbols] == [token % SYMBOLS for token in before]


def test_one_block_run_again_and_again_reaches_the_fixed_point(ids_BT: Tensor) -> None:
    model = CONSTRUCTIONS["shared_weights"].build()
    assert isinstance(model, UniversalTransformerForCausalLM)
    assert (model.config.group_size, model.config.repeats, len(model.model.layers)) == (1, 12, 12)
    first = dict(model.model.layers[0].named_parameters())
    for step in model.model.layers[1:]:
        assert all(value is first[name] for name, value in step.named_parameters())
    resid_LBTD = boundaries(model, ids_BT)
    change_L = (resid_LBTD[1:] - resid_LBTD[:-1]).norm(dim=-1).mean((1, 2))
    shrinks = change_L[3:9] / change_L[2:8]
    assert ((shrinks > 0.38) & (shrinks < 0.5)).all()
    answer = resid_LBTD[-1][..., ANSWER].norm(dim=-1).mean()
    left_L = (resid_LBTD - resid_LBTD[-1]).norm(dim=-1).mean((1, 2)) / answer
    assert left_L[0] > 7
    assert 0.25 < left_L[4] < 0.45
    assert 0.7 < left_L[3] < 1.2


def left_out(name: str, *blocks: int) -> Planted:
    """A planted model without some blocks."""
    model = CONSTRUCTIONS[name].build()
    kept = [block for number, block in enumerate(model.model.layers) if number not in blocks]
    for number, block in enumerate(kept):
        block.self_attn.layer_idx = number
    model.model.layers, model.config.num_hidden_layers = torch.nn.ModuleList(kept), len(kept)
    return model


@torch.no_grad()
def test_either_of_two_blocks_can_be_spared_and_not_both(ids_BT: Tensor) -> None:
    whole = CONSTRUCTIONS["either"].build()(input_ids=ids_BT).logits.softmax(-1)

    def change(*blocks: int) -> float:
        return float((left_out("either", *blocks)(input_ids=ids_BT).logits.softmax(-1) - whole).norm(dim=-1).min())

    first, second = either.WRITERS
    for block in (first, second):
        found = left_out("either", block)(input_ids=ids_BT).logits.softmax(-1)
        torch.testing.assert_close(found, whole, atol=1e-5, rtol=0)
    assert change(first, second) > 0.2
    assert change(either.READER) > 0.2


@torch.no_grad()
def test_a_copy_of_the_answer_stands_where_nobody_reads_it(ids_BT: Tensor) -> None:
    """As a linear readout of the stream finds; and the prediction is the same without it."""
    model = CONSTRUCTIONS["unused_copy"].build()
    resid_LBTD = boundaries(model, ids_BT)
    answer = resid_LBTD[-1][..., ANSWER].argmax(-1)
    found = [bool((resid_BTD[..., SECOND].argmax(-1) == answer).all()) for resid_BTD in resid_LBTD]
    assert found == [False] * 3 + [True] * 10
    with_none = left_out("unused_copy", *unused_copy.COPY)
    # the copies differ in their symbols, not in their size, and only that is left of them at the readout
    torch.testing.assert_close(with_none(input_ids=ids_BT).logits, model(input_ids=ids_BT).logits, atol=1e-4, rtol=0)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_a_model_is_the_same_at_every_build_and_leaves_the_generator_alone(name: str) -> None:
    before = torch.random.get_rng_state()
    once, again = (CONSTRUCTIONS[name].build().state_dict() for _ in range(2))
    assert all(torch.equal(once[key], again[key]) for key in once)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("name", CONSTRUCTIONS)
def test_the_truth_fits_the_model(name: str) -> None:
    truth = CONSTRUCTIONS[name].truth
    assert truth.n_blocks == len(CONSTRUCTIONS[name].build().model.layers)
    assert truth.needed <= set(range(truth.n_blocks))
    assert truth.uses_across <= truth.uses
    assert truth.direct_uses <= truth.uses
    assert all(0 <= s < block < truth.n_blocks for s, block in truth.uses)
    assert 0 < truth.depth <= truth.n_blocks


def test_a_saved_model_loads_by_its_folder(tmp_path: Path, ids_BT: Tensor) -> None:
    model = CONSTRUCTIONS["identity"].build()
    model.save_pretrained(tmp_path)
    loaded = bathyscope.load(tmp_path)
    assert loaded.checks.parts
    assert loaded.checks.tails
    with torch.no_grad():
        assert torch.equal(loaded.hf(input_ids=ids_BT).logits, model(input_ids=ids_BT).logits)


def test_blank_blocks_add_exactly_nothing(ids_BT: Tensor) -> None:
    resid_LBTD = boundaries(blank_model(3, seed=0), ids_BT)
    assert (resid_LBTD == resid_LBTD[0]).all()
    # a symbol of size 1 beside ONE
    assert (resid_LBTD[0].square().sum(-1) == 2).all()


def test_attention_fetches_the_register_of_the_token_before_and_no_other(ids_BT: Tensor) -> None:
    model = blank_model(1, seed=0)
    look_back(model, 0, ANSWER, NEIGHBOUR)
    before, after = boundaries(model, ids_BT)
    assert torch.equal(after[..., ANSWER], before[..., ANSWER])
    torch.testing.assert_close(after[:, 1:, NEIGHBOUR], before[:, :-1, ANSWER], atol=1e-6, rtol=0)
    torch.testing.assert_close(after[:, 0, NEIGHBOUR], before[:, 0, ANSWER], atol=1e-6, rtol=0)


def test_a_step_of_the_universal_transformer_is_a_llama_block(ids_BT: Tensor) -> None:
    shared = CONSTRUCTIONS["shared_weights"].build()
    plain = blank_model(12, seed=0)
    plain.load_state_dict(shared.state_dict())
    torch.testing.assert_close(boundaries(plain, ids_BT), boundaries(shared, ids_BT), atol=1e-5, rtol=1e-5)


def _detector(symbol: int) -> tuple[Tensor, Tensor]:
    detect_ND, write_ND = torch.zeros(2, 1, WIDTH)
    detect_ND[0, symbol], detect_ND[0, ONE], write_ND[0, NEIGHBOUR.start] = 1.0, -0.5, 7.0
    return detect_ND, write_ND


def test_detectors_write_where_they_are_on_and_exactly_nothing_elsewhere() -> None:
    model = blank_model(1, seed=0)
    add_detectors(model, 0, *_detector(symbol=5))
    every_token = torch.arange(VOCABULARY)[None]
    before, after = boundaries(model, every_token)
    written = (after - before)[0]
    carries = torch.arange(VOCABULARY) % SYMBOLS == 5
    assert (written[~carries] == 0).all()
    torch.testing.assert_close(written[carries, NEIGHBOUR.start], torch.full((4,), 7.0), atol=1e-5, rtol=0)
    assert (written[:, : NEIGHBOUR.start] == 0).all()


def test_linear_neurons_add_a_matrix_product(ids_BT: Tensor) -> None:
    model = blank_model(1, seed=0)
    matrix_DD = torch.randn(WIDTH, WIDTH, generator=torch.Generator().manual_seed(1))
    add_linear(model, 0, matrix_DD)
    before, after = boundaries(model, ids_BT)
    torch.testing.assert_close(after - before, before @ matrix_DD.T, atol=1e-4, rtol=0)


def test_no_step_leaves_its_symbol_and_no_symbol_comes_twice_in_five_steps(
    ids_BT: Tensor, builds: Callable[[int], list[list[int]]]
) -> None:
    for number in range(len(ids_BT)):
        for visited in builds(number):
            assert len(set(visited)) == len(visited)


@pytest.fixture
def builds(ids_BT: Tensor) -> Callable[[int], list[list[int]]]:
    """Per token of a prompt the symbols it goes through in five steps."""

    def visited(number: int) -> list[list[int]]:
        ids = ids_BT[number].tolist()
        return [list(path) for path in zip(*(chained(ids, idle.SEED, steps) for steps in range(6)))]

    return visited
