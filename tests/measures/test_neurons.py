"""Neurons against a plain matrix of cosines, and planted neurons, tokens and classes."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
import xarray as xr
from scipy import stats
from support import waves, zoo
from support.word_tokenizer import word_tokenizer
from transformers import PreTrainedModel

import bathyscope
from bathyscope.errors import ModelError, OptionError
from bathyscope.measures import unembedding
from bathyscope.measures.base import ModelFacts
from bathyscope.measures.neurons import BINS, MOMENTS, TOP, Neurons, NeuronsOptions
from bathyscope.measures.token_classes import CLASSES, members, texts_within
from bathyscope.model import load
from bathyscope.model.anatomy.neurons import output_weights

BRUTE_FORCE = ("test_moments_of_all_cosines",)
"""What test_looped_parity.py asks of looped models too."""

ING = ["running", "ing", "morning", "sing"]
WORDS = [*(f"w{number}" for number in range(94)), *ING]
"""With <unk> and ``a`` 100 tokens; the zoo's models have 120."""


def census(hf: PreTrainedModel, tokenizer: object = None, **options: float) -> xr.Dataset:
    model = load(hf)
    measure = Neurons(NeuronsOptions(**options))
    facts = ModelFacts(model.anatomy, model.checks, tokenizer)
    measure.prepare(facts, [], 0)
    return measure.derive(facts, {}, 0)


def cosines(out_ND: torch.Tensor, head_VD: torch.Tensor, gain_D: torch.Tensor, centred: bool) -> np.ndarray:
    """z = ŵ·Ŵ_U of lad2024, all at once in double precision."""
    folded = (head_VD.double() * gain_D.double()).numpy()
    out = out_ND.double().numpy()
    if centred:
        folded = folded - folded.mean(1, keepdims=True)
        out = out - out.mean(1, keepdims=True)
    folded = folded - folded.mean(0)
    return (out / np.linalg.norm(out, axis=1, keepdims=True)) @ (
        folded / np.linalg.norm(folded, axis=1, keepdims=True)
    ).T


def llama(hf: PreTrainedModel, block: int) -> np.ndarray:
    out = hf.model.layers[block].mlp.down_proj.weight.T
    return cosines(out, hf.lm_head.weight, hf.model.norm.weight, centred=False)


def gpt2(hf: PreTrainedModel, block: int) -> np.ndarray:
    out = hf.transformer.h[block].mlp.c_proj.weight
    return cosines(out, hf.lm_head.weight, hf.transformer.ln_f.weight, centred=True)


def gemma(hf: PreTrainedModel, block: int) -> np.ndarray:
    """Norm weights are stored as w of (1 + w)."""
    out = hf.model.layers[block].mlp.down_proj.weight.T
    return cosines(out, hf.lm_head.weight, 1 + hf.model.norm.weight, centred=False)


def gemma3(hf: PreTrainedModel, block: int) -> np.ndarray:
    """As ``gemma``, and what is added to the stream is normed once more."""
    layer = hf.model.layers[block]
    out = layer.mlp.down_proj.weight.T * (1 + layer.post_feedforward_layernorm.weight)
    return cosines(out, hf.lm_head.weight, 1 + hf.model.norm.weight, centred=False)


def opt(hf: PreTrainedModel, block: int) -> np.ndarray:
    """A projection stands between final norm and head."""
    head = hf.lm_head.weight @ hf.model.decoder.project_out.weight
    norm = hf.model.decoder.final_layer_norm.weight
    return cosines(hf.model.decoder.layers[block].fc2.weight.T, head, norm, centred=True)


def olmo2(hf: PreTrainedModel, block: int) -> np.ndarray:
    """What is added to the stream is normed once more."""
    layer = hf.model.layers[block]
    out = layer.mlp.down_proj.weight.T * layer.post_feedforward_layernorm.weight
    return cosines(out, hf.lm_head.weight, hf.model.norm.weight, centred=False)


