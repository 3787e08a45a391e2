"""What holds for every measure: names, dimensions and attributes; pads and neighbours change nothing."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from support import naive, waves, zoo
from support.misfits import misfits
from support.rounding import rounding
from support.side_by_side import rewriting
from torch import Tensor
from transformers import PreTrainedModel

from bathyscope.measures.of.effective_depth import EffectiveDepth, EffectiveDepthOptions
from bathyscope.measures.registry import MEASURES
from bathyscope.model import Model
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront

LENGTHS = (14, 9, 17)
COLLECTIVE = {"cka", "translated_lens", "jacobian_lens", "patching"}
"""They look at many prompts together: what one prompt gives alone is nothing, or not the same."""
OBSERVING = [name for name, measure in MEASURES.items() if not measure.derived and name not in COLLECTIVE]
POSITIONS = {"positions": [[1, 6], [8], [12, 16, 3]]}
OPTIONS: dict[str, Any] = {
    **{name: MEASURES[name].example for name in OBSERVING},
    # drawn by the number of a prompt, and so not the same where it is alone
    "skip": POSITIONS,
    "direct": POSITIONS,
    # variables that are optional
    "erasure": {"reference": [[5, 9, 7, 30, 44, 12]], "future": True},
    "swap": {"parallel": True},
    "drop": {"direct": True},
}
ANSWERS = (2, 1, 3)
PADDED = frozenset(("llama", "ministral", "bloom", "lfm2"))
"""Pads are seen by a mask, a window, distances, and a convolution."""
L = 5
BOUND = 2e-5
"""Share of a value, and of 1, that calls of other shapes may move it."""

SIZES = {
    "prompt": len(LENGTHS),
    "token": max(LENGTHS),
    "boundary": L + 1,
    **dict.fromkeys(("block", "skipped", "dropped", "other"), L),
    **dict.fromkeys(("swapped", "parallel", "start"), L - 1),
}
"""Dimensions that are places along the depth or the text, counted from 0; no two kinds have one length."""
REDUCTIONS = {"reduction": ["mean", "p95", "max"]}
NAMED: dict[str, dict[str, Any]] = {
    "residual": {"distance": range(1, L + 1), "tokens": ["last", "all"]},
    "lens": {"k": [1, 3, 5, 10]},
    "skip": {**REDUCTIONS, "part": ["block"], "sample": range(3)},
    "direct": {**REDUCTIONS, "sample": range(3)},
    "depth_score": {**REDUCTIONS, "sample": range(1)},
    "integrated_gradients": {"site": ["block", "attention", "mlp"]},
    "attention_locality": {"offset": [1, 2, 4, 8, 16], "head": range(4)},
    "swap_cosine": {"part": ["attention", "mlp"]},
    "tokens": {"top": range(5)},
}
"""What stands along dimensions of a measure's own, which nothing but its definition says."""
SAMPLED = re.compile(r"_sampling_error$|^n_read$")
"""Variables of single prompts where only some tokens are read."""
COUNTED = re.compile(r"positions|answer_start|largest_(token|channel)|n_averaged\w*")
"""Variables that are whole numbers."""


@pytest.fixture(scope="module")
def datasets() -> dict[str, xr.Dataset]:
    return waves.run(waves.loaded("llama"), zoo.prompts(zoo.build("llama"), LENGTHS), OPTIONS, answers=ANSWERS)


def test_no_two_dimensions_can_be_taken_for_one_another() -> None:
    assert len(set(SIZES.values())) == 5
    assert set(NAMED) <= set(OBSERVING)


@pytest.mark.parametrize("measure", OBSERVING)
def test_names_and_dimensions(datasets: dict[str, xr.Dataset], measure: str) -> None:
    table = MEASURES[measure].table
    assert table is not None
    result = datasets[measure]
    # a batch lacks what a run adds, and what other options give; tests/test_docs.py holds that a run has everything
    assert [text for text in misfits(table, result) if not text.endswith("is missing")] == []
    expected = {name for name, label in table.items() if "prompt" in label.always and not label.optional}
    assert {name for name in expected if not SAMPLED.search(name)} <= set(result)
    used = {str(dim) for values in result.data_vars.values() for dim in values.dims}
    assert set(result.coords) - {"piece", "prompt"} == used - {"prompt"}
    assert "prompt" in used
    for dim in used:
        labels = result[dim].values.tolist()
        if dim in SIZES:
            assert labels == list(range(SIZES[dim])), dim
        elif dim in NAMED.get(measure, {}):
            assert labels == list(NAMED[measure][dim]), dim
        else:
            assert measure not in NAMED, f"{dim} is missing in NAMED"
            assert len(set(labels)) == len(labels) > 0, dim
    for name, values in result.data_vars.items():
        if measure == "tokens":  # one value a token: half of what means take
            assert values.dtype == (np.int32 if name == "top_id" else np.float32), name
        else:
            assert values.dtype == (np.int64 if COUNTED.fullmatch(str(name)) else np.float64), name


