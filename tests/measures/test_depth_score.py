"""Depth scores against one forward per intervention, their exact properties, levels and errors."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from support import naive, waves, zoo
from support.rounding import rounding
from torch import nn

import bathyscope
from bathyscope import OptionError, Prompt, PromptError
from bathyscope.measures.depth_score import DepthScore, answer_positions
from bathyscope.measures.depth_score_levels import level_results
from bathyscope.measures.of.depth_score import DepthScoreOptions
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.compare import compare

BRUTE_FORCE = ("test_one_position_before_the_answer", "test_every_fourth_answer_token_is_pooled")
"""What test_looped_parity.py asks of looped models too."""

REDUCTIONS = ("mean", "p95", "max")
FAMILIES = ["llama", "gpt2", "gemma2", "gemma3", "falcon", "lfm2", "universal", "moeut", "gpt2_sink"]
LENGTHS = (15, 21, 12)
ANSWERS = (4, 11, 1)
LONG = (9, 14, 6)


def prompts(name: str, answers: tuple[int | None, ...] = ANSWERS, **labels: Any) -> list[Prompt]:
    """Three prompts with answers of these lengths; ``labels`` are name → one value a prompt."""
    ids = zoo.prompts(zoo.build(name), LENGTHS)
    return [
        Prompt(ids=own, answer_tokens=answer, labels={key: values[n] for key, values in labels.items()})
        for n, (own, answer) in enumerate(zip(ids, answers))
    ]


def surveyed(name: str, given: list[Prompt], out: Path | None = None, **options: Any) -> xr.Dataset:
    options = {"resamples": 50, "permutations": 50, **options}
    model = waves.loaded(name)
    return bathyscope.survey(model, given, "depth_score", out=out, progress=False, depth_score=options)["depth_score"]


def test_answers_of_a_few_tokens_are_read_row_by_row(monkeypatch: pytest.MonkeyPatch) -> None:
    apart_by_tokens: dict[int, bool] = {}

    def noting(reader: Any, reference_ND: torch.Tensor, *rest: Any, apart: bool, **options: Any) -> Any:
        apart_by_tokens[len(reference_ND)] = apart
        return compare(reader, reference_ND, *rest, apart=apart, **options)

    monkeypatch.setattr("bathyscope.measures.effects.compare", noting)
    ids = zoo.prompts(zoo.build("llama"), (20, 14))
    surveyed("llama", [Prompt(ids=own, answer_tokens=answer) for own, answer in zip(ids, (12, 2))])
    assert apart_by_tokens == {12: False, 2: True}


def reduced(values: np.ndarray) -> np.ndarray:
    return np.stack([values.mean(-1), np.quantile(values, 0.95, axis=-1), values.max(-1)])


def reference(name: str, ids: list[int], windows: list[tuple[int, int]]) -> tuple[np.ndarray, np.ndarray]:
    """E [reduction, skipped, block] and O [reduction, skipped], pooled over windows [t, end): one forward each."""
    model = zoo.build(name)
    blocks = naive.blocks_of(model)
    base, base_logits = naive.boundaries(model, blocks, ids), naive.logits(model, ids)
    effects, outputs = [], []
    for s in range(len(blocks)):
        pieces = []
        for t, end in windows:
            stream, logits = naive.skip_future(model, blocks, ids, s, t)
            pieces.append((naive.effects(base, stream)[:, t:end], naive.output_change(base_logits, logits)[t:end]))
        effects.append(reduced(torch.cat([effect for effect, _ in pieces], dim=-1).numpy()))
        outputs.append(reduced(torch.cat([output for _, output in pieces], dim=-1).numpy()))
    return np.stack(effects, axis=1), np.stack(outputs, axis=1)


def score_of(e: np.ndarray) -> np.ndarray:
    return (e * np.arange(e.shape[-1])).sum(-1) / e.sum(-1)


def mean_later(effect: np.ndarray) -> np.ndarray:
    """e_s of the layer effect by its definition, block after block."""
    n_blocks = effect.shape[-1]
    return np.stack([effect[..., s, :].sum(-1) / max(n_blocks - 1 - s, 1) for s in range(n_blocks)], axis=-1)


def assert_parity(found: xr.Dataset, prompt: int, effect: np.ndarray, output: np.ndarray) -> None:
    own = found.isel(prompt=prompt)
    np.testing.assert_allclose(own.effect, effect, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(own.output_effect, output, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(own.layer_effect, mean_later(effect), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(own.prompt_score_layer, score_of(mean_later(effect)), rtol=1e-4)
    np.testing.assert_allclose(own.prompt_score_output, score_of(output), rtol=1e-3)


@pytest.mark.parametrize("name", FAMILIES)
def test_one_position_before_the_answer(name: str) -> None:
    """Skipped: 1 … a−2. Measured: a−1 … T−2, each of which predicts an answer token."""
    given = prompts(name)
    found = surveyed(name, given)
    for n, (prompt, answer) in enumerate(zip(given, ANSWERS)):
        first = len(prompt.ids) - answer
        assert found.positions[n].values.tolist() == [first - 1]
        assert_parity(found, n, *reference(name, prompt.ids, [(first - 1, len(prompt.ids) - 1)]))


@pytest.mark.parametrize("name", ["llama", "lfm2"])
def test_the_published_measurement_is_one_token_late(name: str) -> None:
    given = prompts(name)
    found = surveyed(name, given, first_answer_token=False)
    for n, (prompt, answer) in enumerate(zip(given, ANSWERS)):
        first = len(prompt.ids) - answer
        assert found.positions[n].values.tolist() == [first]
        assert_parity(found, n, *reference(name, prompt.ids, [(first, len(prompt.ids))]))


@pytest.mark.parametrize("name", ["llama", "gpt2", "lfm2"])
def test_every_fourth_answer_token_is_pooled(name: str) -> None:
    given = prompts(name, LONG)
    found = surveyed(name, given, positions="every")
    assert [sorted(own[own >= 0]) for own in found.positions.values] == [[5, 9], [6, 10, 14], [5]]
    for n, prompt in enumerate(given):
        windows = [(t, len(prompt.ids) - 1) for t in found.positions[n].values.tolist() if t >= 0]
        assert_parity(found, n, *reference(name, prompt.ids, windows))


def test_scores_of_a_level_reduce_its_prompts_effects() -> None:
    given = prompts("llama", hops=(2, 4, 2))
    found = surveyed("llama", given)
    assert found.level.values.tolist() == [2, 4]
    assert found.n_prompts.values.tolist() == [2, 1]
    largest = found.sel(reduction="max")
    effect, output = largest.effect.values[[0, 2]], largest.output_effect.values[[0, 2]]
    for how, over in (("mean", np.mean), ("max", np.max)):
        own = found.sel(level=2, reduction=how)
        assert float(own.score_layer) == pytest.approx(score_of(mean_later(over(effect, axis=0))), rel=1e-12)
        assert float(own.score_output) == pytest.approx(score_of(over(output, axis=0)), rel=1e-12)
    alone = found.sel(level=4)
    np.testing.assert_allclose(alone.score_layer, [float(largest.prompt_score_layer[1])] * 3)
    assert alone.ci_low.isnull().all()
    assert set(alone.reason.values.ravel()) == {"an interval needs at least two prompts, and there is one"}
    assert (found.sel(level=2).reason == "").all()
    inside = found.sel(level=2)
    for kind in ("layer", "output"):
        score, interval = inside[f"score_{kind}"], inside.sel(score=kind)
        assert (interval.ci_low <= score).all()
        assert (score <= interval.ci_high).all()


@pytest.mark.parametrize("name", ["llama", "gpt2", "lfm2"])
@pytest.mark.parametrize("positions", ["answer", "every"])
def test_scores_lie_between_the_first_block_and_the_last_but_one(name: str, positions: str) -> None:
    found = surveyed(name, prompts(name, LONG), positions=positions)
    for kind in ("prompt_score_layer", "prompt_score_output", "score_layer", "score_output"):
        assert (found[kind] > 0).all()
        assert (found[kind] < 3).all(), "the last of five blocks has no later effect"
    assert (found.effect.values[..., *np.tril_indices(5)] == 0).all()
    assert (found.output_effect.sel(skipped=4) == 0).all()
    assert (found.output_effect <= np.sqrt(2)).all()


@pytest.mark.parametrize(("reader", "writer"), [(3, 0), (3, 2), (4, 1)])
def test_the_only_block_with_an_effect_is_the_score(reader: int, writer: int) -> None:
    """Only two blocks add anything, and of these only the second can read what the first wrote earlier."""
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        for index, block in enumerate(hf.model.layers):
            if index not in (reader, writer):
                block.self_attn.o_proj.weight.zero_()
                block.mlp.down_proj.weight.zero_()
    found = bathyscope.survey(hf, prompts("llama"), "depth_score", progress=False)["depth_score"]
    for kind in ("prompt_score_layer", "prompt_score_output", "score_layer", "score_output"):
        np.testing.assert_allclose(found[kind], writer, atol=1e-4)
    assert float(found.layer_effect.sel(skipped=writer).min()) > 1e-3


def test_a_model_without_attention_has_no_score() -> None:
    hf = zoo.entry("llama").build()
    for block in hf.model.layers:
        nn.init.zeros_(block.self_attn.o_proj.weight)
    run = bathyscope.survey(hf, prompts("llama", hops=(1, 2, 3)), "depth_score", progress=False)
    found, left = run["depth_score"], rounding(hf, run.prompts.lengths)
    assert float(found.effect.max()) <= left
    if left:  # what is not zero by rounding has a score
        return
    assert found.prompt_score_output.isnull().all()
    assert found.score_layer.isnull().all()
    assert set(found.reason.values.ravel()) == {"the effect is zero at every block"}
    assert (found.trend_reason == "a trend needs at least 3 prompts with a score and a difficulty; there are 0").all()


def test_a_label_called_level_makes_room_for_the_dimension(tmp_path: Path) -> None:
    given = prompts("llama", level=(3, 1, 3), prompt_level=("x", "y", "z"))
    found = surveyed("llama", given, out=tmp_path / "run")
    assert found.level.values.tolist() == [1, 3]
    assert found.prompt_prompt_level.values.tolist() == [3, 1, 3]
    assert found.prompt_level.values.tolist() == ["x", "y", "z"]
    xr.testing.assert_identical(bathyscope.open(tmp_path / "run")["depth_score"], found)
    xr.testing.assert_identical(surveyed("llama", given), found)


def test_levels_of_other_labels() -> None:
    labels = {"kind": ("sum", "word", "sum"), "steps": (2, 3, 5), "digits": (1, 1, 1)}
    by_steps = surveyed("llama", prompts("llama", **labels))
    assert by_steps.level.values.tolist() == [2, 3, 5]
    assert by_steps.level.attrs["long_name"] == "label 'steps' of the prompts"
    assert by_steps.trend_slope.notnull().all()
    by_kind = surveyed("llama", prompts("llama", **labels), by="kind")
    assert by_kind.level.values.tolist() == ["sum", "word"]
    assert by_kind.trend_slope.isnull().all()
    assert (by_kind.trend_reason == "the labels 'kind' are texts; a trend needs numbers").all()
    unlabelled = surveyed("llama", prompts("llama"))
    assert unlabelled.level.values.tolist() == ["all"]
    assert unlabelled.n_prompts.values.tolist() == [3]
    reason = "a trend needs prompts with a label such as level, hops, steps, digits"
    assert (unlabelled.trend_reason == reason).all()


def test_prompts_without_the_label_belong_to_no_level() -> None:
    given = prompts("llama", hops=(2, 3, 3))
    given[2] = Prompt(ids=given[2].ids, answer_tokens=1)
    with pytest.warns(UserWarning, match="1 of 3 measured prompts have no label 'hops' and belong to no level"):
        found = surveyed("llama", given)
    assert found.level.values.tolist() == [2, 3]
    assert found.n_prompts.values.tolist() == [1, 1]
    assert found.prompt_score_layer.notnull().all()


def test_prompts_that_cannot_be_measured_are_counted() -> None:
    given = prompts("llama", (10, None, 11), hops=(2, 3, 4))
    message = (
        "depth_score: 2 of 3 prompts are not measured (1 without an answer, "
        "1 whose answer begins too early for any token to be skipped before it)."
    )
    with pytest.warns(UserWarning, match=re.escape(message)):
        found = surveyed("llama", given, by="hops")
    assert found.effect[1:].isnull().all()
    assert found.prompt_score_output[1:].isnull().all()
    assert found.positions.values.tolist() == [[4], [-1], [-1]]
    assert found.n_prompts.values.tolist() == [1, 0, 0]
    assert (found.reason.sel(level=4) == "no prompt has an effect").all()
    assert found.prompt_score_output[0].notnull().all()


@given(
    st.lists(st.tuples(st.integers(1, 9), st.integers(0, 40)), max_size=5), st.integers(0, 99), st.sampled_from([0, 1])
)
def test_every_fourth_token_but_the_last_four_shuffled_first_four(
    sizes: list[tuple[int, int]], seed: int, shift: int
) -> None:
    given = [TokenizedPrompt("", (0,) * (question + answer), answer or None) for question, answer in sizes]
    draw = random.Random(seed)
    found = answer_positions(given, "every", shift == 0, seed)
    for own, (question, answer) in zip(found, sizes, strict=True):
        predicted = [question + k for k in range(answer) if k % 4 == 0 and k < answer - 4]
        candidates = [a - 1 + shift for a in predicted if a - 1 + shift >= 2]
        draw.shuffle(candidates)
        assert list(own) == candidates[:4]


@pytest.mark.parametrize(("question", "expected"), [(2, []), (3, [2]), (7, [6])])
def test_one_position_needs_a_token_to_skip(question: int, expected: list[int]) -> None:
    [found] = answer_positions([TokenizedPrompt("", (0,) * (question + 5), 5)], "answer", True, 0)
    assert list(found) == expected


def effects_of(levels: np.ndarray, slope: float, seed: int = 0) -> xr.Dataset:
    """A run's per-prompt results in which the effect sits ``slope`` blocks deeper with each level."""
    rng = np.random.default_rng(seed)
    centre = 2 + slope * levels + rng.normal(scale=0.3, size=levels.size)
    e = np.exp(-((np.arange(8) - centre[:, None]) ** 2))[:, None].repeat(3, axis=1)
    effect = np.triu(e[..., None].repeat(8, axis=-1), 1)
    by_block = ("prompt", "reduction", "skipped")
    return xr.Dataset(
        {
            "effect": ((*by_block, "block"), effect),
            "output_effect": (by_block, e),
            "prompt_score_layer": (by_block[:2], score_of(mean_later(effect))),
            "prompt_score_output": (by_block[:2], score_of(e)),
        },
        {"reduction": list(REDUCTIONS), "hops": ("prompt", levels)},
    )


