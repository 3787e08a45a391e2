"""What a wrong dump gets wrong is found before it is measured, and named."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from support import naive, stored, zoo

from bathyscope.errors import ModelError
from bathyscope.model import Model, load, tokenized
from bathyscope.model.states.head import read_head
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
    ids, embedding, predictions = model.states.notes
    assert "that of boundary 0" in embedding
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
    embedding = zoo.build("llama").model.embed_tokens.weight  # else it is by this that they are told apart
    _with_head_of(tmp_path, lambda hf: hf.model.embed_tokens.weight.copy_(embedding), seed=1)
    with pytest.raises(ModelError, match="or the states are of another model or tokenizer"):
        opened(tmp_path)


def test_without_served_predictions_the_run_says_that_they_were_not_compared(tmp_path: Path) -> None:
    model = opened(written(tmp_path, "llama"))
    assert model.states is not None
    assert "not told by the files, so that the readout was not compared with them" in model.states.notes[-1]


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


def _with_head_of(folder: Path, change: Callable[[Any], None], name: str = "llama", **settings: Any) -> None:
    """Put a changed head next to the states of an unchanged model."""
    hf = zoo.entry(name).build(**settings)
    with torch.no_grad():
        change(hf)
    hf.save_pretrained(folder / "model")


def _has_embedding_of_its_own(model: Model) -> str:
    assert model.states is not None
    return next(note for note in model.states.notes if note.startswith("embedding of the head"))


@pytest.mark.parametrize("name", zoo.swept(zoo.names(), frozenset(("llama", "gemma2", "gpt2", "granite", "opt"))))
def test_the_first_boundary_is_the_embedding_of_the_head_that_was_served_and_of_no_other(
    name: str, tmp_path: Path
) -> None:
    """Nobody's own head is refused; another of the same shape is, wherever the embedding is compared at all."""
    hf = zoo.build(name)
    hf.save_pretrained(tmp_path / "model")
    try:
        head = read_head(str(tmp_path / "model"), torch.float32)
    except ModelError as error:
        pytest.skip(f"no states of {name} are read: {error}")
    stored.write_states(tmp_path / "dump", hf, REPEATING, record=False)
    # no file holds several streams, and a head that would read them as one is no head of states
    assert stored.states_of(hf, REPEATING[0]).shape[-1] == head.width
    note = _has_embedding_of_its_own(opened(tmp_path))
    zoo.entry(name).build(seed=1).save_pretrained(tmp_path / "model")
    if "not compared" in note:
        assert "stand between" in note or "wide" in note
        return
    assert re.fullmatch(r"embedding of the head: that of boundary 0, at (\d+) of \1 token ids", note)
    with pytest.raises(ModelError, match=r"Boundary 0 of the states .* is not the embedding .* another model or"):
        opened(tmp_path)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("name", ["llama", "gemma2", "gpt2"])
def test_the_rounding_of_a_server_is_no_other_model(name: str, dtype: torch.dtype, tmp_path: Path) -> None:
    """States in half precision are read with the weights in float32 that they were rounded from."""
    zoo.build(name).save_pretrained(tmp_path / "model")
    stored.write_states(tmp_path / "dump", zoo.build(name, dtype=dtype), REPEATING, record=False)
    assert "that of boundary 0" in _has_embedding_of_its_own(opened(tmp_path))


def test_a_training_that_moved_the_embedding_a_little_is_another_model(tmp_path: Path) -> None:
    written(tmp_path, "llama")

    def train(hf: Any) -> None:
        weight = hf.model.embed_tokens.weight
        weight.add_(1e-4 * torch.randn_like(weight) * weight.abs().mean())

    _with_head_of(tmp_path, train)
    with pytest.raises(ModelError, match=r"at 15 of 15 token ids: they are of another model or another training"):
        opened(tmp_path)


def test_rows_of_the_embedding_in_another_order_are_another_model(tmp_path: Path) -> None:
    written(tmp_path, "llama")
    _with_head_of(tmp_path, lambda hf: hf.model.embed_tokens.weight.copy_(hf.model.embed_tokens.weight.roll(1, 0)))
    with pytest.raises(ModelError, match="is not the embedding of the head's checkpoint"):
        opened(tmp_path)


