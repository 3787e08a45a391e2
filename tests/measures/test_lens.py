"""Logit lens: exact identities, both norms, options; values are compared in test_parity."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo
from torch import Tensor
from transformers import PreTrainedModel

import bathyscope
from bathyscope import Prompt
from bathyscope.errors import OptionError, PromptError
from bathyscope.measures.curves import depth_inputs
from bathyscope.measures.lens import Lens, LensOptions
from bathyscope.model import load
from bathyscope.pages.figures.kit.series import Curve, Look, summarise_curve
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.statistics.effective_depth import estimators

LENGTHS = (14, 9, 17)
NAMES = ["llama", "gpt2", "gemma2", "gemma3", "olmo", "cohere", "granite", "opt", "opt_no_final_norm", "qwen3_moe"]


def lens(name: str, **options: object) -> xr.Dataset:
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    return waves.run(waves.loaded(name), ids, {"lens": options})["lens"]


@pytest.mark.parametrize("name", NAMES)
def test_the_last_boundary_is_the_prediction_itself(name: str) -> None:
    last = lens(name).isel(boundary=-1)
    for variable in ("kl_lens_final", "kl_final_lens", "jsd", "kl_top_p", "kl_tail"):
        assert (last[variable].values == 0).all(), variable
    for variable in ("overlap", "top1_agreement", "mrr", "hits"):
        assert (last[variable].values == 1).all(), variable


@pytest.mark.parametrize("name", NAMES)
def test_identities_between_metrics(name: str) -> None:
    found = lens(name, top_p=0.7)
    np.testing.assert_allclose(found.kl_top_p + found.kl_tail, found.kl_lens_final, rtol=1e-9, atol=1e-12)
    assert float(found.jsd.min()) >= 0
    assert float(found.jsd.max()) <= 1
    assert float(found.kl_lens_final.min()) >= 0
    np.testing.assert_array_equal(found.hits.sel(k=1), found.top1_agreement)
    assert (found.hits.diff("k") >= 0).all()
    assert (found.mrr >= found.top1_agreement).all()
    vocabulary = zoo.build(name).config.vocab_size
    assert float(found.entropy.max()) <= np.log2(vocabulary) + 1e-9


@pytest.mark.parametrize("name", NAMES)
def test_both_norms_agree_at_the_last_boundary(name: str) -> None:
    found = lens(name, norm=["recompute", "frozen"])
    assert found.entropy.dims == ("norm", "prompt", "boundary")
    last = found.isel(boundary=-1)
    np.testing.assert_allclose(
        last.entropy.sel(norm="frozen"), last.entropy.sel(norm="recompute"), rtol=1e-5, atol=1e-6
    )
    assert float(last.kl_lens_final.max()) < 1e-6
    assert (last.overlap.values == 1).all()
    if name != "opt_no_final_norm":
        first = found.isel(boundary=0)
        assert not np.allclose(first.entropy.sel(norm="frozen"), first.entropy.sel(norm="recompute"), rtol=1e-3)


def frozen(model: torch.nn.Module, h: Tensor, final: Tensor, bias: bool) -> Tensor:
    """The frozen-norm lens of LayerNorm, written out: centre, divide by the last boundary's scale, gain, bias."""
    norm = model.transformer.ln_f
    scale = final.var(-1, unbiased=False, keepdim=True).add(norm.eps).sqrt()
    normed = (h - h.mean(-1, keepdim=True)) / scale * norm.weight
    return model.lm_head(normed + norm.bias if bias else normed)


@pytest.mark.parametrize("bias", [True, False])
def test_the_frozen_norm_divides_by_the_last_boundarys_scale(bias: bool) -> None:
    model = zoo.build("gpt2")
    found = lens("gpt2", norm=["frozen"], bias=bias)
    assert found.entropy.dims == ("prompt", "boundary")
    assert found.attrs["norm"] == "frozen"
    for prompt, own in enumerate(zoo.prompts(model, LENGTHS)):
        h = naive.boundaries(model, naive.blocks_of(model), own)
        with torch.no_grad():
            reads = [frozen(model, boundary, h[-1], bias) for boundary in h]
        for boundary, read in enumerate(reads):
            assert float(found.entropy[prompt, boundary]) == pytest.approx(
                naive.entropy_bits(read).mean().item(), rel=1e-6
            )
            expected = naive.kl(read, naive.logits(model, own)).mean().item()
            assert float(found.kl_lens_final[prompt, boundary]) == pytest.approx(expected, rel=1e-4, abs=1e-6)


