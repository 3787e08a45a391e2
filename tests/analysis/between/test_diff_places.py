"""Equal functions are called equal up to rounding; one change is named where it is, with few prompts and with many."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from support.equal_functions import EQUAL, copied, in_precisions, tiny, with_adapters

import bathyscope
from bathyscope.cli.printing import print_result
from bathyscope.pages.figures.of import diff as diff_figure

PROMPTS = np.random.default_rng(0).integers(2, 60, size=(40, 9)).tolist()
RARE = 61
"""A token that only the second prompt holds."""
PROMPTS[1][4] = RARE
UNUSED = 63


TWICE = (
    *("neurons in another order, bfloat16", "neurons in another order, gpt2", "values turned, float64"),
    *("adapters merged, bfloat16", "eager, sdpa, bfloat16", "float32, float64, gpt2"),
    *("float32, bfloat16, opt", "bfloat16, float32, mixtral"),
)
"""What is equal in a way that another pair shows too, in another dtype or family."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name in TWICE else ()) for name in EQUAL]
)
def test_equal_functions_are_equal_up_to_rounding(name: str) -> None:
    one, other = EQUAL[name]()
    result = bathyscope.diff(one, other, PROMPTS[:6], resamples=20)
    assert result.first is None, result.text
    assert " are equal up to rounding on these prompts" in result.text
    assert not result["beyond"].values.any()
    # The bound is one of rounding: a few hundred units at most. Norms compute in float32, also in models in float64.
    dtypes = [torch.float32, *(next(model.parameters()).dtype for model in (one, other))]
    unit = max(torch.finfo(dtype).eps for dtype in dtypes)
    assert result["noise_floor"].values[:, 1:].max() < 400 * unit
    assert (result["noise_floor"].values > 0).all()


def _scaled(path: str, factor: float = 1.2, rows: Any = slice(None)) -> Callable[[Any], None]:
    def change(hf: Any) -> None:
        hf.get_parameter(path).data[rows] *= factor

    return change


def _noise(hf: Any, block: int, share: float) -> None:
    generator = torch.Generator().manual_seed(3)
    for parameter in bathyscope.load(hf).anatomy.blocks[block].parameters():
        parameter.data += (
            share
            * parameter.detach().norm()
            / parameter.numel() ** 0.5
            * torch.randn(parameter.shape, generator=generator).to(parameter.dtype)
        )


# What is changed → the model, the change, the block or place that is to be named, and the words for its weights.
_LAYER = "model.layers"
CHANGED: dict[str, tuple[str, Callable[[Any], None], int | str, str]] = {
    "block 0": ("tiny", lambda hf: _noise(hf, 0, 0.05), 0, "block 0 differ"),
    "block 2": ("tiny", lambda hf: _noise(hf, 2, 0.05), 2, "block 2 differ"),
    "block 2, a little": ("tiny", lambda hf: _noise(hf, 2, 1e-4), 2, "block 2 differ"),
    "block 3": ("tiny", lambda hf: _noise(hf, 3, 0.05), 3, "block 3 differ"),
    "block 4 of gpt2": ("gpt2", lambda hf: _noise(hf, 4, 0.05), 4, "block 4 differ"),
    "an MLP": ("tiny", _scaled(f"{_LAYER}.1.mlp.down_proj.weight"), 1, "block 1's MLP"),
    "a neuron": ("tiny", _scaled(f"{_LAYER}.1.mlp.up_proj.weight", rows=7), 1, "block 1's MLP"),
    "a norm": ("tiny", _scaled(f"{_LAYER}.2.input_layernorm.weight"), 2, "block 2"),
    "an entry of a norm": ("tiny", _scaled(f"{_LAYER}.2.post_attention_layernorm.weight", rows=3), 2, "block 2"),
    "a norm of gemma2": ("gemma2", _scaled(f"{_LAYER}.3.post_feedforward_layernorm.weight", 3), 3, "block 3"),
    "queries of a head": (
        "tiny",
        _scaled(f"{_LAYER}.3.self_attn.q_proj.weight", rows=slice(8)),
        3,
        "block 3's attention",
    ),
    "values of a head": (
        "tiny",
        _scaled(f"{_LAYER}.0.self_attn.v_proj.weight", rows=slice(8)),
        0,
        "block 0's attention",
    ),
    "what reads a head": (
        "tiny",
        lambda hf: hf.model.layers[2].self_attn.o_proj.weight.data[:, 8:16].mul_(1.2),
        2,
        "block 2's attention",
    ),
    "a bias": ("gpt2", lambda hf: hf.transformer.h[1].mlp.c_fc.bias.data.add_(0.1), 1, "block 1's MLP"),
    "an expert": ("mixtral", _scaled(f"{_LAYER}.1.mlp.experts.down_proj", rows=2), 1, "block 1's MLP"),
    "a router": ("mixtral", lambda hf: hf.model.layers[3].mlp.gate.weight.data.neg_(), 3, "block 3's MLP"),
    "an embedding": ("tiny", _scaled("model.embed_tokens.weight", rows=RARE), "embedding", "the embedding"),
    "all embeddings": ("tiny", _scaled("model.embed_tokens.weight", 1.001), "embedding", "the embedding"),
    "a position": ("gpt2", _scaled("transformer.wpe.weight", rows=8), "embedding", "transformer.wpe.weight"),
    "the final norm": ("tiny", _scaled("model.norm.weight"), "readout", "the final norm"),
    "the unembedding": ("tiny", _scaled("lm_head.weight", rows=5), "readout", "the unembedding"),
    "a block in bfloat16": ("tiny, bfloat16", lambda hf: _noise(hf, 1, 0.4), 1, "block 1 differ"),
}


