from __future__ import annotations

from pathlib import Path

import pytest

from bathyscope.errors import OptionError
from bathyscope.prompts.source import resolve
from bathyscope.prompts.tasks import SPLITS, task
from bathyscope.prompts.tasks.vocabulary import BOS, EOS, PAD, UNKNOWN, word_tokenizer
from bathyscope.prompts.tokenize import tokenize
from bathyscope.prompts.tokenizer import load_tokenizer, tokenizer_hash

CASES = [
    ("pointer_chasing", {"nodes": 40, "hops": (1, 5)}),
    ("permutations", {}),
    ("permutations", {"elements": "generators", "answer": "image"}),
    ("permutations", {"elements": "generators"}),
    ("nested_arithmetic", {"modulus": 13}),
]


@pytest.mark.parametrize(("name", "options"), CASES)
def test_every_word_is_one_token_and_decoding_gives_the_text_back(name: str, options: dict[str, object]) -> None:
    made = task(name, **options)
    words = made.words
    assert words is not None
    assert len(set(words)) == len(words)
    tokenizer = word_tokenizer(words)
    assert len(tokenizer) == len(words) + 4
    for split in SPLITS:
        for index in range(30):
            problem = made.problem(index, 0, split)
            text = problem.example(written=True).text
            ids = tokenizer(text)["input_ids"]
            assert tokenizer.unk_token_id not in ids
            assert ids[0] == tokenizer.bos_token_id
            assert len(ids) == 1 + len(text.split())
            assert tokenizer.decode(ids, skip_special_tokens=True) == text
            assert len(tokenizer(problem.answer)["input_ids"]) == 2


def test_special_tokens() -> None:
    tokenizer = word_tokenizer(["a", "b"])
    assert tokenizer.convert_ids_to_tokens(range(6)) == [PAD, BOS, EOS, UNKNOWN, "a", "b"]
    assert (tokenizer.pad_token, tokenizer.bos_token, tokenizer.eos_token) == (PAD, BOS, EOS)
    assert tokenizer("b a", add_special_tokens=False)["input_ids"] == [5, 4]
    assert tokenizer(["a", "b a"], padding=True)["input_ids"] == [[1, 4, 0], [1, 5, 4]]


def test_it_is_saved_and_loaded_unchanged(tmp_path: Path) -> None:
    tokenizer = word_tokenizer(task("permutations").words or ())
    tokenizer.save_pretrained(tmp_path)
    loaded = load_tokenizer(tmp_path)
    assert loaded is not None
    assert tokenizer_hash(loaded) == tokenizer_hash(tokenizer)
    text = task("permutations").problem(0, 0, "train").example().text
    assert loaded.decode(loaded(text)["input_ids"], skip_special_tokens=True) == text


@pytest.mark.parametrize("name", ["pointer_chasing", "permutations", "nested_arithmetic"])
@pytest.mark.parametrize("written", ["no", "yes"])
def test_a_survey_finds_one_answer_token(name: str, written: str) -> None:
    tokenizer = word_tokenizer(task(name).words or ())
    prompts = tokenize(resolve(f"task:{name}:20?written={written}"), tokenizer, max_tokens=None)
    assert {prompt.answer_tokens for prompt in prompts} == {1}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "A vocabulary needs at least one word"),
        (["a", "b c"], "'b c' is no word: words are divided by white space"),
        ([""], "'' is no word"),
        (["a", PAD], "'<|pad|>' is a special token; special tokens: "),
        (["a", "b", "a"], "'a' is given twice"),
    ],
)
def test_refused(words: list[str], message: str) -> None:
    with pytest.raises(OptionError) as error:
        word_tokenizer(words)
    assert message in str(error.value)