def test_a_planted_trend_is_found_and_measured() -> None:
    levels = np.repeat([2, 3, 4], 20)
    quick = DepthScoreOptions(resamples=500, permutations=999)
    found = level_results(effects_of(levels, 0.5), "hops", quick, seed=0).sel(reduction="max")
    assert (found.trend_p_value == 1 / 1000).all()
    slope = found.sel(score="output")
    assert float(slope.trend_slope) == pytest.approx(0.5, abs=0.1)
    assert float(slope.trend_ci_low) < float(slope.trend_slope) < float(slope.trend_ci_high)
    assert float(slope.trend_share) == pytest.approx(float(slope.trend_slope) / 8)
    assert (np.diff(found.score_output) > 0.3).all()
    flat = level_results(effects_of(levels, 0.0), "hops", quick, seed=0)
    assert (flat.trend_p_value > 0.05).all()
    assert (flat.trend_ci_low < 0).all()
    assert (flat.trend_ci_high > 0).all()


def test_levels_that_are_texts_stand_in_the_order_of_the_numbers_in_them() -> None:
    """As ``compare`` and ``group`` have them; alphabetically, 10 hops would come before 2."""
    levels = np.repeat([2, 10, 3], 4)
    data = effects_of(levels, 0.1).assign_coords(hops=("prompt", [f"{n} hops" if n else "" for n in [*levels[:-1], 0]]))
    found = level_results(data, "hops", DepthScoreOptions(resamples=20, permutations=9), seed=0)
    assert found.level.values.tolist() == ["2 hops", "3 hops", "10 hops"]
    assert found.n_prompts.values.tolist() == [4, 3, 4]


