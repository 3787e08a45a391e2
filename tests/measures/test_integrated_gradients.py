"""Integrated gradients: completeness, parity with one forward and backward per step, options, what is left out."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive_gradients, waves, zoo

import bathyscope
from bathyscope import Prompt
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.measures.of.integrated_gradients import IntegratedGradients, IntegratedGradientsOptions
from bathyscope.model import Model
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.gradients import integrate

BRUTE_FORCE = ("test_parity_with_one_pass_per_step",)
"""What test_looped_parity.py asks of looped models too."""

STEPS = 2
POINTS = [(k / STEPS, 1 / STEPS) for k in range(STEPS)]
NAMES = [
    *("llama", "mistral", "gpt2", "gpt_neo", "deepseek_v3", "llama_dynamic", "gpt2_sink"),
    *("gpt_neox", "gptj", "falcon", "falcon_serial", "phi", "cohere2"),  # parallel, and one of them in series
    *("olmo2", "gemma2", "gemma3", "glm4"),  # norms on the outputs
    *("granite", "granitemoeshared", "hyperclovax"),  # scaled contributions
    *("mixtral", "llama4"),  # experts
    *("universal", "moeut"),  # blocks that run several times
    *("bloom", "mpt", "opt", "gemma4"),  # residual-added outputs, flat outputs, other contributions
    *("jamba", "falcon_h1", "lfm2", "olmo_hybrid"),  # recurrences and convolutions
]
WITHOUT_PARTS = ["mamba", "opt_post_norm"]


def attributions(model: Model, ids: list[list[int]], answers: list[int | None], **options: object) -> xr.Dataset:
    return waves.run(model, ids, {"integrated_gradients": options}, answers=answers)["integrated_gradients"]


def relative(found: xr.DataArray, wanted: np.ndarray, scale: float) -> float:
    assert found.shape == wanted.shape
    return float(np.abs(found.values - wanted).max() / scale)


@pytest.mark.filterwarnings("ignore:integrated_gradients. this .* has no separable")
@pytest.mark.parametrize("name", zoo.swept([*NAMES, *WITHOUT_PARTS], zoo.FEWER))
def test_parity_with_one_pass_per_step(name: str) -> None:
    model = zoo.build(name)
    (ids,) = zoo.prompts(model, (5,))
    found = attributions(waves.loaded(name), [ids], [2], mode="exact", steps=STEPS)
    sites = ["block"] if name in WITHOUT_PARTS else ["block", "attention", "mlp"]
    for site in sites:
        wanted, completeness = naive_gradients.integrated(model, ids, 2, site, POINTS)
        own, scale = found.sel(site=site, prompt=0), float(np.abs(wanted).max())
        assert relative(own.attribution, wanted, scale) < 5e-5
        assert relative(own.completeness, completeness, scale) < 5e-5
    assert (found.attribution.isel(token=-1).sel(site=sites) == 0).all()
    assert found.attribution.isnull().any() == (name in WITHOUT_PARTS)
    wanted_p = float(naive_gradients.probability(model, ids, 2).detach())
    assert float(found.probability[0]) == pytest.approx(wanted_p, rel=1e-5)


def test_parity_of_the_published_fault_in_the_baseline() -> None:
    model = zoo.build("llama")
    (ids,) = zoo.prompts(model, (6,))
    found = attributions(waves.loaded("llama"), [ids], [2], mode="exact", steps=STEPS, baseline="channels")
    right = attributions(waves.loaded("llama"), [ids], [2], mode="exact", steps=STEPS)
    for site in ("block", "attention", "mlp"):
        wanted, _ = naive_gradients.integrated(model, ids, 2, site, POINTS, "channels")
        scale = float(np.abs(wanted).max())
        assert relative(found.sel(site=site, prompt=0).attribution, wanted, scale) < 5e-5
        assert relative(right.sel(site=site, prompt=0).attribution, wanted, scale) > 0.1


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gemma2", "granite"])
def test_parity_of_logits_with_one_pass_per_step(name: str) -> None:
    """Also where logits are capped or scaled."""
    model = zoo.build(name)
    (ids,) = zoo.prompts(model, (5,))
    found = attributions(waves.loaded(name), [ids], [2], mode="exact", steps=STEPS, target="logit")
    of_probability = attributions(waves.loaded(name), [ids], [2], mode="exact", steps=STEPS)
    for site in ("block", "attention", "mlp"):
        wanted, completeness = naive_gradients.integrated(model, ids, 2, site, POINTS, target="logit")
        own, scale = found.sel(site=site, prompt=0), float(np.abs(wanted).max())
        assert relative(own.attribution, wanted, scale) < 5e-5
        assert relative(own.completeness, completeness, scale) < 5e-5
        assert relative(of_probability.sel(site=site, prompt=0).attribution, wanted, scale) > 0.1
    assert float(found.logit[0]) == pytest.approx(float(naive_gradients.logit(model, ids, 2).detach()), rel=1e-4)
    assert float(found.probability[0]) == float(of_probability.probability[0])
    assert "logit" not in of_probability
    assert found.attribution.attrs["long_name"] == "integrated gradients of the answer's logit"
    assert "P = Σ_j logit of y_j" in found.attribution.attrs["formula"]
    assert of_probability.attribution.attrs["long_name"] == "integrated gradients of the answer's probability"


def test_attributions_of_logits_are_complete() -> None:
    ids = zoo.prompts(zoo.build("llama"), (5,))
    fast = attributions(waves.loaded("llama"), ids, [2], target="logit")
    scale = np.abs(fast.attribution).max(("prompt", "block", "token"))
    assert (np.abs(fast.completeness).max(("prompt", "block")) < 1e-4 * scale).all()


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gemma4", "olmo2"])
def test_attributions_become_complete_with_more_steps(name: str) -> None:
    ids = zoo.prompts(zoo.build(name), (5,))
    gaps = [
        np.abs(attributions(waves.loaded(name), ids, [2], mode="exact", steps=steps).completeness).max(
            ("prompt", "block")
        )
        for steps in (32, 128)
    ]
    fast = attributions(waves.loaded(name), ids, [2])
    scale = np.abs(fast.attribution).max(("prompt", "block", "token"))
    assert (gaps[1] < gaps[0] / 3).all()  # the left sum errs by one over the number of steps
    assert (gaps[1] < 0.03 * scale).all()
    assert (np.abs(fast.completeness).max(("prompt", "block")) < 1e-4 * scale).all()


def test_a_short_path_is_the_gradient_itself() -> None:
    """One step of the left sum takes the gradient at the baseline."""
    model = zoo.build("llama")
    (ids,) = zoo.prompts(model, (6,))
    found = attributions(waves.loaded("llama"), [ids], [2], mode="exact", steps=1, sites="block")
    wanted, _ = naive_gradients.integrated(model, ids, 2, "block", [(0.0, 1.0)])
    assert found.site.values.tolist() == ["block"]
    assert relative(found.attribution[0, 0], wanted, float(np.abs(wanted).max())) < 5e-5


@pytest.mark.filterwarnings("ignore:integrated_gradients. 1 of 4 prompts")
def test_a_ragged_batch_equals_its_prompts_one_by_one() -> None:
    model = waves.loaded("llama")
    ids, answers = zoo.prompts(model.hf, (9, 5, 12, 7)), [2, 1, None, 3]
    together = attributions(model, ids, answers, mode="exact", steps=4)
    assert together.sizes["token"] == 9  # the longest that is measured
    assert together.answer_start.values.tolist() == [7, 4, -1, 4]
    assert together.isel(prompt=2)[["attribution", "completeness", "probability"]].to_dataarray().isnull().all()
    for number in (0, 1, 3):
        alone = attributions(model, [ids[number]], [answers[number]], mode="exact", steps=4).isel(prompt=0)
        length, scale = len(ids[number]), float(np.abs(alone.attribution).max())
        own = together.isel(prompt=number)
        assert relative(own.attribution[..., :length], alone.attribution.values, scale) < 2e-5
        assert relative(own.completeness, alone.completeness.values, scale) < 2e-5
        assert own.attribution[..., length:].isnull().all()
        assert own.piece.values.tolist() == [str(i) for i in ids[number]] + [""] * (9 - length)


def test_sizes_of_calls_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    model = waves.loaded("gemma4")
    ids = zoo.prompts(model.hf, (5,))
    large = attributions(model, ids, [2], mode="exact", steps=3)
    monkeypatch.setattr(integrate, "_SAVED_BYTES", 1)  # one row in every call
    small = attributions(model, ids, [2], mode="exact", steps=3)
    assert relative(small.attribution, large.attribution.values, float(np.abs(large.attribution).max())) < 1e-5


@pytest.mark.parametrize(
    "mode", [nullcontext(), torch.no_grad(), torch.inference_mode()], ids=["on", "off", "inference"]
)
def test_the_model_and_the_callers_mode_stay_as_they_were(mode: AbstractContextManager[None]) -> None:
    hf = zoo.entry("llama").build()
    hf.train()
    hf.lm_head.weight.requires_grad_(False)
    flags = [p.requires_grad for p in hf.parameters()]
    prompts = [Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(hf, (6,))]
    model = bathyscope.load(hf)
    with mode:
        enabled = torch.is_grad_enabled()
        run = bathyscope.survey(
            model, prompts, ["integrated_gradients", "gradient"], progress=False, integrated_gradients={"nodes": 8}
        )
        assert torch.is_grad_enabled() == enabled
    assert [p.requires_grad for p in hf.parameters()] == flags
    assert all(p.grad is None for p in hf.parameters())
    assert all(module.training for module in hf.modules())
    assert not any(module._forward_hooks for module in hf.modules())
    wanted = attributions(waves.loaded("llama"), [list(prompts[0].ids or ())], [2], nodes=8)
    scale = float(np.abs(wanted.attribution).max())
    assert relative(run["integrated_gradients"].attribution, wanted.attribution.values, scale) < 1e-5


@pytest.mark.parametrize(("dtype", "close"), [(torch.float64, 1e-5), (torch.float16, 0.01), (torch.bfloat16, 0.08)])
def test_other_dtypes(dtype: torch.dtype, close: float) -> None:
    model = bathyscope.load(zoo.entry("llama").build(dtype=dtype))
    ids = zoo.prompts(model.hf, (6,))
    wanted = attributions(waves.loaded("llama"), ids, [2], nodes=8).attribution
    found = attributions(model, ids, [2], nodes=8).attribution
    assert relative(found, wanted.values, float(np.abs(wanted).max())) < close


def test_small_gradients_do_not_vanish_in_float16() -> None:
    """All gradients of this map are far below float16's smallest normal number, 6e-5."""
    half = zoo.entry("llama").build()
    with torch.no_grad():
        half.lm_head.weight.mul_(16)
    single = bathyscope.load(copy.deepcopy(half))
    ids = zoo.prompts(half, (6,), seed=2)
    found, wanted = (attributions(model, ids, [1], nodes=8) for model in (bathyscope.load(half.half()), single))
    scale = float(np.abs(wanted.attribution).max())
    assert scale < 1e-7
    assert relative(found.attribution, wanted.attribution.values, scale) < 0.1


