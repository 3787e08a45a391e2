"""What a wrong dump gets wrong is found before it is measured, and named."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import naive, stored, zoo

from bathyscope.errors import ModelError
from bathyscope.model import Model
from bathyscope.model.states.opening import open_states

FAMILIES = ("llama", "gemma2", "gpt2", "olmo2", "qwen3_moe", "granite")
REPEATING = ([5, 6, 7, 5, 9, 10, 6, 11], [8, 5, 9, 12, 8, 9, 5, 13, 12, 14], [20, 21, 22, 23, 20, 24, 21])
"""Prompts that repeat tokens behind other contexts, by which the embedding is told from what stands behind a block."""


def opened(folder: Path, boundaries: Sequence[int] | None = None) -> Model:
    return open_states(folder / "dump", folder / "model", boundaries=boundaries)


def written(folder: Path, name: str, boundaries: Sequence[int] | None = None, served: str | None = None) -> Path:
    hf = zoo.build(name)
    hf.save_pretrained(folder / "model")
    stored.write_states(folder / "dump", hf, REPEATING, boundaries, record=False, served=served)
    return folder


@pytest.mark.parametrize("name", FAMILIES)
def test_sound_states_pass_and_what_was_checked_is_noted(name: str, tmp_path: Path) -> None:
    model = opened(written(tmp_path, name, served="top1_ids"))
    assert model.states is not None
    ids, predictions = model.states.notes
    assert ids.startswith("ids of boundaries: the first states are")
    assert ("are not those" in ids) == (name == "gpt2")  # whose table of positions is added in front of block 0
    assert predictions == "predictions of the served model: those of the readout, but for 0% of the tokens of 3 prompts"


@pytest.mark.parametrize("name", FAMILIES)
def test_a_last_boundary_that_is_normed_already_is_named(name: str, tmp_path: Path) -> None:
    written(tmp_path, name)
    hf = zoo.build(name)
    for path, ids in zip(sorted((tmp_path / "dump").glob("*.safetensors")), REPEATING, strict=True):
        tensors = load_file(path)
        with torch.no_grad():  # as transformers stores it: the last of its hidden_states is behind the norm
            whole = hf(input_ids=torch.tensor([ids]), output_hidden_states=True).hidden_states
        tensors["hidden_states"][:, -1] = whole[-1][0]
        save_file(tensors, path)
    with pytest.raises(ModelError, match=r"are normed already: at every token their mean square .* is 1\. Store the"):
        opened(tmp_path)


@pytest.mark.parametrize("name", [name for name in FAMILIES if name != "gpt2"])
def test_ids_that_are_one_too_high_or_too_low_are_named(name: str, tmp_path: Path) -> None:
    last = len(naive.blocks_of(zoo.build(name)))
    written(tmp_path / "high", name, range(last))
    with pytest.raises(ModelError, match=r"they are the embedding, boundary 0\. The ids are off by 1; give \[0, 1"):
        opened(tmp_path / "high", range(1, last + 1))
    written(tmp_path / "low", name, range(1, last + 1))
    with pytest.raises(ModelError, match=r"said to be of boundary 0, depend on the context"):
        opened(tmp_path / "low", range(last))


def test_a_row_of_one_token_decides_nothing_of_ids(tmp_path: Path) -> None:
    hf = zoo.build("llama")
    hf.save_pretrained(tmp_path / "model")
    # attention over equal values gives them back, so that these states are alike at every boundary
    stored.write_states(tmp_path / "dump", hf, [[7] * 9, [8] * 9], [2, 3, 5], record=False)
    model = opened(tmp_path, [2, 3, 5])
    assert model.states is not None
    assert model.states.notes[0] == "ids of boundaries: not checked, since no prompt repeats a token behind others"


@pytest.mark.parametrize("served", ["top1_ids", "next_logprobs"])
@pytest.mark.parametrize("name", ["llama", "gemma2"])
def test_served_predictions_catch_a_last_boundary_that_is_an_earlier_one(
    name: str, served: str, tmp_path: Path
) -> None:
    last = len(naive.blocks_of(zoo.build(name)))
    # the id of the last layer instead of the number of layers, a known slip
    written(tmp_path, name, [0, 2, last - 1], served)
    with pytest.raises(ModelError, match=r"is not what the served model predicted, at \d+% .*the ids are off by one"):
        opened(tmp_path, [0, 2, last])


@pytest.mark.parametrize("served", ["top1_ids", "next_logprobs"])
def test_served_predictions_of_another_model_are_caught(served: str, tmp_path: Path) -> None:
    written(tmp_path, "llama", served=served)
    zoo.entry("llama").build(seed=1).save_pretrained(tmp_path / "model")
    with pytest.raises(ModelError, match="or the states are of another model or tokenizer"):
        opened(tmp_path)


def test_without_served_predictions_the_run_says_that_they_were_not_compared(tmp_path: Path) -> None:
    model = opened(written(tmp_path, "llama"))
    assert model.states is not None
    assert "not told by the files, so that the readout was not compared with them" in model.states.notes[1]


def test_states_in_bfloat16_of_a_server_pass(tmp_path: Path) -> None:
    hf = zoo.build("llama", dtype=torch.bfloat16)
    hf.save_pretrained(tmp_path / "model")
    stored.write_states(tmp_path / "dump", hf, REPEATING, record=False, served="top1_ids")
    model = opened(tmp_path)
    assert model.dtype == torch.bfloat16


def test_another_width_and_another_vocabulary_are_named(tmp_path: Path) -> None:
    written(tmp_path, "llama")
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    for path in (tmp_path / "dump").glob("*.safetensors"):
        tensors = load_file(path)
        save_file(tensors | {"token_ids": tensors["token_ids"] + config["vocab_size"]}, path)
    with pytest.raises(ModelError, match=rf"the token id {config['vocab_size'] + 5}, .* ids 0 to .*another tokenizer"):
        opened(tmp_path)
    for path in (tmp_path / "dump").glob("*.safetensors"):
        tensors = load_file(path)
        save_file(tensors | {"hidden_states": tensors["hidden_states"][..., :-8].contiguous()}, path)
    with pytest.raises(ModelError, match="holds states of width 56, and the head's model is 64 wide"):
        opened(tmp_path)


def test_nan_anywhere_is_named_before_anything_is_measured(tmp_path: Path) -> None:
    written(tmp_path, "llama")
    path = sorted((tmp_path / "dump").glob("*.safetensors"))[1]
    tensors = load_file(path)
    tensors["hidden_states"][3, 2, 1] = torch.nan
    save_file(tensors, path)
    with pytest.raises(ModelError, match=rf"{path.name} holds NaN or Inf: first at token 3, boundary 2\."):
        opened(tmp_path)


def test_a_last_boundary_that_is_missing_is_said(tmp_path: Path) -> None:
    last = len(naive.blocks_of(zoo.build("llama")))
    written(tmp_path, "llama", range(last))
    with pytest.warns(
        UserWarning, match=rf"Boundary {last}, behind the last block, is not stored: .* residual and cka"
    ):
        model = opened(tmp_path, range(last))
    assert model.states is not None
    assert model.states.notes[-1] == f"boundary {last}, behind the last block, is not stored"