SWEPT = ("block 0", "block 3", "block 4 of gpt2", "a neuron", "values of a head", "what reads a head", "all embeddings")
"""Kinds of change of which another one stands for the quick tests."""


@pytest.mark.each
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.thorough if name in SWEPT else ()) for name in CHANGED]
)
def test_one_change_is_named_where_it_is(name: str) -> None:
    model, change, place, words = CHANGED[name]
    family, _, dtype = model.partition(", ")
    hf = copied(family).to(getattr(torch, dtype or "float32"))
    other = copy.deepcopy(hf)
    change(other)
    one, two = bathyscope.load(hf), bathyscope.load(other)
    for count in (2, 40):
        result = bathyscope.diff(one, two, PROMPTS[:count], resamples=20)
        _require_place(result, place, words)


def _require_place(result: Any, place: int | str, words: str) -> None:
    """The sentence, the attribute, the record, the table and the figure name one place."""
    assert f"the weights of {words}" in result.text
    alt = diff_figure.drawing(result.data).panels[0].alt
    beyond = result.to_dataframe()["beyond"].to_numpy()
    record = result.record()
    assert record["first"] == result.first
    if place == "readout":
        assert result.first is None
        assert not beyond.any()
        assert "do not part beyond rounding" in result.text
        assert "their predictions differ by" in result.text
        assert "within rounding" in alt
    elif place == "embedding":
        assert result.first == 0
        assert record["embedding"]
        assert "The streams part before block 0, in the embedding" in result.text
        assert "in front of block 0" in alt
    else:
        assert result.first == place, result.text
        assert f"The streams part at block {place}; " in result.text
        assert np.flatnonzero(beyond)[0] == place
        assert not result["drift"].values[:, : int(place) + 1].any()
        assert f"behind block {place}" in alt


def test_a_row_that_no_prompt_asks_for_is_said_and_parts_nothing() -> None:
    hf = tiny()
    other = copy.deepcopy(hf)
    other.model.embed_tokens.weight.data[UNUSED] *= 2
    result = bathyscope.diff(hf, other, PROMPTS[:3], resamples=20)
    assert result.text.endswith(
        "are equal up to rounding on these prompts, though the weights of the embedding differ: the effect is not "
        "distinguishable from rounding."
    )


@pytest.mark.parametrize("name", ["gpt2", "opt", "bloom"])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64], ids=str)
def test_what_gives_the_embedding_is_rounded_less_than_its_bound(name: str, dtype: torch.dtype) -> None:
    """Positions are added, or the embedding is normed, in both precisions, on weights that both hold."""
    one, other = in_precisions(name, dtype, torch.float32)
    result = bathyscope.diff(one, other, PROMPTS[:6], resamples=20)
    assert 0 < (result["drift"].values[:, 0] / result["noise_floor"].values[:, 0]).max() < 0.75


def test_a_single_row_of_the_embedding_is_not_hidden_by_rounding() -> None:
    """One token of nine that moves by forty units in the last place moves the mean by more than embeddings round."""
    hf = tiny()
    other = copy.deepcopy(hf)
    unit = torch.finfo(torch.float32).eps / 2
    other.model.embed_tokens.weight.data[RARE] *= 1 + 40 * unit
    result = bathyscope.diff(hf, other, PROMPTS[1:2], resamples=20)
    assert result.record()["embedding"]
    assert 2 * unit < float(result["noise_floor"].values[0, 0]) < 40 * unit / 9
    assert "The streams part before block 0, in the embedding; the weights of the embedding differ" in result.text


