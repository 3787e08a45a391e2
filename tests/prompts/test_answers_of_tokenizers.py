"""Answers of texts and of data sets under tokenizers of every kind."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from bathyscope.errors import PromptError
from bathyscope.model.bundled import model_path
from bathyscope.prompts.prompt import Prompt, PromptSet
from bathyscope.prompts.source import resolve
from bathyscope.prompts.tokenize import tokenize
from bathyscope.prompts.tokenizer import load_tokenizer

SENTENCES = ["The final answer is 28. The spouse of the performer of Imagine is Yoko Ono.", "28 Yoko Ono"]
LETTERS = [*(chr(code) for code in range(33, 127)), "é", "ï"]
PAIRS = [
    ("5 + 7 + 5 + 3 + 1 + 7 = ", "28"),
    ("5 + 7 + 5 + 3 + 1 + 7 =", " 28"),
    ("The spouse of the performer of Imagine is", " Yoko Ono"),
    ("The spouse of the performer of Imagine is ", "Yoko Ono"),
    ("The final answer is\n\n", "twelve"),
    ("Is it", ", then, 12?"),
    ("She sells café and ", "naïve tea"),
    ("Er kauft", "  zwei Brote "),
]


def byte_level() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=400, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(SENTENCES, trainer)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer)


def prefix_space(scheme: str) -> PreTrainedTokenizerFast:
    """Like SentencePiece: white space becomes ▁, and one is put before the text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=scheme == "always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme=scheme)
    trainer = trainers.BpeTrainer(
        vocab_size=300, special_tokens=["<s>"], initial_alphabet=[*LETTERS, "▁", "\n"], show_progress=False
    )
    tokenizer.train_from_iterator(SENTENCES, trainer)
    start = tokenizer.token_to_id("<s>")
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", start)])
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>")


def word_piece() -> PreTrainedTokenizerFast:
    """Like BERT's: lower case, no accents, no white space, [CLS] before and [SEP] after the text."""
    words = ["[UNK]", "[CLS]", "[SEP]", "final", "answer", "yoko", "is", "28"]
    pieces = [*words, *LETTERS, *(f"##{letter}" for letter in LETTERS)]
    vocabulary = {piece: number for number, piece in enumerate(pieces)}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True, strip_accents=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    ends = [("[CLS]", tokenizer.token_to_id("[CLS]")), ("[SEP]", tokenizer.token_to_id("[SEP]"))]
    tokenizer.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]", cls_token="[CLS]", sep_token="[SEP]")


MADE: dict[str, Callable[[], PreTrainedTokenizerFast]] = {
    "byte_level": byte_level,
    "prefix_space": lambda: prefix_space("always"),
    "prefix_space_unsplit": lambda: prefix_space("first"),
    "word_piece": word_piece,
}


def letters_of(text: str, tokenizer: PreTrainedTokenizerBase) -> str:
    """What is left of a text when white space, and whatever the tokenizer's normaliser drops, is taken out."""
    normalizer = tokenizer.backend_tokenizer.normalizer
    plain = text if normalizer is None else normalizer.normalize_str(text)
    return "".join(plain.replace("▁", " ").split())


@pytest.mark.parametrize("kind", MADE)
@pytest.mark.parametrize(("question", "answer"), PAIRS)
def test_the_answers_tokens_spell_the_answer_and_the_others_the_question(kind: str, question: str, answer: str) -> None:
    tokenizer = MADE[kind]()
    (found,) = tokenize(resolve([Prompt(text=question, answer=answer)]), tokenizer, max_tokens=None)
    assert found.answer_tokens is not None
    before, after = found.ids[: -found.answer_tokens], found.ids[-found.answer_tokens :]
    assert letters_of(tokenizer.decode(after, clean_up_tokenization_spaces=False), tokenizer) == letters_of(
        answer, tokenizer
    )
    spelt = tokenizer.decode(before, skip_special_tokens=True, clean_up_tokenization_spaces=False)
    assert letters_of(spelt, tokenizer) == letters_of(question, tokenizer)


@pytest.mark.parametrize("kind", MADE)
def test_where_the_space_of_the_seam_is_written_does_not_matter(kind: str) -> None:
    given = [
        Prompt(text="Imagine is ", answer="Yoko Ono"),
        Prompt(text="Imagine is", answer=" Yoko Ono"),
        Prompt(text="Imagine is Yoko Ono", answer="Yoko Ono"),
    ]
    found = tokenize(resolve(given), MADE[kind](), max_tokens=None)
    assert found[0].ids == found[1].ids == found[2].ids
    assert found[0].answer_tokens == found[1].answer_tokens == found[2].answer_tokens


@pytest.mark.parametrize("kind", MADE)
def test_a_seam_inside_a_token_is_refused(kind: str) -> None:
    question, answer = "The fin", "al answer is 28."
    with pytest.raises(PromptError, match=r"Prompt 'cut': question and answer share the token '([^']+)'") as caught:
        tokenize(resolve([Prompt(text=question, answer=answer, id="cut")]), MADE[kind](), max_tokens=None)
    piece = str(caught.value).split("'")[3]
    start = (question + answer).index(piece)
    assert start < len(question) < start + len(piece)


@pytest.fixture(scope="module", params=["stories260K", "tiny-qwen2", "tiny-gpt2", "bundled"])
def real(request: pytest.FixtureRequest, shared: Callable[[str], Path]) -> PreTrainedTokenizerBase:
    """A checkpoint's own tokenizer."""
    folder = model_path() if request.param == "bundled" else shared(f"checkpoints/{request.param}")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*the checkpoint's own is used")
        tokenizer = load_tokenizer(folder)
    assert tokenizer is not None
    return tokenizer


@pytest.mark.parametrize(("question", "answer"), PAIRS)
def test_texts_under_checkpoints_tokenizers(real: PreTrainedTokenizerBase, question: str, answer: str) -> None:
    (found,) = tokenize(resolve([Prompt(text=question, answer=answer)]), real, max_tokens=None)
    assert found.answer_tokens is not None
    assert letters_of(real.decode(found.ids[-found.answer_tokens :]), real) == letters_of(answer, real)


@pytest.mark.shared
@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    "source",
    [
        "gsm8k:50@{}/gsm8k/test_first600.jsonl",
        "hellaswag:300@{}/hellaswag/validation_first2000.jsonl",
        "lambada:300@{}/lambada/test_first2500.jsonl",
        "mquake:150@{}/mquake/cf3k_200_per_hop.jsonl",
        "two_hop:200@{}/two_hop/two_hop_1000.csv",
        "problems:36?steps=1-6",
        "sums:36?steps=1-3&digits=1-3",
        "addition:30?digits=1-6",
        "multiplication:30?digits=1-6",
    ],
)
def test_answers_of_every_data_set(real: PreTrainedTokenizerBase, shared: Callable[[str], Path], source: str) -> None:
    prompts = resolve(source.format(shared("data")))
    for prompt, found in zip(prompts.prompts, tokenize(prompts, real, max_tokens=None), strict=True):
        assert found.answer_tokens is not None
        assert real.decode(found.ids[-found.answer_tokens :]).strip() == (prompt.answer or "").strip()


def test_every_prompt_knows_its_set(real: PreTrainedTokenizerBase) -> None:
    union = PromptSet.union([resolve("addition:2"), resolve(["a text of its own"])])
    assert [prompt.dataset for prompt in tokenize(union, real, max_tokens=None)] == ["addition:2"] * 2 + ["given"]
