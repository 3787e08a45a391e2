"""Surveys of what a model writes: its own tokens, the numbers that the same tokens give when they are handed in."""

from __future__ import annotations

import copy
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support import naive, streamed, waves, zoo
from transformers import GenerationConfig

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError
from bathyscope.model.reading import tokenized
from bathyscope.model.writing import Writing, ends_of

FAMILIES = (
    *("llama", "gpt2", "gpt_neox", "gemma2", "qwen3", "falcon", "bloom", "opt", "mixtral", "cohere2"),
    *("jamba", "gpt2_sink", "granite", "olmo2"),
)
QUICK = frozenset(FAMILIES[:12])
NEW = 4


def questions(name: str) -> list[bathyscope.Prompt]:
    """Some with an answer, which is not what the model writes."""
    ids = zoo.prompts(zoo.build(name), (7, 9, 6))
    return [bathyscope.Prompt(ids=own, answer_tokens=2 if n else None) for n, own in enumerate(ids)]


def surveyed(name: str, prompts: Any, **options: Any) -> bathyscope.Run:
    return bathyscope.survey(waves.loaded(name), prompts, ["lens", "drop", "tokens"], progress=False, **options)


def greedy(name: str, ids: list[int], count: int) -> list[int]:
    """The most probable token again and again, by one forward of the model for each."""
    model, ids = zoo.build(name), list(ids)
    for _ in range(count):
        ids.append(int(naive.logits(model, ids)[-1].argmax()))
        if ids[-1] in ends_of(waves.loaded(name)):
            break
    return ids


@pytest.mark.parametrize("name", zoo.swept(FAMILIES, QUICK))
def test_numbers_are_those_of_the_same_tokens_handed_in(name: str) -> None:
    written = surveyed(name, questions(name), write=NEW)
    asked = [list(own.ids or ())[: -own.answer_tokens if own.answer_tokens else None] for own in questions(name)]
    texts = [greedy(name, own, NEW) for own in asked]
    assert [list(prompt.ids) for prompt in written.prompts] == texts
    answers = [len(text) - len(own) for text, own in zip(texts, asked)]
    handed_in = [bathyscope.Prompt(ids=text, answer_tokens=count) for text, count in zip(texts, answers)]
    expected = surveyed(name, handed_in, lens={"positions": "answer"})
    for measure in expected.measures:
        for variable, values in expected[measure].data_vars.items():
            np.testing.assert_array_equal(written[measure][variable], values, f"{measure}.{variable}")


def test_single_tokens_are_all_there_however_long_the_question() -> None:
    """The measure tokens takes 256 tokens of a text that was handed in, and a question may be longer."""
    (ids,) = zoo.prompts(zoo.build("llama"), (40,))
    hf = zoo.entry("llama").build()
    hf.config.max_position_embeddings = 512
    run = bathyscope.survey(bathyscope.load(hf), [(ids * 7)[:262]], ["lens", "tokens"], write=NEW, progress=False)
    tokens = run["tokens"].isel(prompt=0)
    assert tokens.sizes["token"] == 262 + NEW
    depths = tokens["settle_depth"].isel(token=slice(261, 261 + NEW))
    assert float(depths.mean()) == pytest.approx(float(run["lens"]["settle_depth"].mean()))
    options = {"write": NEW, "tokens": {"length": 9}, "progress": False}
    shorter = bathyscope.survey(waves.loaded("llama"), [ids], ["lens", "tokens"], **options)
    assert shorter["tokens"].sizes["token"] == 9


def test_what_is_written_is_measured_without_the_lens() -> None:
    """The lens's own options come only where it is asked for."""
    run = bathyscope.survey(waves.loaded("llama"), questions("llama"), ["drop"], write=2, progress=False)
    assert run["drop"]["written"].values.tolist() == [2, 2, 2]


def test_labels_say_what_was_written() -> None:
    ids = zoo.prompts(zoo.build("llama"), (7, 9))
    answers = [greedy("llama", ids[0], 2)[-2:], [1, 2]]
    prompts = [bathyscope.Prompt(ids=[*own, *answer], answer_tokens=2) for own, answer in zip(ids, answers)]
    lens = surveyed("llama", prompts, write=NEW)["lens"]
    assert lens["written"].values.tolist() == [NEW, NEW]
    assert lens["ended"].values.tolist() == [0, 0]
    assert lens["right"].values.tolist() == [1, 0]
    assert lens["n_averaged"].values.tolist() == [NEW, NEW]


