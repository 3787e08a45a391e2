"""Words in context: the right token, the right hidden state, and a meaning planted at one boundary."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import waves, zoo
from support.altered import answering
from support.word_tokenizer import word_tokenizer
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedModel, PreTrainedTokenizerFast

from bathyscope.analysis.probes import wic_probe
from bathyscope.analysis.probes.skeleton import token_states
from bathyscope.analysis.probes.wic_rows import read_pairs
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.model import Model, load

QUICK: dict[str, Any] = {"resamples": 50, "progress": False}
K = 3
"""The boundary at which the meaning is planted."""


def row(first: str, second: str, word: str, label: int) -> dict[str, Any]:
    spans = {}
    for side, sentence in (("1", first), ("2", second)):
        start = sentence.index(word) if word in sentence else 0
        spans |= {f"start{side}": start, f"end{side}": start + len(word)}
    return {"word": word, "sentence1": first, "sentence2": second, "label": label, **spans}


def xor_rows(n: int, seed: int) -> list[dict[str, Any]]:
    """Pairs whose label is whether the target of the first sentence is one of w1, w2 or one of w0, w3."""
    draw = np.random.default_rng(seed)
    made = []
    for target in draw.integers(0, 4, n):
        before = " ".join(f"w{i}" for i in draw.integers(4, 80, draw.integers(1, 5)))
        made.append(row(f"{before} w{target} a", f"w{target} {before}", f"w{target}", int(target in (1, 2))))
    return made


@contextmanager
def planted(hf: PreTrainedModel) -> Iterator[Model]:
    """w0 … w3 are the corners of a square in channels 0 and 1; which diagonal one is on is written in channel 2 by
    block K−1, and taken away by block K. No linear probe can tell the diagonals of a square apart before or after."""
    with torch.no_grad():
        embedding = hf.model.embed_tokens.weight
        embedding[:100] = 0
        for target, corner in enumerate(product((-1.0, 1.0), repeat=2)):
            embedding[2 + target, :2] = torch.tensor(corner)

    def write(sign: float) -> Any:
        def change(_args: Any, output: Any) -> Any:
            resid = output[0] if isinstance(output, tuple) else output
            changed = resid.clone()
            changed[..., 2] -= sign * resid[..., 0] * resid[..., 1]
            return (changed, *output[1:]) if isinstance(output, tuple) else changed

        return change

    model = load(hf, tokenizer=word_tokenizer([f"w{number}" for number in range(98)]))
    first, second = hf.model.layers[K - 1 : K + 1]
    with answering(first, write(1.0)), answering(second, write(-1.0)):
        yield model


@pytest.mark.parametrize("C", [1.0, None])
def test_a_meaning_planted_at_one_boundary_is_found_there_and_nowhere_else(
    idle: PreTrainedModel, C: float | None
) -> None:
    with planted(idle) as model:
        found = wic_probe(model, xor_rows(200, 0), xor_rows(200, 1), C=C, **QUICK)
    values = found.accuracy.sel(features="concatenation").values
    assert values[K] == 1
    assert (np.delete(values, K) < 0.8).all()
    assert found.sizes == {"features": 1, "boundary": 6, "row": 200}
    assert found.correct.mean("row").values.tolist() == found.accuracy.values.tolist()
    assert found.correct.sel(boundary=K).values.all()
    assert found.ci_high[0, K] == 1
    assert (found.ci_low <= found.accuracy).all()
    share = np.mean([one["label"] for one in xor_rows(200, 1)])
    assert float(found.majority) in (pytest.approx(share), pytest.approx(1 - share))
    assert (found.attrs["train_rows"], found.attrs["validation_rows"]) == (200, 200)


def test_difference_sees_whether_two_words_are_the_same(idle: PreTrainedModel) -> None:
    def rows(n: int, seed: int) -> list[dict[str, Any]]:
        draw = np.random.default_rng(seed)
        pairs = [
            (a, a if same else (a + d) % 80) for a, same, d in zip(*draw.integers((0, 0, 1), (80, 2, 80), (n, 3)).T)
        ]
        made = [row(f"a w{a}", f"w{b} a", f"w{a}", int(a == b)) for a, b in pairs]
        for one, (_, b) in zip(made, pairs):
            one["end2"] = len(f"w{b}")
        return made

    model = load(idle, tokenizer=word_tokenizer([f"w{number}" for number in range(98)]))
    both = ("concatenation", "difference")
    found = wic_probe(model, rows(200, 0), rows(200, 1), features=both, C=1.0, **QUICK)
    assert found.features.values.tolist() == list(both)
    # the two are alike in all channels or in none, which no single channel's value tells
    assert (found.accuracy.sel(features="difference") > 0.95).all()
    assert (found.accuracy.sel(features="concatenation") < 0.7).all()


@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma2", "opt"])
def test_states_are_those_of_the_plain_model(name: str) -> None:
    model = waves.loaded(name)
    prompts = zoo.prompts(model.hf, (5, 12, 7, 12, 3))
    positions = [4, 0, 3, 11, 2]
    found = token_states(model, prompts, positions, progress=False)
    for ids, position, states in zip(prompts, positions, found):
        with torch.no_grad():
            expected = model.hf(torch.tensor([ids]), output_hidden_states=True).hidden_states
        for boundary in range(model.n_blocks):  # the last of transformers' is normed
            torch.testing.assert_close(states[boundary], expected[boundary][0, position], atol=1e-5, rtol=1e-4)
    assert found.shape == (5, 6, 64)


def test_the_last_sub_token_of_the_word_is_found_by_its_characters() -> None:
    backend = Tokenizer(models.WordPiece({"<unk>": 0, "un": 1, "##able": 2, "is": 3, "##n": 4}, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>")
    sentences = "is unable", "unable is isn"
    (pair,) = read_pairs([row(*sentences, "unable", 1)], "train", tokenizer)
    assert [(use.ids, use.token) for use in pair.uses] == [((3, 1, 2), 2), ((1, 2, 3, 3, 4), 1)]
    (pair,) = read_pairs([{**row(*sentences, "un", 1), "start2": 10, "end2": 13}], "train", tokenizer)
    assert [use.token for use in pair.uses] == [1, 4]


def test_files_give_what_rows_give(tmp_path: Path, tokenizer: PreTrainedTokenizerFast) -> None:
    rows = xor_rows(5, 0)
    path = tmp_path / "wic.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    table = tmp_path / "wic.csv"
    table.write_text("\n".join([",".join(rows[0]), *(",".join(map(str, one.values())) for one in rows)]))
    expected = read_pairs(rows, "train", tokenizer)
    assert read_pairs(path, "train", tokenizer) == read_pairs(str(table), "train", tokenizer) == expected
    assert read_pairs(path, "train", tokenizer, count=2) == expected[:2]


def test_rows_of_the_hub(monkeypatch: pytest.MonkeyPatch, tokenizer: PreTrainedTokenizerFast) -> None:
    asked = []

    def load_dataset(*given: str, split: str) -> list[dict[str, Any]]:
        asked.append((*given, split))
        if split == "train":
            return xor_rows(3, 0)
        raise OSError("no network\nand more")

    monkeypatch.setattr("datasets.load_dataset", load_dataset)
    assert read_pairs(None, "train", tokenizer) == read_pairs(xor_rows(3, 0), "train", tokenizer)
    with pytest.raises(
        PromptError, match=r"\(split 'validation'\) could not be loaded from the hub: no network\. With"
    ):
        read_pairs(None, "validation", tokenizer)
    assert asked == [("aps/super_glue", "wic", "train"), ("aps/super_glue", "wic", "validation")]


GOOD = row("a w1 b", "w1 c", "w1", 1)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ({**GOOD, "label": -1}, "WiC row 2 of train: its label is -1; allowed: 0 (two meanings) and 1 (one meaning)"),
        ({**GOOD, "label": "x"}, "label='x' is no whole number"),
        ({**GOOD, "end2": 99}, "start2=0 and end2=99 do not lie within sentence2='w1 c'"),
        ({**GOOD, "end1": 2}, "start1=2 and end1=2 do not lie within sentence1='a w1 b'"),
        ({**GOOD, "start1": 1, "end1": 2}, "no token covers the word ' ' of sentence1: the tokenizer's offsets miss"),
        ({k: v for k, v in GOOD.items() if k != "end1"}, "it lacks end1. Columns needed: word, sentence1"),
        ({**GOOD, "sentence1": "a w1 " * 9}, "sentence1 has 18 tokens, more than the 9 the model can take"),
    ],
)
def test_rows_that_do_not_fit(bad: dict[str, Any], message: str, tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(PromptError) as caught:
        read_pairs([GOOD, bad], "train", tokenizer, max_tokens=9)
    assert message in str(caught.value)


def test_too_few_rows_in_the_source(tokenizer: PreTrainedTokenizerFast) -> None:
    with pytest.raises(PromptError, match="3 rows asked for, but train has 1; ask for at most that"):
        read_pairs([GOOD], "train", tokenizer, count=3)
    with pytest.raises(PromptError, match="There are no WiC rows in validation"):
        read_pairs([], "validation", tokenizer)


def test_a_tokenizer_without_offsets_is_refused() -> None:
    class Slow:
        is_fast = False

    with pytest.raises(PromptError, match="Slow gives no character offsets, so the tokens of a word cannot be found"):
        read_pairs([GOOD], "train", Slow())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"features": ["concat"]}, OptionError, "features='concat' is unknown. Did you mean 'concatenation'? Allowed:"),
        ({"features": []}, OptionError, "features=[] is not allowed"),
        ({"train_rows": 0}, OptionError, "train_rows=0 is out of range"),
        ({"train": xor_rows(4, 0)}, PromptError, "Training rows: "),
        ({"validation": [GOOD, GOOD]}, PromptError, "Validation rows: 0 rows are labelled 0 and 2 are labelled 1"),
    ],
)
def test_mistakes(
    given: dict[str, Any],
    error: type[Exception],
    message: str,
    idle: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
) -> None:
    model = load(idle, tokenizer=tokenizer)
    with pytest.raises(error) as caught:
        wic_probe(model, **{"train": xor_rows(30, 0), "validation": xor_rows(30, 1), **QUICK, **given})
    assert message in str(caught.value)


def test_a_model_without_a_tokenizer_is_refused(idle: PreTrainedModel) -> None:
    with pytest.raises(ModelError, match="this model has no tokenizer; load it with tokenizer="):
        wic_probe(idle, xor_rows(30, 0), xor_rows(30, 1), **QUICK)


def test_rows_that_a_probe_is_fitted_to_and_judged_by_are_told(
    idle: PreTrainedModel, tokenizer: PreTrainedTokenizerFast
) -> None:
    rows = xor_rows(30, 0)
    with pytest.warns(
        UserWarning, match=r"^1 of 2 validation rows are training rows too \(first: row 2\), which a probe"
    ):
        wic_probe(load(idle, tokenizer=tokenizer), rows, [GOOD, rows[7]], **QUICK)
