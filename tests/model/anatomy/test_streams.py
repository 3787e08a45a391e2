"""Models with several residual streams: against forwards of the untouched model, and the limit of one stream."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import naive, several, waves, zoo
from support.brute_force import blocks_of, compare
from support.loaded_facts import from_disk
from support.rounding import assert_same_bits, assert_same_but_rounding
from support.zoo import causal
from transformers.models.reformer.modeling_reformer import ReformerOutput

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.model.anatomy.forms import AlongTokens, EarlierStreams, PairedStreams, StreamAxis, TokensFirst
from bathyscope.model.anatomy.gaps import gap, tolerance

IDS = [[5, 9, 1, 33, 2, 17, 4, 40, 3], [8, 2, 51, 7, 7, 30]]
OF_THE_LIBRARY = {
    "deepseek_v4": (2, StreamAxis(2, 2)),
    "gemma3n": (2, StreamAxis(2, 0)),
    "hy_v4": (2, StreamAxis(2, 2)),
    "inkling2": (4, EarlierStreams("block_states", (0, 2, 4))),
    "reformer": (
        2,
        PairedStreams(
            ("prev_attn_output", "hidden_states"),
            ("attn_output", "hidden_states"),
            ReformerOutput,
            chunk=4,
            tokens="orig_sequence_length",
        ),
    ),
    "xlnet": (1, TokensFirst()),
}
SEVERAL = [name for name, (count, _) in OF_THE_LIBRARY.items() if count > 1]
CLOSE = 1e-5


@pytest.mark.parametrize("name", OF_THE_LIBRARY)
def test_streams_of_the_library_are_recognised_and_replayed_to_the_bit(name: str) -> None:
    model = waves.loaded(name)
    count, form = OF_THE_LIBRARY[name]
    assert model.checks.no_op == 0.0
    assert model.anatomy.n_streams == count
    assert model.anatomy.width == count * int(zoo.entry(name).config().hidden_size)
    assert model.anatomy.streams is not None
    assert model.anatomy.streams.form == form
    assert not model.checks.parts


@pytest.mark.parametrize("name", zoo.swept(["xlnet", "xlnet_windowed", "reformer", "reformer_chunk"], frozenset()))
def test_streams_that_stand_otherwise_are_equal_to_forwards_of_their_own(name: str) -> None:
    result = compare(load(zoo.entry(name).build()), zoo.build(name), IDS)
    assert len(result.measures) == 7
    assert result.worst <= CLOSE, result.gaps


@pytest.mark.parametrize("tokens", [3, 4, 6, 8])
def test_prompts_that_fill_no_whole_chunks_are_replayed(tokens: int) -> None:
    """The own forward pads those of more than one chunk; what it makes of the prompt's tokens is replayed."""
    model, hf = waves.loaded("reformer"), zoo.build("reformer")
    ids = IDS[0][:tokens]
    replay = model.anatomy.replay(torch.tensor([ids]))
    stream = replay.recording.resid0_BTD
    with torch.no_grad():
        for number, block in enumerate(model.anatomy.blocks):
            stream = replay.run(block, number, stream)
        logits = model.anatomy.readout(stream[0])
    assert stream.shape[1] == tokens
    torch.testing.assert_close(logits, naive.logits(hf, ids), atol=CLOSE, rtol=CLOSE)


def test_prophetnet_is_refused_because_its_own_logits_depend_on_later_tokens() -> None:
    hf = causal.build_shrunk("prophetnet")
    changed = [*IDS[0][:5], *(token + 1 for token in IDS[0][5:])]
    apart = (naive.logits(hf, IDS[0]) - naive.logits(hf, changed))[:5].norm(dim=-1)
    assert float(apart.max()) > 0.01
    with pytest.raises(ModelError, match=r"prophetnet .* cannot be measured: its tokens depend on later ones"):
        load(hf)


@pytest.mark.thorough
def test_streams_along_the_tokens_are_equal_to_forwards_of_their_own() -> None:
    """Relative positions mix up ProphetNet's tokens; without them it is causal."""

    def build() -> Any:
        hf = causal.build_shrunk("prophetnet")
        with torch.no_grad():
            for block in hf.prophetnet.decoder.layers:
                for parameter in block.self_attn.relative_pos_embeddings.parameters():
                    parameter.zero_()
        return hf

    model, hf = load(build()), build()
    streams = 1 + hf.config.ngram
    assert model.anatomy.streams is not None
    assert model.anatomy.streams.form == AlongTokens(streams)
    with naive.streams_along_tokens(streams):
        result = compare(model, hf, IDS[1:])
    assert len(result.measures) == 7
    assert result.worst <= CLOSE, result.gaps


@pytest.mark.parametrize("name", several.SEVERAL)
def test_look_alikes_are_equal_to_forwards_of_their_own(name: str) -> None:
    model = load(several.SEVERAL[name]())
    assert model.checks.no_op == 0.0
    assert model.anatomy.n_streams == 3
    result = compare(model, several.SEVERAL[name](), IDS)
    assert result.worst <= CLOSE, result.gaps