def mixtral(hf: PreTrainedModel, block: int) -> np.ndarray:
    out = torch.cat([expert.T for expert in hf.model.layers[block].mlp.experts.down_proj])
    return cosines(out, hf.lm_head.weight, hf.model.norm.weight, centred=False)


def universal(hf: PreTrainedModel, block: int) -> np.ndarray:
    """Blocks are runs of a block, with its weights."""
    out = hf.model.layers[block].mlp.down_proj.weight.T
    return cosines(out, hf.lm_head.weight, hf.model.norm.weight, centred=True)


def moeut(hf: PreTrainedModel, block: int) -> np.ndarray:
    """Experts' matrices are held as [from, to]."""
    out = torch.cat(list(hf.model.layers[block].mlp.experts.down_proj))
    return cosines(out, hf.lm_head.weight, hf.model.norm.weight, centred=True)


NAIVE = {
    **{"llama": llama, "gpt2": gpt2, "gemma": gemma, "opt_projected": opt, "olmo2": olmo2, "mixtral": mixtral},
    **{"gemma3": gemma3, "universal": universal, "moeut": moeut, "gpt2_sink": gpt2},
}


@pytest.mark.parametrize("name", NAIVE)
@torch.no_grad()
def test_moments_of_all_cosines(name: str) -> None:
    hf = zoo.build(name)
    found = census(hf)
    for block in found["block"].values:
        z = NAIVE[name](hf, block)
        expected = {
            "mean": z.mean(1),
            "variance": z.var(1),
            "skew": stats.skew(z, axis=1),
            "kurtosis": stats.kurtosis(z, axis=1, fisher=False),
        }
        for moment in MOMENTS:
            np.testing.assert_allclose(found[moment][block], expected[moment], rtol=1e-4, atol=1e-6, err_msg=moment)


def test_tiles_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = census(zoo.build("gpt2"), word_tokenizer(WORDS))
    monkeypatch.setattr(unembedding, "TILE", 17)
    monkeypatch.setattr("bathyscope.measures.neurons.TILE", 13)
    tiled = census(zoo.build("gpt2"), word_tokenizer(WORDS))
    for name in MOMENTS:
        np.testing.assert_allclose(tiled[name], whole[name], rtol=1e-4, atol=1e-6)
    xr.testing.assert_equal(tiled.top_neuron, whole.top_neuron)
    np.testing.assert_allclose(tiled.top_effect, whole.top_effect, rtol=1e-3, atol=1e-6)


@torch.no_grad()
def planted() -> PreTrainedModel:
    """In block 1 neurons 0–2 write one token's direction and 3–4 its opposite; neuron 5 writes nothing."""
    hf = zoo.entry("llama").build()
    down = hf.model.layers[1].mlp.down_proj.weight
    directions = hf.lm_head.weight * hf.model.norm.weight
    for neuron, sign in enumerate((1, 1, 1, -1, -1)):
        down[:, neuron] = sign * directions[10 + neuron] * 10.0 ** (neuron - 2)  # whatever its size
    down[:, 5] = 0
    return hf


def test_planted_neurons_of_either_sign_are_counted_and_gaussian_ones_are_not() -> None:
    found = census(planted())
    assert found.prediction_fraction.values.tolist() == [0, 3 / 96, 0, 0, 0]
    assert found.suppression_fraction.values.tolist() == [0, 2 / 96, 0, 0, 0]
    assert (np.delete(found.kurtosis.values.ravel(), slice(96, 102)) < 10).all()
    assert (found.skew.values[1, :3] > 0).all()
    assert (found.skew.values[1, 3:5] < 0).all()


def test_the_threshold_is_an_option() -> None:
    kurtosis = census(planted()).kurtosis.values
    found = census(planted(), kurtosis=4.0)
    shares = (found.prediction_fraction + found.suppression_fraction).values
    np.testing.assert_allclose(shares, (np.nan_to_num(kurtosis) > 4).mean(1))
    assert shares.sum() > 5 / 96
    with pytest.raises(OptionError, match=r"neurons: kurtosis=0\.5 is out of range; allowed: 1"):
        census(planted(), kurtosis=0.5)