def test_a_single_norm_and_both_give_the_same_numbers() -> None:
    both = lens("llama", norm=["recompute", "frozen"])
    for norm in ("recompute", "frozen"):
        alone = lens("llama", norm=norm)
        for variable in alone.data_vars:
            np.testing.assert_array_equal(alone[variable], both.sel(norm=norm)[variable])


def naive_jsd_bits(one: Tensor, other: Tensor) -> Tensor:
    """JSD₂ by token of two sets of logits [T, V]: entropy of the mixture less the mean entropy."""
    p, q = one.double().softmax(-1), other.double().softmax(-1)
    entropy = torch.special.entr(torch.stack([p, q, (p + q) / 2])).sum(-1) / np.log(2)
    return entropy[2] - (entropy[0] + entropy[1]) / 2


def sure(name: str) -> PreTrainedModel:
    """A model whose predictions are far from even, so that its tokens settle at different boundaries."""
    model = zoo.entry(name).build()
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(20)
    return model


@pytest.mark.parametrize("name", ["llama", "olmo", "qwen3_moe"])
def test_token_depths_written_out(name: str) -> None:
    """Settle depth, deep-thinking ratio and prediction depth of every prompt, token by token."""
    model = sure(name)
    loaded = load(model)
    prompts = zoo.prompts(model, LENGTHS)
    found = waves.run(loaded, prompts, {"lens": None})["lens"]
    n_blocks = len(naive.blocks_of(model))
    settled = []
    for prompt, own in enumerate(prompts):
        with torch.no_grad():
            reads = [loaded.anatomy.readout(h) for h in naive.boundaries(model, naive.blocks_of(model), own)]
        final = naive.logits(model, own)
        jsd = torch.stack([naive_jsd_bits(logits, final) for logits in reads])
        top = torch.stack([logits.argmax(-1) for logits in reads])
        settle, predicted = [], []
        for t in range(len(own)):
            settle.append(min(b for b in range(n_blocks + 1) if jsd[: b + 1, t].min() <= 0.5))
            predicted.append(min(b for b in range(n_blocks + 1) if (top[b:, t] == top[-1, t]).all()))
        assert float(found.settle_depth[prompt]) == pytest.approx(np.mean(settle))
        assert float(found.prediction_depth[prompt]) == pytest.approx(np.mean(predicted))
        late = np.mean([s >= int(np.ceil(0.85 * n_blocks)) for s in settle])
        assert float(found.deep_thinking_ratio[prompt]) == pytest.approx(late)
        settled += settle
    assert len(set(settled)) > 2


@pytest.mark.parametrize("times", [2.0, 6.0, 20.0], ids=["flat", "between", "sharp"])
def test_shares_of_kept_tokens_are_those_of_their_depths(times: float) -> None:
    """Token by token: which have, and keep, their final token, and which of the others are nearly tied at the end."""
    model = zoo.entry("llama").build()
    with torch.no_grad():
        model.get_output_embeddings().weight.mul_(times)
    loaded = load(model)
    prompts = zoo.prompts(model, LENGTHS)
    found = waves.run(loaded, prompts, {"lens": {"norm": ["recompute", "frozen"]}})["lens"].sel(norm="recompute")
    n_blocks = found.sizes["boundary"] - 1
    for prompt, own in enumerate(prompts):
        with torch.no_grad():
            reads = [loaded.anatomy.readout(h) for h in naive.boundaries(model, naive.blocks_of(model), own)]
        final = naive.logits(model, own).double().softmax(-1).topk(2).values
        tied = (final[:, 0] - final[:, 1] < 0.1).numpy()
        top = torch.stack([logits.argmax(-1) for logits in reads]).numpy()
        for boundary in range(n_blocks + 1):
            kept = (top[boundary:] == top[-1]).all(0)
            assert float(found.top1_kept[prompt, boundary]) == pytest.approx(kept.mean())
            undecided = (top[boundary] != top[-1]) & tied
            assert float(found.near_ties[prompt, boundary]) == pytest.approx(undecided.mean())
    # a mean depth counts the boundaries at which a token is not yet kept
    np.testing.assert_allclose(found.prediction_depth, (1 - found.top1_kept).sum("boundary"), rtol=1e-12)
    assert (found.top1_kept <= found.top1_agreement + 1e-12).all()
    assert (found.top1_kept.diff("boundary") >= 0).all()
    assert (found.top1_kept.isel(boundary=-2) == found.top1_agreement.isel(boundary=-2)).all()