def test_one_stream_that_nothing_mixes_is_a_plain_llama_to_the_bit_in_the_same_calls() -> None:
    """Streams have no tails, so the plain model is measured on whole rows too; its tails differ by rounding alone."""
    llama, single = several.plain_and_single()
    options: dict[str, Any] = dict.fromkeys(("residual", "lens", "skip", "drop", "swap", "erasure"))
    one = waves.run(load(single), IDS, options, answers=[2, 2])
    whole, tails = (waves.run(load(llama), IDS, options, answers=[2, 2], tails=tails) for tails in (False, True))
    for measure in options:
        for variable, values in one[measure].data_vars.items():
            if values.dtype.kind == "f" and not values.isnull().all():
                name = f"{measure}.{variable}"
                assert_same_bits(whole[measure][variable], values, name)
                assert_same_but_rounding(tails[measure][variable], values, llama, name)


def test_what_is_computed_between_blocks_of_one_run_is_measured() -> None:
    def build() -> several.DenselyWeighted:
        return several.make(several.DenselyWeighted)

    model, hf = load(build()), build()
    assert model.checks.no_op == 0.0
    assert model.anatomy.cycle is None
    drop = waves.run(model, IDS, {"drop": {}})["drop"]
    blocks = list(hf.layers)
    for dropped in range(len(blocks)):
        # a dropped block answers what the one before it gave
        expected = [naive.loss(_answering_the_block_before(hf, dropped, ids), ids).mean() for ids in IDS]
        np.testing.assert_allclose(drop.loss.sel(dropped=dropped).values, expected, atol=CLOSE)


@torch.no_grad()
def _answering_the_block_before(hf: Any, dropped: int, ids: list[int]) -> torch.Tensor:
    answers: list[torch.Tensor] = []

    def after(module: torch.nn.Module, args: Any, output: torch.Tensor) -> torch.Tensor:
        before = answers[-1] if answers else args[0]
        answers.append(before if len(answers) == dropped else output)
        return answers[-1]

    hooks = [block.register_forward_hook(after) for block in hf.layers]
    try:
        return hf(input_ids=torch.tensor([ids])).logits[0]
    finally:
        for hook in hooks:
            hook.remove()


ADDING = {"hy_v4": (), "qwen4_exp": (), "inkling2": (0, 2, 4), "reformer": ()}
"""Families whose blocks only add to their streams, and the blocks in which a stream begins again."""


@pytest.mark.parametrize("name", zoo.swept([*SEVERAL, "qwen4_exp"], frozenset(("deepseek_v4", "inkling2", "reformer"))))
def test_norms_of_each_stream_and_of_what_is_added_to_it(name: str) -> None:
    model, hf = waves.loaded(name), zoo.build(name)
    residual = waves.run(model, IDS, {"residual": None})["residual"]
    count = model.anatomy.n_streams
    assert residual.sizes["stream"] == count > 1
    for prompt, ids in enumerate(IDS):
        streams = torch.stack(naive.boundaries(hf, naive.blocks_of(hf), ids).double().chunk(count, dim=-1), dim=1)
        added = streams[1:] - streams[:-1]
        norms = added.norm(dim=-1).mean(-1)
        cosines = torch.cosine_similarity(added, streams[:-1], dim=-1).mean(-1)
        np.testing.assert_allclose(residual.norm_stream[prompt], streams.norm(dim=-1).mean(-1), rtol=CLOSE)
        adds = np.array(model.anatomy.additive_writes)
        assert np.array_equal(adds, residual.norm_stream_block[prompt].notnull())
        np.testing.assert_allclose(residual.norm_stream_block.values[prompt][adds], norms[adds], rtol=CLOSE, atol=CLOSE)
        np.testing.assert_allclose(residual.cos_stream_block.values[prompt][adds], cosines[adds], atol=CLOSE)
    reason = residual.attrs["stream_block_missing"]
    if name not in ADDING:
        assert reason.startswith("blocks of this family mix or scale their streams")
        assert not adds.any()
    else:
        assert ("in blocks 0, 2, 4 the stream begins again" in reason) == (name == "inkling2")
        assert [block for block, row in enumerate(adds) if not row[0]] == list(ADDING[name])


