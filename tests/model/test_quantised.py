"""Quantised models: measured with a noise floor, or refused in one sentence."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from support import edited, zoo
from transformers import AutoModelForCausalLM, LlamaForCausalLM

import bathyscope
from bathyscope import ModelError

FP8 = {"quant_method": "fp8", "weight_block_size": [32, 32], "activation_scheme": "dynamic"}


def folder_with(tmp_path: Path, quantisation: dict[str, Any], family: str = "llama") -> Path:
    zoo.build(family).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "quantization_config": quantisation}))
    return tmp_path


def noise(model: Any) -> float:
    run = bathyscope.survey(model, [list(range(14))], ["lens", "skip", "drop"], progress=False)
    return float(run["noise"].to_dataarray().max())


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("quantisation", [FP8, {"quant_method": "mxfp4"}], ids=["fp8", "mxfp4"])
def test_what_is_made_plain_on_a_cpu_is_measured(quantisation: dict[str, Any], tmp_path: Path) -> None:
    assert noise(folder_with(tmp_path, quantisation)) < 1e-5


def in_blocks(weight: torch.Tensor, size: int = 32) -> torch.Tensor:
    rows, columns = weight.shape
    return weight.view(rows // size, size, columns // size, size)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("scales", [torch.float32, torch.float8_e8m0fnu])
def test_weights_of_eight_bits_are_the_numbers_that_they_stand_for(scales: torch.dtype, tmp_path: Path) -> None:
    """FP8 in blocks with a scale for each, as published checkpoints have it."""
    folder = folder_with(tmp_path, FP8)
    stored, meant = {}, {}
    for name, weight in load_file(folder / "model.safetensors").items():
        stored[name] = meant[name] = weight
        if "_proj" in name:
            scale = (in_blocks(weight).abs().amax((1, 3)) / 448).to(scales)
            apart = scale.float()[:, None, :, None]
            stored[name] = (in_blocks(weight) / apart).reshape(weight.shape).to(torch.float8_e4m3fn)
            stored[f"{name}_scale_inv"] = scale
            meant[name] = (in_blocks(stored[name].float()) * apart).reshape(weight.shape)
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    model = bathyscope.load(folder)
    found = model.hf.state_dict()
    for name, weight in meant.items():
        torch.testing.assert_close(found[name].float(), weight, msg=name)
    assert noise(model) < 1e-5
    assert model.packing == "fp8 block 32×32 (activations are not rounded)"


FP4 = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])


@pytest.mark.filterwarnings("ignore")
def test_experts_of_four_bits_are_the_numbers_that_they_stand_for(tmp_path: Path) -> None:
    """MXFP4: two numbers a byte, and an exponent for every 32 of them."""
    folder, draw = folder_with(tmp_path, {"quant_method": "mxfp4"}, "gpt_oss"), torch.Generator().manual_seed(0)
    stored, meant = {}, {}
    for name, weight in load_file(folder / "model.safetensors").items():
        if not name.endswith(("gate_up_proj", "down_proj")):
            stored[name] = meant[name] = weight
            continue
        experts, given, made = weight.shape
        groups = (experts, made, given // 32)
        stored[f"{name}_blocks"] = torch.randint(0, 256, (*groups, 16), generator=draw, dtype=torch.uint8)
        stored[f"{name}_scales"] = torch.randint(118, 122, groups, generator=draw, dtype=torch.uint8)
        low, high = (stored[f"{name}_blocks"] & 15).long(), (stored[f"{name}_blocks"] >> 4).long()
        numbers = torch.stack([FP4[low], FP4[high]], -1).flatten(-2)
        numbers = numbers * torch.exp2(stored[f"{name}_scales"].float() - 127)[..., None]
        meant[name] = numbers.flatten(-2).transpose(1, 2)
    save_file(stored, folder / "model.safetensors", {"format": "pt"})
    model = bathyscope.load(folder)
    found = model.hf.state_dict()
    for name, weight in meant.items():
        torch.testing.assert_close(found[name].float(), weight, msg=name)
    assert noise(model) < 1e-5


@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("nvfp4", "Loading pre-quantized NVFP4 checkpoints is not supported yet"),
        ("aqlm", r"requires AQLM: `pip install aqlm"),
        ("hqq", "A valid HQQ version .* is not available"),
        ("vptq", "requires VPTQ"),
    ],
)
def test_what_cannot_be_loaded_is_refused_in_a_sentence(method: str, reason: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"quant_method": method, "bits": 4, "group_size": 32, "zero_point": True})
    with pytest.raises(
        ModelError, match=rf"^{tmp_path} cannot be loaded as a causal language model: .*{reason}"
    ) as caught:
        bathyscope.load(folder)
    assert "\n" not in str(caught.value)


def test_checkpoints_that_are_not_unpacked_are_not_streamed(tmp_path: Path) -> None:
    with pytest.raises(
        ModelError, match="is quantised, and quantised blocks cannot be streamed; load it with placement"
    ):
        bathyscope.load(folder_with(tmp_path, {"quant_method": "hqq"}), placement="stream")


def layer_in_four_bits(compute: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> type[torch.nn.Linear]:
    """A layer that says that it is one of bitsandbytes, and multiplies in its own way."""

    class Linear4bit(torch.nn.Linear):
        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return compute(inputs, self.weight)

    Linear4bit.__module__ = "bitsandbytes.nn.modules"
    return Linear4bit


def in_four_bits(compute: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]) -> LlamaForCausalLM:
    """A tiny model whose MLPs write by such layers."""
    model = edited.tiny(3)
    for block in model.model.layers:
        plain = block.mlp.down_proj
        block.mlp.down_proj = layer_in_four_bits(compute)(plain.in_features, plain.out_features, bias=False)
        block.mlp.down_proj.load_state_dict(plain.state_dict())
    return model


def fail_on_one(inputs: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    if inputs.numel() == inputs.shape[-1]:
        raise RuntimeError("shape '[64, 1]' is invalid")
    return inputs @ weight.T


HELP = r"Give the model's folder or name instead \(bathyscope.load\(FOLDER\)\): its weights are unpacked then\.$"


@pytest.mark.parametrize(
    ("compute", "reason"),
    [
        (lambda x, w: x @ w.T * (1 + 1e-3 * x.shape[0]), r"give a token other numbers alone than next to others \(\d"),
        (fail_on_one, r"fail on a single token \(RuntimeError: shape '\[64, 1\]' is invalid\)"),
        # a whole call at once, which single rows do not show: the checks of the model find it
        (
            lambda x, w: x @ w.T * (1 + (1e-3 * x.mean() if x.ndim == 3 else 0)),
            "give the same tokens other numbers in other calls, by more than the checks allow",
        ),
    ],
)
def test_kernels_in_four_bits_that_are_not_steady_are_named(
    compute: Callable[[torch.Tensor, torch.Tensor], torch.Tensor], reason: str
) -> None:
    layer = r"^model\.layers\.0\.mlp\.down_proj is a layer of bitsandbytes in 4 bits, whose kernels on cpu "
    with pytest.raises(ModelError, match=f"{layer}{reason}.*{HELP}"):
        bathyscope.load(in_four_bits(compute))


def test_kernels_in_four_bits_that_are_steady_are_measured() -> None:
    model = bathyscope.load(in_four_bits(lambda x, w: x @ w.T))
    assert model.checks.no_op == 0


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("library", "quantised"),
    [
        ("bitsandbytes", ("BitsAndBytesConfig", {"load_in_8bit": True})),
        ("bitsandbytes", ("BitsAndBytesConfig", {"load_in_4bit": True, "bnb_4bit_quant_type": "nf4"})),
        ("bitsandbytes", ("BitsAndBytesConfig", {"load_in_4bit": True, "bnb_4bit_quant_type": "fp4"})),
        ("optimum.quanto", ("QuantoConfig", {"weights": "int8"})),
        ("optimum.quanto", ("QuantoConfig", {"weights": "int4"})),
        ("torchao", ("TorchAoConfig", "Int8WeightOnlyConfig")),
        ("torchao", ("TorchAoConfig", "Float8WeightOnlyConfig")),
    ],
)
def test_every_kind_that_is_installed_is_measured_or_refused(
    library: str, quantised: tuple[str, Any], tmp_path: Path
) -> None:
    import transformers

    pytest.importorskip(library)
    name, given = quantised
    if isinstance(given, str):
        import torchao.quantization

        made = getattr(transformers, name)(getattr(torchao.quantization, given)())
    else:
        made = getattr(transformers, name)(**given)
    zoo.build("llama").save_pretrained(tmp_path / "plain")
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path / "plain", quantization_config=made, dtype=torch.float32, device_map="cpu"
    )
    if library == "optimum.quanto":
        with pytest.raises(ModelError, match="not a plain tensor of numbers"):
            noise(model)
        return
    # packed by the library itself, unpacked here
    model.save_pretrained(tmp_path / "packed")
    unpacked = bathyscope.load(tmp_path / "packed")
    assert unpacked.packing is not None
    assert noise(unpacked) < 1e-5
    for found, before in zip(unpacked.hf.parameters(), zoo.build("llama").parameters()):
        assert (found - before).norm() < 0.15 * before.norm()
    if "load_in_8bit" in given:
        assert np.isfinite(noise(model))
    else:
        with pytest.raises(ModelError, match=r"not a plain tensor of numbers|bitsandbytes in 4 bits"):
            noise(model)
