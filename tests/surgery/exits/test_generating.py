"""Generation with drafts of the model's own first blocks: what is drafted, what comes out, and who cannot do it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support import waves, zoo
from support.cut_short import first_blocks, next_token

import bathyscope
from bathyscope.errors import ModelError
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.surgery.exits.drafting import counts, counts_of
from bathyscope.surgery.exits.generating import generated, require_early_exit
from bathyscope.surgery.exits.reading import traces

PAGE = Path(__file__).parents[3] / "docs" / "exits.md"


@pytest.mark.parametrize("exit_", [1, 3])
def test_drafts_are_what_the_first_blocks_alone_say(exit_: int) -> None:
    model, short, whole = waves.loaded("llama"), first_blocks("llama", exit_), zoo.build("llama")
    [ids] = zoo.prompts(whole, (9,))
    plain, own = generated(model, ids, 8), generated(model, ids, 8, exit_, 2)
    assert own.tokens == plain.tokens
    assert plain.drafts == ((),) * len(plain.tokens)
    settled = list(ids)
    for draft in own.drafts:
        expected = list(settled)
        for token in draft:
            assert token == next_token(short, expected)
            expected.append(token)
        for token in draft:
            if token != next_token(whole, settled):
                break
            settled.append(token)
        settled.append(next_token(whole, settled))
    assert tuple(settled[len(ids) :]) == own.tokens


def test_a_run_takes_what_a_plain_forward_foretells() -> None:
    """To the last count, also where the end of text comes early."""
    hf = zoo.entry("llama").build()
    questions = zoo.prompts(hf, (9, 12, 9), 4)
    free = generated(bathyscope.load(hf), questions[0], 12).tokens
    hf.generation_config.eos_token_id = free[7]
    model = bathyscope.load(hf)
    made = [generated(model, ids, 12).tokens for ids in questions]
    assert {len(own) < 12 for own in made} == {True, False}
    found = traces(model, [TokenizedPrompt(str(n), (*q, *a), len(a)) for n, (q, a) in enumerate(zip(questions, made))])
    for exit_ in (1, 3):
        for draft in (1, 3, 20):
            for ids, trace in zip(questions, found):
                own = generated(model, ids, 12, exit_, draft)
                foretold = counts(trace.agrees[exit_ - 1], draft, 12)
                # how long a wrong draft goes on behind its first mistake is not known from a plain forward
                assert counts_of(own.tokens, own.drafts)[:4] == foretold[:4]


def test_the_model_is_left_as_it_was() -> None:
    model = waves.loaded("llama")
    before, hooks = model.hf.generation_config, len(model.hf._forward_pre_hooks)
    generated(model, [4, 5, 6], 4, 1, 2)
    with pytest.raises(IndexError):
        generated(model, [4, 10**6], 4, 1, 2)
    assert model.hf.generation_config is before
    assert len(model.hf._forward_pre_hooks) == hooks
    assert model.hf.config.num_hidden_layers == model.n_blocks


def test_families_that_cannot_are_refused() -> None:
    gpt2 = waves.loaded("gpt2")
    with pytest.raises(ModelError, match=r"transformers cannot stop a gpt2 model early: .* fails \(IndexError"):
        require_early_exit(gpt2)
    assert gpt2.hf.config.num_hidden_layers == gpt2.n_blocks
    # its anatomy is that of Llama, which can be stopped
    with pytest.raises(ModelError, match="transformers cannot stop a gpt_oss model early"):
        require_early_exit(waves.loaded("gpt_oss"))
    with pytest.raises(ModelError, match="assisted generation is not supported with stateful models"):
        require_early_exit(waves.loaded("mamba"))
    one = bathyscope.load(first_blocks("llama", 1))
    with pytest.raises(ModelError, match="This model has one block, and no exit before the last"):
        require_early_exit(one)


def listed() -> list[str]:
    """The families that the page names."""
    [told] = re.findall(r"^Families that can: (.*?)\.$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return re.findall(r"`(\w+)`", told)


@pytest.mark.parametrize("name", zoo.swept(zoo.names(plain=True), zoo.FEWER))
def test_a_family_gives_the_plain_tokens_or_is_refused(name: str) -> None:
    model = waves.loaded(name)
    if name not in listed():
        with pytest.raises(ModelError, match="transformers cannot stop"):
            require_early_exit(model)
        return
    require_early_exit(model)
    [ids] = zoo.prompts(model.hf, (9,), 3)
    plain = generated(model, ids, 6)
    for exit_ in range(1, model.n_blocks):
        assert generated(model, ids, 6, exit_, 2).tokens == plain.tokens