@pytest.mark.parametrize("name", [*SEVERAL, "qwen4_exp"])
def test_what_blocks_only_add_does_not_grow_with_the_state(name: str) -> None:
    """Blocks read normed streams: of a state 256 times as long they give the same, unless they mix or scale it."""
    anatomy = waves.loaded(name).anatomy
    replay = anatomy.replay(torch.tensor(IDS[:1]))
    state = torch.randn(replay.recording.resid0_BTD.shape, generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        for number, block in enumerate(anatomy.blocks):
            state = state.unflatten(-1, (anatomy.n_streams, -1))
            if anatomy.streams is not None and isinstance(anatomy.streams.form, EarlierStreams):
                # places of streams that are not stored yet follow the stream
                for place, stored in enumerate(anatomy.streams.form.before, start=1):
                    state[..., place, :] = state[..., 0, :] if stored >= number else state[..., place, :]
            state = state.flatten(-2)
            changes = []
            for scale in (16.0, 16.0 * 256):
                passed = replay.passed_to(anatomy.blocks, number)
                change = replay.run(block, number, state * scale, state=passed) - state * scale
                changes.append(change.unflatten(-1, (anatomy.n_streams, -1)).norm(dim=-1).amax((0, 1)))
            grows = (changes[1] > 16 * changes[0]) & (changes[1] > 0)
            assert grows.logical_not().tolist() == list(anatomy.additive_writes[number]), number


REFUSED = {
    several.Growing: "block 0 gives a state of shape (1, 2, 4, 32) and the last one (1, 2, 7, 32). A schedule needs "
    "the same number of streams behind every block.",
    several.ReadAll: "its logits depend on more than the state behind its last block.",
}


@pytest.mark.parametrize("kind", REFUSED, ids=lambda kind: kind.__name__)
def test_other_numbers_of_streams_and_readouts_of_several_blocks_are_refused(kind: type[several.Several]) -> None:
    with pytest.raises(ModelError) as caught:
        load(several.make(kind))
    assert REFUSED[kind] in str(caught.value)


def test_a_frozen_norm_is_refused_before_compute() -> None:
    model = waves.loaded("deepseek_v4")
    with pytest.raises(ModelError, match=r"no single norm here, .* use norm='recompute'"):
        bathyscope.survey(model, IDS, ["lens"], lens={"norm": "frozen"}, progress=False)


@pytest.mark.parametrize("name", ["deepseek_v4", "zaya"])
def test_a_schedule_of_the_real_model_equals_forwards_in_that_order(name: str) -> None:
    hf = zoo.entry(name).build()
    model = load(zoo.entry(name).build())
    with bathyscope.scheduled(model, "drop:3,swap:1") as scheduled, torch.no_grad():
        logits = scheduled(input_ids=torch.tensor(IDS[:1])).logits[0]
    expected, _ = naive.run_schedule(hf, blocks_of(model, hf), IDS[0], [0, 2, 1, 4])
    torch.testing.assert_close(logits, expected, atol=CLOSE, rtol=CLOSE)


NEEDING = {
    "glm_moe_dsa": (),  # every block has an indexer, and chooses its positions itself
    "glm_moe_dsa_shared": (1, 3, 4),
    "hy_v4": (2, 3, 4),
    "zaya": (1, 2, 3, 4),  # the first router has no scale for another one's state
}
"""Blocks that take what the block before passes on. All are offered it."""


@pytest.mark.parametrize("name", NEEDING)
def test_blocks_need_what_is_passed_on_where_they_use_it(name: str) -> None:
    checks = waves.loaded(name).checks
    assert checks.givers == set(range(5))
    assert checks.takers == set(NEEDING[name])
    assert checks.sources == ()


def test_any_block_may_be_the_one_that_passes_something_on() -> None:
    checks = waves.loaded("hy_v4").checks
    for order in ([0, 1, 2, 3, 4], [1, 0, 2, 3, 4], [1, 2, 3, 4], [0, 4], [1]):
        assert checks.lacking(order) == "", order
    for order in ([2, 0, 1], [2]):
        assert checks.lacking(order) == (
            "block 2 takes what the block before it passes on, and none would have run before it"
        ), order


@pytest.mark.parametrize("dtype", [torch.bfloat16, pytest.param(torch.float16, marks=pytest.mark.thorough)])
def test_attention_residuals_are_read_out_in_half_precision(dtype: torch.dtype, tmp_path: Path) -> None:
    # as it is loaded: in bfloat16 what mixes the streams stays in float32, and its forward runs in both
    model = load(from_disk(zoo.build("inkling2", dtype=dtype), tmp_path, dtype))
    assert model.checks.no_op == 0.0
    assert model.checks.readout < 1e-5
    batch = torch.tensor(IDS[:1])
    with torch.no_grad():
        logits = model.hf(batch, use_cache=False).logits
        replay = model.anatomy.replay(batch)
        stream = replay.recording.resid0_BTD
        for index, block in enumerate(model.anatomy.blocks):
            stream = replay.run(block, index, stream)
        assert gap(model.anatomy.readout(stream), logits) < tolerance(dtype)


def test_streams_that_the_own_forward_stores_cannot_be_scheduled_there() -> None:
    model = load(zoo.entry("inkling2").build())
    with (
        pytest.raises(ModelError, match="own forward stores streams between its blocks"),
        bathyscope.scheduled(model, "drop:1"),
    ):
        pass
