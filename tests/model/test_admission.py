"""Kinds of models in memory that cannot be measured, each with its reason, and PEFT models, whose inside can."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import transformers
from support import zoo
from torch import Tensor, nn

from bathyscope import ModelError, survey
from bathyscope.model import load

SMALL = {"vocab_size": 50, "d_model": 16}
HEADS = {"encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2}


def refused(hf: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load(hf)
    return str(caught.value)


@pytest.mark.parametrize(
    ("name", "make"),
    [
        (
            "t5 (T5ForConditionalGeneration)",
            lambda: transformers.T5ForConditionalGeneration(
                transformers.T5Config(**SMALL, d_kv=4, d_ff=16, num_layers=2, num_heads=4)
            ),
        ),
        (
            "whisper (WhisperForConditionalGeneration)",
            lambda: transformers.WhisperForConditionalGeneration(
                transformers.WhisperConfig(
                    **SMALL, **HEADS, num_mel_bins=8, max_source_positions=20, max_target_positions=20, pad_token_id=0
                )
            ),
        ),
    ],
)
def test_encoders_with_decoders(name: str, make: Any) -> None:
    assert refused(make()).startswith(f"{name} is an encoder with a decoder, and only causal language models")


def test_a_model_whose_code_cannot_be_replayed(monkeypatch: pytest.MonkeyPatch) -> None:
    """One sentence with the exit code of models, whatever its code raises."""
    hf = zoo.entry("llama").build()
    called: list[int] = []
    plain = type(hf.model.layers[1]).forward

    def forward(block: Any, *args: Any, **named: Any) -> Any:
        if block is hf.model.layers[1]:
            called.append(1)
        if len(called) > 1:
            raise KeyError("a second call\nof a block")
        return plain(block, *args, **named)

    monkeypatch.setattr(type(hf.model.layers[1]), "forward", forward)
    message = refused(hf)
    assert "llama" in message
    assert "a second call" in message
    assert "\n" not in message


def test_no_blocks() -> None:
    hf = zoo.entry("llama").build()
    hf.config.num_hidden_layers = -2
    assert refused(hf) == (
        "The configuration of llama (LlamaForCausalLM) asks for -2 blocks; a model has at least one."
    )


@pytest.mark.parametrize(("name", "entry"), [("llama", "max_position_embeddings"), ("gpt2", "n_positions")])
def test_no_length(name: str, entry: str) -> None:
    hf = zoo.entry(name).build()
    setattr(hf.config, entry, 0)
    assert f" says {entry}: 0; a prompt has at least 1 token, so give the original's whole number of 1" in refused(hf)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
def test_dynamic_int8_of_torch() -> None:
    hf = torch.ao.quantization.quantize_dynamic(zoo.entry("llama").build(), {nn.Linear}, dtype=torch.qint8)
    assert refused(hf).startswith(
        "model.layers.0.self_attn.q_proj is a torch.ao.nn.quantized.dynamic.modules.linear.Linear, not a plain tensor"
    )


class Int8Like(Tensor):
    """What torchao keeps weights as: a tensor around others."""

    def __tensor_flatten__(self) -> tuple[list[str], None]:
        return ["stored"], None


def test_tensors_around_other_tensors() -> None:
    hf = zoo.entry("llama").build()
    kept = hf.model.layers[1].mlp.up_proj.weight.detach().as_subclass(Int8Like)
    hf.model.layers[1].mlp.up_proj.weight = nn.Parameter(kept, requires_grad=False)
    assert refused(hf).startswith("model.layers.1.mlp.up_proj.weight is held as Int8Like, not a plain tensor")


@pytest.mark.parametrize("scale", ["all zeros", "head of zeros"])
def test_a_model_that_says_the_same_to_everything(scale: str) -> None:
    hf = zoo.entry("llama").build()
    with torch.no_grad():
        for value in hf.parameters() if scale == "all zeros" else [hf.lm_head.weight]:
            value.zero_()
    assert refused(hf).startswith(
        "LlamaForCausalLM cannot be measured: this model predicts the same for every input. Its weights are empty"
    )


class PeftLike(nn.Module):
    """The shape of ``peft.PeftModelForCausalLM``, which is not installed here: a tuner around the model, and its names.

    Args:
        hf: whose layers hold the adapter already.
        prompts: the adapter is learned tokens before the prompt.
    """

    def __init__(self, hf: nn.Module, prompts: bool = False) -> None:
        super().__init__()
        self.base_model = nn.Module()
        self.base_model.model = hf
        self.config = hf.config
        kind = "PeftType.PROMPT_TUNING" if prompts else "PeftType.LORA"
        self.peft_config = {"default": SimpleNamespace(is_prompt_learning=prompts, peft_type=kind)}

    def get_base_model(self) -> nn.Module:
        """The transformers model, adapters included."""
        return self.base_model.model

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(super().__getattr__("base_model").model, name)


class LoraLike(nn.Module):
    """A linear layer with a low-rank addition."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base_layer = base
        self.lora_A = nn.Linear(base.in_features, 2, bias=False)
        self.lora_B = nn.Linear(2, base.out_features, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.base_layer(x) + self.lora_B(self.lora_A(x))


@pytest.mark.parametrize(("name", "path"), [("llama", "model.layers"), ("opt", "model.decoder.layers")])
def test_a_peft_model_is_measured_with_its_adapter(name: str, path: str) -> None:
    plain, hf = zoo.entry(name).build(), zoo.entry(name).build()
    block = hf.get_submodule(path)[1]
    block.self_attn.q_proj = LoraLike(block.self_attn.q_proj)
    model = load(PeftLike(hf))  # type: ignore[arg-type]
    assert model.hf is hf
    assert model.anatomy.family.name == name
    assert model.checks.parts
    assert model.weight_hash != load(plain).weight_hash


COMPILED: dict[str, Callable[[Any], Any]] = {
    "the model": torch.compile,
    "the model in its place": lambda hf: (hf.compile(), hf)[1],
    "blocks in their places": lambda hf: ([block.compile() for block in hf.model.layers], hf)[1],
    "its forward": lambda hf: (setattr(hf, "forward", torch.compile(hf.forward)), hf)[1],
}


@pytest.mark.parametrize("compiled", COMPILED.values(), ids=list(COMPILED))
def test_compiled_models_are_measured_as_they_are_without(
    compiled: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without compiling anything, and with what lies inside of blocks."""
    plain, hf = zoo.entry("llama").build(), compiled(zoo.entry("llama").build())
    monkeypatch.setattr(torch._dynamo.convert_frame.ConvertFrame, "__call__", lambda *_: pytest.fail("compiled"))
    asked, measures = zoo.prompts(plain, (8, 6)), ["skip", "neurons"]
    one, other = (survey(model, asked, measures, progress=False) for model in (plain, hf))
    assert one.identity == other.identity
    for measure in measures:
        assert one[measure].identical(other[measure])


def test_a_block_that_was_exchanged_for_a_compiled_one_is_refused() -> None:
    hf = zoo.entry("llama").build()
    hf.model.layers[2] = torch.compile(hf.model.layers[2])
    assert refused(hf) == (
        "model.layers.2 was put in its place by torch.compile, and hides what it is called with; compile a module "
        "where it is (module.compile()), which is measured as it was, or give the model before it was compiled."
    )


def test_prompt_tuning_is_refused() -> None:
    message = refused(PeftLike(zoo.entry("llama").build(), prompts=True))
    assert message.startswith("The adapter 'default' of this PEFT model (PROMPT_TUNING) puts learned tokens before")