@pytest.mark.parametrize("name", NAMES)
def test_token_depths_lie_on_the_boundaries(name: str) -> None:
    found = lens(name, norm=["recompute", "frozen"])
    n_blocks = found.sizes["boundary"] - 1
    for variable in ("settle_depth", "prediction_depth", "deep_thinking_ratio"):
        assert found[variable].dims == ("norm", "prompt")
        assert float(found[variable].min()) >= 0
        assert float(found[variable].max()) <= (1 if variable == "deep_thinking_ratio" else n_blocks)
    # a depth counts the boundaries before it: each that differs comes before the prediction depth, and each
    # before the settle depth lies above half a bit
    before = found.isel(boundary=slice(0, -1)).sum("boundary")
    assert (found.prediction_depth >= n_blocks - before.top1_agreement - 1e-9).all()
    assert (found.settle_depth <= 2 * before.jsd + 1e-9).all()


@pytest.mark.parametrize("k", [1, 3, 120])
def test_overlap_of_k(k: int) -> None:
    found = lens("llama", k=k)
    assert found.overlap.attrs["formula"].endswith(f"k = {k}")
    if k == 1:
        np.testing.assert_array_equal(found.overlap, found.top1_agreement)
    if k == 120:
        assert (found.overlap.values == 1).all()


def test_cross_entropy_of_the_last_boundary_is_the_models_loss() -> None:
    model = zoo.build("llama")
    last = lens("llama").cross_entropy.isel(boundary=-1)
    for prompt, own in enumerate(zoo.prompts(model, LENGTHS)):
        ids = torch.tensor([own])
        with torch.no_grad():
            expected = model(ids, labels=ids, use_cache=False).loss.item()
        assert float(last[prompt]) == pytest.approx(expected, rel=1e-6)


def test_inner_positions_leave_out_the_first_and_the_last() -> None:
    model = zoo.build("gpt2")
    found = lens("gpt2", positions="inner")
    for prompt, own in enumerate(zoo.prompts(model, LENGTHS)):
        h = naive.boundaries(model, naive.blocks_of(model), own)
        with torch.no_grad():
            reads = [model.lm_head(model.transformer.ln_f(one)) for one in h]
        entropy = [naive.entropy_bits(read)[1:-1].mean().item() for read in reads]
        # the position before the last one predicts the last token, so that the loss has the same positions
        loss = [naive.loss(read, own)[1:].mean().item() for read in reads]
        np.testing.assert_allclose(found.entropy[prompt], entropy, rtol=1e-5)
        np.testing.assert_allclose(found.cross_entropy[prompt], loss, rtol=1e-5)


def test_inner_positions_need_three_tokens() -> None:
    known = waves.facts(waves.loaded("llama"))
    Lens(LensOptions(positions="inner")).prepare(known, waves.of_lengths(9, 3), seed=0)
    with pytest.raises(PromptError, match=r"prompt '1' has 2 tokens, and positions='inner' leaves out the first and"):
        Lens(LensOptions(positions="inner")).prepare(known, waves.of_lengths(9, 2), seed=0)


