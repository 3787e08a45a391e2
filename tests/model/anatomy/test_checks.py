"""The checks at load find what is wrong: declarations are falsified, one thing at a time."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import hypothesis.strategies as st
import pytest
import torch
from hypothesis import assume, given
from support import naive, waves, zoo

from bathyscope.errors import ModelError
from bathyscope.measures.base import ModelFacts
from bathyscope.model import load
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.checks import check
from bathyscope.model.anatomy.family import Site
from bathyscope.model.anatomy.gaps import tolerance
from bathyscope.model.anatomy.measured_gaps import Checks
from bathyscope.model.anatomy.replay import Replay
from bathyscope.model.anatomy.resolving import resolve


def falsified(name: str, **changes: Any) -> Anatomy:
    """The anatomy of a zoo model whose family is declared differently."""
    return resolve(zoo.build(name), replace(naive.family_of(zoo.build(name)), **changes))


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("llama", {"mlp": Site("input_layernorm")}),
        ("llama", {"attention": Site("self_attn.q_proj")}),
        ("olmo2", {"attention": Site("self_attn")}),
        ("gemma2", {"mlp": Site("mlp")}),
        ("granite", {"mlp": Site("mlp")}),
        ("bloom", {"attention": Site("self_attention")}),
        ("granitemoeshared", {"mlp": Site("block_sparse_moe", scale="residual_multiplier")}),
        ("gemma4", {"others": ()}),
    ],
)
def test_a_wrong_site_leaves_a_gap_in_every_block(name: str, changes: dict[str, Any]) -> None:
    right = check(resolve(zoo.build(name), naive.family_of(zoo.build(name))))
    assert right.parts
    assert max(right.contributions) < 1e-6
    wrong = check(falsified(name, **changes))
    assert not wrong.parts
    assert min(wrong.contributions) > 1e-2
    assert wrong.no_op == 0


def test_a_block_scale_left_out_leaves_a_gap() -> None:
    wrong = check(falsified("gemma4", block_scale=None))
    scales = [float(block.layer_scalar) for block in naive.blocks_of(zoo.build("gemma4"))]
    assert not wrong.parts
    assert wrong.contributions == pytest.approx([abs(1 - 1 / scale) for scale in scales], rel=1e-3)


def test_a_site_of_another_size_is_no_contribution() -> None:
    wrong = check(falsified("llama", mlp=Site("mlp.up_proj")))
    assert not wrong.parts
    assert set(wrong.contributions) == {float("inf")}


def test_a_site_that_is_nowhere_is_no_contribution() -> None:
    wrong = check(falsified("llama", mlp=Site("nowhere")))
    assert not wrong.parts
    assert all(gap != gap for gap in wrong.contributions)


def test_measures_of_parts_are_refused_with_the_gap() -> None:
    anatomy = falsified("granite", mlp=Site("mlp"))
    checks = check(anatomy)
    with pytest.raises(ModelError) as caught:
        ModelFacts(anatomy, checks).require_parts("skip of attention")
    message = str(caught.value)
    assert "skip of attention needs attention and MLP contributions, which do not sum" in message
    assert (
        f"in 5 of 5 blocks of this granite model (largest gap {max(checks.contributions):.1e}, allowed 1e-04)"
        in message
    )
    assert "Measures of whole blocks are allowed" in message


def test_one_tokens_massive_activation_hides_nothing() -> None:
    """A site may be wrong by far less than the largest activation and yet wrong for every other token."""
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        hf.model.embed_tokens.weight[::2, 3] = 2e5
    family = naive.family_of(hf)
    assert check(resolve(hf, family)).parts
    assert not check(resolve(hf, replace(family, mlp=Site("post_attention_layernorm")))).parts


@pytest.mark.parametrize(
    ("name", "changes", "declared"),
    [
        ("cohere", {"logit_multiplier": None}, "model.norm and lm_head"),
        ("granite", {"logit_divisor": None}, "model.norm and lm_head"),
        ("gemma2", {"logit_softcap": None}, "model.norm and lm_head"),
        ("llama", {"final_norm": None}, "None and lm_head"),
        ("llama", {"final_norm": "model.layers.0.input_layernorm"}, "model.layers.0.input_layernorm and lm_head"),
    ],
)
def test_a_wrong_readout_is_refused_with_the_gap(name: str, changes: dict[str, Any], declared: str) -> None:
    with pytest.raises(ModelError) as caught:
        check(falsified(name, **changes))
    message = str(caught.value)
    assert f"readout identity fails: {declared} give logits that differ from the model's by" in message
    assert "of the largest logit (allowed 1e-04)" in message
    assert "Declare what the family does to its logits (scale, softcap, projection): load(model, family=" in message


def test_the_measured_gap_is_the_gap() -> None:
    """Half the logit scale makes the logits wrong by half the largest one."""
    scale = zoo.build("cohere").config.logit_scale
    with pytest.raises(ModelError) as caught:
        check(falsified("cohere", logit_multiplier=None))
    assert f"differ from the model's by {abs(1 / scale - 1):.1e} of the largest logit" in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "path"), [({"blocks": "model.leyers"}, "model.leyers"), ({"head": "unembed"}, "unembed")]
)
def test_a_path_that_does_not_exist(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ModelError, match=rf"llama: this model has no {path}\. Its layout differs from the family's"):
        falsified("llama", **changes)


def test_a_path_that_holds_no_list() -> None:
    with pytest.raises(ModelError, match=r"llama: model\.norm is not a list of blocks"):
        falsified("llama", blocks="model.norm")


def test_blocks_that_keep_state_across_calls() -> None:
    """Each call of the block answers a little louder, so that the replay differs from the plain forward."""
    hf = zoo.entry("llama").build()
    mlp, calls = hf.model.layers[2].mlp, 0
    quiet = mlp.forward

    def louder(x: torch.Tensor) -> torch.Tensor:
        nonlocal calls
        calls += 1
        return quiet(x) * (1 + 0.1 * calls)

    mlp.forward = louder
    with pytest.raises(ModelError) as caught:
        load(hf)
    message = str(caught.value)
    assert message.startswith("llama (LlamaForCausalLM): no-op parity fails at block 2: replaying the recorded block")
    assert "(allowed 1e-04). The family keeps state that recording does not see" in message


def test_tails_without_their_mask_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    anatomy = resolve(zoo.build("llama"), naive.family_of(zoo.build("llama")))
    right = check(anatomy)
    assert right.tails
    assert set(right.tail) == {1, 6, 11}
    assert max(right.tail.values()) < 1e-6
    monkeypatch.setattr(Replay, "_tail_mask", lambda *_: None)
    wrong = check(anatomy)
    assert not wrong.tails
    worst = max(wrong.tail, key=lambda t: wrong.tail[t])
    assert wrong.tail_reason.startswith(
        f"a tail from token {worst} differs from the full row by {wrong.tail[worst]:.1e}"
    )
    assert wrong.tail_reason.endswith("(allowed 1e-04)")


@pytest.mark.parametrize("name", [entry.name for entry in zoo.entries() if entry.tails is False])
def test_families_that_cannot_lend_keys_and_values_compute_full_rows(name: str) -> None:
    checks = waves.loaded(name).checks
    assert not checks.tails
    assert checks.tail_reason


@pytest.mark.each
@pytest.mark.parametrize("name", [entry.name for entry in zoo.entries(plain=True) if entry.parts])
def test_parts_hold_where_they_should(name: str) -> None:
    checks = waves.loaded(name).checks
    assert checks.parts
    assert max(checks.contributions) < 1e-6


@pytest.mark.parametrize("name", zoo.names(refused=True))
def test_refused_families_say_why(name: str) -> None:
    family = naive.family_of(zoo.build(name))
    with pytest.raises(ModelError) as caught:
        load(zoo.build(name))
    reason = family.refusal(zoo.entry(name).config())
    assert str(caught.value) == f"{family.name} models cannot be measured: {reason}"


def test_tolerances() -> None:
    assert tolerance(torch.float64) < tolerance(torch.float32) < tolerance(torch.float16) < tolerance(torch.bfloat16)
    nothing = Checks(0.0, 0.0, (0.0, 2e-4), {}, 1e-4)
    assert not nothing.parts
    assert not nothing.tails


@given(
    givers=st.frozensets(st.integers(0, 6)),
    takers=st.frozensets(st.integers(1, 7)),
    left_out=st.frozensets(st.integers(0, 7)),
)
def test_any_removable_blocks_but_the_kept_one_can_be_left_out_together(
    givers: frozenset[int], takers: frozenset[int], left_out: frozenset[int]
) -> None:
    checks = Checks(0.0, 0.0, (), {}, 1e-4, givers=givers, takers=takers)

    def runs_without(dropped: Collection[int]) -> bool:
        return not checks.lacking(block for block in range(8) if block not in dropped)

    assume(runs_without(()))
    removable = {block for block in range(8) if runs_without({block})}
    kept = checks.kept_for_others(removable)
    assert runs_without((left_out & removable) - {kept})
    # nothing stays without need
    assert kept is None or not runs_without({block for block in removable if block <= kept})
