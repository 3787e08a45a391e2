"""A model type that nobody has declared: found by search, and held to the same checks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import ExitStack

import numpy as np
import pytest
import torch
from support import naive, unknown, waves, zoo
from support.zoo.entry import config, randomise
from torch import Tensor, nn
from transformers import CLIPVisionConfig, LlavaConfig, LlavaForConditionalGeneration

from bathyscope.errors import ModelError
from bathyscope.model import load
from bathyscope.model.anatomy.generic import infer_family

LENGTHS = (14, 9, 17)


def prompts() -> list[list[int]]:
    draw = torch.Generator().manual_seed(0)
    return [torch.randint(3, 90, (length,), generator=draw).tolist() for length in LENGTHS]


@pytest.mark.parametrize("by_name", [False, True])
def test_the_search_finds_every_part(by_name: bool) -> None:
    family = infer_family(unknown.build(by_name=by_name))
    assert family.blocks == "trunk.stack"
    assert family.final_norm == "trunk.last_norm"
    assert family.head == "unembed"
    assert family.attention is not None
    assert family.mlp is not None
    assert (family.attention.path, family.mlp.path) == ("token_mixer_attention", "feed_forward")
    assert family.parallel is False
    assert "found by search" in family.name


def test_side_by_side_parts_are_seen_to_be_parallel() -> None:
    assert load(unknown.build(parallel=True)).anatomy.parallel
    assert not load(unknown.build()).anatomy.parallel


def test_an_unknown_family_passes_the_checks_and_is_measured() -> None:
    """Block 1 dropped, and block 2 skipped before token 5, against plain forwards of the model."""
    hf = unknown.build()
    model = load(hf)
    assert model.checks.no_op == 0
    assert model.checks.parts
    assert not model.checks.tails
    assert "gives no keys and values" in model.checks.tail_reason or "tail" in model.checks.tail_reason
    ids = prompts()
    options = {"skip": {"positions": [[5]] * 3}, "drop": None, "residual": None, "lens": None}
    found = waves.run(model, ids, options)
    for prompt, own in enumerate(ids):
        base = logits(hf, own)
        dropped = logits(hf, own, {1: range(len(own))})
        assert float(found["drop"].kl[prompt, 1]) == pytest.approx(
            naive.kl(base, dropped)[:-1].mean().item(), rel=1e-5, abs=1e-6
        )
        skipped = logits(hf, own, {2: range(1, 5)})
        future = found["skip"].output_future.sel(part="block", reduction="max")
        assert float(future[prompt, 2]) == pytest.approx(
            naive.output_change(base, skipped)[5:].max().item(), rel=1e-5, abs=1e-6
        )
    np.testing.assert_array_equal(found["lens"].kl_lens_final.isel(boundary=-1), 0)
    assert found["residual"].cos_mlp.notnull().all()


def logits(hf: nn.Module, ids: Sequence[int], skipped: dict[int, range] | None = None, argument: int = 0) -> Tensor:
    """Logits [T, V] with blocks handing their input on at some tokens."""
    with ExitStack() as stack:
        for block, tokens in (skipped or {}).items():

            def hand_on(_m: nn.Module, args: tuple[Tensor], out: Tensor, tokens: range = tokens) -> Tensor:
                out = out.clone()
                out[:, list(tokens)] = args[argument][:, list(tokens)]
                return out

            handle = hf.trunk.stack[block].register_forward_hook(hand_on)
            stack.callback(handle.remove)
        return naive.logits(hf, ids)


BERTS = (
    "bert-generation",
    "bert",
    "big_bird",
    "camembert",
    "data2vec-text",
    "electra",
    "ernie",
    "megatron-bert",
    "rembert",
    "roberta",
    "roberta-prelayernorm",
    "roc_bert",
    "roformer",
    "xlm-roberta",
    "xlm-roberta-xl",
)
PRE_NORM = ("megatron-bert", "roberta-prelayernorm", "xlm-roberta-xl")


@pytest.mark.parametrize("model_type", BERTS)
def test_decoders_in_the_style_of_bert_are_found(model_type: str) -> None:
    """Their logits come through a dense layer, an activation and a norm, in one module or in none."""
    sizes = {
        "big_bird": {"attention_type": "original_full"},
        "electra": {"embedding_size": 32},
        "rembert": {"input_embedding_size": 32, "output_embedding_size": 48},
        "roformer": {"embedding_size": 32},
    }
    made = config(model_type, is_decoder=True, num_hidden_layers=3, **sizes.get(model_type, {}))
    hf = zoo.Entry(model_type, "", made).build()
    model = load(hf)
    assert (model.n_blocks, model.anatomy.vocabulary) == (3, 120)
    assert model.checks.no_op == 0
    assert model.checks.readout < 1e-6
    assert model.checks.tails
    # where the sum is normed, what a part adds cannot be told from what the norm makes of it
    assert model.checks.parts == (model_type in PRE_NORM)
    (ids,) = zoo.prompts(hf, (11,))
    blocks = list(model.anatomy.blocks)
    changed, _ = naive.run_schedule(hf, blocks, ids, naive.drop_order(3, 1))
    found = waves.run(model, [ids], {"drop": None})["drop"]
    expected = naive.kl(naive.logits(hf, ids), changed)[:-1].mean().item()
    assert float(found.kl[0, 1]) == pytest.approx(expected, rel=1e-4)


def test_a_text_model_inside_of_another_is_found() -> None:
    """The image encoder has more blocks, which do not run on text."""
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 7, "num_attention_heads": 4}
    made = LlavaConfig(
        text_config=zoo.entry("llama").config(),
        vision_config=CLIPVisionConfig(**vision, image_size=16, patch_size=8),
        image_token_index=119,
    )
    hf = LlavaForConditionalGeneration(made).eval()
    randomise(hf, 0)
    model = load(hf)
    assert model.anatomy.family.blocks == "model.language_model.layers"
    assert model.n_blocks == 5
    assert model.checks.parts
    assert model.checks.tails


def test_contributions_that_cannot_be_told_apart_are_left_out() -> None:
    model = load(unknown.build(joined=True))
    assert not model.checks.parts
    assert model.anatomy.family.attention is None
    found = waves.run(model, prompts(), {"residual": None})["residual"]
    assert found.cos_attn.isnull().all()
    assert found.cos_block.notnull().all()


def test_unknown_logits_are_refused_with_the_gap() -> None:
    with pytest.raises(ModelError) as caught:
        load(unknown.build(logit_scale=0.5))
    message = str(caught.value)
    assert "readout identity fails: trunk.last_norm and unembed give logits that differ" in message
    # twice the logits: a gap as large as the largest logit
    assert "by 1.0e+00 of the largest logit (allowed 1e-04)" in message
    assert "load(model, family=Family(...))" in message


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_softcap_that_nobody_declared_is_refused_in_every_precision(dtype: torch.dtype) -> None:
    """It is smaller than what rounding does to single logits, and moves a loss all the same."""
    hf = unknown.build(softcap=8.0).to(dtype)
    with pytest.raises(ModelError, match=r"readout identity fails: trunk\.last_norm and unembed give") as caught:
        load(hf)
    assert "of the largest logit (allowed 1e-04)" in str(caught.value)
    assert {p.dtype for p in hf.parameters()} == {dtype}
    assert load(unknown.build().to(dtype)).checks.readout < 1e-5


@pytest.mark.parametrize("entries", [2, 3, 5])
def test_small_vocabularies_are_measured(entries: int) -> None:
    model = load(unknown.build(vocabulary=entries))
    assert model.anatomy.vocabulary == entries
    assert model.checks.parts
    found = waves.run(model, [[1, 0, 1, 1, 0, 1]], {"drop": None})["drop"]
    assert found.kl.notnull().all()


def test_the_stream_may_stand_behind_other_arguments() -> None:
    hf = unknown.build(stream="second")
    model = load(hf)
    assert model.checks.no_op == 0
    assert model.checks.parts
    (own,) = prompts()[:1]
    changed = logits(hf, own, {1: range(len(own))}, argument=1)
    found = waves.run(model, [own], {"drop": None})["drop"]
    expected = naive.kl(logits(hf, own), changed)[:-1].mean().item()
    assert float(found.kl[0, 1]) == pytest.approx(expected, rel=1e-5)


def test_a_stream_under_a_name_is_refused() -> None:
    with pytest.raises(ModelError) as caught:
        load(unknown.build(stream="dictionary"))
    message = "calls no list of blocks that give a tensor. Put them in one nn.ModuleList, the stream"
    assert message in str(caught.value)


def test_tokens_may_stand_in_front_of_the_rows() -> None:
    ids = prompts()
    measured = {"drop": None, "lens": None, "skip": None}
    hf, turned_hf = unknown.build(), unknown.build(stream="tokens_first")
    turned_hf.load_state_dict(hf.state_dict())
    plain, turned = (waves.run(load(one), ids, measured) for one in (hf, turned_hf))
    for measure in measured:
        for name, values in plain[measure].data_vars.items():
            if values.dtype.kind == "f":
                np.testing.assert_allclose(turned[measure][name].values, values.values, atol=1e-5, err_msg=str(name))


def test_blocks_that_remember_are_refused() -> None:
    with pytest.raises(ModelError) as caught:
        load(unknown.build(hidden_state=True))
    message = str(caught.value)
    assert "no-op parity fails at block 0: replaying the recorded block differs from the plain forward by" in message
    assert "The family keeps state that recording does not see" in message


def test_a_model_without_a_head_is_refused() -> None:
    hf = unknown.build()
    hf.get_output_embeddings = lambda: None  # type: ignore[method-assign]
    with pytest.raises(ModelError, match="unknown family and has no output embeddings: is it a causal language model"):
        load(hf)


def test_a_model_without_a_list_of_blocks_is_refused() -> None:
    hf = unknown.build(blocks=1)
    hf.trunk.stack = hf.trunk.stack[0]  # type: ignore[assignment]
    hf.trunk.forward = lambda input_ids: hf.trunk.last_norm(hf.trunk.stack(hf.trunk.embed(input_ids)))
    with pytest.raises(
        ModelError,
        match=r"calls no list of blocks that give a tensor\. Put them in one nn.ModuleList, the stream first",
    ):
        load(hf)


def looped() -> nn.Module:
    hf = unknown.build(blocks=3)
    trunk = hf.trunk
    trunk.stack.forward = lambda h: h

    def forward(input_ids: Tensor) -> Tensor:
        h = trunk.embed(input_ids)
        for _ in range(2):
            for block in trunk.stack:
                h = block(h)
        return trunk.last_norm(h)

    trunk.forward = forward  # type: ignore[method-assign]
    return hf


def shared() -> nn.Module:
    hf = unknown.build(blocks=3)
    hf.trunk.stack = nn.ModuleList([hf.trunk.stack[0], hf.trunk.stack[1], hf.trunk.stack[0]])
    return hf


@pytest.mark.parametrize(("build", "order"), [(looped, (0, 1, 2) * 2), (shared, (0, 1, 0))])
def test_blocks_that_run_several_times_are_steps(build: Callable[[], nn.Module], order: tuple[int, ...]) -> None:
    model = load(build())
    assert model.anatomy.loops is not None
    assert model.anatomy.loops.block == order
    assert model.n_blocks == len(order)
    assert model.checks.no_op == 0.0
    assert model.checks.parts


def test_an_axis_of_one_stream_is_found() -> None:
    hf = unknown.build()
    trunk = hf.trunk
    trunk.stack = nn.ModuleList(Side() for _ in range(3))
    trunk.forward = lambda input_ids: trunk.last_norm(through(trunk.stack, trunk.embed(input_ids)[:, :, None]).sum(2))
    model = load(hf)
    assert model.checks.no_op == 0.0
    assert model.anatomy.n_streams == 1


class Side(nn.Module):
    """A block that takes whatever axes there are."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(32, 32)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.inner(h)


def through(blocks: nn.ModuleList, h: Tensor) -> Tensor:
    for block in blocks:
        h = block(h)
    return h