@pytest.mark.parametrize("measure", OBSERVING)
def test_attributes(datasets: dict[str, xr.Dataset], measure: str) -> None:
    for name, values in datasets[measure].data_vars.items():
        assert {"long_name", "units", "formula", "source"} <= set(values.attrs), name
        assert all(isinstance(text, str) for text in values.attrs.values()), name
        assert values.attrs["long_name"], name
        assert values.attrs["source"], name
        assert values.attrs["units"] in ("1", "nats", "bits", "token", "block", "boundary"), name
        assert values.attrs["formula"] or values.attrs["units"] == "token", name
        assert "{k}" not in values.attrs["formula"], name
        assert "{p}" not in values.attrs["formula"], name


def test_units() -> None:
    ids = zoo.prompts(zoo.build("llama"), LENGTHS)
    found = waves.run(waves.loaded("llama"), ids, {"lens": None, "drop": None})
    nats = {"kl_lens_final", "kl_final_lens", "cross_entropy", "kl_top_p", "kl_tail"}
    for name, values in found["lens"].data_vars.items():
        units = {"jsd": "bits", "entropy": "bits", "settle_depth": "boundary", "prediction_depth": "boundary"}
        units |= dict.fromkeys(("n_averaged", "n_averaged_cross_entropy"), "token")
        assert values.attrs["units"] == ("nats" if name in nats else units.get(str(name), "1"))
    for name, units in {"kl": "nats", "top1_agreement": "1", "entropy": "bits", "loss": "nats"}.items():
        assert found["drop"][name].attrs["units"] == units


def tied_without(hf: PreTrainedModel, ids: list[int]) -> np.ndarray:
    """The share of predictions that rounding may turn, by block that is removed from the last stream, [L].

    Its two largest logits, or those of the whole model, are closer than the bound that logits are held to.
    """
    blocks = naive.blocks_of(hf)
    stream = naive.boundaries(hf, blocks, ids)

    def is_tied(logits: Tensor) -> Tensor:
        first, second = logits[:-1].topk(2).values.unbind(-1)
        return first - second < BOUND * (1 + first.abs())

    shares = []
    whole = is_tied(naive.logits(hf, ids))
    for added in stream.diff(dim=0):
        with rewriting(blocks[-1], lambda _, after, added=added: after - added):
            shares.append(float((whole | is_tied(naive.logits(hf, ids))).double().mean()))
    return np.array(shares)


@pytest.mark.parametrize(
    "name", zoo.swept(("llama", "gpt2", "ministral", "gemma3", "bloom", "falcon", "qwen3_moe", "lfm2"), PADDED)
)
def test_a_prompt_gives_the_same_alone_and_beside_longer_ones(name: str) -> None:
    model = waves.loaded(name)
    ids = zoo.prompts(model.hf, LENGTHS)
    together = waves.run(model, ids, OPTIONS, answers=ANSWERS)
    for prompt in (1, 2):  # the shortest, and the longest, which has no pads
        own = ids[prompt]
        turned = {"drop.top1_agreement_direct": tied_without(zoo.build(name), own)}
        positions = {"positions": [OPTIONS["skip"]["positions"][prompt]]}
        options = {**OPTIONS, "skip": positions, "direct": positions}
        for measure, alone in waves.run(model, [own], options, answers=[ANSWERS[prompt]]).items():
            for variable, values in alone.data_vars.items():
                if variable == "positions":
                    continue
                got = together[measure][variable][prompt].values
                if "token" in values.dims:
                    got = got[..., : len(own)]
                where = f"{measure}.{variable}"
                expected = values[0].values
                bound = BOUND * (1 + np.abs(expected)) + turned.get(where, 0.0)
                same = (np.abs(got - expected) <= bound) | (np.isnan(got) & np.isnan(expected)) | (got == expected)
                assert same.all(), f"{where}: {got} for {expected}"