def test_fast_agrees_with_many_nodes_on_a_trained_model(shared: Callable[[str], Path]) -> None:
    """On this prompt 32 nodes miss a sharp turn of some blocks' paths; they are refined where that shows."""
    model = bathyscope.load(str(shared("checkpoints/stories260K")))
    prompts = [
        Prompt(text="Once upon a time, there was a little girl named Lily", answer=" Lily"),
        Prompt(text="The dog was very happy", answer=" happy"),
    ]

    def maps(**options: object) -> xr.DataArray:
        run = bathyscope.survey(
            model, prompts, ["integrated_gradients"], progress=False, integrated_gradients={"sites": "block", **options}
        )
        return run["integrated_gradients"].attribution

    many = maps(nodes=128, refine=False)
    scale = np.abs(many).max(("site", "block", "token"))
    gap = np.abs(maps() - many).max(("site", "block", "token")) / scale
    plain = np.abs(maps(refine=False) - many).max(("site", "block", "token")) / scale
    assert (gap < 1e-4).all()
    assert plain[0] > 1e-3
    assert plain[1] < 1e-4


def prepared(prompts: list[TokenizedPrompt], name: str = "llama", **options: object) -> IntegratedGradients:
    measure = IntegratedGradients(IntegratedGradientsOptions(**options))  # type: ignore[arg-type]
    measure.prepare(waves.facts(waves.loaded(name)), prompts, seed=0)
    return measure


