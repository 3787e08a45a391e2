"""Quantised models: measured with a noise floor, or refused in one sentence."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import zoo
from transformers import AutoModelForCausalLM

import bathyscope
from bathyscope import ModelError

FP8 = {"quant_method": "fp8", "weight_block_size": [32, 32], "activation_scheme": "dynamic"}


def folder_with(tmp_path: Path, quantisation: dict[str, Any]) -> Path:
    zoo.build("llama").save_pretrained(tmp_path)
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


@pytest.mark.parametrize("method", ["nvfp4", "aqlm", "gptq", "awq", "hqq", "vptq"])
def test_what_cannot_be_loaded_is_refused_in_a_sentence(method: str, tmp_path: Path) -> None:
    folder = folder_with(tmp_path, {"quant_method": method, "bits": 4, "group_size": 32, "zero_point": True})
    with pytest.raises(ModelError, match=rf"^{tmp_path} cannot be loaded as a causal language model: .") as caught:
        bathyscope.load(folder)
    assert "\n" not in str(caught.value)


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
    zoo.build("llama").save_pretrained(tmp_path)
    model = AutoModelForCausalLM.from_pretrained(
        tmp_path, quantization_config=made, dtype=torch.float32, device_map="cpu"
    )
    if library == "bitsandbytes":
        assert np.isfinite(noise(model))
    else:
        with pytest.raises(ModelError, match="not a plain tensor of numbers"):
            noise(model)
