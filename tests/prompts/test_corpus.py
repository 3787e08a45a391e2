from __future__ import annotations

import gzip
import io
from collections.abc import Callable
from pathlib import Path

import pytest
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import PromptError
from bathyscope.prompts import corpus
from bathyscope.prompts.corpus import corpus_prompts
from bathyscope.prompts.source import resolve
from bathyscope.prompts.tokenize import tokenize
from bathyscope.prompts.tokenizer import load_tokenizer

TEXT = "The final answer is 28.\n\nNaïve café  owners don't sell 日本語 tea;   they sell 🦆 eggs – 16 per day.\n" * 40


@pytest.fixture
def path(tmp_path: Path) -> str:
    file = tmp_path / "text.txt"
    file.write_text(TEXT, encoding="utf-8")
    return str(file)


def whole(tokenizer: PreTrainedTokenizerFast, text: str = TEXT) -> list[int]:
    return tokenizer(text, add_special_tokens=False)["input_ids"]


def ids(prompts: tuple) -> list[list[int]]:
    return [list(prompt.ids) for prompt in prompts]


def test_windows_are_the_text_in_order(path: str, plain: PreTrainedTokenizerFast) -> None:
    tokens = whole(plain)
    windows = ids(corpus_prompts(path, tokenizer=plain, window=64))
    assert len(windows) == len(tokens) // 64 > 3
    assert windows == [tokens[64 * n : 64 * (n + 1)] for n in range(len(windows))]


def test_bos_starts_every_window(path: str, with_bos: PreTrainedTokenizerFast) -> None:
    tokens = whole(with_bos)
    windows = ids(corpus_prompts(path, tokenizer=with_bos, window=64))
    assert all(window[0] == with_bos.bos_token_id for window in windows)
    assert {len(window) for window in windows} == {64}
    joined = [token for window in windows for token in window[1:]]
    assert joined == tokens[: len(joined)]
    assert len(windows) == len(tokens) // 63


def test_bos_that_the_tokenizer_has_but_does_not_put_before_text(path: str, backend: Callable[..., object]) -> None:
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=backend(), bos_token="<s>")
    assert tokenizer("The")["input_ids"][0] != tokenizer.bos_token_id
    (first,) = corpus_prompts(path, tokenizer=tokenizer, window=8, count=1)
    assert first.ids == (tokenizer.bos_token_id, *whole(tokenizer)[:7])


@pytest.mark.parametrize("chunk", [31, 100, 1000])
def test_reading_in_chunks_changes_no_token(
    monkeypatch: pytest.MonkeyPatch, path: str, plain: PreTrainedTokenizerFast, chunk: int
) -> None:
    monkeypatch.setattr(corpus, "CHUNK", chunk)
    monkeypatch.setattr(corpus, "OVERLAP", 40)
    windows = ids(corpus_prompts(path, tokenizer=plain, window=2))
    joined = [token for window in windows for token in window]
    assert joined == whole(plain)[: len(joined)]
    assert len(whole(plain)) - len(joined) < 2


def test_only_what_is_needed_is_read(monkeypatch: pytest.MonkeyPatch, plain: PreTrainedTokenizerFast) -> None:
    class Endless(io.StringIO):
        characters = 0

        def read(self, size: int | None = -1) -> str:
            assert size is not None
            assert 0 < size <= 1000
            self.characters += size
            return (TEXT * 2)[:size]

    file = Endless()
    monkeypatch.setattr(corpus, "CHUNK", 1000)
    stream = corpus._token_stream(corpus.Text("endless.txt", file, None), plain)
    assert next(stream) == whole(plain)[0]
    assert file.characters <= 3000


def test_pieces_of_characters(path: str, with_bos: PreTrainedTokenizerFast) -> None:
    prompts = ids(corpus_prompts(path, tokenizer=with_bos, chars=100, limit=1050, window=8))
    bos = with_bos.bos_token_id
    assert prompts == [[bos, *whole(with_bos, TEXT[n : n + 100])] for n in range(0, 1000, 100)]