def test_a_change_below_rounding_is_not_called_no_difference() -> None:
    hf = tiny()
    other = copy.deepcopy(hf)
    weight = other.model.layers[2].mlp.down_proj.weight.data
    weight[0, 0] = torch.nextafter(weight[0, 0], torch.tensor(torch.inf))
    result = bathyscope.diff(hf, other, PROMPTS[:3], resamples=20)
    assert result.first is None
    assert result.attrs["weights_differ"] == ["block 2, mlp"]
    assert "though the weights of block 2's MLP differ: the effect is not distinguishable from rounding" in result.text


def test_a_block_that_is_rewritten_without_effect_is_named_with_its_size() -> None:
    """Nothing reads what its MLP computes, so that nearly all of its weights may change."""
    hf = tiny()
    for model in (hf, other := copy.deepcopy(hf)):
        model.model.layers[1].mlp.down_proj.weight.data.mul_(1e-9)
    mlp = other.model.layers[1].mlp
    for matrix in (mlp.gate_proj, mlp.up_proj):
        torch.nn.init.normal_(matrix.weight, std=0.5)
    other.model.layers[3].mlp.down_proj.weight.data.mul_(1.05)
    result = bathyscope.diff(hf, other, PROMPTS[:4], resamples=20)
    change, graft = result["weight_change"].values, result["graft_mean"].values
    assert change[1] > 0.5
    assert graft[1] < 1e-10 < graft[3]
    assert result.record()["large_change_small_effect"] == [1]
    assert (
        f"Large change, small effect: block 1 (weights by {change[1]:.2%}, {graft[1]:.2g} nats a token, not "
        "distinguishable from rounding)"
    ) in result.text


@pytest.mark.parametrize(("place", "origin"), [(2, 1), (1, 2), (3, 0)])
@pytest.mark.parametrize("part", ["", "mlp", "self_attn"])
def test_a_block_that_stands_in_two_places_differs_from_the_one_that_it_replaces(
    place: int, origin: int, part: str
) -> None:
    hf = tiny()
    other = copy.deepcopy(hf)
    blocks = other.model.layers
    if part:
        setattr(blocks[place], part, getattr(blocks[origin], part))
    else:
        blocks[place] = blocks[origin]
    for pair in ((hf, other), (other, hf)):
        result = bathyscope.diff(*pair, PROMPTS[:2], resamples=20)
        assert result.first == place
        named = {name for name in result.attrs["weights_differ"] if name.startswith("block")}
        assert named == set(result.attrs["weights_differ"]) != set()
        assert all(name.startswith(f"block {place}") for name in named)
        assert result.text.startswith(f"The streams part at block {place}; the weights of block {place}")
        assert np.flatnonzero(result["weight_change"].values).tolist() == [place]


def test_settings_are_named_where_weights_are_equal(capsys: pytest.CaptureFixture[str]) -> None:
    hf = tiny()
    other = copy.deepcopy(hf)
    other.model.layers[2].self_attn.scaling *= 1.5
    result = bathyscope.diff(hf, other, PROMPTS[:2], resamples=20)
    words = "all weights are equal, and model.layers.2.self_attn.scaling differs"
    assert result.text.startswith(f"The streams part at block 2; {words}.")
    assert (result.attrs["settings_differ"], result.record()["setting_details"]) == (
        ["constants"],
        ["model.layers.2.self_attn.scaling"],
    )
    print_result(result, "table")
    assert words in " ".join(capsys.readouterr().out.split())


SETTINGS: dict[str, tuple[dict[str, Any], str]] = {
    "epsilon": ({"rms_norm_eps": 1e-2}, "rms_norm_eps (1e-06 and 0.01) of the configuration differs"),
    "rotary base": (
        {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}},
        "rope_parameters.rope_theta (10000.0 and 50.0) of the configuration differs",
    ),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_a_setting_of_the_configuration_is_named_and_not_the_constants_that_follow(name: str) -> None:
    settings, words = SETTINGS[name]
    hf, other = tiny(), tiny(**settings)
    other.load_state_dict(hf.state_dict())
    result = bathyscope.diff(hf, other, PROMPTS[:2], resamples=20)
    assert result.attrs["settings_differ"] == ["configuration"]
    assert f"all weights are equal, and {words}" in result.text
    assert result.first == 0
    # said of a configuration alone, which nothing has read since
    late = copy.deepcopy(hf)
    for entry, value in settings.items():
        setattr(late.config, entry, value)
    unread = bathyscope.diff(hf, late, PROMPTS[:2], resamples=20)
    assert unread.attrs["settings_differ"] == ["configuration"]
    assert words in unread.text


