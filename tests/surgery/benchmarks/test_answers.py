"""Answers written in batches are those of one document after another through ``scheduled(...).generate``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from support import waves, zoo
from support.letter_tokenizer import SPECIAL, letter_tokenizer, letters
from support.zoo.entry import VOCABULARY
from transformers import PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model.anatomy.mode import goes_on_from_a_cache
from bathyscope.schedule import Schedule
from bathyscope.surgery.benchmarks.answers import Question, Writer
from bathyscope.surgery.scheduled.running import scheduled

LENGTHS = (9, 17, 5, 17, 9)
MOST = 6
QUICK = ("mistral", "gemma2", "bloom", "llama4", "jamba", "mamba", "llama_dynamic")
"""Windows everywhere and in every other block, ALiBi, chunks, a hybrid, states alone, tables by length."""
SCHEDULES = ("standard", "drop:1", "repeat:1+2")
WRITES_NO_TEXT = {
    **dict.fromkeys(("musicgen", "musicgen_melody"), "writes codebooks of sound"),
    **dict.fromkeys(("xlnet", "xlnet_windowed"), "writes each token at a place that it is not shown"),
}
"""Families whose ``generate`` does something else, by what is said of it."""


def alone(hf: PreTrainedModel, ids: Sequence[int], most: int = MOST, **given: Any) -> str:
    """One document, one plain call, up to an end-of-text token."""
    with torch.no_grad():
        hf(torch.tensor([[5]]), use_cache=False)  # a short prompt sets tables back that grow with the longest one
    tokens = hf.generate(
        torch.tensor([list(ids)]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        max_new_tokens=most,
        do_sample=False,
        pad_token_id=0,
        **given,
    )[0, len(ids) :].tolist()
    shown = tokens[: tokens.index(2)] if 2 in tokens else tokens
    return "".join(letters(VOCABULARY)[token] for token in shown if token >= len(SPECIAL))


def cut(text: str, until: Sequence[str]) -> str:
    """Up to the first of these, then of those, as the harness does it: one stop may hold another's end."""
    for stop in until:
        text = text[: text.index(stop)] if stop in text else text
    return text


def shapes(hf: PreTrainedModel, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, int]]:
    """Rows and tokens of the calls of ``generate`` that write answers, in order."""
    found: list[tuple[int, int]] = []
    generate = type(hf).generate

    def counted(self: Any, ids: torch.Tensor, **given: Any) -> Any:
        if "stopping_criteria" in given:
            found.append((len(ids), ids.shape[1]))
        return generate(self, ids, **given)

    monkeypatch.setattr(type(hf), "generate", counted)
    return found


def varied(hf: PreTrainedModel) -> tuple[list[int], str]:
    """A prompt of nine tokens to which a model does not write one letter alone, and what it writes."""
    answers = ((ids, alone(hf, ids)) for ids in zoo.prompts(hf, (9,) * 20))
    return next((ids, text) for ids, text in answers if len(set(text)) > 1)


def written(hf: PreTrainedModel, asked: Sequence[Question], size: int = 4, done: Callable[[int], None] = print) -> Any:
    return [answer.text for answer in Writer(hf, letter_tokenizer(VOCABULARY), size, done).write(asked)]


@pytest.mark.parametrize("name", WRITES_NO_TEXT)
def test_a_model_that_writes_no_text_is_refused(name: str) -> None:
    said = rf"{WRITES_NO_TEXT[name]}.*ask tasks whose answers are given, such as hellaswag"
    with pytest.raises(ModelError, match=said):
        written(zoo.build(name), [])


@pytest.mark.parametrize(
    "name",
    [*QUICK, *(pytest.param(n, marks=pytest.mark.thorough) for n in zoo.names() if n not in (*QUICK, *WRITES_NO_TEXT))],
)
def test_batches_write_what_documents_alone_are_answered(name: str) -> None:
    """Under schedules, with unequal prompts and stop sequences that rows meet at different places, or never."""
    model = waves.loaded(name)
    prompts = zoo.prompts(model.hf, LENGTHS)
    for text in SCHEDULES:
        if model.checks.lacking(Schedule.parse(text, model.n_blocks)):
            continue
        if name == "inkling2":
            # its own forward stores streams between its blocks, and runs in its own order alone
            with pytest.raises(ModelError, match="stores streams between its blocks"), scheduled(model, text):
                pass
            continue
        with scheduled(model, text) as hf:
            cached = goes_on_from_a_cache(hf)
            free = [alone(hf, ids, use_cache=cached) for ids in prompts]
            # the first letter that is new in the first row, and two different ones in a row of another
            new = next((letter for letter in free[0] if letter != free[0][0]), free[0][:1])
            two = free[1][3:5] if len(set(free[1][3:5])) == 2 else ""
            until = tuple(stop for stop in (new, two, "never") if stop)
            wanted = [cut(one, until) for one in free]
            told: list[int] = []
            got = written(hf, [Question(tuple(ids), until, MOST) for ids in prompts], done=told.append)
        assert got == wanted, text
        assert sum(told) == len(prompts)
        assert len(set(map(len, wanted))) > 1 or len(set(free[0])) == 1