@pytest.mark.parametrize("name", zoo.swept(("llama", "gpt2", "ministral", "gemma3", "bloom", "falcon"), PADDED))
def test_what_stands_in_the_pads_changes_nothing_at_all(name: str) -> None:
    """Bit for bit, since the shapes are the same."""
    model = waves.loaded(name)
    batch = Batch.of(zoo.prompts(model.hf, LENGTHS), answers=ANSWERS)
    noise = torch.randint_like(batch.ids_BT, 4, 119)
    other = Batch(torch.where(batch.valid_BT, batch.ids_BT, noise), batch.lengths, batch.answers)
    assert not torch.equal(batch.ids_BT, other.ids_BT)
    first, second = (observed(name, one) for one in (batch, other))
    for measure, dataset in first.items():
        xr.testing.assert_identical(dataset, second[measure])


def observed(name: str, batch: Batch) -> dict[str, xr.Dataset]:
    model = waves.loaded(name)
    known = waves.facts(model)
    made = waves.measures(OPTIONS)
    wave = Wavefront(model.anatomy, tails=model.checks.tails)
    prompts = [
        TokenizedPrompt(str(number), tuple(ids[:length].tolist()), answer)
        for number, (ids, length, answer) in enumerate(zip(batch.ids_BT, batch.lengths, batch.answers))
    ]
    for measure in made.values():
        measure.prepare(known, prompts, seed=0)
        measure.read_reference(wave, waves.reference_of(measure) or prompts)
    probes = {key: measure.probe(known, batch, range(batch.size)) for key, measure in made.items()}
    for probe in probes.values():
        probe.meet_probes(probes)
    wave.run(batch, list(probes.values()))
    for probe in probes.values():
        probe.after(wave, lambda share: None)
    return {key: probe.result() for key, probe in probes.items()}


def noise_of(model: Model, measure: str, options: dict[str, object]) -> tuple[np.ndarray, xr.Dataset]:
    made = waves.measures({measure: options})[measure]
    made.prepare(waves.facts(model), [TokenizedPrompt(name, (0,) * 12, 4) for name in "ab"], seed=0)
    batch = Batch.of(zoo.prompts(model.hf, (12, 12)), answers=(4, 4))
    probe = made.probe(waves.facts(model), batch, range(2))
    Wavefront(model.anatomy, tails=True, call_tokens=100_000).run(batch, [probe])
    noise = probe.noise()
    assert noise is not None
    return noise, probe.result()


@pytest.mark.parametrize("measure", ["skip", "direct", "depth_score", "drop", "swap", "repeat"])
def test_the_noise_of_a_dense_model_in_full_precision_is_zero(measure: str) -> None:
    at = {"positions": [[5], [8]]}
    options = {"skip": at, "direct": at, "repeat": {"length": 2}}.get(measure, {})
    model = waves.loaded("llama")
    noise, _ = noise_of(model, measure, options)
    assert (noise <= rounding(model.hf, (12,))).all()


@pytest.mark.parametrize("measure", ["skip", "depth_score", "drop", "swap"])
def test_what_the_size_of_a_batch_does_is_noise_and_no_effect(measure: str) -> None:
    """A block that answers by the number of rows it is given: a caricature of low-precision kernels."""
    hf = zoo.entry("llama").build()
    model = waves.load(hf)
    handle = hf.model.layers[2].mlp.register_forward_hook(lambda _m, _a, out: out + 1e-3 * out.shape[0])
    options = {} if measure == "depth_score" else {"protect_first": 12}
    options |= {"positions": [[5], [8]]} if measure == "skip" else {}
    noise, found = noise_of(model, measure, options)
    handle.remove()
    assert (noise > 1e-6).all()
    left = max(rounding(hf, (12,)), 1e-9)
    assert (noise < 0.5).all()
    unchanged = {"skip": ("effect_all", "effect_future", "output_all", "output_future"), "depth_score": ()}
    for name in unchanged.get(measure, ("kl",)):
        assert float(found[name].max()) <= left, name


def test_measures_without_interventions_have_no_noise() -> None:
    model = waves.loaded("llama")
    batch = Batch.of(zoo.prompts(model.hf, (9,)))
    for name in ("residual", "lens"):
        made = waves.measures({name: None})[name]
        made.prepare(waves.facts(model), waves.of_lengths(9), seed=0)
        assert made.probe(waves.facts(model), batch, [0]).noise() is None


def test_derived_measures_observe_nothing_and_others_derive_nothing() -> None:
    known = waves.facts(waves.loaded("llama"))
    with pytest.raises(TypeError, match="effective_depth is derived"):
        EffectiveDepth(EffectiveDepthOptions()).probe(known, Batch.of([[1, 2]]), [0])
    with pytest.raises(TypeError, match="lens observes the wavefront"):
        waves.measures({"lens": None})["lens"].derive(known, {}, 0)
