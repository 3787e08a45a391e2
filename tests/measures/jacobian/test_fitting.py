"""Fitting a Jacobian lens: against the reference formula, finite differences, products of blocks, and sums of parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from support import naive, naive_jacobian, streamed, waves, zoo
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError, StoreError
from bathyscope.measures.jacobian import fitting
from bathyscope.measures.jacobian.files import open_lens
from bathyscope.measures.jacobian.matrices import FittedLens

FIRST = 2
LENGTHS = (7, 9, 6, 8)
NAMES = [
    *("llama", "gpt2", "gpt_neox", "gemma2", "qwen3", "gpt2_sink", "falcon", "cohere2", "granite", "mixtral"),
    *("gemma4", "gemma4_plain"),  # keys and values of one block used by later ones
    *("jamba", "lfm2", "qwen3_next", "openai-gpt", "universal", "moeut"),
]


def prompts(name: str) -> list[list[int]]:
    return zoo.prompts(zoo.build(name), LENGTHS)


def fitted(name: str, **options: Any) -> FittedLens:
    return bathyscope.fit_lens(waves.loaded(name), prompts(name), skip_first=FIRST, progress=False, **options)


@cache
def exact(name: str = "llama") -> FittedLens:
    return fitted(name)


def matrices(lens: FittedLens) -> Tensor:
    return torch.stack([lens.matrix(b) for b in lens.boundaries])


def gap(found: Tensor, expected: Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@pytest.mark.parametrize("name", zoo.swept(NAMES, frozenset(("llama", "gpt_neox", "gemma4", "jamba"))))
def test_the_mean_over_prompts_is_that_of_the_reference_formula(name: str) -> None:
    model = zoo.build(name)
    expected = torch.stack([naive_jacobian.jacobians(model, ids, FIRST) for ids in prompts(name)]).mean(0)
    assert gap(matrices(exact(name)), expected) < 1e-5


def test_a_row_is_the_slope_of_the_sum_over_targets() -> None:
    """Central differences in double precision: every source token moves along one channel, all targets answer."""
    # its norms stay in double precision, where those of most families go by float32
    hf = zoo.entry("gpt2").build().double()
    ids = prompts("gpt2")[1]
    blocks, counted, step = naive.blocks_of(hf), slice(FIRST, len(ids) - 1), 1e-5
    lens = bathyscope.fit_lens(bathyscope.load(hf), [ids, ids], skip_first=FIRST, progress=False)
    sources = range(len(ids))[counted]
    for boundary, channel in ((0, 3), (1, 5)):
        moves = [
            _sum_at_the_end(hf, blocks, ids, boundary, t, channel, sign * step, counted)
            for t in sources
            for sign in (1, -1)
        ]
        slopes = [(up - down) / (2 * step) for up, down in zip(moves[::2], moves[1::2])]
        expected = torch.stack(slopes).mean(0)
        found = lens.matrix(boundary)[:, channel].double()
        assert float((found - expected).abs().max()) < 1e-6 * max(1.0, float(expected.abs().max()))


def _sum_at_the_end(
    hf: PreTrainedModel,
    blocks: nn.ModuleList,
    ids: Sequence[int],
    boundary: int,
    token: int,
    channel: int,
    by: float,
    counted: slice,
) -> Tensor:
    """Σ over targets of h_L [d] where one number of the stream at a boundary is moved."""

    def move(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        resid = args[0].clone()
        resid[0, token, channel] += by
        return (resid, *args[1:]), kwargs

    handle = blocks[boundary].register_forward_pre_hook(move, with_kwargs=True)
    try:
        return naive.boundaries(hf, blocks, ids)[-1][counted].sum(0)
    finally:
        handle.remove()


class LinearConfig(PreTrainedConfig):
    model_type = "linear_blocks"


class LinearBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.map = nn.Linear(width, width)

    def forward(self, h: Tensor) -> Tensor:
        return h + self.map(h)


class LinearModel(PreTrainedModel):
    """Tokens that never meet, and blocks that are linear: J is the product of the blocks that follow."""

    config_class = LinearConfig

    def __init__(self, width: int = 12, vocabulary: int = 20) -> None:
        super().__init__(LinearConfig(vocab_size=vocabulary))
        self.embed, self.norm = nn.Embedding(vocabulary, width), nn.LayerNorm(width)
        self.blocks = nn.ModuleList(LinearBlock(width) for _ in range(3))
        self.unembed = nn.Linear(width, vocabulary, bias=False)

    def get_input_embeddings(self) -> nn.Module:
        return self.embed

    def get_output_embeddings(self) -> nn.Module:
        return self.unembed

    def forward(self, input_ids: Tensor, use_cache: object = None, **_: object) -> CausalLMOutput:
        h = self.embed(input_ids)
        for block in self.blocks:
            h = block(h)
        return CausalLMOutput(logits=self.unembed(self.norm(h)))


def test_of_linear_blocks_it_is_their_product() -> None:
    torch.manual_seed(0)
    hf = LinearModel().eval()
    lens = bathyscope.fit_lens(hf, [[1, 2, 3, 4, 5], [6, 7, 8, 9]], skip_first=0, progress=False)
    product = torch.eye(12)
    assert torch.equal(lens.matrix(3), product)
    for boundary in (2, 1, 0):
        product = product @ (torch.eye(12) + hf.blocks[boundary].map.weight.detach())
        torch.testing.assert_close(lens.matrix(boundary), product)


def test_the_identity_is_not_sampled() -> None:
    """Where blocks add nothing, one direction is enough for the whole lens."""
    hf = LinearModel().eval()
    for block in hf.blocks:
        torch.nn.init.zeros_(block.map.weight)
    lens = bathyscope.fit_lens(hf, [[1, 2, 3, 4, 5], [6, 7, 8, 9]], directions=1, skip_first=0, progress=False)
    for boundary in lens.boundaries:
        torch.testing.assert_close(lens.matrix(boundary), torch.eye(12))
    assert float(lens.data.sampling_error.max()) < 1e-6


def test_as_many_directions_as_the_width_are_exact() -> None:
    width = exact().width
    assert gap(matrices(fitted("llama", directions=width)), matrices(exact())) < 1e-5
    assert float(exact().data.sampling_error.max()) == 0.0


def test_sampled_directions_have_the_error_that_they_state() -> None:
    truth = matrices(exact())
    ratios = []
    for seed in range(12):
        lens = fitted("llama", directions=8, seed=seed)
        error = (matrices(lens) - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)
        ratios.append(error / torch.tensor(lens.data.sampling_error.values))
    assert 0.8 < float(torch.stack(ratios).mean()) < 1.25
    means = torch.stack([matrices(fitted("llama", directions=8, seed=seed)) for seed in range(12)]).mean(0)
    single = matrices(fitted("llama", directions=8))
    # unbiased: the mean of twelve is nearer than one by about the root of twelve
    assert float((means - truth).norm()) < 0.5 * float((single - truth).norm())


def test_directions_of_a_prompt_depend_on_it_and_the_seed_alone() -> None:
    fit = fitting.LensFit(directions=3)
    first = fit.directions_of([1, 2, 3], 8)
    torch.testing.assert_close(first @ first.mT, torch.eye(3))
    assert torch.equal(first, fit.directions_of((1, 2, 3), 8))
    assert not torch.equal(first, fit.directions_of([1, 2, 4], 8))
    assert not torch.equal(first, fitting.LensFit(directions=3, seed=1).directions_of([1, 2, 3], 8))


@pytest.mark.parametrize("directions", [None, 5])
def test_lenses_of_parts_add_up_to_that_of_all(directions: int | None) -> None:
    model, ids = waves.loaded("llama"), prompts("llama")
    options: dict[str, Any] = {"skip_first": FIRST, "directions": directions, "progress": False}
    parts = [bathyscope.fit_lens(model, part, **options) for part in (ids[:2], ids[2:])]
    whole = bathyscope.fit_lens(model, ids, **options)
    together = parts[0] + parts[1]
    assert together.prompts == whole.prompts == 4
    assert together.origin.tokens == whole.origin.tokens
    assert gap(matrices(together), matrices(whole)) < 1e-6
    for name in ("half_agreement", "half_agreement_rest", "sampling_error"):
        torch.testing.assert_close(
            torch.tensor(together.data[name].values), torch.tensor(whole.data[name].values), rtol=1e-5, atol=1e-6
        )


def test_halves_are_the_prompts_in_turn() -> None:
    model, ids = zoo.build("llama"), prompts("llama")
    singles = [naive_jacobian.jacobians(model, one, FIRST) for one in ids]
    even, odd = (torch.stack(singles[half::2]).mean(0) for half in (0, 1))
    data, identity = exact().data, torch.eye(exact().width)
    for b in exact().boundaries:
        for name, (first, second) in {
            "half_agreement": (even[b], odd[b]),
            "half_agreement_rest": (even[b] - identity, odd[b] - identity),
        }.items():
            cosine = nn.functional.cosine_similarity(first.flatten(), second.flatten(), dim=0)
            assert float(data[name][b]) == pytest.approx(float(cosine), abs=1e-5)
        mean = torch.stack(singles).mean(0)[b]
        share = float(mean.trace() ** 2 / (len(mean) * mean.square().sum()))
        assert float(data.identity_share[b]) == pytest.approx(share, abs=1e-5)


@pytest.mark.parametrize("name", ["llama", "jamba"])
def test_a_streamed_model_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    folder = streamed.saved(name, tmp_path / name)
    ids = prompts(name)
    resident, lent = (
        bathyscope.fit_lens(model, ids, skip_first=FIRST, progress=False)
        for model in (bathyscope.load(folder), streamed.streamed(folder))
    )
    assert torch.equal(lent.sums_HBDD, resident.sums_HBDD)


def test_blocks_are_read_once_forward_and_once_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = streamed.streamed(streamed.saved("llama", tmp_path / "llama"))
    store, counts = model.blocks, []
    assert store is not None
    run = fitting.Fitting.run

    def counted(*arguments: Any, **options: Any) -> FittedLens:
        before = store.readings.blocks
        lens = run(*arguments, **options)
        counts.append(store.readings.blocks - before)
        return lens

    monkeypatch.setattr(fitting.Fitting, "run", counted)
    bathyscope.fit_lens(model, prompts("llama"), skip_first=FIRST, progress=False)
    # the last block is still there when the way back begins
    assert counts in ([2 * model.n_blocks], [2 * model.n_blocks - 1])


def test_little_memory_changes_how_often_blocks_run_and_no_number(monkeypatch: pytest.MonkeyPatch) -> None:
    whole, sweeps = exact(), []
    # room for a few directions of one prompt at once
    monkeypatch.setattr(fitting.Fitting, "_room", 20 * 9 * whole.width * 4)
    sweep = fitting.sweep_back
    monkeypatch.setattr(fitting, "sweep_back", lambda *arguments: sweeps.append(arguments) or sweep(*arguments))
    assert gap(matrices(fitted("llama")), matrices(whole)) < 1e-6
    assert len(sweeps) > len(LENGTHS)


class Interrupting:
    """Ctrl-C in the third group of prompts."""

    def __init__(self, fit: Any) -> None:
        self._fit, self._groups = fit, 0

    def __call__(self, *arguments: Any) -> FittedLens:
        self._groups += 1
        if self._groups == 3:
            raise KeyboardInterrupt
        lens: FittedLens = self._fit(*arguments)
        return lens


def test_an_interrupted_fit_goes_on_to_the_same_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fitting.Fitting, "_room", 1)  # each prompt is a group
    whole = fitted("llama", directions=8, out=tmp_path / "whole.safetensors")
    out = tmp_path / "lens.safetensors"
    with monkeypatch.context() as patch:
        interrupting = Interrupting(fitting.Fitting._fitted)
        patch.setattr(fitting.Fitting, "_fitted", lambda *arguments: interrupting(*arguments))
        with pytest.raises(KeyboardInterrupt):
            fitted("llama", directions=8, out=out)
    with pytest.raises(StoreError, match=r"was interrupted after 2 prompts. Give the same command again to finish it."):
        open_lens(out)
    resumed = fitted("llama", directions=8, out=out)
    assert torch.equal(resumed.sums_HBDD, whole.sums_HBDD)
    assert resumed.fingerprint == whole.fingerprint
    assert out.read_bytes() == (tmp_path / "whole.safetensors").read_bytes()
    with pytest.raises(StoreError, match="holds another lens than the one that is asked for"):
        fitted("llama", out=out, directions=3)


def refusals() -> Iterator[tuple[dict[str, Any], type[Exception], str]]:
    yield {"skip_first": 30}, PromptError, "at least 2 prompts of at least 32 tokens.*; 0 of 4 have them. Give longer"
    yield {"directions": 65}, OptionError, "directions=65 is out of range; allowed: 1 to"
    yield {"directions": 0}, OptionError, "directions=0 is out of range"
    yield {"memory": 0.001}, OptionError, "Allow more, such as memory="


@pytest.mark.parametrize(("options", "error", "message"), list(refusals()))
def test_what_cannot_be_fitted_is_refused_before_any_compute(
    options: dict[str, Any], error: type[Exception], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fitting.Fitting, "run", None)
    if "memory" in options:
        monkeypatch.setattr(fitting.LensFit, "lens_bytes", lambda *_: 1 << 30)
    with pytest.raises(error, match=message):
        bathyscope.fit_lens(
            waves.loaded("llama"), prompts("llama"), **{"skip_first": FIRST, "progress": False, **options}
        )


def test_short_prompts_are_left_out_with_a_warning() -> None:
    ids = prompts("llama")
    with pytest.warns(UserWarning, match=r"1 of 5 prompts have not at least 4 tokens .*; they are left out"):
        lens = bathyscope.fit_lens(waves.loaded("llama"), [*ids, ids[0][:3]], skip_first=FIRST, progress=False)
    assert torch.equal(lens.sums_HBDD, exact().sums_HBDD)


def test_lenses_fitted_otherwise_are_not_added() -> None:
    with pytest.raises(OptionError, match=r"Only lenses fitted alike can be added; directions is None and 3."):
        exact() + fitted("llama", directions=3)


def test_quantised_weights_are_refused() -> None:
    hf = zoo.entry("llama").build()
    hf.model.layers[0].mlp.up_proj.register_buffer("scale_weight", hf.lm_head.weight.detach().to(int))
    with pytest.raises(ModelError, match=r"A Jacobian lens needs gradients, and the weight .* is stored as int64"):
        bathyscope.fit_lens(hf, prompts("llama"), skip_first=FIRST)


def test_it_says_what_it_is() -> None:
    lens = exact()
    assert lens.text.startswith(
        "A Jacobian lens of LlamaForCausalLM, fitted to 4 prompts by all directions. Two halves"
    )
    assert list(lens.to_dataframe().index) == list(lens.boundaries)
    with pytest.raises(OptionError, match=f"no matrix of boundary 99; it has those of 0 to {lens.boundaries[-1]}"):
        lens.matrix(99)


def test_one_long_prompt_needs_company_and_no_length() -> None:
    with pytest.raises(PromptError, match=r"1 of 1 have them\. Give more prompts\."):
        bathyscope.fit_lens(waves.loaded("llama"), prompts("llama")[:1], skip_first=FIRST, progress=False)