def test_one_id_of_inputs_that_are_no_text_is_named(tmp_path: Path) -> None:
    hf = zoo.build("llama")
    hf.save_pretrained(tmp_path / "model")
    ids = [list(range(3, 40)), [*range(3, 20), 50, 5, 6]]
    with torch.no_grad():
        served = zoo.entry("llama").build()
        served.model.embed_tokens.weight[50] += 1.0
    stored.write_states(tmp_path / "dump", served, ids, record=False)
    with pytest.warns(UserWarning, match=r"but for the token ids \[50\]: inputs that are no text, or rows that"):
        assert "at 37 of 38 token ids" in _has_embedding_of_its_own(opened(tmp_path))


def test_a_head_without_its_embedding_says_that_it_was_not_compared(tmp_path: Path) -> None:
    written(tmp_path, "llama")
    path = tmp_path / "model" / "model.safetensors"
    tensors = {name: t for name, t in load_file(path).items() if name in ("model.norm.weight", "lm_head.weight")}
    save_file(tensors, path)
    note = _has_embedding_of_its_own(opened(tmp_path))
    assert note == "embedding of the head: not compared with the states, since its folder does not hold it"
    later = written(tmp_path / "later", "llama", [1, 2, 5])
    assert "since boundary 0 is not stored" in _has_embedding_of_its_own(opened(later, [1, 2, 5]))


def test_a_head_whose_rows_are_all_equal_is_refused(tmp_path: Path) -> None:
    written(tmp_path, "llama")
    _with_head_of(tmp_path, lambda hf: hf.lm_head.weight.copy_(hf.lm_head.weight[:1].expand_as(hf.lm_head.weight)))
    with pytest.raises(ModelError, match=r"All \d+ rows of the unembedding in .* are equal, so that it predicts all"):
        opened(tmp_path)


def test_a_head_whose_rows_are_in_another_order_reads_worse_than_guesses(
    tmp_path: Path, recwarn: pytest.WarningsRecorder, shared: Callable[[str], Path]
) -> None:
    trained = load(shared("checkpoints/stories260K"), dtype="float32")
    ids = [prompt.ids for prompt in tokenized(trained, ["Once upon a time there was a little girl.", "The dog ran to"])]
    stored.write_states(tmp_path / "dump", trained.hf, ids, record=False)
    trained.hf.save_pretrained(tmp_path / "model")
    opened(tmp_path)
    assert not [str(warning.message) for warning in recwarn if "worse than equal guesses" in str(warning.message)]
    hf = copy.deepcopy(trained.hf)
    hf.config.tie_word_embeddings = False
    hf.lm_head.weight = torch.nn.Parameter(hf.lm_head.weight.detach().roll(7, 0).clone())
    hf.save_pretrained(tmp_path / "model")
    with pytest.warns(UserWarning, match=r"worse than equal guesses: \d+\.\d\d nats a token against 6\.24"):
        opened(tmp_path)


def test_a_head_that_is_turned_round_reads_worse_than_guesses(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """The likeliest token has at least the share of an equal guess, and at most that where all logits are negated."""
    hf = copy.deepcopy(zoo.build("llama"))
    ids = [3]
    while len(ids) < 12:
        ids.append(int(naive.logits(hf, ids)[-1].argmax()))
    stored.write_states(tmp_path / "dump", hf, [ids], record=False)
    hf.save_pretrained(tmp_path / "model")
    opened(tmp_path)
    assert not [str(warning.message) for warning in recwarn if "worse than equal guesses" in str(warning.message)]
    hf.lm_head.weight.data.neg_()
    hf.save_pretrained(tmp_path / "model")
    with pytest.warns(UserWarning, match="worse than equal guesses"):
        opened(tmp_path)


@pytest.mark.parametrize("name", ["llama", "gpt2"])
def test_states_that_are_all_zero_are_of_no_model(name: str, tmp_path: Path) -> None:
    written(tmp_path, name)
    for path in (tmp_path / "dump").glob("*.safetensors"):
        tensors = load_file(path)
        save_file(tensors | {"hidden_states": torch.zeros_like(tensors["hidden_states"])}, path)
    with pytest.raises(ModelError, match="is not the embedding of the head's checkpoint, at"):
        opened(tmp_path)
