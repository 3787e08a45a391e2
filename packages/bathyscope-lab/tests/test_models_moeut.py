"""MoEUT against its formula written out token by token, and its regulariser against its own."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch
from bathyscope_lab.models import (
    MoeutConfig,
    MoeutForCausalLM,
    UniversalTransformerConfig,
    UniversalTransformerForCausalLM,
)
from bathyscope_lab.models.balance import negative_entropy
from bathyscope_lab.models.experts import Pairs, Router
from support import naive_moeut
from torch import Tensor

from bathyscope.errors import OptionError

SMALL = {
    "vocab_size": 30,
    "hidden_size": 12,
    "num_attention_heads": 2,
    "head_dim": 8,
    "attention_experts": 4,
    "num_experts": 6,
    "num_experts_per_tok": 3,
    "moe_intermediate_size": 5,
    "repeats": 2,
}


def weights_of(model: torch.nn.Module) -> dict[str, np.ndarray]:
    return {name: value.detach().double().numpy() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("changes", [{}, {"rotary_share": 1.0, "group_size": 1}, {"rotary_share": 0.0}])
def test_forward_is_the_formula(changes: dict[str, float]) -> None:
    torch.manual_seed(1)
    model = MoeutForCausalLM(MoeutConfig(**{**SMALL, **changes}))
    randomise(model)
    model.double().eval()
    ids = [3, 17, 9, 22, 9]
    wanted, _ = naive_moeut.forward(weights_of(model), model.config, ids)
    with torch.no_grad():
        found = model(torch.tensor([ids, ids[::-1]])).logits[0].numpy()
    np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-6 * np.abs(wanted).max())


def randomise(model: torch.nn.Module) -> None:
    """Norm weights away from 1 and scores far enough from 0 that gates differ."""
    with torch.no_grad():
        for name, value in model.named_parameters():
            value.copy_(torch.randn_like(value) * 0.4 + ("norm.weight" in name))


@pytest.mark.parametrize("padded", [False, True])
def test_auxiliary_loss_is_the_formula_and_part_of_the_loss_while_training(padded: bool) -> None:
    torch.manual_seed(2)
    model = MoeutForCausalLM(MoeutConfig(**SMALL, feed_forward_balance=0.5, attention_balance=0.25))
    randomise(model)
    rows = [[3, 17, 9, 22, 9], [5, 8, 13]]
    ids = torch.tensor([rows[0], [*rows[1], 0, 0]] if padded else [rows[0]])
    mask = torch.tensor([[1] * 5, [1] * 3 + [0] * 2]) if padded else None
    labels = ids.masked_fill(mask == 0, -100) if mask is not None else ids
    runs = [naive_moeut.forward(weights_of(model), model.config, row)[1] for row in rows[: len(ids)]]
    pooled = {name: [np.concatenate(step) for step in zip(*(run[name] for run in runs))] for name in runs[0]}
    wanted = 0.5 * naive_moeut.balance(pooled["feed_forward"]) + 0.25 * sum(
        naive_moeut.balance(pooled[name]) for name in ("value", "output")
    )
    assert wanted < -0.5

    plain = model.eval()(ids, attention_mask=mask, labels=labels)
    found = model.train()(ids, attention_mask=mask, labels=labels)
    assert plain.aux_loss is None
    assert found.aux_loss.item() == pytest.approx(wanted, rel=1e-5)
    assert found.loss.item() == pytest.approx(plain.loss.item() + wanted, rel=1e-5)


def test_batches_that_are_added_up_count_the_regulariser_once() -> None:
    torch.manual_seed(3)
    model = MoeutForCausalLM(MoeutConfig(**SMALL, feed_forward_balance=1.0)).train()
    ids = torch.tensor([[3, 17, 9, 22, 9]])
    predicted = 3 * (ids.shape[1] - 1)
    found = model(ids, labels=ids, num_items_in_batch=torch.tensor(predicted))
    cross_entropy = model.eval()(ids, labels=ids).loss.item()
    assert found.loss.item() == pytest.approx((cross_entropy + found.aux_loss.item()) / 3, rel=1e-5)


def test_the_regulariser_moves_all_routers_towards_even_use() -> None:
    torch.manual_seed(4)
    model = MoeutForCausalLM(MoeutConfig(**SMALL, feed_forward_balance=1.0, attention_balance=1.0)).train()
    randomise(model)
    ids = torch.randint(3, 30, (4, 8))
    routers = [p for name, p in model.named_parameters() if "router" in name]
    optimiser = torch.optim.Adam(routers, lr=0.02)
    before = model(ids).aux_loss.item()
    for _ in range(60):
        optimiser.zero_grad()
        model(ids).aux_loss.backward()
        optimiser.step()
    least = -math.log(6) - 2 * math.log(4)
    assert all(p.grad.abs().max() > 0 for p in routers)
    assert model(ids).aux_loss.item() - least < 0.3 * (before - least)


@pytest.mark.parametrize("shape", [(2, 5, 7), (2, 5, 3, 7)])
def test_negative_entropy_at_its_ends(shape: tuple[int, ...]) -> None:
    even = negative_entropy(torch.zeros(shape))
    same = torch.zeros(shape)
    same[..., 2] = 200.0
    same.requires_grad_()
    one = negative_entropy(same)
    one.backward()
    assert even.item() == pytest.approx(-math.log(7))
    assert one.item() == pytest.approx(0.0, abs=1e-6)
    assert torch.isfinite(same.grad).all()


def test_a_token_takes_the_experts_with_the_highest_scores_and_gates_are_not_renormalised() -> None:
    router = Router(3, 4, 2, choices=2)
    with torch.no_grad():
        router.weight.copy_(torch.arange(24.0).view(8, 3).sin())
    tokens = torch.tensor([[[1.0, -2.0, 0.5]]])
    chosen = router(tokens)
    # another call may sum in another order; what is chosen follows from the very scores
    torch.testing.assert_close(chosen.scores, (tokens @ router.weight.T).view(1, 1, 2, 4))
    assert torch.equal(chosen.experts, chosen.scores.argsort(-1, descending=True)[..., :2])
    assert torch.equal(chosen.gates, chosen.scores.sort(-1, descending=True).values[..., :2].sigmoid())


def by_loop(tokens: Tensor, weight: Tensor, experts: Tensor) -> Tensor:
    return torch.stack([torch.stack([x @ weight[e] for e in row]) for x, row in zip(tokens, experts)])


def times(tokens: Tensor, weight: Tensor, experts: Tensor) -> Tensor:
    pairs = Pairs.of(experts, len(weight))
    return pairs.returned(pairs.times(pairs.given(tokens), weight))


def test_pairs_meet_their_expert_forward_and_backward() -> None:
    torch.manual_seed(5)
    tokens, weight = torch.randn(7, 4, requires_grad=True), torch.randn(5, 4, 3, requires_grad=True)
    experts = torch.tensor([[0, 3], [3, 0], [1, 3], [3, 4], [4, 0], [0, 1], [3, 1]])  # none takes expert 2

    def run(apply: Callable[[Tensor, Tensor, Tensor], Tensor]) -> tuple[Tensor, ...]:
        out = apply(tokens, weight, experts)
        return out, *torch.autograd.grad(out.pow(2).sum(), (tokens, weight))

    for found, wanted in zip(run(times), run(by_loop)):
        torch.testing.assert_close(found, wanted)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="the fused kernel runs on a GPU")
@pytest.mark.parametrize("autocast", [False, True])
def test_the_fused_kernel_agrees_with_the_loop(autocast: bool) -> None:
    torch.manual_seed(6)
    made = torch.float32 if autocast else torch.bfloat16
    tokens = torch.randn(200, 32, device="cuda", dtype=made, requires_grad=True)
    weight = torch.randn(9, 32, 16, device="cuda", dtype=made, requires_grad=True)
    experts = torch.randint(0, 8, (200, 3), device="cuda")  # none takes expert 8
    with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
        found = times(tokens, weight, experts)
    assert found.dtype == torch.bfloat16
    wanted = times(tokens.float(), weight.float(), experts)
    torch.testing.assert_close(found.float(), wanted, atol=5e-2, rtol=2e-2)
    ours, theirs = (torch.autograd.grad(out.float().pow(2).sum(), (tokens, weight)) for out in (found, wanted))
    for one, other in zip(ours, theirs):
        assert (one.float() - other.float()).norm() < 0.02 * other.float().norm()


def test_initial_weights_keep_their_scale() -> None:
    config = MoeutConfig(vocab_size=500, hidden_size=128, num_experts=20, moe_intermediate_size=64, repeats=4)
    torch.manual_seed(7)
    model = MoeutForCausalLM(config)
    scale = math.sqrt(2 / 8)
    block = model.model.layers[0]
    wanted = {
        block.self_attn.q_proj.weight: 128,
        block.self_attn.value_router.weight: 128,
        block.self_attn.value_experts: 128,
        block.self_attn.output_experts: 128,  # the head's width
        block.mlp.experts.up_proj: 128,
        block.mlp.experts.down_proj: 64,
        model.lm_head.weight: 128,
    }
    for weight, inputs in wanted.items():
        assert weight.std().item() == pytest.approx(scale * inputs**-0.5, rel=0.05)
    assert model.model.embed_tokens.weight.norm(dim=-1).mean().item() == pytest.approx(1, rel=0.05)


def test_the_papers_models_have_equally_many_parameters() -> None:
    with torch.device("meta"):
        shared = MoeutForCausalLM(MoeutConfig(vocab_size=512))
        plain = UniversalTransformerForCausalLM(UniversalTransformerConfig(vocab_size=512, group_size=18, repeats=1))
    assert len(shared.model.layers) == len(plain.model.layers) == 18
    sizes = [sum(p.numel() for p in model.parameters()) for model in (shared, plain)]
    assert sizes[0] == pytest.approx(sizes[1], rel=1e-3)
    assert sizes[0] > 2e8


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"num_experts_per_tok": 7}, r"num_experts_per_tok=7 with num_experts=6: a token takes at least one expert"),
        ({"attention_experts_per_tok": 0}, r"attention_experts_per_tok=0 with attention_experts=4: a token takes"),
        ({"num_hidden_layers": 5}, r"num_hidden_layers=5 disagrees with group_size=2 × repeats=2 = 4 execution steps"),
        ({"repeats": 0}, r"group_size=2 and repeats=0: a model needs at least one block"),
        ({"norm": "batch_norm"}, r"norm='batch_norm' is unknown; allowed: layer_norm, rms_norm"),
        ({"rotary_share": 0.4}, r"rotary_share=0.4 of a head of 8 entries is 3.2 entries; an even number from 0 to 8"),
        ({"head_dim": None, "num_attention_heads": 5}, r"hidden_size=12 cannot be shared out among 5 heads; give head"),
    ],
)
def test_impossible_shapes_are_refused(given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        MoeutConfig(**{**SMALL, **given})
