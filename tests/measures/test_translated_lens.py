"""Translated lens: against least squares on the models' own states, read out by the models themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo
from support.interrupting import interrupted_after
from torch import Tensor

import bathyscope
from bathyscope.errors import OptionError, PromptError
from bathyscope.measures.translated_lens import TranslatedLens, TranslatedLensProbe
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.least_squares import RIDGE
from bathyscope.statistics.splits import Splits, split

BRUTE_FORCE = ("test_equals_least_squares_on_the_models_own_states",)
"""What test_looped_parity.py asks of looped models too."""

LENGTHS = (20, 30, 17, 26, 25, 15) * 4
FIT = 356
"""Tokens of the prompts that are fitted to with seed 0, position 0 left out."""
Array = np.ndarray


@cache
def ids(name: str = "llama") -> list[list[int]]:
    return zoo.prompts(zoo.build(name), LENGTHS)


def surveyed(model: Any = None, prompts: Any = None, **options: Any) -> bathyscope.Run:
    given = model or waves.loaded("llama"), prompts or ids()
    return bathyscope.survey(*given, ["translated_lens"], progress=False, **options)


@cache
def found() -> xr.Dataset:
    return surveyed()["translated_lens"]


@cache
def dealt() -> Splits:
    return split(len(LENGTHS), 0.1, 0.2, 0)


def gathered(model: Any, name: str, numbers: Sequence[int]) -> list[Array]:
    """[L+1, tokens, width] of each prompt run alone by the model itself."""
    found = []
    for own in (ids(name)[n] for n in numbers):
        if "dynamic" in name:
            # the tables stay as long as the longest forward made them; a short one puts them back
            naive.logits(model, own[:4])
        found.append(naive.boundaries(model, naive.blocks_of(model), own).double().numpy())
    return found


def read_by_the_model(model: Any, own: Sequence[int], resid_TD: Tensor) -> Tensor:
    """Logits [T, V] of a boundary: the model's own forward with its last block answering it."""

    def answer(module: torch.nn.Module, args: object, output: Any) -> object:
        held = output if isinstance(output, Tensor) else output[0]
        state = resid_TD[None].to(held)
        return state if isinstance(output, Tensor) else type(output)([state, *output[1:]])

    handle = naive.blocks_of(model)[-1].register_forward_hook(answer)
    try:
        return naive.logits(model, own)
    finally:
        handle.remove()


def regression(x: Array, y: Array, penalty: float) -> tuple[Array, Array]:
    """(W, b) of ridge regression on standardised features by lstsq, with rows for the penalty."""
    extra = np.sqrt(penalty * len(x)) * np.diag(x.std(0))
    design, aim = np.vstack([x - x.mean(0), extra]), np.vstack([y - y.mean(0), np.zeros((x.shape[1], y.shape[1]))])
    weights = np.linalg.lstsq(design, aim)[0]
    return weights, y.mean(0) - x.mean(0) @ weights


def by_hand(model: Any, name: str, counted: slice = slice(1, None)) -> dict[str, Array]:
    """Every variable [held-out prompt, …], and the penalties, from the definition."""
    fit, choose = (
        np.concatenate([states[:, counted] for states in gathered(model, name, part)], axis=1)
        for part in (dealt().fit, dealt().choose)
    )
    maps, penalties = [], []
    for boundary in range(len(fit) - 1):
        tried = [regression(fit[boundary], fit[-1], penalty) for penalty in RIDGE]
        best = int(np.argmin([((choose[-1] - choose[boundary] @ w - b) ** 2).sum() for w, b in tried]))
        maps.append(tried[best])
        penalties.append(RIDGE[best])
    rows: dict[str, list[Any]] = {"kl": [], "top1_agreement": [], "prediction_depth": []}
    for number, states in zip(dealt().test, gathered(model, name, dealt().test)):
        own = ids(name)[number]
        final = naive.logits(model, own)[counted]
        mapped = [*(x @ w + b for x, (w, b) in zip(states, maps)), states[-1]]
        reads = [
            [read_by_the_model(model, own, torch.from_numpy(state))[counted] for state in stream]
            for stream in (mapped, states)
        ]
        rows["kl"].append([[naive.kl(final, read).mean() for read in stream] for stream in reads])
        same = np.array([[(read.argmax(-1) == final.argmax(-1)).numpy() for read in stream] for stream in reads])
        rows["top1_agreement"].append(same.mean(-1))
        depths = [
            [max([0, *(b + 1 for b in range(len(one)) if not one[b, t])]) for t in range(one.shape[1])] for one in same
        ]
        rows["prediction_depth"].append(np.mean(depths, axis=-1))
    return {**{variable: np.array(values) for variable, values in rows.items()}, "ridge": np.array([*penalties, 0.0])}


