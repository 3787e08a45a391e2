"""A run gives its prompts back: ids, texts, answers, labels and their hash, from memory and from disk."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import waves
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

import bathyscope
from bathyscope import Prompt, PromptError, StoreError
from bathyscope.model.reading import tokenized
from bathyscope.runs.prompts import PROMPTS_FILE, decode_prompts

OLD = Path(__file__).parent / "fixtures" / "run-of-schema-1"
GIVEN = [
    Prompt(text="w1 w2 w3 w4 w5", answer="w5", id="first", labels={"level": 2**60 + 1, "share": 0.5}),
    Prompt(ids=[11, 12, 13], answer_tokens=2, labels={"level": 1, "share": 0.25, "kind": "ids"}),
    Prompt(text="w9 w8 w7 w6", labels={"level": 3}),
]


@pytest.fixture(scope="module")
def model() -> bathyscope.Model:
    words = {f"<{n}>": n for n in range(10)} | {f"w{n}": 10 + n for n in range(100)}
    backend = Tokenizer(models.WordLevel(words, unk_token="<3>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<0>", eos_token="<2>")
    return bathyscope.load(waves.loaded("llama").hf, tokenizer=tokenizer)


def surveyed(model: bathyscope.Model, out: Path | None = None, **options: Any) -> bathyscope.Run:
    return bathyscope.survey(model, GIVEN, ["lens"], out, batch_tokens=1, progress=False, **options)


def test_what_was_measured_is_there(model: bathyscope.Model, tmp_path: Path) -> None:
    read = tokenized(model, GIVEN)
    on_disk = surveyed(model, tmp_path / "run")
    for run in (surveyed(model), on_disk, bathyscope.open(tmp_path / "run")):
        assert run.prompts == read
        assert run.prompts.hash == read.hash == run.identity.prompt_hash
        assert run.prompts.tokenizer_hash == read.tokenizer_hash
        assert [prompt.ids for prompt in run.prompts] == [(11, 12, 13, 14, 15), (11, 12, 13), (19, 18, 17, 16)]
        assert run.prompts.pieces(0) == read.pieces(0) == ("w1", " w2", " w3", " w4", " w5")
        assert [run.prompts.answer(n) for n in range(3)] == [" w5", " w2 w3", None]
        assert run.prompts.label("level") == [2**60 + 1, 1, 3]
        assert run.prompts.labels == ("level", "share", "kind")
        for name, (_, values) in run.prompts.coords().items():
            np.testing.assert_array_equal(run["lens"][name].values, values)


def test_special_tokens_are_known_by_their_places(tmp_path: Path) -> None:
    """BOS and marks of turns are; the token for unknown words stands for text."""
    words = {"<unk>": 0, "<s>": 1, "<turn>": 2, "w1": 3, "w2": 4}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens(["<turn>"])
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend, unk_token="<unk>", bos_token="<s>")
    model = bathyscope.load(waves.loaded("llama").hf, tokenizer=tokenizer)
    texts = ["<s> w1 nothing <turn> w2", "w1 w2 w1"]
    bathyscope.survey(model, texts, ["lens"], tmp_path / "run", progress=False)
    for prompts in (tokenized(model, texts), bathyscope.open(tmp_path / "run").prompts):
        assert prompts[0].ids == (1, 3, 0, 2, 4)
        assert [tuple(prompts.specials(number)) for number in (0, 1)] == [(0, 3), ()]
    assert bathyscope.open(tmp_path / "run").prompts.some([1, 0]).specials(1) == (0, 3)
    # earlier versions did not write the places
    path = tmp_path / "run" / PROMPTS_FILE
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    older = "".join(json.dumps({k: v for k, v in line.items() if k != "specials"}) + "\n" for line in lines)
    run = bathyscope.open(tmp_path / "run")
    assert decode_prompts(older.encode(), run.identity).specials(0) == ()


def test_text_is_left_out_where_asked(model: bathyscope.Model, tmp_path: Path) -> None:
    run = surveyed(model, tmp_path / "run", keep_text=False)
    assert "w1" not in (tmp_path / "run" / PROMPTS_FILE).read_text()
    assert run.prompts == tokenized(model, GIVEN)
    with pytest.raises(bathyscope.PromptError, match="The run keeps no text of given; survey again without --no-k"):
        run.prompts.pieces(0)


def test_an_unfinished_run_gives_the_prompts_that_it_has_measured(model: bathyscope.Model, tmp_path: Path) -> None:
    surveyed(model, tmp_path / "run")
    (tmp_path / "run" / "shard-00001.nc").unlink()
    part = bathyscope.open(tmp_path / "run", partial=True)
    assert part.prompts.names == part["lens"].prompt_id.values.tolist() == ["first", "2"]
    assert part.prompts.pieces(1) == ("w9", " w8", " w7", " w6")


def test_prompts_of_a_run_are_measured_again(model: bathyscope.Model) -> None:
    run = surveyed(model)
    again = bathyscope.survey(model, run.prompts, ["lens"], progress=False)
    assert again.prompts == run.prompts
    np.testing.assert_array_equal(again["lens"]["entropy"].values, run["lens"]["entropy"].values)


def test_an_altered_file_is_refused(model: bathyscope.Model, tmp_path: Path) -> None:
    surveyed(model, tmp_path / "run")
    file = tmp_path / "run" / PROMPTS_FILE
    lines = [json.loads(line) for line in file.read_text().splitlines()]
    lines[0]["ids"][0] = 12
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(StoreError, match="is not the file that was written"):
        bathyscope.open(tmp_path / "run")


def test_a_removed_file_is_written_again_by_the_same_command(
    model: bathyscope.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As the refusal of ``open`` and the page of runs promise; of a finished run nothing is computed for it."""
    place = tmp_path / "run"
    whole = surveyed(model, place, control="shuffled_text")
    before = {
        file.relative_to(place): file.read_bytes() for file in place.rglob("*") if file.suffix in (".nc", ".jsonl")
    }
    folders = (place, place / "controls" / "shuffled_text-0")
    for folder in folders:
        (folder / PROMPTS_FILE).unlink()
        with pytest.raises(
            StoreError, match=rf"{PROMPTS_FILE}' of the run cannot be read .* the command that wrote the run again"
        ):
            bathyscope.open(folder)
    monkeypatch.setattr("bathyscope.surveying.execution.Computation.compute", pytest.fail)
    again = surveyed(model, place, control="shuffled_text")
    assert again.prompts == whole.prompts
    after = {
        file.relative_to(place): file.read_bytes() for file in place.rglob("*") if file.suffix in (".nc", ".jsonl")
    }
    assert after == before
    assert bathyscope.open(place).prompts == whole.prompts


