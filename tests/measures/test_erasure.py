"""Residual erasure: against one forward of the real model per boundary and token, exact properties, surveys."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, naive_erasure, waves, zoo
from support.altered import counted_tokens
from support.interrupting import interrupted_after
from support.rounding import assert_same_but_rounding, floor

import bathyscope
from bathyscope import OptionError, Prompt, PromptError
from bathyscope.measures.of.erasure import Erasure, ErasureOptions
from bathyscope.model import load
from bathyscope.prompts.prompt import PromptSet

BRUTE_FORCE = ("test_against_one_forward_per_boundary_and_token",)
"""What test_looped_parity.py asks of looped models too."""

CLOSE = 2e-6
LENGTHS = (13, 7)
ANSWERS = (2, 3)

DENSE = ["llama", "gemma", "ministral", "diffllama", "minicpm3", "gpt2", "gpt_neo", "gptj", "bloom", "mpt", "falcon"]
DENSE += ["gpt2_sink"]
OTHER = [
    "phi",
    "cohere2",
    "olmo2",
    "gemma2",
    "gemma3",
    "gemma4",
    "granite",
    "opt_post_norm",
    "deepseek_v3",
    "qwen3_moe",
    "gpt_oss",
    "universal",
    "moeut",
]
WITHOUT_TAILS = ["openai-gpt", "qwen3_next", "lfm2", "jamba", "mamba2", "recurrent_gemma", "rwkv", "zamba2"]
ONE_LENGTH = ["llama_dynamic", "phi3_longrope", "deepseek_v32"]
"""Their results depend on the length of the batch: prompts of one length."""


def erased(name: str, ids: list[list[int]], answers: tuple[int | None, ...], **options: Any) -> xr.Dataset:
    return waves.run(waves.loaded(name), ids, {"erasure": options}, answers=answers)["erasure"]


@pytest.mark.parametrize("name", zoo.swept(DENSE + OTHER + WITHOUT_TAILS + ONE_LENGTH, zoo.FEWER))
def test_against_one_forward_per_boundary_and_token(name: str) -> None:
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    one_length = name in ONE_LENGTH
    ids, answers = zoo.prompts(model, (9,) if one_length else (9, 5)), ANSWERS[: 1 if one_length else 2]
    assert waves.loaded(name).checks.tails == (name not in WITHOUT_TAILS and name != "deepseek_v32")
    found = erased(name, ids, answers, future=True)
    if "dynamic" in name:
        naive.logits(model, ids[0][:4])  # another test may have left longer tables
    values = naive_erasure.mean_residual(model, blocks, ids)
    assert found.effect.shape == found.effect_future.shape == (len(ids), len(blocks) + 1, 9)
    for prompt, (own, answer) in enumerate(zip(ids, answers)):
        if "dynamic" in name:
            # the tables stay as long as the longest forward made them; a short one puts them back
            naive.logits(model, own[:4])
        effect, future = naive_erasure.erasure(model, blocks, own, answer, values)
        assert effect.max() > 1e-2
        np.testing.assert_allclose(found.effect[prompt, :, : len(own)], effect, rtol=0, atol=CLOSE)
        np.testing.assert_allclose(found.effect_future[prompt, :, : len(own)], future, rtol=0, atol=CLOSE)
        assert found.effect[prompt, :, len(own) :].isnull().all()
        assert found.effect_future[prompt, :, len(own) :].isnull().all()


@pytest.mark.parametrize("name", ["llama", "gpt2", "lfm2"])
def test_what_no_prediction_can_see_is_exactly_zero(name: str) -> None:
    """Nothing sees the last token, and h_L[t] is seen by the prediction at t alone."""
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    found = erased(name, ids, ANSWERS, future=True)
    for prompt, (own, answer) in enumerate(zip(ids, ANSWERS)):
        last = len(own) - 1
        predicting = np.arange(last - answer, last)
        assert (found.effect[prompt, :, last] == 0).all()
        assert (found.effect[prompt, :-1, :last] > 0).all()
        at_the_end = found.effect[prompt, -1, : last + 1]
        assert (at_the_end[predicting] > 1e-3).all()
        assert (np.delete(at_the_end.values, predicting) == 0).all()
        assert (found.effect_future[prompt, -1, :last] == 0).all()
        assert (found.effect_future[prompt, :-1, :last] > 0).all()
        assert found.effect_future[prompt, :, last].isnull().all()


@pytest.mark.parametrize("name", ["llama", "gemma2", "ministral", "falcon_alibi", "qwen3_moe"])
def test_erasing_with_the_true_value_changes_nothing(name: str) -> None:
    """A text of one repeated token: all values are equal, so attention gives every position the same stream."""
    same, other = [[7] * 12], [[7] * 11 + [9]]
    nothing = erased(name, same, (3,), future=True)
    assert float(nothing.effect.max()) < 1e-6
    assert float(nothing.effect_future.max()) < 1e-6
    # one other token, the last, moves the mean away from all of them
    something = erased(name, other, (3,), future=True)
    assert float(something.effect[:, :-1, :-1].max()) > 1e-3


def test_a_later_position_counts_for_the_future_only() -> None:
    """The future looks at all later positions, the effect at the answer's alone, which may be the first."""
    (ids,) = zoo.prompts(zoo.build("llama"), (9,))
    found = erased("llama", [ids], (1,), future=True)
    before = found.isel(token=slice(0, 7))
    assert (before.effect_future >= before.effect).all()
    assert (before.effect_future > before.effect).any()
    everything = erased("llama", [ids], (8,), future=True)
    # an answer of all tokens but the first: the effect also sees the erased position's own prediction, and so
    # more rows are read out at each position
    hf = zoo.build("llama")
    assert (everything.effect >= found.effect - floor(hf)).all()
    assert_same_but_rounding(everything.effect_future, found.effect_future, hf)


