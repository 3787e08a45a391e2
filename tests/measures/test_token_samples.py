"""Reading out a random sample of tokens: against all tokens, and by simulation on a trained model's own values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from support import waves, zoo

import bathyscope
from bathyscope import OptionError, Prompt
from bathyscope.measures.token_samples import draw_sample
from bathyscope.statistics.bootstrap import mean_interval
from bathyscope.statistics.sampling import Sampling
from bathyscope.wavefront.engine import Wavefront

LENGTHS = (40, 33, 26)
MEANS = ("kl", "top1_agreement", "entropy", "loss")


def prompts(lengths: tuple[int, ...] = LENGTHS, answer: int = 3) -> list[Prompt]:
    ids = zoo.prompts(zoo.build("llama"), lengths)
    return [Prompt(ids=own, answer_tokens=answer) for own in ids]


def surveyed(measure: str, **options: Any) -> xr.Dataset:
    options = {measure: options}
    return bathyscope.survey(waves.loaded("llama"), prompts(), [measure], progress=False, **options)[measure]


@given(
    length=st.integers(3, 60),
    answer=st.integers(0, 10),
    count=st.integers(2, 70),
    seed=st.integers(0, 1000),
)
def test_a_sample_holds_the_answer_and_counts_every_token_once(length: int, answer: int, count: int, seed: int) -> None:
    predicting = range(max(0, length - answer), length)
    sample = draw_sample(range(length), predicting, count, (seed, 1))
    assert set(predicting) <= set(sample.places) <= set(range(length))
    assert list(sample.places) == sorted(set(sample.places))
    assert sample.total == length
    others = length - len(predicting)
    assert len(sample.places) == len(predicting) + min(others, max(count - len(predicting), 2))
    assert sample == draw_sample(range(length), predicting, count, (seed, 1))
    # of a constant the mean is that constant, without an error
    values = torch.full((1, len(sample.places)), 3.25)
    assert sample.mean(values).item() == pytest.approx(3.25)
    assert sample.error(values).item() == 0


def test_means_are_unbiased_and_their_errors_honest_for_a_skewed_population() -> None:
    values = np.random.default_rng(3).gamma(0.3, size=80)
    answer = range(70, 74)
    estimates, errors = [], []
    for number in range(1500):
        sample = draw_sample(range(79), answer, 20, (number,))
        read = torch.from_numpy(values[list(sample.places)])[None]
        estimates.append(sample.mean(read).item())
        errors.append(sample.error(read).item())
    spread = np.std(estimates)
    assert np.mean(estimates) == pytest.approx(values[:79].mean(), abs=4 * spread / np.sqrt(len(estimates)))
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(spread, rel=0.08)


@pytest.mark.parametrize("measure", ["drop", "swap", "repeat"])
def test_the_values_are_means_over_the_tokens_of_the_sample(measure: str) -> None:
    """Each prompt cut behind one token at a time gives the loss of that token alone: an oracle without any sample."""
    own: dict[str, Any] = {"length": 2} if measure == "repeat" else {}
    found = surveyed(measure, read_tokens=8, **own)
    assert found.n_read.values.tolist() == [8, 8, 8]
    assert found.n_averaged.values.tolist() == [39, 32, 25]
    number = 1
    whole = prompts()[number]
    assert whole.ids is not None
    length = len(whole.ids)
    sample = draw_sample(range(length - 1), range(length - 4, length - 1), 8, (0, number, 0))
    ends = [Prompt(ids=list(whole.ids[: place + 2])) for place in sample.places]
    cut = bathyscope.survey(waves.loaded("llama"), ends, [measure], progress=False, **{measure: own})[measure]
    # the mean over a prompt's first n tokens less that over n − 1 of them is the last token's
    total = {place: cut.loss.values[i] * (place + 1) for i, place in enumerate(sample.places)}
    shorter = [Prompt(ids=list(whole.ids[: place + 1])) for place in sample.places if place]
    before = bathyscope.survey(waves.loaded("llama"), shorter, [measure], progress=False, **{measure: own})[measure]
    for i, place in enumerate(place for place in sample.places if place):
        total[place] = total[place] - before.loss.values[i] * place
    values = torch.from_numpy(np.stack([total[place] for place in sample.places], axis=-1))
    np.testing.assert_allclose(found.loss.values[number], sample.mean(values).numpy(), rtol=1e-4)
    np.testing.assert_allclose(found.loss_sampling_error.values[number], sample.error(values).numpy(), rtol=1e-3)


@pytest.mark.parametrize("measure", ["drop", "skip", "pairs"])
def test_a_sample_of_every_token_changes_nothing(measure: str) -> None:
    exact = surveyed(measure)
    with pytest.warns(
        UserWarning, match=f"{measure}: read_tokens=40 is no less than the length of 3 of 3 prompts; all"
    ):
        found = surveyed(measure, read_tokens=40)
    names = {"drop": (*MEANS, "baseline_loss"), "pairs": ("cost", "kl", "interaction")}.get(measure, ())
    for name in names:
        np.testing.assert_allclose(found[name], exact[name], rtol=1e-5, atol=1e-6, err_msg=name)
    if measure == "drop":
        assert float(abs(found.loss_sampling_error).max()) == 0
    if measure == "skip":
        for reach in ("all", "future"):
            mean = {"reduction": "mean"}
            np.testing.assert_allclose(
                found[f"output_{reach}"].sel(mean), exact[f"output_{reach}"].sel(mean), rtol=1e-4, atol=1e-6
            )
            assert np.isnan(found[f"output_{reach}"].sel(reduction=["p95", "max"])).all()
            xr.testing.assert_equal(found[f"effect_{reach}"], exact[f"effect_{reach}"])


def test_skip_reads_a_sample_behind_every_start() -> None:
    """Over many seeds the mean is the exact one, and strays as much as its error says."""
    options = {"positions": [[9, 20], [12], []]}
    exact = surveyed("skip", **options)
    model = waves.loaded("llama")
    runs = [
        bathyscope.survey(model, prompts(), ["skip"], seed=seed, progress=False, skip={**options, "read_tokens": 10})
        for seed in range(8)
    ]
    for reach in ("all", "future"):
        mean = {"reduction": "mean"}
        found = np.stack([run["skip"][f"output_{reach}"].sel(mean).values for run in runs])
        errors = np.stack([run["skip"][f"output_{reach}_sampling_error"].values for run in runs])
        gap = found - exact[f"output_{reach}"].sel(mean).values
        there = ~np.isnan(gap).all(0) & (errors.mean(0) > 0)
        assert there.sum() >= 8
        score = gap[:, there] / np.sqrt((errors[:, there] ** 2).mean(0))
        # entries of a prompt share their tokens, so that these are some forty independent numbers
        assert abs(score.mean()) < 0.5
        assert 0.6 < np.sqrt((score**2).mean()) < 1.5


@pytest.mark.parametrize(
    ("measure", "options", "message"),
    [
        (
            "drop",
            {"read_tokens": 0},
            r"drop: read_tokens=0 is out of range; allowed: 2 or more, or None \(all tokens\)",
        ),
        ("pairs", {"read_tokens": -3}, "pairs: read_tokens=-3 is out of range"),
        ("swap", {"read_tokens": 8, "positions": "published"}, "swap: read_tokens=8 does not go with positions='publ"),
        (
            "skip",
            {"read_tokens": 8, "output_reductions": ["mean", "max"]},
            r"skip: read_tokens=8 gives means over tokens, and max needs every token; leave read_tokens out, or give",
        ),
    ],
)
def test_what_cannot_be_sampled_is_refused_before_any_compute(
    measure: str, options: dict[str, Any], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Wavefront, "run_convoy", lambda *_, **__: pytest.fail("a block ran"))
    with pytest.raises(OptionError, match=message):
        surveyed(measure, **options)


def test_reductions_of_the_output_can_be_chosen() -> None:
    found = surveyed("skip", output_reductions=["max"])
    assert np.isnan(found.output_all.sel(reduction=["mean", "p95"])).all()
    assert not np.isnan(found.output_all.sel(reduction="max")).any()


def test_a_token_that_was_not_read_has_no_value_of_its_own() -> None:
    run = bathyscope.survey(
        waves.loaded("llama"), prompts(), ["lens", "drop", "tokens"], progress=False, drop={"read_tokens": 6}
    )
    added = run["tokens"].added_loss.isel(dropped=0)
    assert np.isfinite(added.values).sum(-1).tolist() == [6, 6, 6]


def test_a_sample_depends_on_no_other_prompt(tmp_path: Any) -> None:
    options = {"drop": {"read_tokens": 6}, "progress": False}
    model = waves.loaded("llama")
    bathyscope.survey(model, prompts()[:2], ["drop"], tmp_path / "run", **options)
    grown = bathyscope.survey(model, prompts(), ["drop"], tmp_path / "run", grow=True, **options)
    at_once = bathyscope.survey(model, prompts(), ["drop"], **options)
    np.testing.assert_array_equal(grown["drop"].loss, at_once["drop"].loss)


def test_a_run_without_samples_says_nothing_of_them() -> None:
    found = surveyed("drop")
    assert not {"n_read", "loss_sampling_error"} & {str(name) for name in found}
    run = bathyscope.survey(waves.loaded("llama"), prompts(), ["drop"], progress=False)
    assert "read_tokens" not in run.identity.measures["drop"]


WINDOW = 64


@pytest.fixture(scope="module")
def token_costs(shared: Callable[[str], Path]) -> np.ndarray:
    """Losses of single tokens that a small trained model adds without its third block, [windows, tokens]."""
    model = bathyscope.load(shared("checkpoints/stories260K"), dtype="float32")
    text = shared("data/text/tinystories_slice.txt").read_text(encoding="utf-8")[:40_000]
    assert model.tokenizer is not None
    ids = torch.tensor(model.tokenizer(text).input_ids)
    windows = ids[: len(ids) // WINDOW * WINDOW].view(-1, WINDOW)[:150]

    def losses() -> torch.Tensor:
        with torch.no_grad():
            logits = model.hf(input_ids=windows, use_cache=False).logits[:, :-1].double()
        return torch.nn.functional.cross_entropy(logits.transpose(1, 2), windows[:, 1:], reduction="none")

    full = losses()
    hook = model.anatomy.blocks[2].register_forward_hook(lambda _, given, __: given[0])
    try:
        return (losses() - full).numpy()
    finally:
        hook.remove()


def coverage(costs: np.ndarray, tokens: int, replicates: int, resamples: int) -> tuple[float, float]:
    """How often intervals over twenty prompts, of so many tokens each, hold the mean of all; and the estimates' bias,
    in standard errors."""
    truth, generator = costs.mean(), np.random.default_rng(tokens)
    inside, estimates = 0, []
    for replicate in range(replicates):
        chosen = generator.integers(len(costs), size=20)
        means = []
        for place, number in enumerate(chosen):
            sample = draw_sample(range(WINDOW - 1), range(0), tokens, (replicate, place))
            means.append(sample.mean(torch.from_numpy(costs[number][list(sample.places)])[None]).item())
        low, high = mean_interval(np.array(means), Sampling(resamples, level=0.95, seed=replicate))
        inside += low <= truth <= high
        estimates.append(np.mean(means))
    return inside / replicates, (np.mean(estimates) - truth) / (np.std(estimates) / np.sqrt(replicates))


def test_intervals_hold_the_sampling_of_tokens(token_costs: np.ndarray) -> None:
    """Of 100 intervals 95 are expected, and 87 are too few by more than three standard errors."""
    share, bias = coverage(token_costs, 16, 100, 300)
    assert share >= 0.87
    assert abs(bias) < 4


@pytest.mark.thorough
@pytest.mark.parametrize("tokens", [2, 16, 48])
def test_intervals_hold_the_sampling_of_tokens_at_every_size(tokens: int, token_costs: np.ndarray) -> None:
    """Costs of blocks are skewed, and so few prompts cost any interval of their mean some coverage: about 0.02."""
    share, bias = coverage(token_costs, tokens, 800, 1000)
    assert 0.915 <= share <= 0.975
    assert abs(bias) < 4
