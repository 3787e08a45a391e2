"""Jacobian lens: what the model itself makes of J h, the same tokens for all readers, its band, and refusals."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, naive_jacobian, waves, zoo
from torch import Tensor

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.measures.jacobian.matrices import FittedLens
from bathyscope.measures.jacobian_lens import JacobianLens
from bathyscope.statistics.band import find_band
from bathyscope.statistics.sampling import Sampling

BRUTE_FORCE = (
    "test_the_model_itself_reads_the_transported_states",
    "test_what_it_says_at_single_tokens_is_what_the_model_itself_reads",
)
"""What test_looped_parity.py asks of looped models too."""

FIRST = 2
FIT, READ = (20,) * 24, (7, 12, 5)


@cache
def prompts(name: str = "llama") -> tuple[list[list[int]], list[list[int]]]:
    """Those that a lens is fitted to, and those that are surveyed."""
    ids = zoo.prompts(zoo.build(name), (*FIT, *READ))
    return ids[: len(FIT)], ids[len(FIT) :]


@cache
def lens(name: str = "llama") -> FittedLens:
    return bathyscope.fit_lens(waves.loaded(name), prompts(name)[0][:4], skip_first=FIRST, progress=False)


def surveyed(name: str = "llama", *, measures: Any = ("jacobian_lens",), **options: Any) -> bathyscope.Run:
    return bathyscope.survey(
        waves.loaded(name), prompts(name)[1], list(measures), jacobian_lens=options, progress=False
    )


def answered_by(model: Any, own: list[int], resid_TD: Tensor) -> Tensor:
    """Log-probabilities [T, V] of the model's own forward with these states in the place of its last block's."""

    def answer(module: torch.nn.Module, args: object, output: Any) -> object:
        state = resid_TD[None]
        return state if isinstance(output, Tensor) else (state, *output[1:])

    handle = naive.blocks_of(model)[-1].register_forward_hook(answer)
    try:
        return naive.logits(model, own).double().log_softmax(-1)
    finally:
        handle.remove()


@pytest.mark.parametrize("name", ["llama", "gpt_neox", "gemma2", "gemma3", "gpt2_sink"])
def test_the_model_itself_reads_the_transported_states(name: str) -> None:
    model = zoo.build(name)
    found = surveyed(name, lens=lens(name))["jacobian_lens"]
    matrices = torch.stack([naive_jacobian.jacobians(model, ids, FIRST) for ids in prompts(name)[0][:4]]).mean(0)
    for number, own in enumerate(prompts(name)[1]):
        stream = naive.boundaries(model, naive.blocks_of(model), own)
        final = naive.logits(model, own).double().log_softmax(-1)[1:]
        for reader in ("jacobian", "lens"):
            for boundary, state_TD in enumerate(stream[:-1]):
                moved_TD = state_TD @ matrices[boundary].T if reader == "jacobian" else state_TD
                read = answered_by(model, own, moved_TD)[1:]
                at = {"reader": reader, "boundary": boundary}
                kl = (final.exp() * (final - read)).sum(-1).mean()
                assert float(found.kl[number].sel(at)) == pytest.approx(float(kl), rel=2e-4, abs=1e-6)
                top = final.argmax(-1)
                agreement = (read.argmax(-1) == top).double().mean()
                assert float(found.top1_agreement[number].sel(at)) == pytest.approx(float(agreement))
                rank = 1 + (read > read.gather(-1, top[:, None])).sum(-1)
                assert float(found.mrr[number].sel(at)) == pytest.approx(float((1 / rank).mean()))


@pytest.mark.parametrize("name", ["llama", "gpt_neox"])
def test_what_it_says_at_single_tokens_is_what_the_model_itself_reads(name: str) -> None:
    """For the first tokens of the first prompts; nothing at position 0, and nothing else changes."""
    model = zoo.build(name)
    options = {"jacobian_lens": {"lens": lens(name)}, "tokens": {"prompts": 2, "length": 9}}
    found = waves.run(waves.loaded(name), prompts(name)[1], {"lens": None, **options})
    without = waves.run(waves.loaded(name), prompts(name)[1], {"jacobian_lens": options["jacobian_lens"]})
    xr.testing.assert_identical(found["jacobian_lens"], without["jacobian_lens"])
    tokens = found["tokens"]
    for number, own in enumerate(prompts(name)[1][:2]):
        stream = naive.boundaries(model, naive.blocks_of(model), own)
        length = min(len(own), 9)
        for boundary, state_TD in enumerate(stream):
            last = boundary == len(stream) - 1
            moved_TD = state_TD if last else state_TD @ lens(name).matrix(boundary).T
            likeliest = answered_by(model, own, moved_TD).max(-1)
            here = tokens.isel(prompt=number, boundary=boundary)
            np.testing.assert_array_equal(here["jacobian_id"][1:length], likeliest.indices[1:length])
            np.testing.assert_allclose(
                here["jacobian_probability"][1:length], likeliest.values[1:length].exp(), rtol=1e-4
            )
    assert (tokens["jacobian_id"].isel(token=0) == -1).all()
    assert tokens["jacobian_probability"].isel(token=0).isnull().all()
    assert (
        tokens["jacobian_id"].isel(boundary=-1, token=slice(1, 5))
        == tokens["top_id"].isel(boundary=-1, top=0, token=slice(1, 5))
    ).all()


def test_at_the_end_nothing_is_between() -> None:
    found = surveyed(lens=lens())["jacobian_lens"].isel(boundary=-1)
    assert (found.kl == 0).all()
    assert (found.top1_agreement == 1).all()
    assert (found.mrr == 1).all()


def test_a_lens_that_is_fitted_by_the_survey_is_that_of_the_call(tmp_path: Path) -> None:
    """With the maps of the translated lens fitted to the same prompts, and the same number from a file."""
    fit = prompts()[0][:4]
    by_survey = surveyed(prompts=fit, skip_first=FIRST, translated=False)["jacobian_lens"]
    by_call = surveyed(lens=lens())["jacobian_lens"]
    by_file = surveyed(lens=lens().save(tmp_path / "lens.safetensors"))["jacobian_lens"]
    for name in by_survey.data_vars:
        np.testing.assert_array_equal(by_survey[name], by_call[name], name)
        np.testing.assert_array_equal(by_file[name], by_call[name], name)
    assert by_call.attrs["fit_prompts"] == 4


def test_all_readers_see_the_same_tokens() -> None:
    found = surveyed(measures=["jacobian_lens", "lens"], prompts=prompts()[0], skip_first=FIRST)
    data, plain = found["jacobian_lens"], found["lens"]
    assert data.reader.values.tolist() == ["jacobian", "lens", "translated"]
    assert data.n_averaged.values.tolist() == [length - 1 for length in READ]
    # the plain lens of the measure lens counts the first token too
    assert not np.allclose(data.kl.sel(reader="lens"), plain.kl_final_lens)
    assert np.isfinite(data.kl).all()
    # maps by least squares are nearer to h_L than J on what they are fitted to, and random models' readouts follow
    error = data.kl.mean("prompt").isel(boundary=-2)
    assert float(error.sel(reader="translated")) < float(error.sel(reader="lens")) * 1.5


def test_too_little_text_leaves_the_translated_lens_out_with_a_warning() -> None:
    with pytest.warns(UserWarning, match=r"jacobian_lens reads without the translated lens: maps of a stream of width"):
        found = surveyed(prompts=prompts()[0][:4], skip_first=FIRST)["jacobian_lens"]
    assert found.reader.values.tolist() == ["jacobian", "lens"]


def test_the_lens_describes_itself_in_the_run() -> None:
    found = surveyed(lens=lens())["jacobian_lens"]
    for name in ("half_agreement", "half_agreement_rest", "identity_share", "sampling_error"):
        np.testing.assert_array_equal(found[name][:-1], lens().data[name])
        assert np.isnan(found[name][-1])


def test_the_band_is_that_of_the_differences() -> None:
    found = surveyed(lens=lens())["jacobian_lens"]
    gain: xr.DataArray = (found.kl.sel(reader="lens") - found.kl.sel(reader="jacobian")).isel(boundary=slice(0, -1))
    band = find_band(gain.transpose("prompt", "boundary").values, Sampling(seed=0))
    values = {"band_first": band.first, "band_last": band.last, "band_gain": band.gain, "band_p": band.p}
    for name, value in values.items():
        np.testing.assert_equal(float(found[name]), value)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("prompt_count", "times"), [(1, 8), (3, 4)])
def test_copies_show_no_band_that_the_prompts_do_not(prompt_count: int, times: int) -> None:
    """The signs of copies are exchanged together: eight copies of one prompt are one observation."""
    read = list(prompts()[1])[:prompt_count]
    options = {"lens": lens()}
    model = waves.loaded("llama")
    many = bathyscope.survey(model, read * times, ["jacobian_lens"], jacobian_lens=options, progress=False)
    found = many["jacobian_lens"]
    assert np.isnan([float(found.band_first), float(found.band_last), float(found.band_gain_low)]).all()
    if prompt_count == 1:
        assert np.isnan(found.band_p)
        return
    once = bathyscope.survey(model, read, ["jacobian_lens"], jacobian_lens=options, progress=False)["jacobian_lens"]
    # each of the 2³ assignments of signs is one, however often a prompt is given
    assert float(found.band_p) == pytest.approx(float(once.band_p))


def test_a_published_lens_without_the_first_boundary_is_read_with(tmp_path: Path) -> None:
    matrices = {b - 1: lens().matrix(b) for b in lens().boundaries if b}
    torch.save({"J": matrices, "n_prompts": 4, "d_model": lens().width}, tmp_path / "lens.pt")
    with pytest.warns(UserWarning, match="does not say which weights it was fitted to"):
        found = surveyed(lens=tmp_path / "lens.pt")["jacobian_lens"]
    whole = surveyed(lens=lens())["jacobian_lens"]
    of_jacobian = found.kl.sel(reader="jacobian")
    assert np.isnan(of_jacobian[:, 0]).all()
    np.testing.assert_allclose(of_jacobian[:, 1:], whole.kl.sel(reader="jacobian")[:, 1:], rtol=1e-4, atol=1e-7)
    np.testing.assert_array_equal(found.kl.sel(reader="lens"), whole.kl.sel(reader="lens"))


def test_another_lens_is_another_run(tmp_path: Path) -> None:
    """The file's content belongs to the identity, not its name."""
    path = lens().save(tmp_path / "lens.safetensors")
    first = surveyed(lens=path).identity.measures["jacobian_lens"]
    other = bathyscope.fit_lens(waves.loaded("llama"), prompts()[0][4:8], skip_first=FIRST, progress=False)
    other.save(path)
    second = surveyed(lens=path).identity.measures["jacobian_lens"]
    assert first["lens"] == second["lens"]
    assert first["lens_hash"] == lens().fingerprint != second["lens_hash"]