def test_a_replaced_method_is_what_differs() -> None:
    hf = tiny()
    other = copy.deepcopy(hf)
    plain = other.model.layers[2].mlp.forward
    other.model.layers[2].mlp.forward = lambda x: 2 * plain(x)
    with pytest.warns(UserWarning, match="was replaced in memory"):
        result = bathyscope.diff(hf, other, PROMPTS[:2], resamples=20)
    words = "all weights are equal, and model.layers.2.mlp.forward differs"
    assert result.text.startswith(f"The streams part at block 2; {words}.")


def two_adapters() -> Any:
    """``tiny`` with an adapter of queries that is active, and one of MLPs that is not."""
    peft = pytest.importorskip("peft")
    tuned = with_adapters(target_modules=["q_proj"])
    tuned.add_adapter("second", peft.LoraConfig(r=2, target_modules=["down_proj"]))
    for name, parameter in tuned.named_parameters():
        if "lora_B.second" in name:
            torch.nn.init.normal_(parameter, std=0.1)
    return tuned.eval()


def _disabled(tuned: Any) -> Any:
    tuned.base_model.disable_adapter_layers()
    return tuned


def _saved() -> Any:
    return with_adapters(target_modules=["q_proj"], modules_to_save=["lm_head"])


INERT: dict[str, Callable[[], tuple[Any, Any]]] = {
    "disabled, base": lambda: (_disabled(with_adapters(target_modules=["q_proj", "down_proj"])), tiny()),
    "base, disabled": lambda: (tiny(), _disabled(with_adapters(target_modules=["q_proj", "down_proj"]))),
    "a saved module, disabled": lambda: (_disabled(_saved()), tiny()),
    "second one inactive": lambda: (two_adapters(), with_adapters(target_modules=["q_proj"])),
    "second one of other weights": lambda: (two_adapters(), _other_second()),
}
"""What the pair is → two models whose adapters differ where they do nothing."""


def _other_second() -> Any:
    other = two_adapters()
    for name, parameter in other.named_parameters():
        if "lora_B.second" in name:
            parameter.data.mul_(3)
    return other


@pytest.mark.parametrize("name", INERT)
def test_adapters_that_do_nothing_are_no_difference(name: str) -> None:
    pytest.importorskip("peft")
    one, other = INERT[name]()
    result = bathyscope.diff(one, other, PROMPTS[:2], resamples=20)
    assert result.first is None
    assert result.text.endswith("are equal up to rounding on these prompts; all weights are equal.")
    assert (result.attrs["weights_differ"], result.attrs["settings_differ"]) == ([], [])
    assert not result["output"].values.any()


def test_only_active_adapters_are_named() -> None:
    tuned = two_adapters()
    places = [f"block {block}, attention" for block in range(4)]
    assert bathyscope.diff(tuned, None, PROMPTS[:2], resamples=20).attrs["adapters_in"] == places
    other = copy.deepcopy(tuned)
    other.base_model.model.model.layers[2].self_attn.q_proj.scaling["default"] *= 2
    scaled = bathyscope.diff(tuned, other, PROMPTS[:2], resamples=20)
    assert (scaled.first, scaled.attrs["weights_differ"]) == (2, [])
    assert "all weights are equal, and the scaling of the adapters in block 2's attention differs" in scaled.text
    tuned.set_adapter("second")
    result = bathyscope.diff(tuned, None, PROMPTS[:2], resamples=20)
    assert result.attrs["adapters_in"] == [place.replace("attention", "mlp") for place in places]


def test_another_factor_of_an_adapter_outside_of_the_blocks_is_named() -> None:
    pytest.importorskip("peft")
    tuned = with_adapters(target_modules=["lm_head"])
    other = copy.deepcopy(tuned)
    other.base_model.model.lm_head.scaling["default"] *= 2
    text = bathyscope.diff(tuned, other, PROMPTS[:2], resamples=20).text
    assert "all weights are equal, and the scaling of the adapters in the unembedding differs" in text


