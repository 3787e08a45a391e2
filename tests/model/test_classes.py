"""Folders of models of images and text: their text is measured from the folder as it is from the model in memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from support import naive
from support.zoo.entry import randomise
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel

import bathyscope
from bathyscope.model.classes import class_for

IDS = [[5, 9, 31, 33, 12, 17], [40, 13, 8, 21]]
TEXT: dict[str, Any] = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4},
    **{"num_key_value_heads": 2, "head_dim": 8, "vocab_size": 300, "max_position_embeddings": 128},
    **{"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2},
}
SEEN: dict[str, Any] = {
    **{"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 1, "num_attention_heads": 2},
    **{"image_size": 28, "patch_size": 14},
}
QWEN: dict[str, Any] = {"depth": 1, "embed_dim": 32, "hidden_size": 32, "num_heads": 2, "intermediate_size": 48}
ROPE: dict[str, Any] = {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 1e4}}
# kind → settings of text and of images
FOLDERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "gemma3": ({"sliding_window": 4}, SEEN),
    "idefics3": ({"model_type": "llama"}, SEEN),
    "llava": ({"model_type": "llama"}, {**SEEN, "model_type": "clip_vision_model"}),
    "mistral3": ({"model_type": "mistral"}, {**SEEN, "model_type": "pixtral"}),
    "qwen2_5_vl": (ROPE, {**QWEN, "out_hidden_size": 32}),
    "qwen2_vl": (ROPE, QWEN),
    "qwen3_vl": (ROPE, {**QWEN, "out_hidden_size": 32, "deepstack_visual_indexes": [0]}),
    "smolvlm": ({"model_type": "llama"}, SEEN),
}


def build(kind: str) -> PreTrainedModel:
    """A tiny random model of images and text."""
    text, images = FOLDERS[kind]
    config = AutoConfig.for_model(kind, text_config={**TEXT, **text}, vision_config=images)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = AutoModelForImageTextToText.from_config(config, dtype=torch.float32)
    randomise(model, 0)
    return model.eval()  # type: ignore[no-any-return]


def surveyed(model: Any) -> bathyscope.Run:
    return bathyscope.survey(model, IDS, ["residual", "lens", "drop"], progress=False)


@pytest.mark.parametrize("kind", FOLDERS)
def test_a_folder_is_measured_as_the_model_in_memory(kind: str, tmp_path: Path) -> None:
    hf = build(kind)
    hf.save_pretrained(tmp_path / "model")
    in_memory, from_folder = bathyscope.load(hf), bathyscope.load(tmp_path / "model")
    assert type(from_folder.hf) is type(hf)
    assert from_folder.n_blocks == 3
    assert from_folder.weight_hash == in_memory.weight_hash
    # the same calls in the same shapes
    first, second = surveyed(in_memory), surveyed(from_folder)
    for measure in first.measures:
        for name, variable in first[measure].data_vars.items():
            assert variable.equals(second[measure][name]), (measure, name)


@pytest.mark.parametrize("kind", ["qwen2_5_vl", "smolvlm"])
def test_its_text_is_that_of_the_whole_model(kind: str, tmp_path: Path) -> None:
    hf = build(kind)
    hf.save_pretrained(tmp_path / "model")
    run = surveyed(tmp_path / "model")
    del (hf.model.language_model if kind != "smolvlm" else hf.model.text_model).layers[1]
    for prompt, ids in enumerate(IDS):
        logits = naive.logits(hf, ids)
        expected = torch.nn.functional.cross_entropy(logits[:-1], torch.tensor(ids[1:]))
        assert float(run["drop"].loss[prompt, 1]) == pytest.approx(float(expected), rel=1e-5)


def test_blocks_are_streamed_and_an_estimate_needs_no_weights(tmp_path: Path) -> None:
    build("qwen3_vl").save_pretrained(tmp_path / "model")
    estimate = bathyscope.estimate(tmp_path / "model", tokens=6, measures="drop")
    (tmp_path / "model" / "model.safetensors").rename(tmp_path / "away")
    assert bathyscope.estimate(tmp_path / "model", tokens=6, measures="drop").block_flops == estimate.block_flops > 0
    (tmp_path / "away").rename(tmp_path / "model" / "model.safetensors")
    streamed = bathyscope.load(tmp_path / "model", placement="stream")
    assert streamed.placement == "stream"
    kept = surveyed(bathyscope.load(tmp_path / "model", placement="resident"))
    # the same calls in the same shapes
    assert surveyed(streamed)["drop"].loss.equals(kept["drop"].loss)


@pytest.mark.parametrize("kind", ["llava", "qwen2_vl", "mistral3"])
def test_an_export_is_of_the_same_class_with_fewer_blocks_of_text(kind: str, tmp_path: Path) -> None:
    hf = build(kind)
    hf.save_pretrained(tmp_path / "model")
    for number, source in enumerate((tmp_path / "model", hf)):
        place = bathyscope.export(source, "drop:1", tmp_path / f"pruned{number}")
        pruned = AutoModelForImageTextToText.from_pretrained(place)
        assert type(pruned) is type(hf)
        assert pruned.config.get_text_config().num_hidden_layers == 2
        assert "transformers.AutoModelForImageTextToText" in (place / "README.md").read_text()
        expected = surveyed(hf)["drop"]
        assert float(surveyed(place)["drop"].baseline_loss[0]) == pytest.approx(float(expected.loss[0, 1]), rel=1e-6)
        # what sees images is as it was
        assert {name: value for name, value in pruned.state_dict().items() if "vis" in name}.keys() == {
            name for name in hf.state_dict() if "vis" in name
        }


def test_which_class_opens_a_configuration() -> None:
    assert class_for({"model_type": "llava"}) is AutoModelForImageTextToText
    assert class_for({"model_type": "llama"}) is AutoModelForCausalLM
    # transformers opens these as causal language models, images included
    assert class_for({"model_type": "gemma3"}) is AutoModelForCausalLM
    assert class_for({"model_type": "llava", "auto_map": {"AutoModelForCausalLM": "code.Own"}}) is AutoModelForCausalLM
    assert class_for({}) is AutoModelForCausalLM
    assert class_for(AutoConfig.for_model("qwen3_vl")) is AutoModelForImageTextToText