@pytest.mark.parametrize("name", ["llama", "gemma4", "qwen3_next"])
def test_a_batch_changes_nothing(name: str) -> None:
    ids, answers = zoo.prompts(zoo.build(name), (14, 9, 17)), (2, 1, 4)
    reference = {"reference": ids}
    together = erased(name, ids, answers, **reference)
    model = waves.loaded(name)
    for prompt, (own, answer) in enumerate(zip(ids, answers)):
        alone = surveyed(model, [Prompt(ids=own, answer_tokens=answer)], erasure=reference)
        gap = np.abs(alone.effect.values[0] - together.effect.values[prompt, :, : len(own)])
        assert gap.max() < 1e-6


def test_low_precision_is_compared_with_a_control() -> None:
    hf = zoo.entry("llama").build(dtype=torch.bfloat16)
    ids = zoo.prompts(hf, LENGTHS)
    model = load(hf)
    wide, low = (erased("llama", ids, ANSWERS), waves.run(model, ids, {"erasure": None}, answers=ANSWERS)["erasure"])
    np.testing.assert_allclose(low.effect, wide.effect, atol=2e-2)
    assert float(np.abs(low.effect - wide.effect).max()) > 1e-5


# --- the reference ---------------------------------------------------------------------------------------


def test_places_behind_which_nothing_is_predicted_are_a_warning() -> None:
    """Erasing the last token changes no prediction of the answer."""
    prompts = [Prompt(ids=ids, answer_tokens=2) for ids in zoo.prompts(zoo.build("llama"), (9, 14))]
    words = r"erasure: 2 of 4 places are a prompt's last token, behind which nothing is predicted; their effects are 0"
    with pytest.warns(UserWarning, match=words):
        last = surveyed(waves.loaded("llama"), prompts, erasure={"positions": {"at": [-1, 3]}})
    assert (last.effect_at.sel(place="-1") == 0).all()
    assert (last.effect_at.sel(place="3")[:, :-1] > 0).all()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        surveyed(waves.loaded("llama"), prompts, erasure={"positions": {"at": -2}})


def surveyed(model: Any, prompts: Any, **options: Any) -> xr.Dataset:
    return bathyscope.survey(model, prompts, "erasure", progress=False, **options)["erasure"]


def given(ids: list[list[int]]) -> list[Prompt]:
    return [Prompt(ids=own, answer_tokens=answer) for own, answer in zip(ids, ANSWERS)]


@pytest.mark.parametrize("first", [0, 1])
def test_the_reference_is_a_mean_over_tokens(first: int) -> None:
    model = zoo.build("llama")
    blocks = naive.blocks_of(model)
    ids, reference = zoo.prompts(model, LENGTHS), zoo.prompts(model, (5, 11, 2, 8), seed=1)
    values = naive_erasure.mean_residual(model, blocks, reference, first)
    options = {"reference": reference, "include_first": not first}
    found = surveyed(waves.loaded("llama"), given(ids), erasure=options)
    for prompt, (own, answer) in enumerate(zip(ids, ANSWERS)):
        effect, _ = naive_erasure.erasure(model, blocks, own, answer, values)
        np.testing.assert_allclose(found.effect[prompt, :, : len(own)], effect, rtol=0, atol=CLOSE)


