"""Looped models: every run of a block is a step, measured as the model's own forward, patched by hand, says."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import looped as zoo
from support import waves
from support.unrolled import unrolled
from torch import Tensor, nn
from transformers import PreTrainedModel

from bathyscope.core.cycles import Cycle
from bathyscope.errors import ModelError
from bathyscope.measures.registry import MEASURES
from bathyscope.model import Model
from bathyscope.model.anatomy.family import Family
from bathyscope.model.anatomy.mode import SeededDraws, evaluating
from bathyscope.model.loading import load, loaded

NAMES = list(zoo.LOOPED)
IDS = torch.randint(4, zoo.VOCABULARY, (4, 12), generator=torch.Generator().manual_seed(0)).tolist()
LOOP = (0, 1, 0, 1, 0, 1)
BLOCKS = {
    **dict.fromkeys(("tied", "ouro", "nanbeige", "coordinates"), LOOP),
    "recursion": (*LOOP, 0, 1),
    "huginn_still": (0, 1, 2, 1, 2, 1, 2, 3),
    "hrm_text": (0, 1, 0, 1, 2, 3) * 2,
}
"""By step the block that it runs, as the look-alikes are written."""
LACKING = {"swap_cosine"}
"""Measures of attention and MLP, which states with more than the stream lack."""
UNASKED = {"translated_lens", "jacobian_lens"}
"""Measures that need more prompts, or prompts of their own; they read the same streams as others."""


@lru_cache
def model_of(name: str) -> Model:
    """A checked model of the look-alikes; its weights are those of every other call."""
    return load(zoo.LOOPED[name]())


def own_blocks(hf: Any) -> list[nn.Module]:
    """The blocks of a look-alike, in the order in which they are first called."""
    if hasattr(hf, "model"):
        return [*hf.model.L_module.layers, *hf.model.H_module.layers]
    return [*getattr(hf, "prelude", []), *hf.layers, *getattr(hf, "coda", [])]


@contextmanager
def handing_on(hf: PreTrainedModel, steps: Collection[int], tokens: slice = slice(None)) -> Iterator[list[Tensor]]:
    """While open, calls of these numbers give what the call before gave, at ``tokens``; collects what each gives.

    The first call gives its input.
    """
    outputs: list[Tensor] = []
    hooks = []

    def after(module: nn.Module, args: tuple[Any, ...], output: Tensor) -> Tensor:
        value = output.clone()
        if len(outputs) in steps:
            before = outputs[-1] if outputs else args[0]
            value[:, tokens] = before[:, tokens]
        outputs.append(value)
        return value

    for block in own_blocks(hf):
        hooks.append(block.register_forward_hook(after))
    try:
        yield outputs
    finally:
        for hook in hooks:
            hook.remove()


@torch.no_grad()
def logits_without(
    hf: PreTrainedModel, ids: list[int], steps: Collection[int], tokens: slice = slice(None)
) -> tuple[Tensor, list[Tensor]]:
    """Logits [T, V] of the own forward, patched, and what every call gave."""
    with handing_on(hf, steps, tokens) as outputs:
        return hf(input_ids=torch.tensor([ids]), use_cache=False).logits[0], outputs


def mean_loss(logits: Tensor, ids: list[int]) -> float:
    """Mean cross-entropy of the next token."""
    return float(nn.functional.cross_entropy(logits[:-1].double(), torch.tensor(ids[1:])))


@pytest.mark.parametrize("name", NAMES)
def test_replay_is_equal_to_the_bit_and_steps_name_their_blocks(name: str) -> None:
    model = model_of(name)
    assert model.checks.no_op == 0.0
    assert model.checks.tails, model.checks.tail_reason
    loops = model.anatomy.loops
    assert loops is not None
    assert loops.block == BLOCKS[name]
    assert model.anatomy.cycle == Cycle(BLOCKS[name])
    assert model.anatomy.sources == tuple(own_blocks(model.hf))


@pytest.mark.parametrize("name", NAMES)
def test_streams_and_lens_are_those_of_the_own_forward(name: str) -> None:
    model = model_of(name)
    plain, outputs = logits_without(model.hf, IDS[0], ())
    replay = model.anatomy.replay(torch.tensor(IDS[:1]))
    state = replay.recording.resid0_BTD
    with torch.no_grad():
        for step, block in enumerate(model.anatomy.blocks):
            state = replay.run(block, step, state)
            assert torch.equal(model.anatomy.active(state), outputs[step])
        assert torch.equal(model.anatomy.readout(state)[0], plain)


@pytest.mark.parametrize("name", NAMES)
def test_drop_of_every_step_hands_on_what_the_step_before_gave(name: str) -> None:
    model = model_of(name)
    drop = waves.run(model, IDS, {"drop": {}})["drop"]
    for prompt, ids in enumerate(IDS):
        expected = [mean_loss(logits_without(model.hf, ids, [step])[0], ids) for step in range(model.n_blocks)]
        np.testing.assert_allclose(drop.loss.values[prompt], expected, atol=1e-5)


@pytest.mark.parametrize("name", ["ouro", "recursion", "huginn_still", "hrm_text"])
def test_skip_before_a_token_hands_on_at_those_tokens(name: str) -> None:
    model, last = model_of(name), len(IDS[0])
    skip = waves.run(model, IDS[:1], {"skip": {"positions": [[5]], "parts": ["block"]}})["skip"]
    plain = logits_without(model.hf, IDS[0], ())[0].double().softmax(-1)
    for step in range(model.n_blocks):
        for variable, tokens, seen in (("output_all", slice(1, last), 0), ("output_future", slice(1, 5), 5)):
            logits = logits_without(model.hf, IDS[0], [step], tokens)[0]
            change = (logits.double().softmax(-1) - plain).norm(dim=-1)[seen:].max()
            values = skip[variable].sel(skipped=step, part="block", prompt=0) if variable in skip else None
            assert values is not None, list(skip)
            assert abs(float(np.asarray(values).max()) - float(change)) < 1e-5


def compared(name: str, measures: Collection[str]) -> dict[str, tuple[xr.Dataset, xr.Dataset]]:
    """Results of a loop and of its unrolled copy, by measure."""
    hf = zoo.LOOPED[name]()
    written_out, family = unrolled(name, hf)
    options = dict.fromkeys(measures)
    models = (load(hf), load(written_out, family=family))
    tails = all(model.checks.tails for model in models)
    first, second = (waves.run(model, IDS, options, answers=[2] * len(IDS), tails=tails) for model in models)
    assert measures
    return {measure: (first[measure], second[measure]) for measure in measures}


def require_close(loop: xr.Dataset, copy: xr.Dataset) -> None:
    """Compare every variable to 1e-5, apart from those of loops, which a copy with modules of its own need not have."""

    def is_of_loops(variable: object) -> bool:
        return variable == "fixed_point" or str(variable).endswith("_all_loops")

    variables = [variable for variable in loop.data_vars if not is_of_loops(variable)]
    assert variables
    assert set(variables) == {variable for variable in copy.data_vars if not is_of_loops(variable)}
    for variable in variables:
        value, expected = loop[variable].values, copy[variable].values
        if value.dtype.kind == "f":
            np.testing.assert_allclose(value, expected, atol=1e-5, rtol=1e-5, err_msg=str(variable))
        else:
            np.testing.assert_array_equal(value, expected, err_msg=str(variable))


THOROUGH = [pytest.param(name, marks=pytest.mark.thorough) for name in ("coordinates", "huginn_still")]


@pytest.mark.parametrize("name", ["tied", "ouro", *THOROUGH])
def test_every_measure_equals_that_of_the_unrolled_copy(name: str) -> None:
    lacking = LACKING if name == "huginn_still" else set()
    needing_more = {"patching", "effective_depth", "stages", "neurons"} | UNASKED
    measures = [measure for measure in MEASURES if measure not in lacking | needing_more]
    pairs = compared(name, measures)
    assert len(pairs) == len(measures) >= 14
    for loop, copy in pairs.values():
        require_close(loop, copy)


def test_a_state_with_more_than_the_stream_is_measured_as_the_folded_copy() -> None:
    measures = ["residual", "lens", "drop", "swap", "repeat", "gradient"]
    pairs = compared("huginn_still", measures)
    assert list(pairs) == measures
    for loop, copy in pairs.values():
        require_close(loop, copy)


def test_nothing_between_loops_gives_equal_bits() -> None:
    measures = ["residual", "lens", "skip", "drop", "swap"]
    pairs = compared("tied", measures)
    assert list(pairs) == measures
    for loop, copy in pairs.values():
        assert loop.data_vars
        xr.testing.assert_identical(loop, copy)


def test_contributions_count_what_stands_between_loops() -> None:
    assert model_of("ouro").checks.parts
    assert set(model_of("ouro").anatomy.sites) == {"attention", "mlp", "other0"}
    assert max(model_of("ouro").checks.contributions) < 1e-5
    assert set(model_of("tied").anatomy.sites) == {"attention", "mlp"}


def test_parts_are_refused_where_a_state_holds_more_than_the_stream() -> None:
    reason = (
        "needs attention and MLP contributions, and states of this hrm_text model hold the stream and what 2 earlier "
        "steps gave, to which no part adds. Measures of whole blocks are allowed."
    )
    requests = {
        "swap_cosine": ("swap_cosine", {}),
        "skip of attention or mlp": ("skip", {"parts": ["mlp"]}),
    }
    for subject, (measure, options) in requests.items():
        with pytest.raises(ModelError) as caught:
            waves.run(model_of("hrm_text"), IDS, {measure: options})
        assert str(caught.value) == f"{subject} {reason}"


def test_a_dropped_block_differs_from_a_dropped_step_by_what_stands_before_it() -> None:
    """The norm in front of Ouro's second loop runs where the block's call alone is left out."""
    model = model_of("ouro")
    with torch.no_grad():
        alone = model.hf.layers[0].register_forward_hook(_second_call_alone())
        try:
            without_call = model.hf(input_ids=torch.tensor(IDS[:1])).logits[0]
        finally:
            alone.remove()
    without_step = logits_without(model.hf, IDS[0], [2])[0]
    assert (without_call - without_step).abs().max() > 1e-2
    drop = waves.run(model, IDS[:1], {"drop": {}})["drop"]
    assert abs(float(drop.loss[0, 2]) - mean_loss(without_step, IDS[0])) < 1e-5


def _second_call_alone() -> Any:
    calls = iter(range(10))
    return lambda module, args, output: args[0] if next(calls) == 1 else None


def test_steps_share_weights_and_follow_what_replaces_them() -> None:
    hf = zoo.make(zoo.Looped)
    model = load(hf)
    first, third = model.anatomy.blocks[0], model.anatomy.blocks[2]
    assert first is not third
    assert first.mlp.up_proj.weight is third.mlp.up_proj.weight is hf.layers[0].mlp.up_proj.weight
    hf.layers[0].mlp.up_proj.weight = nn.Parameter(torch.zeros_like(first.mlp.up_proj.weight))
    assert third.mlp.up_proj.weight is hf.layers[0].mlp.up_proj.weight
    with pytest.warns(UserWarning, match="weights or constants of Looped have changed"):
        again = loaded(model)
    assert again.n_blocks == 6


def test_a_loaded_loop_is_unchanged() -> None:
    hf = zoo.make(zoo.Looped)
    names = [name for name, _ in hf.named_modules()]
    model = load(hf)
    assert [name for name, _ in hf.named_modules()] == names
    assert "forward" not in hf.layers[0].__dict__
    assert loaded(model) is model


def test_one_module_at_several_places_of_a_list_is_one_block_that_runs_several_times() -> None:
    hf = zoo.make(zoo.Looped, loops=1)
    hf.layers = nn.ModuleList([hf.layers[0], hf.layers[1], hf.layers[0]])
    model = load(hf)
    assert model.anatomy.loops is not None
    assert model.anatomy.loops.block == (0, 1, 0)
    assert model.checks.no_op == 0.0


KIND = "looped_test (found by search)"
REFUSED = {
    zoo.HaltingLoop: (
        f"{KIND} (HaltingLoop) loops, and calls its blocks 6 times for one input and 4 times for another: its prompts "
        "have no common depth. Set it to run all loops."
    ),
    zoo.ChoosingRecursion: (
        f"{KIND} (ChoosingRecursion) cannot be measured: step 2 takes a stream of shape (32, 4, 32) and step 0 one of "
        "(32, 8, 32). All runs of its blocks must take all tokens in one width."
    ),
    zoo.MaskedTurns: (
        f"{KIND} (MaskedTurns) cannot be measured: what step 2 is given as active is computed from the stream, such as "
        "a gate that ends some tokens early. Set it to run all tokens through all loops."
    ),
    zoo.HuginnLike: (
        f"{KIND} (HuginnLike) cannot be measured: its own forward draws random numbers before step 1. Name the method "
        "that draws, load(model, family=Family(..., initial_state='NAME')), and set config.state_seed."
    ),
    zoo.ConvergingLoop: (
        f"{KIND} (ConvergingLoop) cannot be measured: it ends its loops early, by what the stream holds, so that its "
        "prompts have no common depth. Set it to run all loops."
    ),
    zoo.HaltingGate: (
        f"{KIND} (HaltingGate) cannot be measured: it ends its loops early, by what the stream holds, so that its "
        "prompts have no common depth. Set it to run all loops."
    ),
    zoo.DroppedRows: (
        f"{KIND} (DroppedRows) loops, and calls its blocks 8 times for one input and 4 times for another: its prompts "
        "have no common depth. Set it to run all loops."
    ),
    zoo.AveragedLoops: (
        f"{KIND} (AveragedLoops) cannot be measured: its logits depend on what steps before the last one gave, so that "
        "no stream alone is read out. Set it to read out its last loop."
    ),
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_what_has_no_common_depth_is_refused_with_its_reason(kind: type[zoo.Looped]) -> None:
    with pytest.raises(ModelError) as caught:
        load(zoo.make(kind))
    assert str(caught.value) == REFUSED[kind]


def test_tokens_that_a_gate_ends_early_are_measured_as_the_own_forward() -> None:
    """They keep their stream, so that later steps need what earlier ones gave; every token has every step."""
    model = load(zoo.make(zoo.EndedTokens))
    assert model.anatomy.loops is not None
    assert model.anatomy.loops.slots
    outputs = torch.stack(logits_without(model.hf, IDS[0], ())[1])
    ended = outputs @ model.hf.router.weight.T < 0
    assert 0 < ended.float().mean() < 1
    drop = waves.run(model, IDS, {"drop": {}})["drop"]
    for prompt, ids in enumerate(IDS):
        expected = [mean_loss(logits_without(model.hf, ids, [step])[0], ids) for step in range(model.n_blocks)]
        np.testing.assert_allclose(drop.loss.values[prompt], expected, atol=1e-5)


def test_prompts_that_a_gate_ends_early_are_measured_as_the_own_forward() -> None:
    model = load(zoo.make(zoo.EndedRows, seed=2))
    assert model.anatomy.loops is not None
    assert model.anatomy.loops.slots == (1, 3)
    prompts = [[first, *IDS[0][1:6]] for first in range(4, 12)]
    ended = [bool(model.hf.router(model.hf.embed(torch.tensor(ids[0]))) < 0) for ids in prompts]
    assert len(set(ended)) == 2
    drop = waves.run(model, prompts, {"drop": {}})["drop"]
    for prompt, ids in enumerate(prompts):
        expected = [mean_loss(logits_without(model.hf, ids, [step])[0], ids) for step in range(model.n_blocks)]
        np.testing.assert_allclose(drop.loss.values[prompt], expected, atol=1e-5)


def test_a_gate_that_no_check_at_load_has_met_refuses_the_prompts_that_open_it() -> None:
    hf = zoo.make(zoo.EndedRows, vocab_size=4000)
    with torch.no_grad():
        scores = (hf.embed.weight @ hf.router.weight.T)[:, 0]
        # of all tokens one alone opens it
        hf.router.bias.fill_(-scores.topk(2).values.mean())
    model, opening = load(hf), int(scores.argmax())
    other = [token for token in range(4, 10) if token != opening]
    assert waves.run(model, [other], {"drop": {}})["drop"].loss.notnull().all()
    with pytest.raises(
        ModelError, match=r"EndedRows cannot be measured on these prompts: behind its last step the rep"
    ):
        waves.run(model, [other, [opening, *other]], {"lens": {}})


def test_gradients_that_the_own_forward_cuts_are_refused_with_how_to_keep_them() -> None:
    model = load(zoo.hrm(L_bp_cycles=[1, 1]))
    message = (
        "gradient needs gradients, and the own forward of this hrm_text model switches them off in front of step 2, as "
        "loops are trained. Set it to keep all of them (hrm_text: L_bp_cycles=[L_cycles] * H_cycles), and load it "
        "again."
    )
    with pytest.raises(ModelError) as caught:
        waves.run(model, IDS, {"gradient": {}})
    assert str(caught.value) == message


def test_a_loop_that_needs_too_many_earlier_steps_is_refused() -> None:
    with pytest.raises(ModelError, match="later steps need what 8 earlier ones gave, and 7 are allowed"):
        load(zoo.make(zoo.WeightedRecursion, loops=9))


HUGINN = Family(
    "huginn_test",
    ("looped_test",),
    blocks="prelude + layers + coda",
    final_norm="norm",
    loops="loops",
    initial_state="initialize_state",
)


def test_a_seeded_initial_state_is_the_same_for_every_prompt_alone_and_in_a_batch() -> None:
    hf = zoo.make(zoo.HuginnLike)
    with pytest.raises(ModelError, match="draws random numbers before step 1"):
        load(hf, family=HUGINN)
    hf.config.state_seed = 3
    model = load(hf, family=HUGINN)
    assert model.checks.no_op == 0.0
    assert model.checks.padding < 1e-5
    assert "initialize_state" not in hf.__dict__
    drop = waves.run(model, IDS, {"drop": {}})["drop"]
    with evaluating(hf):
        for prompt, ids in enumerate(IDS):
            expected = [mean_loss(logits_without(hf, ids, [step])[0], ids) for step in range(model.n_blocks)]
            np.testing.assert_allclose(drop.loss.values[prompt], expected, atol=1e-5)
    before = model.settings_hash
    hf.config.state_seed = 4
    other = load(hf, family=HUGINN)
    assert other.settings_hash != before
    assert abs(waves.run(other, IDS, {"drop": {}})["drop"].loss - drop.loss).max() > 1e-3


def test_draws_depend_on_neither_batch_nor_length() -> None:
    draws = SeededDraws(torch.randn_like, 5)
    long, short = draws(torch.zeros(2, 7, 3)), SeededDraws(torch.randn_like, 5)(torch.zeros(1, 4, 3))
    assert torch.equal(long[0], long[1])
    assert torch.equal(long[:1, :4], short)
    assert not torch.equal(long[0, 0], long[0, 1])