def test_answer_positions_predict_the_answer() -> None:
    model = zoo.build("gpt2")
    ids, answers = zoo.prompts(model, LENGTHS), [1, 2, 3]
    run = waves.run(waves.loaded("gpt2"), ids, {"lens": {"positions": "answer"}}, answers=answers)["lens"]
    for prompt, (own, answer) in enumerate(zip(ids, answers)):
        h = naive.boundaries(model, naive.blocks_of(model), own)
        with torch.no_grad():
            reads = [model.lm_head(model.transformer.ln_f(one)) for one in h]
        entropy = [naive.entropy_bits(read)[-1 - answer : -1].mean().item() for read in reads]
        loss = [naive.loss(read, own)[-answer:].mean().item() for read in reads]
        np.testing.assert_allclose(run.entropy[prompt], entropy, rtol=1e-5)
        np.testing.assert_allclose(run.cross_entropy[prompt], loss, rtol=1e-5)


def test_answer_positions_need_an_answer() -> None:
    known = waves.facts(waves.loaded("llama"))
    with pytest.raises(PromptError, match=r"prompt '0' has no answer, and positions='answer' looks at nothing else"):
        Lens(LensOptions(positions="answer")).prepare(known, waves.of_lengths(9, 3), seed=0)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"positions": "iner"},
            "lens: positions='iner' is unknown. Did you mean 'inner'? Allowed: all, inner, answer.",
        ),
        (
            {"norm": ("frosen",)},
            "lens: norm='frosen' is unknown. Did you mean 'frozen'? Allowed: recompute, frozen.",
        ),
        ({"norm": ()}, "lens: norm=[] is not allowed; give at least one, each once; allowed: recompute, frozen."),
        ({"k": 0}, "lens: k=0 is out of range; allowed: 1 or more."),
        ({"k": 121}, "lens: k=121 is out of range; allowed: 1 to 120."),
        ({"top_p": 0.0}, "lens: top_p=0.0 is out of range"),
        ({"top_p": 1.5}, "lens: top_p=1.5 is out of range"),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Lens(options).prepare(waves.facts(waves.loaded("llama")), waves.of_lengths(9), seed=0)
    assert message in str(caught.value)


def test_answers_weigh_by_their_own_tokens() -> None:
    """Two prompts with answers of 1 and 15 tokens: the second has 15 of the 16 tokens that means are over."""
    ids = zoo.prompts(zoo.build("llama"), (24, 20))
    prompts = [Prompt(ids=own, answer_tokens=answer) for own, answer in zip(ids, (1, 15), strict=True)]
    options: dict[str, Any] = {"lens": {"positions": "answer"}, "progress": False}
    run = bathyscope.survey(waves.loaded("llama"), prompts, ["effective_depth"], **options)
    assert run["lens"].n_averaged.values.tolist() == [1, 15]
    assert run["lens"].n_averaged_cross_entropy.values.tolist() == [1, 15]
    inputs = depth_inputs(run["residual"], run["lens"], run["skip"])
    found = estimators(inputs)
    assert found["kl"].weights.tolist() == [1, 15]
    assert found["settle"].weights.tolist() == [1, 1]  # depths of tokens weigh every prompt alike, as the verdict does
    assert found["cosine"].weights.tolist() == [24, 20]
    settle = run["lens"].settle_depth.values
    stored = run["effective_depth"].depth.sel(estimator="settle")
    assert float(stored) == pytest.approx(settle.mean())
    curve = Curve("kl_lens_final", "", Look("black"))
    weighted = summarise_curve(run["lens"], curve, FigureOptions(weighting="tokens")).summary.mean
    np.testing.assert_allclose(weighted, np.array([1, 15]) @ run["lens"].kl_lens_final.values / 16)


@pytest.mark.parametrize(
    ("positions", "counts", "with_next"),
    [("all", [9, 5], [8, 4]), ("inner", [7, 3], [7, 3]), ("answer", [2, 1], [2, 1])],
)
def test_what_means_are_over_is_counted(positions: str, counts: list[int], with_next: list[int]) -> None:
    ids = zoo.prompts(zoo.build("llama"), (9, 5))
    found = waves.run(waves.loaded("llama"), ids, {"lens": {"positions": positions}}, answers=(2, 1))["lens"]
    assert found.n_averaged.values.tolist() == counts
    assert found.n_averaged_cross_entropy.values.tolist() == with_next