def answered(*lengths: int) -> list[TokenizedPrompt]:
    return [replace(prompt, answer_tokens=1) for prompt in waves.of_lengths(*lengths)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {"sites": ("atention",)},
            "sites='atention' is unknown. Did you mean 'attention'? Allowed: block, attention, mlp.",
        ),
        ({"sites": ()}, "sites=[] is not allowed; give at least one, each once; allowed: block, attention, mlp."),
        (
            {"sites": ("mlp", "mlp")},
            "sites=['mlp', 'mlp'] is not allowed; give at least one, each once; allowed: block, at",
        ),
        ({"mode": "exakt"}, "mode='exakt' is unknown. Did you mean 'exact'? Allowed: fast, exact."),
        ({"baseline": "token"}, "baseline='token' is unknown. Did you mean 'tokens'? Allowed: tokens, channels."),
        ({"steps": 64}, "steps=64 is of mode='exact', and mode='fast' takes none; give mode='exact', or leave steps"),
        ({"mode": "exact", "nodes": 4}, "nodes=4 is of mode='fast', and mode='exact' takes none; give mode='fast', or"),
        ({"steps": 0}, "integrated_gradients: steps=0 is out of range; allowed: 1 to 65536."),
        ({"nodes": 257}, "integrated_gradients: nodes=257 is out of range; allowed: 1 to 256."),
        (
            {"max_tokens": 1},
            "integrated_gradients: max_tokens=1 is out of range; allowed: 2 or more, or None (no limit).",
        ),
    ],
)
def test_wrong_options(options: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        prepared(answered(9), **options)
    assert message in str(caught.value)


def test_prompts_that_cannot_be_measured() -> None:
    with pytest.raises(PromptError) as caught:
        prepared(waves.of_lengths(9, 9))
    assert str(caught.value) == (
        "integrated_gradients measures the prediction of the answer, and none of the 2 prompts has one; give answer= "
        "with text=, or answer_tokens= with ids=; or let the model write one (write=1, --write 1)."
    )
    with pytest.raises(PromptError) as caught:
        prepared(answered(70, 90), shortest=0)
    assert str(caught.value).startswith(
        "integrated_gradients: all 2 prompts with an answer are longer than max_tokens=64 (the shortest has 70 "
        "tokens); give shorter prompts or a larger max_tokens."
    )
    with pytest.raises(PromptError, match="the shortest has 257 tokens"):
        prepared(answered(257, 300))
    with pytest.warns(UserWarning, match=r"1 of 4 prompts are not measured \(1 longer than max_tokens=64\)"):
        assert prepared(answered(90, 70, 80, 100))._measured == {0, 1, 2}
    with pytest.warns(UserWarning, match=r"2 of 3 prompts are not measured \(1 without an answer, 1 longer than max_t"):
        prepared([*waves.of_lengths(9), *answered(70, 8)])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepared(answered(70, 8), max_tokens=None)


def test_parts_of_models_without_parts() -> None:
    with pytest.raises(ModelError, match=r"integrated_gradients of mlp needs attention and MLP contributions, which"):
        prepared(answered(9), "mamba", sites=("block", "mlp"))
    with pytest.warns(
        UserWarning, match=r"this mamba model has no separable contributions of attention and MLP; their"
    ):
        prepared(answered(9), "mamba")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        prepared(answered(9), "mamba", sites=("block",))


def test_progress_reaches_the_end() -> None:
    model = waves.loaded("llama")
    known, shares = waves.facts(model), list[float]()
    measure = prepared(answered(6, 9), nodes=2)
    batch = waves.Batch.of(zoo.prompts(model.hf, (6, 9)), answers=[1, 1])
    wave = waves.Wavefront(model.anatomy, tails=True)
    probe = measure.probe(known, batch, [0, 1])
    wave.run(batch, [probe])
    probe.after(wave, shares.append)
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1)
    assert len(shares) == 2 * model.n_blocks