def test_clusters_are_drawn_and_signed_as_one() -> None:
    """Levels of copies of prompts: by clusters as sure as with one of each, and surer only without them."""
    settings: dict[str, Any] = {"resamples": 200, "permutations": 9999}
    once, copies = effects_of(np.repeat([2, 3, 4], 4), 0.2), np.repeat(np.arange(12), 3)
    many = once.isel(prompt=copies).assign_coords(book=("prompt", [f"b{n}" for n in copies]))
    plain, clustered = (
        level_results(data, "hops", DepthScoreOptions(cluster=c, **settings), seed=0)
        for data, c in ((once, None), (many, "book"))
    )
    for name in ("trend_slope", "trend_ci_low", "trend_ci_high", "trend_p_value", "score_output", "ci_low", "ci_high"):
        own, wanted = (data[name].sel(reduction=["mean", "max"]).values for data in (clustered, plain))
        np.testing.assert_allclose(own, wanted, rtol=1e-6, err_msg=name)
    blind = level_results(many, "hops", DepthScoreOptions(**settings), seed=0)
    assert (blind.trend_ci_high - blind.trend_ci_low < 0.8 * (plain.trend_ci_high - plain.trend_ci_low)).all()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": "hop"}, "no label 'hop'. Did you mean 'hops'?"),
        ({"positions": "evry"}, "depth_score: positions='evry' is unknown. Did you mean 'every'? Allowed: answer, ev"),
        ({"resamples": 0}, "depth_score: resamples=0 is out of range; allowed: 20 to"),
        ({"coverage": 1.0}, "depth_score: coverage=1.0 is out of range; allowed: 0.01 to 0.9999."),
        ({"permutations": 0}, "depth_score: permutations=0 is out of range; allowed: 1 to"),
        (
            {"by": "hop"},
            "depth_score: no measured prompt has the label 'hop'. Did you mean 'hops'? Their labels: hops.",
        ),
    ],
)
def test_errors(options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        surveyed("llama", prompts("llama", hops=(1, 2, 3)), **options)
    assert message in str(caught.value)


def test_a_label_is_asked_for_and_there_is_none() -> None:
    with pytest.raises(OptionError) as caught:
        surveyed("llama", prompts("llama"), by="hops")
    expected = "no measured prompt has the label 'hops'. They have no labels; give Prompt(labels={...})."
    assert str(caught.value) == f"depth_score: {expected}"


def test_no_prompt_can_be_measured() -> None:
    given = [TokenizedPrompt("0", (5,) * 9), TokenizedPrompt("1", (5,) * 9, 3)]
    measure = DepthScore(DepthScoreOptions(positions="every"))
    with pytest.raises(PromptError) as caught:
        measure.prepare(waves.facts(waves.loaded("llama")), given, seed=0)
    message = str(caught.value)
    assert "none of the 2 prompts can be measured (1 without an answer, 1 with an answer of at most 4" in message
    assert "Give answer= with text=, or answer_tokens= with ids=, and a question of at least three tokens" in message