def test_the_published_scale_divides_by_the_width() -> None:
    """A fault of hu2025's code: the sum over tokens per prompt, divided by the width of the stream."""
    model = zoo.build("llama")
    blocks = naive.blocks_of(model)
    ids, reference = zoo.prompts(model, LENGTHS), zoo.prompts(model, (5, 11), seed=1)
    streams = [naive.boundaries(model, blocks, own).double() for own in reference]
    published = torch.stack([stream.sum(1) / stream.shape[-1] for stream in streams]).mean(0).float()
    found = surveyed(waves.loaded("llama"), given(ids), erasure={"reference": reference, "reference_scale": "width"})
    for prompt, (own, answer) in enumerate(zip(ids, ANSWERS)):
        effect, _ = naive_erasure.erasure(model, blocks, own, answer, published)
        np.testing.assert_allclose(found.effect[prompt, :, : len(own)], effect, rtol=0, atol=CLOSE)


def test_without_a_reference_all_prompts_of_the_survey_are_it() -> None:
    """Also those that are not measured."""
    ids = zoo.prompts(zoo.build("llama"), (13, 7, 20))
    prompts = [*given(ids), Prompt(ids=ids[2])]
    with pytest.warns(UserWarning, match=r"erasure: 1 of 3 prompts are not measured \(1 without an answer\)"):
        own = surveyed(waves.loaded("llama"), prompts)
    named = surveyed(waves.loaded("llama"), given(ids), erasure={"reference": ids})
    np.testing.assert_array_equal(own.effect[:2], named.effect)
    other = surveyed(waves.loaded("llama"), given(ids))
    assert float(np.abs(other.effect - named.effect).max()) > 1e-4


def test_any_source_can_be_the_reference(tmp_path: Path) -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    file = tmp_path / "reference.jsonl"
    file.write_text("".join(json.dumps({"ids": own}) + "\n" for own in ids))
    expected = surveyed(waves.loaded("llama"), given(ids), erasure={"reference": ids})
    forms: list[Any] = [
        str(file),
        file,
        f"{file}:2",
        given(ids),
        PromptSet(tuple(given(ids)), "mine"),
        iter(ids),
        [np.array(ids[0]), torch.tensor(ids[1])],
        ErasureOptions(reference=ids),
    ]
    for number, form in enumerate(forms):
        options = form if isinstance(form, ErasureOptions) else {"reference": form}
        folder = tmp_path / str(number)
        found = surveyed(waves.loaded("llama"), given(ids), erasure=options, out=folder)
        np.testing.assert_array_equal(found.effect, expected.effect)
        again = json.loads((folder / "manifest.json").read_text())["identity"]["measures"]["erasure"]
        assert len(again["reference_hash"]) == 64


# --- which prompts are measured --------------------------------------------------------------------------


def test_prompts_that_cannot_be_measured_have_no_value() -> None:
    ids = zoo.prompts(zoo.build("llama"), (13, 7, 9, 12))
    answers = (2, 3, None, 1)
    expected = r"erasure: 2 of 4 prompts are not measured \(1 without an answer, 1 longer than max_tokens=12\)\.$"
    with pytest.warns(UserWarning, match=expected):
        found = erased("llama", ids, answers, max_tokens=12)
    assert found.sizes["token"] == 12
    assert found.effect[[0, 2]].isnull().all()
    assert found.effect[3].notnull().all()
    assert found.effect[1, :, :7].notnull().all()
    assert found.answer_start.values.tolist() == [-1, 4, -1, 11]
    assert found.piece[1].values.tolist() == [str(i) for i in ids[1]] + [""] * 5
    assert (found.piece[[0, 2]] == "").all()


def test_a_prompt_of_two_tokens() -> None:
    found = erased("llama", [[5, 9], [6, 7, 8]], (1, 1))
    assert found.effect[0, :, 0].values.min() > 1e-4
    assert (found.effect[0, :, 1] == 0).all()
    assert found.effect[0, :, 2].isnull().all()