@pytest.mark.parametrize(
    "name",
    [
        *("falcon", "lfm2", "llama_tied", "gemma2", "gemma3", "universal", "gpt2_sink"),
        *(
            pytest.param(name, marks=pytest.mark.thorough)
            for name in ("llama", "gpt2", "gpt_neox", "recurrent_gemma", "mamba")
        ),
    ],
)
def test_equals_least_squares_on_the_models_own_states(name: str) -> None:
    """Sequential and parallel blocks, recurrent ones, tied embeddings, shared weights; in double precision."""
    reference = zoo.entry(name).build().double()
    got = surveyed(waves.load(zoo.entry(name).build().double()), ids(name))["translated_lens"]
    for variable, expected in by_hand(reference, name).items():
        values = got[variable].values
        if variable != "ridge":
            assert np.isnan(np.delete(values, dealt().test, axis=0)).all()
            values = values[list(dealt().test)]
        np.testing.assert_allclose(values, expected, atol=1e-6, err_msg=variable)


def test_answers_alone_are_fitted_to_and_read_where_they_are_predicted() -> None:
    prompts = [bathyscope.Prompt(ids=own, answer_tokens=len(own) - 3) for own in ids()]
    double = zoo.entry("llama").build().double()
    got = surveyed(waves.load(double), prompts, translated_lens={"positions": "answer"})["translated_lens"]
    assert got.attrs["fit_tokens"] == FIT - 2 * len(dealt().fit)
    assert got["n_averaged"].values[list(dealt().test)].tolist() == [LENGTHS[i] - 3 for i in dealt().test]
    for variable, expected in by_hand(zoo.entry("llama").build().double(), "llama", slice(2, -1)).items():
        values = got[variable].values if variable == "ridge" else got[variable].values[list(dealt().test)]
        np.testing.assert_allclose(values, expected, atol=1e-6, err_msg=variable)


def test_prompts_without_an_answer_have_none_to_be_read() -> None:
    with pytest.raises(PromptError, match=r"prompt '0' has no answer, and positions='answer' looks at nothing else"):
        surveyed(translated_lens={"positions": "answer"})


def test_at_the_last_boundary_nothing_is_mapped() -> None:
    held = found().isel(prompt=list(dealt().test))
    last = held.isel(boundary=-1)
    assert (last["kl"] == 0).all()
    assert (last["top1_agreement"] == 1).all()
    assert (held["kl"].isel(boundary=-2) > 0).all()
    # fitted like the others, the map would be the identity to rounding
    states = np.concatenate([one[-1, 1:] for one in gathered(zoo.build("llama"), "llama", dealt().fit)])
    weights, bias = regression(states, states, 0.0)
    np.testing.assert_allclose(states @ weights + bias, states, atol=1e-9)


def test_prompts_that_are_fitted_to_have_no_value() -> None:
    held = np.isin(np.arange(len(LENGTHS)), dealt().test)
    for variable in ("kl", "top1_agreement", "prediction_depth"):
        missing = found()[variable].isnull()
        assert missing.isel(prompt=~held).all()
        assert not missing.isel(prompt=held).any()
    assert found()["n_averaged"].values.tolist() == [(n - 1) * one for n, one in zip(LENGTHS, held.tolist())]
    assert found().attrs["fit_tokens"] == FIT == sum(LENGTHS[i] - 1 for i in dealt().fit)


def test_decodable_and_readable_are_means_over_the_held_out_prompts() -> None:
    held = found()["prediction_depth"].values[list(dealt().test)].mean(0)
    assert [float(found()["decodable"]), float(found()["readable"])] == pytest.approx(held.tolist())
    assert 0 < float(found()["decodable"]) <= 5


def test_other_measures_keep_their_numbers() -> None:
    together = bathyscope.survey(waves.loaded("llama"), ids(), ["residual", "lens", "translated_lens"], progress=False)
    alone = bathyscope.survey(waves.loaded("llama"), ids(), ["residual", "lens"], progress=False)
    for name in alone:
        xr.testing.assert_identical(together[name], alone[name])


@pytest.mark.parametrize("batch_tokens", [1, pytest.param(60, marks=pytest.mark.thorough), 10_000])
def test_shards_change_nothing(batch_tokens: int) -> None:
    """The maps not a bit; what is read with them as far as a forward depends on the prompts beside it."""
    double = waves.load(zoo.entry("llama").build().double())
    whole, cut = (surveyed(double, batch_tokens=size)["translated_lens"] for size in (300, batch_tokens))
    np.testing.assert_array_equal(whole["ridge"], cut["ridge"])
    for variable in ("kl", "top1_agreement", "prediction_depth", "decodable", "readable"):
        np.testing.assert_allclose(whole[variable], cut[variable], rtol=0, atol=1e-10, err_msg=variable)


def test_the_maps_are_the_same_to_the_bit_whatever_the_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    read, kept = TranslatedLens.read_reference, []

    def keeping(measure: TranslatedLens, *given: Any) -> None:
        read(measure, *given)
        kept.append(measure.translators.weights_LDD.numpy().tobytes())

    monkeypatch.setattr(TranslatedLens, "read_reference", keeping)
    for batch_tokens in (1, 10_000):
        surveyed(batch_tokens=batch_tokens)
    assert kept[0] == kept[1]