def test_an_answer_is_cut_off_where_neither_a_stop_nor_an_end_ended_it() -> None:
    """Also where it ends with the last token that it may have."""
    hf = waves.loaded("mistral").hf
    ids, free = varied(hf)
    place = next(n for n, letter in enumerate(free) if letter != free[0])
    stop, question = free[place], tuple(ids)
    asked = [
        Question(question, (), place + 1),
        Question(question, (stop,), place + 1),
        Question(question, (stop,), place),
        Question(question, (stop,), MOST),
    ]
    got = Writer(hf, letter_tokenizer(VOCABULARY), 4, print).write(asked)
    assert [(one.text, one.is_cut_off) for one in got] == [
        (free[: place + 1], True),
        (free[:place], False),
        (free[:place], True),
        (free[:place], False),
    ]


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gemma2", [(3, 17), (2, 9)]), ("llama_dynamic", [(2, 17), (2, 9), (1, 5)])],
)
def test_only_prompts_of_one_length_stand_together_where_padding_matters(
    name: str, expected: list[tuple[int, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = waves.loaded(name)
    called = shapes(model.hf, monkeypatch)
    written(model.hf, [Question(tuple(ids), (), 2) for ids in zoo.prompts(model.hf, LENGTHS)], size=3)
    assert called == expected


def test_a_models_own_penalties_hold_in_batches_too() -> None:
    """A token of the padding is none that a row has seen."""
    hf = zoo.entry("llama").build()
    prompts = zoo.prompts(hf, LENGTHS)
    plain = [alone(hf, ids) for ids in prompts]
    hf.generation_config.repetition_penalty = 1.5
    wanted = [alone(hf, ids) for ids in prompts]
    assert written(hf, [Question(tuple(ids), (), MOST) for ids in prompts]) == wanted != plain


def test_a_row_ends_at_a_special_token_whose_text_is_not_shown() -> None:
    """The others of its batch go on, and what it would write after that is none of its answer."""
    hf = zoo.entry("llama").build()
    ids, free = varied(hf)
    prompts = [ids, *zoo.prompts(hf, (9, 9))]
    later = next(place for place, letter in enumerate(free) if letter != free[0])
    target = letters(VOCABULARY).index(free[later])
    rows = torch.arange(VOCABULARY)
    rows[3], rows[target] = target, 3
    hf.lm_head.weight.data = hf.lm_head.weight.data[rows]  # where it wrote that letter it now writes <stop>
    asked = [Question(tuple(ids), ("<stop>",), MOST) for ids in prompts]
    together = written(hf, asked)
    assert together == [written(hf, [one])[0] for one in asked]
    assert together[0] == free[:later]
    assert max(map(len, together)) > later


def test_an_end_of_text_token_of_the_tokenizer_ends_a_row_that_the_model_would_not_end() -> None:
    hf = zoo.entry("llama").build()
    ids, free = varied(hf)
    later = next(letter for letter in free if letter != free[0])
    hf.generation_config.eos_token_id = None
    tokenizer = letter_tokenizer(VOCABULARY)
    tokenizer.eos_token = later
    (answer,) = Writer(hf, tokenizer, 2, print).write([Question(tuple(ids), (), MOST)])
    assert (answer.text, answer.is_cut_off) == (free[: free.index(later)], False)


def test_predictions_that_are_no_numbers_are_refused() -> None:
    hf = zoo.entry("llama").build()
    hf.lm_head.weight.data[5, 0] = float("nan")
    with pytest.raises(ModelError, match=r"gives NaN predictions while it writes answers; .*dtype='float32'"):
        written(hf, [Question((5, 6, 7), (), 2)])