@pytest.mark.parametrize("settings", [{}, {"modules_to_save": ["lm_head"]}], ids=["lora", "saved head"])
def test_a_model_whose_adapters_are_off_is_not_compared_with_itself(settings: Any) -> None:
    pytest.importorskip("peft")
    tuned = with_adapters(target_modules=["q_proj"], **settings)
    model = bathyscope.load(tuned)
    for given in (tuned, model):
        with (
            tuned.disable_adapter(),
            pytest.raises(bathyscope.ModelError, match=r"are switched off, so that .* with itself\. Switch them on"),
        ):
            bathyscope.diff(given, None, PROMPTS[:2], resamples=20)
    assert bathyscope.diff(tuned, None, PROMPTS[:2], resamples=20)["output"].values.all()


def test_biases_that_were_trained_with_an_adapter_are_said_to_stay() -> None:
    """Switching adapters off leaves them as they are: the second side is not the base."""
    pytest.importorskip("peft")
    tuned = _biased()
    with pytest.warns(
        UserWarning, match=r"'default' was trained with biases of the model \(bias='all'\).*does not undo"
    ):
        result = bathyscope.diff(tuned, None, PROMPTS[:2], resamples=20)
    with torch.no_grad(), tuned.disable_adapter():
        off = tuned(torch.tensor(PROMPTS[:2]), use_cache=False).logits
    assert (result["other"].values.astype(int) == off.argmax(-1).numpy()).all()
    base = bathyscope.diff(copied("gpt2"), tuned, PROMPTS[:2], resamples=20)
    assert base["output"].values.all()


def _biased() -> Any:
    import peft

    torch.manual_seed(4)
    tuned = peft.get_peft_model(copied("gpt2"), peft.LoraConfig(r=2, target_modules=["c_attn"], bias="all"))
    for name, parameter in tuned.named_parameters():
        if "lora_B" in name or name.endswith("bias"):
            parameter.data.add_(0.1 * torch.randn_like(parameter))
    return tuned.eval()


@pytest.mark.parametrize(
    ("settings", "place"),
    [
        ({"target_modules": ["lm_head"]}, "unembedding"),
        ({"target_modules": ["q_proj"], "modules_to_save": ["lm_head"]}, "unembedding"),
        ({"target_modules": ["q_proj"], "modules_to_save": ["norm"]}, "final norm"),
        ({"target_modules": ["embed_tokens"]}, "embedding"),
    ],
    ids=["lora of the head", "saved head", "saved norm", "lora of the embedding"],
)
@pytest.mark.parametrize("training", [False, True])
def test_adapters_outside_of_blocks_are_off_for_the_second_side(settings: Any, place: str, training: bool) -> None:
    """Brute force by PEFT's own switch; in a model that was left in training mode, nothing is dropped out."""
    pytest.importorskip("peft")
    tuned = with_adapters(**settings, lora_dropout=0.5)
    with torch.no_grad():
        on = tuned(torch.tensor(PROMPTS[:2]), use_cache=False).logits.double().log_softmax(-1)
        with tuned.disable_adapter():
            off = tuned(torch.tensor(PROMPTS[:2]), use_cache=False).logits.double().log_softmax(-1)
    expected = (on.exp() * (on - off)).sum(-1).numpy()
    assert expected.max() > 1e-3
    result = bathyscope.diff(tuned.train(training), None, PROMPTS[:2], resamples=20)
    np.testing.assert_allclose(result["token_kl"].values, expected, atol=1e-5)
    assert (result["other"].values.astype(int) == off.argmax(-1).numpy()).all()
    assert place in result.attrs["adapters_in"]
    assert f"the {place}" in result.text
    assert tuned.training is training


@pytest.mark.parametrize("side", [0, 1])
@pytest.mark.parametrize(
    ("path", "place"),
    [
        ("lm_head", "the weights of the unembedding differ"),
        ("model.layers.2.mlp.down_proj", "the weights of block 2's MLP differ"),
        ("model.layers.1.self_attn.q_proj", "the weights of block 1's attention differ"),
    ],
)
def test_a_bias_that_one_model_alone_has_is_named_where_it_is(path: str, place: str, side: int) -> None:
    models = [tiny(), tiny()]
    layer = models[side].get_submodule(path)
    layer.bias = torch.nn.Parameter(torch.linspace(-1, 1, layer.out_features))
    result = bathyscope.diff(*models, PROMPTS[:2], resamples=20)
    assert place in result.text
    # where it holds zeros it adds nothing
    layer.bias.data.zero_()
    result = bathyscope.diff(*models, PROMPTS[:2], resamples=20)
    assert "differ" not in result.text
    assert result.data.attrs["weights_differ"] == []