def test_prompts_that_were_removed_before_the_end_are_written_again(model: bathyscope.Model, tmp_path: Path) -> None:
    place = tmp_path / "run"
    whole = surveyed(model, place)
    for name in (PROMPTS_FILE, "shard-00001.nc"):
        (place / name).unlink()
    again = surveyed(model, place)
    assert again.prompts == whole.prompts
    np.testing.assert_array_equal(again["lens"]["entropy"].values, whole["lens"]["entropy"].values)


def test_an_earlier_run_tells_what_its_results_tell() -> None:
    run = bathyscope.open(OLD)
    dataset = run[run.measures[0]]
    assert run.prompts.names == dataset.prompt_id.values.tolist()
    assert run.prompts.lengths == dataset.n_tokens.values.tolist()
    assert run.prompts.hash == run.identity.prompt_hash
    for ask in (lambda: run.prompts[0].ids[0], lambda: list(run.prompts[0].ids), lambda: run.prompts.as_given()):
        with pytest.raises(StoreError, match="was written before prompts were kept with runs, so that its tok"):
            ask()
    with pytest.raises(bathyscope.PromptError, match="keeps no text"):
        run.prompts.answer(0)


@pytest.mark.parametrize("number", [3, -4, "0", 1.0])
def test_a_prompt_that_is_not_there_is_refused(model: bathyscope.Model, number: Any) -> None:
    for prompts in (surveyed(model).prompts, tokenized(model, GIVEN)):
        for look, index in (
            (prompts.pieces, number),
            (prompts.specials, number),
            (prompts.answer, number),
            (prompts.some, [0, number]),
        ):
            with pytest.raises(PromptError, match=f"There is no prompt {number!r} here; give a number from 0 to 2"):
                look(index)
        assert prompts.pieces(-1) == prompts.pieces(np.int64(2))