def test_penalties_of_the_model_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Chat models come with penalties and filters, under which another token is written than the most probable one."""
    model = waves.loaded("llama")
    (ids,) = zoo.prompts(zoo.build("llama"), (8,))
    expected = greedy("llama", ids, NEW)
    for name, value in (("repetition_penalty", 50.0), ("suppress_tokens", [expected[-1]]), ("num_beams", 3)):
        settings = copy.deepcopy(model.hf.generation_config)
        setattr(settings, name, value)
        monkeypatch.setattr(model.hf, "generation_config", settings)
        run = bathyscope.survey(model, [ids], ["lens"], write=NEW, progress=False)
        assert list(run.prompts[0].ids) == expected, name
        assert model.hf.generation_config is settings


def test_texts_that_the_limit_ended_are_counted_in_a_warning() -> None:
    """Of a model that could have ended them; one that has no end of text never does."""
    model = waves.loaded("llama")
    ids = zoo.prompts(model.hf, (7, 9, 6))
    texts = [greedy("llama", own, NEW)[len(own) :] for own in ids]
    # a token that some texts have, and others have not
    end = next(token for token in texts[0] if 0 < sum(token in text for text in texts) < 3)
    count = sum(end not in text for text in texts)
    settings = model.hf.generation_config
    model.hf.generation_config = GenerationConfig(eos_token_id=end)
    try:
        said = rf"The limit of {NEW} tokens ended {count} of 3 continuations \({count / 3:.0%}\) before the model did"
        with pytest.warns(UserWarning, match=said):
            written = Writing(NEW).continued(model, tokenized(model, ids), progress=False)
        model.hf.generation_config = GenerationConfig(eos_token_id=None)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            Writing(NEW).continued(model, tokenized(model, ids), progress=False)
    finally:
        model.hf.generation_config = settings
    assert [own.labels["ended"] for own in written] == [int(end in text) for text in texts]


def test_an_answer_that_was_cut_off_is_neither_right_nor_wrong() -> None:
    """Two tokens were allowed, and the answer has three: what agrees so far could have gone on rightly."""
    ids = zoo.prompts(zoo.build("llama"), (7, 9, 8))
    answers = [greedy("llama", ids[0], 3)[-3:], [1, 2, 3], greedy("llama", ids[2], 2)[-2:]]
    prompts = [bathyscope.Prompt(ids=[*own, *answer], answer_tokens=len(answer)) for own, answer in zip(ids, answers)]
    with pytest.warns(UserWarning, match=r"For 1 of 3 prompts .* an answer that has more; .* \(write=3\)"):
        lens = surveyed("llama", prompts, write=2)["lens"]
    np.testing.assert_array_equal(lens["right"].values.astype(float), [np.nan, 0, 1])


def test_a_text_that_ends_at_once_has_its_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    model = waves.loaded("llama")
    (ids,) = zoo.prompts(zoo.build("llama"), (8,))
    first = greedy("llama", ids, 1)[-1]
    monkeypatch.setattr(model.hf.generation_config, "eos_token_id", first)
    lens = bathyscope.survey(model, [ids], ["lens"], write=NEW, progress=False)["lens"]
    assert (lens["written"].item(), lens["ended"].item()) == (1, 1)


def test_draws_depend_on_seed_and_prompt_alone() -> None:
    model = waves.loaded("llama")
    prompts = bathyscope.survey(model, zoo.prompts(model.hf, (8, 9, 7)), ["lens"], progress=False).prompts
    writing = Writing(6, temperature=3.0)
    state = torch.random.get_rng_state()
    together = [prompt.ids for prompt in writing.continued(model, prompts)]
    assert torch.equal(torch.random.get_rng_state(), state)
    alone = [writing.continued(model, prompts.some([n]))[0].ids for n in (2, 0, 1)]
    assert [alone[1], alone[2], alone[0]] == together
    other = [prompt.ids for prompt in Writing(6, temperature=3.0, seed=1).continued(model, prompts)]
    assert other != together


def test_a_run_goes_on_with_the_same_tokens(tmp_path: Path) -> None:
    prompts = questions("llama")
    first = surveyed("llama", prompts, write=NEW, out=tmp_path / "run")
    again = surveyed("llama", prompts, write=NEW, out=tmp_path / "run")
    assert first.prompts.hash == again.prompts.hash
    assert "continued by up to 4 tokens, greedy" in again.identity.dataset


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"temperature": 1.0}, OptionError, r"is of what the model writes; give write=200 \(--write 200\)"),
        ({"write": 0}, OptionError, r"write=0 is out of range; allowed: 1 or more"),
        ({"write": 10**6}, PromptError, r"would have 1000000 more, and LlamaForCausalLM takes \d+. Write fewer tokens"),
        (
            {"write": 3, "part": "1/2", "out": "r"},
            OptionError,
            r"write=3 and part='1/2' do not go together",
        ),
    ],
)
def test_what_cannot_be_written_is_refused(
    options: dict[str, Any], error: type[Exception], message: str, tmp_path: Path
) -> None:
    if "out" in options:
        options = {**options, "out": tmp_path / "r"}
    with pytest.raises(error, match=message):
        surveyed("llama", questions("llama"), **options)


def test_labels_of_these_names_are_refused() -> None:
    (ids,) = zoo.prompts(zoo.build("llama"), (8,))
    with pytest.raises(PromptError, match=r"The prompts have a label 'ended', which says what was written. Rename it."):
        surveyed("llama", [bathyscope.Prompt(ids=ids, labels={"ended": 1})], write=2)


def test_streamed_models_are_refused(tmp_path: Path) -> None:
    model = streamed.streamed(streamed.saved("llama", tmp_path / "llama"))
    with pytest.raises(ModelError, match=r"Writing reads all weights for every token, and the blocks .* are streamed"):
        bathyscope.survey(model, zoo.prompts(zoo.build("llama"), (8,)), ["lens"], write=2, progress=False)


def test_an_end_outside_of_the_vocabulary_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    model = waves.loaded("llama")
    monkeypatch.setattr(model.hf, "generation_config", GenerationConfig(eos_token_id=[3, 50_000]))
    with pytest.warns(UserWarning, match=r"eos_token_id 50000 of the generation settings of .* is outside of its voc"):
        surveyed("llama", questions("llama"), write=1)