@pytest.mark.parametrize(
    ("options", "answers", "kind", "message"),
    [
        ({"max_tokens": 1}, ANSWERS, OptionError, "erasure: max_tokens=1 is out of range; allowed: 2 or more, or None"),
        (
            {"reference_scale": "widht"},
            ANSWERS,
            OptionError,
            "erasure: reference_scale='widht' is unknown. Did you mean 'width'? Allowed: mean, width.",
        ),
        ({}, (None, None), PromptError, "none of the 2 prompts has one; give answer= with text=, or answer_tokens="),
        (
            {"max_tokens": 6, "shortest": 0},
            ANSWERS,
            PromptError,
            "all 2 prompts with an answer are longer than max_tokens=6 (the shortest has 7 tokens); give shorter",
        ),
    ],
)
def test_refused_before_any_compute(
    options: dict[str, Any], answers: tuple[int | None, ...], kind: type[Exception], message: str
) -> None:
    model = waves.loaded("llama")
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    prompts = [Prompt(ids=own, answer_tokens=answer) for own, answer in zip(ids, answers)]
    with pytest.raises(kind) as caught:
        bathyscope.survey(model, prompts, "erasure", erasure=options, progress=False)
    assert message in str(caught.value)


def test_a_reference_of_one_token_is_no_mean() -> None:
    model = waves.loaded("llama")
    options = {"reference": [[5, 9]], "include_first": False}
    with pytest.raises(
        PromptError, match=r"the reference set has 1 tokens .* \(include_first=False\); give at least 2"
    ):
        surveyed(model, [Prompt(ids=[5, 6, 7], answer_tokens=1)], erasure=options)


def test_no_such_reference() -> None:
    with pytest.raises(PromptError, match="gsm9k"):
        surveyed(waves.loaded("llama"), [Prompt(ids=[5, 6, 7], answer_tokens=1)], erasure={"reference": "gsm9k:3"})


# --- surveys ---------------------------------------------------------------------------------------------


def test_an_interrupted_survey_resumes_to_the_same_bits(tmp_path: Path) -> None:
    """The reference is computed again; what was finished is kept."""
    model = waves.loaded("llama")
    ids = zoo.prompts(zoo.build("llama"), (12, 9, 14, 11))
    prompts = [Prompt(ids=own, answer_tokens=2) for own in ids]
    options: dict[str, Any] = {"erasure": {"reference": zoo.prompts(zoo.build("llama"), (8, 6), seed=2)}}
    whole = surveyed(model, prompts, batch_tokens=16, **options)
    with interrupted_after(4):
        surveyed(model, prompts, batch_tokens=16, out=tmp_path / "run", **options)
    done = len(list((tmp_path / "run").rglob("*.nc")))
    assert 0 < done < 4
    resumed = surveyed(model, prompts, batch_tokens=16, out=tmp_path / "run", **options)
    xr.testing.assert_identical(resumed, whole)
    other = {"reference": [[5, 6, 7]]}
    with pytest.raises(bathyscope.StoreError, match="reference"):
        surveyed(model, prompts, batch_tokens=16, out=tmp_path / "run", erasure=other)


@pytest.mark.filterwarnings("ignore:erasure. 1 of 3 prompts are not measured")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_noise_is_the_controls(dtype: torch.dtype) -> None:
    model = load(zoo.entry("llama").build(dtype=dtype))
    ids = zoo.prompts(model.hf, LENGTHS)
    prompts = [*given(ids), Prompt(ids=ids[0])]
    run = bathyscope.survey(model, prompts, ["erasure", "drop"], progress=False)
    assert run["noise"].measure.values.tolist() == ["erasure", "drop"]
    floor = float(run["noise"].floor.sel(measure="erasure"))
    assert 0 <= floor < (1e-6 if dtype == torch.float32 else 0.1 * float(run["erasure"].effect.max()))


@pytest.mark.filterwarnings("ignore:skip. .* too short for a sampled position")
def test_beside_other_measures_the_numbers_are_the_same() -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    model = waves.loaded("llama")
    together = bathyscope.survey(model, given(ids), ["skip", "erasure", "swap"], progress=False)["erasure"]
    xr.testing.assert_identical(together, surveyed(model, given(ids)))


def test_the_estimate_of_rows_is_the_compute() -> None:
    """Tokens that blocks are given, against rows · tokens · blocks of the plain forward's."""
    model = waves.loaded("llama")
    (ids,) = zoo.prompts(model.hf, (40,))
    with counted_tokens(model) as calls:
        surveyed(model, [Prompt(ids=ids, answer_tokens=2)])
    measure = Erasure(ErasureOptions())
    expected = measure.rows_per_prompt(waves.facts(model), 40) * 40 * model.n_blocks
    assert expected / 1.5 < sum(calls) < expected * 1.5