def test_neurons_without_weights_are_missing_and_counted() -> None:
    found = census(planted())
    assert found.zero_neurons.values.tolist() == [0, 1, 0, 0, 0]
    assert found.n_neurons.values.tolist() == [96] * 5
    for name in MOMENTS:
        assert np.argwhere(np.isnan(found[name].values)).tolist() == [[1, 5]]


@torch.no_grad()
def test_padding_of_the_vocabulary_has_no_say() -> None:
    """As rows of zeros, as ids beyond the tokenizer, or not there at all: the moments are the same."""
    hf = zoo.entry("gpt2").build()
    hf.lm_head.weight = torch.nn.Parameter(hf.lm_head.weight.clone())  # untied
    head = hf.lm_head.weight
    expected = cosines(hf.transformer.h[2].mlp.c_proj.weight, head[:100], hf.transformer.ln_f.weight, centred=True)
    by_tokenizer = census(hf, word_tokenizer(WORDS))
    head[100:] = 0
    by_zeros = census(hf)
    for found in (by_tokenizer, by_zeros):
        assert found.attrs["padding_tokens"] == 20
        np.testing.assert_allclose(found.kurtosis[2], stats.kurtosis(expected, axis=1, fisher=False), rtol=1e-4)
        np.testing.assert_allclose(found["mean"][2], expected.mean(1), atol=1e-6)


@torch.no_grad()
def test_a_vocabulary_of_nothing_but_padding_is_refused() -> None:
    hf = zoo.entry("gpt2").build()
    hf.lm_head.weight = torch.nn.Parameter(hf.lm_head.weight.clone())  # untied
    hf.lm_head.weight[:100] = 0
    with pytest.raises(
        ModelError, match="all of its 120 rows are padding: they are zero, or no token of the tokenizer"
    ):
        census(hf, word_tokenizer(WORDS))


def test_the_live_model_stays_bit_for_bit() -> None:
    for name in ("gpt2", "gemma2", "qwen2_moe"):
        hf = zoo.entry(name).build()
        before = {key: value.clone() for key, value in hf.state_dict().items()}
        census(hf, word_tokenizer(WORDS))
        assert all(torch.equal(value, before[key]) for key, value in hf.state_dict().items())


def test_experts_are_numbered_and_blocks_padded() -> None:
    found = census(zoo.build("deepseek_v2"))
    assert found.n_neurons.values.tolist() == [96, 160, 160, 160, 160]
    assert found.expert.values[0].tolist() == [-1] * 160
    assert found.expert.values[1].tolist() == [*np.repeat(range(4), 32), *[-1] * 32]
    assert np.isnan(found.kurtosis.values[0, 96:]).all()
    assert np.isfinite(found.kurtosis.values[1:]).all()
    assert found.zero_neurons.values.tolist() == [0] * 5


def test_tokens_are_classed_by_how_they_are_written() -> None:
    tokenizer = word_tokenizer(["sing", "Inging", "12", "3x", "!?", "Ä", "ingest", "…"])
    ids = sorted(tokenizer.get_vocab().values())
    assert texts_within(tokenizer, ids)[1:] == ["a", "sing", "Inging", "12", "3x", "!?", "Ä", "ingest", "…"]
    tokenizer.add_special_tokens({"additional_special_tokens": ["w!ing"]})
    assert not members(tokenizer, [len(ids)]).any()
    found = dict(zip(CLASSES, members(tokenizer, ids)))
    assert {name: np.flatnonzero(row).tolist() for name, row in found.items()} == {
        "ing": [2, 3],
        "digits": [4],
        "capitals": [3, 7],
        "whitespace": [],
        "punctuation": [6, 9],
    }