def test_answers_are_read_where_they_are_predicted() -> None:
    ids = prompts()[1]
    asked = [bathyscope.Prompt(ids=own, answer_tokens=2) for own in ids]
    run = bathyscope.survey(
        waves.loaded("llama"),
        asked,
        ["jacobian_lens"],
        jacobian_lens={"lens": lens(), "positions": "answer"},
        progress=False,
    )
    assert (run["jacobian_lens"].n_averaged == 2).all()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({}, OptionError, r"it has no fitted lens \(lens=\) and no prompts to fit one to"),
        ({"lens": "a", "prompts": "b"}, OptionError, "both are given. Give a fitted lens= or prompts="),
        ({"prompts": "own"}, PromptError, "3 of the 3 prompts that the lens would be fitted to are surveyed too"),
        ({"lens": "gpt2"}, ModelError, r"was fitted to other weights|wide and the model|blocks, and this one has"),
        ({"prompts": "fit", "directions": 1000}, OptionError, "directions=1000 is out of range; allowed: 1 to"),
    ],
)
def test_refusals(options: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"own": prompts()[1], "fit": prompts()[0]}
    options = {name: given.get(value, value) if isinstance(value, str) else value for name, value in options.items()}
    if options.get("lens") == "gpt2":
        options["lens"] = lens("gpt2")
    with pytest.raises(error, match=message):
        surveyed(**options)