def test_interrupted_and_resumed(tmp_path: Path) -> None:
    whole = surveyed(batch_tokens=60)
    with interrupted_after(4, TranslatedLensProbe, "result"):
        surveyed(batch_tokens=60, out=tmp_path / "run")
    resumed = surveyed(batch_tokens=60, out=tmp_path / "run")
    xr.testing.assert_identical(resumed["translated_lens"], whole["translated_lens"])
    xr.testing.assert_identical(bathyscope.open(tmp_path / "run")["translated_lens"], whole["translated_lens"])


def test_the_seed_deals_the_prompts_out() -> None:
    other = surveyed(seed=1)["translated_lens"]
    held = np.flatnonzero(other["n_averaged"].values)
    assert tuple(held) == split(len(LENGTHS), 0.1, 0.2, 1).test != dealt().test


def test_copies_of_what_is_read_are_not_fitted_to() -> None:
    prompts = [TokenizedPrompt(str(n), (n % 9,) * 40) for n in range(27)]
    measure = TranslatedLens()
    for seed in range(20):
        measure.prepare(waves.facts(waves.loaded("llama")), prompts, seed)
        parts = (measure.splits.fit, measure.splits.choose, measure.splits.test)
        assert sum(len({prompts[i].ids for i in part}) for part in parts) == 9
    assert "it needs at least 4 different prompts" in str(
        measure.unavailable(waves.facts(waves.loaded("llama")), prompts[:3] * 9)
    )


def refusal(lengths: Sequence[int], error: type[Exception], width: int = 64) -> str:
    facts = waves.facts(waves.loaded("llama"))
    facts = replace(facts, anatomy=replace(facts.anatomy, width=width))
    with pytest.raises(error) as caught:
        TranslatedLens().prepare(facts, waves.of_lengths(*lengths), 0)
    return str(caught.value)


def test_too_little_text_is_refused_with_what_is_needed() -> None:
    assert refusal((400, 400, 400), PromptError) == (
        "translated_lens: it needs at least 4 different prompts (to fit maps to, to choose their penalties by, and two "
        "to read); 3 given; give more, or leave translated_lens out."
    )
    assert refusal((26,) * 14, PromptError) == (
        "translated_lens: maps of a stream of width 64 need at least 260 tokens to be fitted to (4 for each of a "
        "channel's 65 values; position 0 left out); there are 10 of 14 prompts for it, with 250; give more or longer "
        "prompts, or leave translated_lens out."
    )
    TranslatedLens().prepare(waves.facts(waves.loaded("llama")), waves.of_lengths(*[27] * 14), 0)


def test_sums_beyond_the_memory_are_refused() -> None:
    assert refusal([5000] * 10, OptionError, width=6000) == (
        "translated_lens: the sums for 5 maps of width 6000 take 5.36 GiB, more than memory=4; allow more, where the "
        "machine has it, or leave translated_lens out."
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"test_share": 0.0}, "translated_lens: test_share=0.0 is out of range; allowed: 0.01 to 0.98."),
        ({"choose_share": 1.0}, "translated_lens: choose_share=1.0 is out of range; allowed: 0.01 to 0.98."),
        ({"memory": 0.0}, "translated_lens: memory=0.0 is out of range; allowed: 0.001 or more."),
        (
            {"choose_share": 0.5, "test_share": 0.5},
            "translated_lens: choose_share=0.5 and test_share=0.5 leave no prompts to fit maps to; together they "
            "must be below 1.",
        ),
    ],
)
def test_options_out_of_range(options: Any, message: str) -> None:
    with pytest.raises(OptionError) as caught:
        surveyed(translated_lens=options)
    assert str(caught.value) == message


def test_of_all_measures_it_is_left_out_where_text_is_short() -> None:
    measure, facts = TranslatedLens(), waves.facts(waves.loaded("llama"))

    def reason(*lengths: int) -> str | None:
        return measure.unavailable(facts, waves.of_lengths(*lengths))

    assert reason(*[27] * 14) is None
    assert reason(9, 9, 9) is not None
    # some seeds would fit to enough tokens, and one to the ten short prompts alone
    few = reason(*[26] * 10, *[400] * 4)
    assert few is not None
    assert "there are 10 of 14 prompts for it, with as few as 250" in few
    options: Any = {"repeat": {"length": 2}, "progress": False}
    with pytest.warns(
        UserWarning, match=r"^translated_lens is left out: it needs at least 4 different prompts \(to fit"
    ):
        run = bathyscope.survey(waves.loaded("llama"), ids()[:3], "all", **options)
    assert "translated_lens" not in run.measures


def test_whatever_the_seed_it_can_be_measured_where_it_is_not_left_out() -> None:
    measure, facts = TranslatedLens(), waves.facts(waves.loaded("llama"))
    prompts = [TokenizedPrompt(str(n), (n,) * length) for n, length in enumerate((27, 27, 27, 40, 50) * 4)]
    assert measure.unavailable(facts, prompts) is None
    for seed in range(50):
        measure.prepare(facts, prompts, seed)
