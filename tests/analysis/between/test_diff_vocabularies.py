"""``diff`` of a base and an adapter that brought tokens of its own: compared over the tokens that both have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import stand_ins
from transformers import AutoTokenizer, LlamaForCausalLM

import bathyscope
from bathyscope.cli import main

peft = pytest.importorskip("peft")

TEXTS = ["the old house stood at the edge of the village", "a light was seen in the hills and the road turned"]
NEW = ["<new>", "<newer>", "<newest>"]


def adapter(base: Path, folder: Path, entries: int | None) -> Path:
    """A LoRA of the base; where rows of its embedding are given, with three more tokens."""
    hf = LlamaForCausalLM.from_pretrained(base)
    if entries is not None:
        torch.manual_seed(2)
        hf.resize_token_embeddings(entries, mean_resizing=False)
    torch.manual_seed(3)
    model = peft.get_peft_model(hf, peft.LoraConfig(r=2, target_modules=["q_proj", "down_proj"], task_type="CAUSAL_LM"))
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.1)
    model.save_pretrained(folder)
    tokenizer = AutoTokenizer.from_pretrained(base)
    if entries is not None:
        tokenizer.add_tokens(NEW)
    tokenizer.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A base whose vocabulary is wider than its tokenizer, an adapter of it, and the same with three tokens more."""
    place = tmp_path_factory.mktemp("vocabularies")
    base = stand_ins.checkpoint(place / "base")
    adapter(base, place / "plain", None)
    adapter(base, place / "wider", LlamaForCausalLM.from_pretrained(base).config.vocab_size + 3)
    # fewer rows than the base, which fill up what was padding there
    adapter(base, place / "narrower", len(AutoTokenizer.from_pretrained(base)) + 3)
    return place


def log_p(folder: Path, ids: list[int], common: list[int]) -> torch.Tensor:
    """Predictions over some tokens, by the model's own forward."""
    with torch.no_grad():
        logits = bathyscope.load(folder).hf(input_ids=torch.tensor([ids])).logits[0, :-1, common]
    values: torch.Tensor = logits.double().log_softmax(-1)
    return values


@pytest.mark.parametrize("kind", ["wider", "narrower"])
def test_predictions_are_compared_over_the_tokens_of_both(place: Path, kind: str) -> None:
    result = bathyscope.diff(place / "base", place / kind, TEXTS, resamples=50)
    tokenizer = AutoTokenizer.from_pretrained(place / "base")
    sizes = [bathyscope.load(place / name).vocabulary for name in ("base", kind)]
    new = {len(tokenizer) + number for number in range(3)}
    common = [token for token in range(min(sizes)) if token not in new]
    expected = []
    for text in TEXTS:
        first, second = (log_p(place / name, tokenizer(text).input_ids, common) for name in ("base", kind))
        expected.append(float((first.exp() * (first - second)).sum(-1).mean()))
    np.testing.assert_allclose(result["output"], expected, rtol=1e-4)
    assert result.data.attrs["tokens_in_common"] == len(common)
    assert list(result.data.attrs["vocabularies"]) == sizes
    assert result.text.startswith(
        f"Predictions are compared over the {len(common)} tokens that both have, of {sizes[0]} and {sizes[1]}. "
    )


def test_all_else_is_what_it_is_without_the_tokens(place: Path) -> None:
    """The streams, and what blocks of one model do in the other; the same calls in the same shapes."""
    results: list[Any] = [
        bathyscope.diff(place / "base", place / name, TEXTS, resamples=50) for name in ("plain", "wider")
    ]
    for name in ("drift", "part_drift", "graft", "cumulative", "weight_change"):
        np.testing.assert_array_equal(results[1][name], results[0][name], err_msg=name)
    assert "tokens_in_common" not in results[0].data.attrs
    for name in ("weights_differ", "settings_differ", "adapters_in"):
        assert results[0].data.attrs.get(name) == results[1].data.attrs.get(name), name


def test_a_prompt_with_a_token_of_one_model_is_refused(place: Path) -> None:
    with pytest.raises(bathyscope.ModelError, match=r"token id \d+ is '<new>' for .*wider and no token for .*base\."):
        bathyscope.diff(place / "wider", place / "base", ["the old <new> house stood"])


def test_another_vocabulary_is_refused(place: Path, tmp_path: Path) -> None:
    """Although prompts use none of the tokens that are others in both."""
    other = adapter(place / "base", tmp_path / "other", bathyscope.load(place / "wider").vocabulary)
    tokenizer = (other / "tokenizer.json").read_text(encoding="utf-8")
    assert '"village"' in tokenizer
    (other / "tokenizer.json").write_text(tokenizer.replace('"village"', '"city"'), encoding="utf-8")
    with pytest.raises(bathyscope.ModelError, match=r"is 'village' for .* and 'city' for"):
        bathyscope.diff(place / "base", other, TEXTS[1:])


def test_by_command(place: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("\n\n".join(TEXTS), encoding="utf-8")
    words = ["diff", str(place / "base"), str(place / "wider"), "--prompts", str(tmp_path / "texts.txt"), "--quiet"]
    assert main(words) == 0
    assert "tokens that both have, of" in " ".join(capsys.readouterr().out.split())