@torch.no_grad()
def test_a_planted_neuron_tells_its_class_from_the_others() -> None:
    hf = zoo.entry("llama").build()
    ing = range(96, 100)
    hf.lm_head.weight[list(ing), 7] += 2
    hf.model.layers[3].mlp.down_proj.weight[:, 11] = 0
    hf.model.layers[3].mlp.down_proj.weight[7, 11] = -3
    found = census(hf, word_tokenizer(WORDS)).sel(token_class="ing")
    assert (int(found.top_block[0]), int(found.top_neuron[0])) == (3, 11)
    on_tokens = -3 * (hf.lm_head.weight[:100, 7] * hf.model.norm.weight[7]).double().numpy()
    expected = on_tokens[96:].mean() - on_tokens[:96].mean()
    assert float(found.top_effect[0]) == pytest.approx(expected, rel=1e-4)
    assert int(found.class_tokens) == 4
    assert (np.diff(np.abs(found.top_effect.values)) <= 0).all()
    assert float(found.top_skew[0]) == pytest.approx(stats.skew(on_tokens_cosine(hf)), rel=1e-3)


def on_tokens_cosine(hf: PreTrainedModel) -> np.ndarray:
    """z of the planted neuron, over the tokens that the tokenizer has."""
    out = hf.model.layers[3].mlp.down_proj.weight.T[11:12]
    return cosines(out, hf.lm_head.weight[:100], hf.model.norm.weight, centred=False)[0]


def test_histograms_hold_every_token_once() -> None:
    found = census(zoo.build("llama"), word_tokenizer(WORDS))
    shares = found.histogram.sel(token_class="ing")
    np.testing.assert_allclose(shares.sum("bin"), 1)
    assert shares.sizes == {"rank": TOP, "side": 2, "bin": BINS}
    tokens = shares * xr.DataArray([4, 96], dims="side")
    np.testing.assert_allclose(tokens, tokens.round(), atol=1e-9)
    middle = found.histogram_edge.rolling(edge=2).mean().isel(edge=slice(1, None)).rename(edge="bin")
    means = (found.histogram * middle).sum("bin").sel(token_class="ing")
    difference = (means.sel(side="class") - means.sel(side="others")).values
    width = found.histogram_edge.diff("edge").isel(edge=0).sel(token_class="ing").values
    assert (np.abs(difference - found.top_effect.sel(token_class="ing").values) <= width).all()


def test_without_a_tokenizer_classes_are_missing() -> None:
    found = census(zoo.build("llama"))
    assert (found.top_block == -1).all()
    assert found.top_effect.isnull().all()
    assert found.histogram.isnull().all()
    assert (found.class_tokens == 0).all()


def test_models_without_mlps_are_refused_by_name_and_left_out_of_all() -> None:
    hf = zoo.build("mamba")
    with pytest.raises(ModelError, match=r"neurons needs MLPs whose output is added .* none in this mamba model"):
        bathyscope.survey(hf, zoo.prompts(hf), ["neurons"], progress=False)
    model = waves.loaded("mamba")
    assert "neurons needs MLPs" in str(Neurons(NeuronsOptions()).unavailable(waves.facts(model), []))
    assert Neurons(NeuronsOptions()).unavailable(waves.facts(waves.loaded("gpt2")), []) is None


def test_blocks_without_neurons_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    model = waves.loaded("llama")
    found = output_weights(model.anatomy)
    found[2] = ()
    monkeypatch.setattr("bathyscope.measures.neurons.output_weights", lambda anatomy: found)
    measure = Neurons(NeuronsOptions())
    with pytest.warns(UserWarning, match=r"no output weights of an MLP were found in blocks \[2\] of this llama model"):
        measure.prepare(waves.facts(model), [], 0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        census = measure.derive(waves.facts(model), {}, 0)
    assert np.isnan(census.kurtosis.values[2]).all()
    assert np.isnan(census.prediction_fraction.values[2])
    assert census.n_neurons.values.tolist() == [96, 96, 0, 96, 96]