@pytest.mark.parametrize("option", [{"directions": 3}, {"skip_first": 2}, {"memory": 1.0}, {"translated": False}])
def test_options_of_fitting_are_refused_next_to_a_fitted_lens(option: dict[str, Any]) -> None:
    (name,) = option
    with pytest.raises(OptionError, match=rf"jacobian_lens: {name}=.* is of fitting a lens to prompts, and lens= is"):
        surveyed(lens=lens(), **option)


def test_a_lens_of_other_weights_or_another_shape_is_refused() -> None:
    own, ids = lens(), prompts()[1]
    other = zoo.entry("llama").build()
    with torch.no_grad():
        next(other.parameters()).add_(0.01)
    with pytest.raises(ModelError, match=r"was fitted to other weights \(of LlamaForCausalLM\) than this model's"):
        bathyscope.survey(other, ids, ["jacobian_lens"], jacobian_lens={"lens": own}, progress=False)
    narrow = FittedLens(own.origin, own.boundaries, own.sums_HBDD[..., :-1, :-1], own.counts, own.squares_B)
    with pytest.raises(ModelError, match=rf"is {own.width - 1} wide and the model {own.width}; fit one to this model"):
        surveyed(lens=narrow)
    deeper = FittedLens(replace(own.origin, n_blocks=9), own.boundaries, own.sums_HBDD, own.counts, own.squares_B)
    with pytest.raises(ModelError, match=r"is of a model of 9 blocks, and this one has \d+; fit another"):
        surveyed(lens=deeper)


def test_a_survey_of_all_measures_leaves_it_out_where_nothing_is_given() -> None:
    facts, read = waves.facts(waves.loaded("llama")), waves.of_lengths(5, 6)
    reason = JacobianLens().unavailable(facts, read)
    assert reason == "it has no fitted lens (lens=) and no prompts to fit one to (prompts=)"
    assert JacobianLens({"lens": lens()}).unavailable(facts, read) is None