def test_limit_and_count(path: str, plain: PreTrainedTokenizerFast) -> None:
    tokens = whole(plain, TEXT[:500])
    windows = ids(corpus_prompts(path, tokenizer=plain, window=16, limit=500))
    assert windows == [tokens[16 * n : 16 * (n + 1)] for n in range(len(tokens) // 16)]
    assert ids(corpus_prompts(path, tokenizer=plain, window=16, limit=500, count=2)) == windows[:2]
    with pytest.raises(PromptError, match=rf"gives {len(windows)} prompts of this size, 1000 asked for"):
        corpus_prompts(path, tokenizer=plain, window=16, limit=500, count=1000)


def test_a_text_shorter_than_the_context_is_one_short_prompt(tmp_path: Path, with_bos: PreTrainedTokenizerFast) -> None:
    file = tmp_path / "short.txt.gz"
    file.write_bytes(gzip.compress(b"The final answer"))
    expected = [[with_bos.bos_token_id, *whole(with_bos, "The final answer")]]
    assert ids(corpus_prompts(str(file), tokenizer=with_bos, context=512)) == expected


def test_a_text_shorter_than_the_window_that_was_asked_for(tmp_path: Path, with_bos: PreTrainedTokenizerFast) -> None:
    file = tmp_path / "short.txt"
    file.write_text("The final answer")
    own = 1 + len(whole(with_bos, "The final answer"))
    with pytest.raises(PromptError) as caught:
        corpus_prompts(str(file), tokenizer=with_bos, window=own + 1)
    assert str(caught.value) == (
        f"{file} holds {own} tokens, less than one window of {own + 1}; ask for less (window={own})."
    )
    # nothing is advised that the model could not take
    with pytest.raises(PromptError, match=rf"one window of {own + 1}; ask for less \(window=3\)"):
        corpus_prompts(str(file), tokenizer=with_bos, window=own + 1, context=3)
    assert len(corpus_prompts(str(file), tokenizer=with_bos, window=own)) == 1
    with pytest.raises(PromptError, match=r"holds 16 characters, less than one piece of 17; ask for less \(chars=16\)"):
        corpus_prompts(str(file), tokenizer=with_bos, chars=17)
    with pytest.raises(PromptError, match="holds 9 characters in its first 9 characters, less than one piece of 10"):
        corpus_prompts(str(file), tokenizer=with_bos, chars=10, limit=9)


def test_text_of_exactly_one_window(tmp_path: Path, plain: PreTrainedTokenizerFast) -> None:
    file = tmp_path / "exact.txt"
    file.write_text("The final answer")
    tokens = whole(plain, "The final answer")
    assert ids(corpus_prompts(str(file), tokenizer=plain, window=len(tokens))) == [tokens]


@pytest.mark.parametrize(
    ("name", "content"),
    [("a.txt", b""), ("a.txt", b"T"), ("a.txt.gz", b""), ("a.txt.gz", gzip.compress(b"", mtime=0)), ("a.txt.gz", b"T")],
)
@pytest.mark.parametrize("size", [{"window": 8}, {"context": 8}, {"chars": 8}])
def test_too_little_text(
    tmp_path: Path, plain: PreTrainedTokenizerFast, name: str, content: bytes, size: dict[str, int]
) -> None:
    file = tmp_path / name
    file.write_bytes(gzip.compress(content) if content == b"T" and name.endswith(".gz") else content)
    with pytest.raises(PromptError) as caught:
        corpus_prompts(str(file), tokenizer=plain, **size)
    assert str(caught.value) == (
        f"{file} holds too little text: a prompt needs at least two tokens. Give a file that holds more."
    )


def test_pieces_of_a_single_token(tmp_path: Path, backend: Callable[..., object]) -> None:
    file = tmp_path / "letters.txt"
    file.write_text("a b")
    without_bos = PreTrainedTokenizerFast(tokenizer_object=backend())
    with pytest.raises(
        PromptError, match=r"chars=1 cuts off a piece of a single token \('a'\), .*ask for longer pieces"
    ):
        corpus_prompts(str(file), tokenizer=without_bos, chars=1)
    with_bos = PreTrainedTokenizerFast(tokenizer_object=backend(), bos_token="<s>")
    assert [len(prompt.ids or ()) for prompt in corpus_prompts(str(file), tokenizer=with_bos, chars=1)] == [2, 2, 2]


def test_tokens_limit_all_prompts_together(path: str, with_bos: PreTrainedTokenizerFast) -> None:
    every = ids(corpus_prompts(path, tokenizer=with_bos, window=64))
    for tokens, windows in ((64, 1), (127, 1), (128, 2), (64 * len(every) + 63, len(every))):
        assert ids(corpus_prompts(path, tokenizer=with_bos, window=64, tokens=tokens)) == every[:windows]
    assert ids(corpus_prompts(path, tokenizer=with_bos, window=64, tokens=500, count=3)) == every[:3]
    pieces = ids(corpus_prompts(path, tokenizer=with_bos, chars=100))
    first = len(pieces[0]) + len(pieces[1])
    assert ids(corpus_prompts(path, tokenizer=with_bos, chars=100, tokens=first)) == pieces[:2]
    with pytest.raises(
        PromptError, match=r"tokens=63 is less than one prompt, which has 64 tokens; ask for more tokens"
    ):
        corpus_prompts(path, tokenizer=with_bos, window=64, tokens=63)
    with pytest.raises(PromptError, match="gives 2 prompts of this size, 3 asked for"):
        corpus_prompts(path, tokenizer=with_bos, window=64, tokens=128, count=3)


def test_a_text_of_fewer_tokens_than_were_asked_for_is_used_up_and_said(
    path: str, with_bos: PreTrainedTokenizerFast, recwarn: pytest.WarningsRecorder
) -> None:
    every = corpus_prompts(path, tokenizer=with_bos, window=64)
    whole_windows = 64 * len(every)
    assert corpus_prompts(path, tokenizer=with_bos, window=64, tokens=10**6, count=len(every)) == every
    assert not recwarn.list
    with pytest.warns(
        UserWarning,
        match=rf"fills prompts of {whole_windows} tokens altogether, fewer than tokens={whole_windows + 64}; all of "
        r"them are taken\. Give a longer text for more\.",
    ):
        assert corpus_prompts(path, tokenizer=with_bos, window=64, tokens=whole_windows + 64) == every


def test_each_id_is_kept_once(path: str, plain: PreTrainedTokenizerFast) -> None:
    """A million tokens take eight bytes each, not forty."""
    windows = ids(corpus_prompts(path, tokenizer=plain, window=64))
    tokens = [token for window in windows for token in window]
    assert max(tokens) > 256, "Python keeps small numbers once by itself"
    assert len({id(token) for token in tokens}) == len(set(tokens))


def test_blanks_alone_are_no_text(tmp_path: Path, plain: PreTrainedTokenizerFast) -> None:
    """However many of them there are; blanks before words are kept."""
    file = tmp_path / "blank.txt"
    file.write_text(" \n" * corpus.CHUNK)
    with pytest.raises(PromptError, match=r"blank\.txt holds blanks alone\. Give a file that holds text\."):
        corpus_prompts(str(file), tokenizer=plain, window=4)
    text = " \n" * corpus.CHUNK + "once upon a time"
    file.write_text(text)
    [prompt] = corpus_prompts(str(file), tokenizer=plain, window=4, count=1)
    assert prompt.ids == tuple(whole(plain, text)[:4])


def test_files_that_hold_no_text(tmp_path: Path, plain: PreTrainedTokenizerFast) -> None:
    whole_file = gzip.compress(TEXT.encode() * 20, mtime=0)
    for name, content, message in (
        ("model.txt", b"\x80\x02\x8a\nl\xfc", "is not UTF-8 text .*; convert it to UTF-8"),
        ("zeros.txt", b"one\x00two\x00", r"is a binary file \(it holds NUL characters\); give plain text"),
        (
            "latin.txt.gz",
            gzip.compress("café ".encode("latin-1"), mtime=0),
            "is not UTF-8 text .*; convert it to UTF-8",
        ),
        ("plain.txt.gz", TEXT.encode(), "cannot be read: Not a gzipped file"),
        ("cut.txt.gz", whole_file[:-9], r"cannot be read: Compressed .*reached\. Copy or download it again\."),
        ("begun.txt.gz", whole_file[:5], "cannot be read: Compressed file ended before"),
        ("altered.txt.gz", whole_file[:100] + b"\x00" * 40 + whole_file[140:], "cannot be read: "),
    ):
        (tmp_path / name).write_bytes(content)
        with pytest.raises(PromptError, match=f"{name} {message}"):
            corpus_prompts(str(tmp_path / name), tokenizer=plain, window=8)


def test_refused(path: str, plain: PreTrainedTokenizerFast) -> None:
    with pytest.raises(PromptError, match="the model has no tokenizer; give token ids, or a tokenizer"):
        corpus_prompts(path, tokenizer=None, window=8)
    with pytest.raises(PromptError, match=r"how long is a window\? Write .*\?window=512 \(tokens\) or \?chars=1000"):
        corpus_prompts(path, tokenizer=plain)
    with pytest.raises(PromptError, match="window=1 leaves nothing to predict; use at least 2"):
        corpus_prompts(path, tokenizer=plain, window=1)
    with pytest.raises(PromptError, match="does not exist"):
        corpus_prompts(path + "x", tokenizer=None, window=8)


def test_tokenizer_without_offsets(path: str) -> None:
    class Letters:
        is_fast = False
        bos_token_id = None

        def __call__(self, text: str, *, add_special_tokens: bool, verbose: bool) -> dict[str, list[int]]:
            return {"input_ids": [ord(letter) for letter in text]}

    windows = ids(corpus_prompts(path, tokenizer=Letters(), window=10, limit=25))
    assert windows == [[ord(letter) for letter in TEXT[:10]], [ord(letter) for letter in TEXT[10:20]]]


@pytest.mark.shared
@pytest.mark.parametrize("name", ["stories260K", "tiny-gpt2"])
def test_real_text_in_chunks(monkeypatch: pytest.MonkeyPatch, shared: Callable[[str], Path], name: str) -> None:
    tokenizer = load_tokenizer(shared(f"checkpoints/{name}"))
    file = shared("data/text/tinystories_slice.txt")
    assert tokenizer is not None
    monkeypatch.setattr(corpus, "CHUNK", 3001)
    prompts = corpus_prompts(str(file), tokenizer=tokenizer, window=101, limit=40_000)
    joined = [token for prompt in prompts for token in (prompt.ids or ())[1:]]
    tokens = tokenizer(file.read_text()[:40_000], add_special_tokens=False, verbose=False)["input_ids"]
    assert joined == tokens[: len(joined)]
    assert len(prompts) == len(tokens) // 100


@pytest.mark.shared
def test_loss_of_a_trained_model(shared: Callable[[str], Path]) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    folder = shared("checkpoints/stories260K")
    source = f"{shared('data/text/tinystories_slice.txt')}?chars=1000&limit=20000"
    tokenizer = load_tokenizer(folder)
    prompts = tokenize(resolve(source, tokenizer=tokenizer), tokenizer, max_tokens=512, vocab_size=512)
    model = AutoModelForCausalLM.from_pretrained(folder)
    total = 0.0
    with torch.no_grad():
        for prompt in prompts:
            tokens = torch.tensor([prompt.ids])
            logits = model(tokens).logits[0, :-1].double()
            total += torch.nn.functional.cross_entropy(logits, tokens[0, 1:], reduction="sum").item()
    assert len(prompts) == 20
    assert total / sum(len(prompt) - 1 for prompt in prompts) == pytest.approx(1.467, abs=1e-3)
