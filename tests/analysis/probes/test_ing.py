"""A neuron planted to foretell "-ing", the contexts it is judged on, and the activations that are read."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import waves, zoo
from support.word_tokenizer import word_tokenizer
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from bathyscope.analysis.probes import ing_probe
from bathyscope.analysis.probes.activations import last_activations
from bathyscope.analysis.probes.contexts import Contexts, balanced_contexts
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.model import load
from bathyscope.model.anatomy.neurons import output_weights

CUE, FIRST_ING, TOKENS = 2, 82, 100
"""w0 is followed by a word in -ing, always and alone."""
BLOCK, NEURON = 2, 17
QUICK: dict[str, Any] = {"window": 6, "contexts": 200, "resamples": 50, "progress": False}


@pytest.fixture
def corpus(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> Path:
    """Words drawn at random, in which every w0 is followed by a word in -ing."""
    draw = np.random.default_rng(0)
    words = {number: word for word, number in tokenizer.get_vocab().items()}
    text = []
    for number in draw.integers(CUE, FIRST_ING, 6000):
        repeated = [CUE, draw.integers(FIRST_ING, TOKENS)] if draw.random() < 0.08 or number == CUE else [number]
        text += [words[int(one)] for one in repeated]
    path = tmp_path / "corpus.txt"
    path.write_text(" ".join(text), encoding="utf-8")
    return path


@torch.no_grad()
def plant(hf: PreTrainedModel) -> None:
    """One neuron fires at w0 and writes what all words in -ing have in common; all others write a little."""
    embedding, head = hf.model.embed_tokens.weight, hf.lm_head.weight
    embedding[:, :2] = 0
    embedding[CUE] = 0
    embedding[CUE, 0] = 5
    head[:, 1] = 0
    head[FIRST_ING:TOKENS] = 0
    head[FIRST_ING:TOKENS, 1] = 1
    mlp = hf.model.layers[BLOCK].mlp
    for projection in (mlp.gate_proj, mlp.up_proj):
        projection.weight[NEURON] = 0
        projection.weight[NEURON, 0] = 2
    draw = torch.Generator().manual_seed(0)
    for layer in hf.model.layers:
        layer.mlp.down_proj.weight.copy_(1e-3 * torch.randn(layer.mlp.down_proj.weight.shape, generator=draw))
    mlp.down_proj.weight[:, NEURON] = 0
    mlp.down_proj.weight[1, NEURON] = 3
    hf.model.norm.weight.fill_(1)


def test_a_planted_neuron_foretells_ing_alone(
    idle: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, corpus: Path
) -> None:
    plant(idle)
    found = ing_probe(load(idle, tokenizer=tokenizer), corpus, neurons=4, **QUICK)
    first = found.sel(kind="prediction", rank=0)
    assert (int(first.block), int(first.neuron)) == (BLOCK, NEURON)
    assert float(first.accuracy) == float(first.train_accuracy) == 1
    assert float(first.skew) > 0
    assert float(found.top1_accuracy) == 1
    assert found.ensemble_accuracy.sel(kind="prediction", size=1) == 1
    assert int(found.added.sel(kind="prediction", size=1)) == 0
    assert (found["skew"].sel(kind="suppression") < 0).all()
    assert (found.attrs["training"], found.attrs["held_out"]) == (100, 100)


def test_without_its_weights_nothing_foretells_it(
    idle: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, corpus: Path
) -> None:
    """The same corpus, but w0 looks like any other word: what remains is one of 80 random embeddings."""
    plant(idle)
    with torch.no_grad():
        idle.model.embed_tokens.weight[CUE] = idle.model.embed_tokens.weight[CUE + 1]
    found = ing_probe(load(idle, tokenizer=tokenizer), corpus, neurons=2, **QUICK)
    assert float(found.top1_accuracy) == 0.5
    assert (found.accuracy < 0.95).all()


def test_ensembles_grow_in_the_order_of_training_accuracy(tokenizer: PreTrainedTokenizerFast, corpus: Path) -> None:
    found = ing_probe(load(zoo.build("llama"), tokenizer=tokenizer), corpus, neurons=6, **QUICK)
    for kind in found.kind.values:
        one = found.sel(kind=kind)
        added = one.added.values.astype(int)
        assert sorted(added) == list(range(6))
        accuracies = one.train_accuracy.values[added]
        assert all(before >= after for before, after in pairwise(accuracies))
        assert one.ensemble_accuracy.values[0] == one.accuracy.values[added[0]]
        assert (np.diff(np.abs(one.effect.values)) <= 0).all()
    again = ing_probe(load(zoo.build("llama"), tokenizer=tokenizer), corpus, neurons=6, **QUICK)
    assert found.equals(again)


@pytest.mark.parametrize("name", ["llama", "gpt2", "opt", "qwen2_moe"])
def test_activations_are_the_inputs_of_the_down_projections(name: str) -> None:
    model = waves.loaded(name)
    weights = output_weights(model.anatomy)
    shared = sum(one.neurons for one in weights[1] if not one.visible)
    places = [(1, shared + 3), (4, shared + 40), (1, shared)]
    prompts = zoo.prompts(model.hf, (9,) * 5)
    found, top1 = last_activations(model, weights, places, prompts, progress=False)
    owners = {block: next(one.owner for one in weights[block] if one.visible) for block in (1, 4)}
    for row, ids in enumerate(prompts):
        given, logits = plain(model.hf, owners, ids)
        expected = [given[block][neuron - shared] for block, neuron in places]
        torch.testing.assert_close(found[row], torch.stack(expected), atol=1e-5, rtol=1e-4)
        assert int(top1[row]) == int(logits.argmax())


def plain(hf: torch.nn.Module, owners: dict[int, torch.nn.Module], ids: list[int]) -> tuple[dict[int, Any], Any]:
    """Inputs of some modules, and the logits, at the last token of a plain forward."""
    seen: dict[int, torch.Tensor] = {}
    handles = [
        owner.register_forward_pre_hook(lambda _m, args, block=block: seen.__setitem__(block, args[0]))
        for block, owner in owners.items()
    ]
    with torch.no_grad():
        logits = hf(torch.tensor([ids])).logits[0, -1]
    for handle in handles:
        handle.remove()
    return {block: value.reshape(-1, value.shape[-1])[-1] for block, value in seen.items()}, logits


def contexts(corpus: Path, tokenizer: PreTrainedTokenizerFast, **given: Any) -> Contexts:
    in_class = np.arange(TOKENS) >= FIRST_ING
    options: dict[str, Any] = {"window": 6, "count": 100, "characters": None, "seed": 0, **given}
    return balanced_contexts(corpus, tokenizer, in_class, **options)


def test_contexts_are_balanced_in_both_halves_and_stand_in_the_text(
    corpus: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    found = contexts(corpus, tokenizer)
    assert found.ids.shape == (100, 5)
    for half in (found.training, ~found.training):
        assert (half.sum(), found.labels[half].sum()) == (50, 25)
    text = tokenizer(corpus.read_text())["input_ids"]
    windows = {tuple(text[end - 5 : end]): text[end] for end in range(5, len(text))}
    assert [int(windows[tuple(ids)] >= FIRST_ING) for ids in found.ids.tolist()] == found.labels.tolist()
    assert (contexts(corpus, tokenizer).ids == found.ids).all()
    assert (contexts(corpus, tokenizer, seed=1).ids != found.ids).any()


def test_contexts_do_not_overlap(tmp_path: Path) -> None:
    """Every word stands once, so that no two windows may share one, nor the token that is told."""
    words = [f"w{n}" + ("ing" if n % 3 == 0 else "") for n in range(98)]
    tokenizer = word_tokenizer(words)
    path = tmp_path / "once.txt"
    path.write_text(" ".join(words))
    in_class = np.array([False, False, *("ing" in word for word in words)])
    found = balanced_contexts(path, tokenizer, in_class, window=6, count=100, characters=None, seed=0)
    seen = [i for ids in found.ids.tolist() for i in (*ids, ids[-1] + 1)]
    assert len(seen) == len(set(seen))
    assert found.labels.mean() == 0.5
    assert 2 <= len(found.labels) <= 98 // 6


def test_contexts_begin_with_bos_where_the_tokenizer_has_one(corpus: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    tokenizer.bos_token = "a"
    found = contexts(corpus, tokenizer)
    assert (found.ids[:, 0] == 1).all()
    assert (found.ids[:, 1:] != 1).all()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("w1 w2 w3", "has 3 tokens, fewer than one context of 6; give a longer text"),
        ("w1 w2 " * 50, "0 of its 95 contexts of 6 tokens end in a token of the class"),
        ("wing " * 50, "45 of its 45 contexts of 6 tokens end in a token of the class"),
    ],
)
def test_texts_that_give_no_contexts(
    text: str, message: str, tmp_path: Path, tokenizer: PreTrainedTokenizerFast
) -> None:
    path = tmp_path / "text.txt"
    path.write_text(text)
    with pytest.raises(PromptError) as caught:
        contexts(path, tokenizer)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"contexts": 7}, OptionError, "contexts=7 is out of range; allowed: 8 or more"),
        ({"window": 3}, OptionError, "window=3 is out of range; allowed: 4 or more"),
        ({"neurons": True}, OptionError, "neurons takes a whole number; True given"),
        ({"C": -1.0}, OptionError, "C=-1.0 is not allowed"),
        ({"neurons": 10**6}, OptionError, "neurons=1000000 is out of range: the model has"),
        ({"resamples": 0}, OptionError, "resamples=0 is out of range; allowed: 20 to 10000000"),
        ({"characters": 0}, OptionError, "characters=0 is out of range; allowed: 1 or more"),
        ({"characters": 400}, PromptError, "give a longer text"),
        (
            {"window": 258},
            OptionError,
            "window=258 gives prompts of 257 tokens, and LlamaForCausalLM takes 256; give a",
        ),
    ],
)
def test_mistakes(
    given: dict[str, Any],
    error: type[Exception],
    message: str,
    idle: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    corpus: Path,
) -> None:
    plant(idle)
    with pytest.raises(error) as caught:
        ing_probe(load(idle, tokenizer=tokenizer), corpus, **{**QUICK, "window": 90, **given})
    assert message in str(caught.value)


def test_models_that_cannot_be_probed(idle: PreTrainedModel, corpus: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(ModelError, match="this model has no tokenizer"):
        ing_probe(idle, corpus, **QUICK)
    without = word_tokenizer([f"w{number}" for number in range(98)])
    with pytest.raises(ModelError, match='No token of the vocabulary of LlamaForCausalLM ends in "ing"'):
        ing_probe(load(idle, tokenizer=without), corpus, **QUICK)
    with pytest.raises(ModelError, match="has no neurons of both kinds whose activations can be read"):
        ing_probe(load(zoo.build("mixtral"), tokenizer=tokenizer), corpus, **QUICK)
