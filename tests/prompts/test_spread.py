"""Windows spread over the documents of a folder or of a file."""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import datasets
import pytest
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import PromptError
from bathyscope.prompts.corpus import corpus_prompts
from bathyscope.prompts.parsed_source import SourceSpec
from bathyscope.prompts.prompt import Prompt
from bathyscope.prompts.source import label_of, resolve
from bathyscope.prompts.spec import parse

TEXTS = {
    "b": "The final answer is 28. " * 30,
    "a": "Naïve café owners don't sell tea.\n" * 12,
    "c": "Sixteen eggs a day, every day, and no tea at all. " * 5,
}


@pytest.fixture
def folder(tmp_path: Path) -> str:
    place = tmp_path / "books"
    place.mkdir()
    for name, text in TEXTS.items():
        (place / f"{name}.txt").write_text(text, encoding="utf-8")
    (place / "notes.md").write_text("no document")
    return f"{place}/"


def given(source: str, tokenizer: PreTrainedTokenizerFast, **options: int) -> list[Prompt]:
    return list(resolve(source, tokenizer=tokenizer, **options).prompts)


def alone(folder: str, name: str, tokenizer: PreTrainedTokenizerFast, **size: int) -> list[tuple[int, ...]]:
    return [p.ids or () for p in corpus_prompts(f"{folder}{name}.txt", tokenizer=tokenizer, **size)]


@pytest.mark.parametrize("size", [{"window": 24}, {"chars": 90}])
def test_documents_take_turns(folder: str, with_bos: PreTrainedTokenizerFast, size: dict[str, int]) -> None:
    own = {name: alone(folder, name, with_bos, **size) for name in "abc"}
    longest = max(map(len, own.values()))
    wanted = [(name, own[name][turn]) for turn in range(longest) for name in "abc" if turn < len(own[name])]
    assert len({len(windows) for windows in own.values()}) == 3, "documents of different lengths"
    (key, number) = next(iter(size.items()))
    found = [(p.labels["document"], p.ids) for p in given(f"{folder}?{key}={number}", with_bos)]
    assert found == wanted
    for count in (1, 4, len(wanted) - 1, len(wanted)):
        some = given(f"{folder}:{count}?{key}={number}", with_bos)
        assert [(p.labels["document"], p.ids) for p in some] == wanted[:count]
    tokens = sum(len(ids) for _, ids in wanted[:5])
    assert len(given(f"{folder}?{key}={number}&tokens={tokens}", with_bos)) == 5


def test_a_file_of_documents_is_the_folder_of_them(folder: str, tmp_path: Path, plain: PreTrainedTokenizerFast) -> None:
    joined = "\n<|end|>\n".join(TEXTS[name] for name in "abc") + "\n<|end|>\n"
    file = tmp_path / "all.txt.gz"
    file.write_bytes(gzip.compress(joined.encode()))
    found = given(f"{file}:7?window=16&documents=<|end|>", plain)
    of_folder = given(f"{folder}:7?window=16", plain)
    assert [p.ids for p in found] == [p.ids for p in of_folder]
    named = dict(zip("abc", ("all 1", "all 2", "all 3")))
    assert [p.labels["document"] for p in found] == [named[str(p.labels["document"])] for p in of_folder]
    stream = given(f"{file}:7?window=16", plain)
    assert all(not p.labels for p in stream), "without documents= it is one stream, as ever"


def test_short_documents_are_left_out_with_a_warning(folder: str, plain: PreTrainedTokenizerFast) -> None:
    Path(folder, "0.txt").write_text("Tea.")
    Path(folder, "9.txt").write_text("")
    with pytest.warns(UserWarning, match=r"2 of 5 documents fill no prompt and are left out, the first of them '0'\."):
        found = given(f"{folder}:3?window=24", plain)
    assert [p.labels["document"] for p in found] == ["a", "b", "c"]
    with pytest.warns(UserWarning, match=r"1 of 5 documents fill no prompt .* '9'"):
        whole = given(f"{folder}:4", plain, window=24)
    assert whole[0].ids == tuple(plain("Tea.", add_special_tokens=False)["input_ids"]), "shorter than the context"


def test_the_limit_is_that_of_each_document(folder: str, plain: PreTrainedTokenizerFast) -> None:
    found = given(f"{folder}?window=16&limit=120", plain)
    wanted = [alone(folder, name, plain, window=16, limit=120) for name in "abc"]
    assert len(found) == sum(map(len, wanted))


def test_a_saved_data_set_is_told_from_a_folder_of_texts(
    tmp_path: Path, plain: PreTrainedTokenizerFast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    one, several = Path("one"), Path("several")
    datasets.Dataset.from_dict({"text": ["Tea."]}).save_to_disk(str(one))
    datasets.DatasetDict({"dev": datasets.Dataset.from_dict({"text": ["Tea."]})}).save_to_disk(str(several))
    for name, loaded in (("one", "load_from_disk('one')"), ("several", "load_from_disk('several')['dev']")):
        for source in (name, f"{name}/", f"{name}/?window=24"):
            with pytest.raises(PromptError, match=re.escape(f"{loaded}.to_json('prompts.jsonl'), or give")):
                given(source, plain)
    assert eval(f"datasets.{loaded}", {"datasets": datasets})["text"][0] == "Tea."


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("FOLDER:999?window=24", "prompts of this size, 999 asked for"),
        ("FOLDER?window=9999", "none of the 3 documents fills a prompt; ask for shorter ones."),
        ("FOLDER?window=24&documents=x", "its files; leave it out"),
        ("FOLDERempty/?window=24", "holds no text; its documents are files ending in .txt or .txt.gz"),
        ("FOLDERnowhere/?window=24", "There is no folder"),
        ("FOLDERa.txt?window=24&documents=--", "no line is '--', so that the file is one document"),
        ("FOLDERa.txt?window=24&documents=", "documents= has no value"),
        ("FOLDERblank.txt:3?window=24&documents=--", "none of the 0 documents fills a prompt"),
    ],
)
def test_what_is_no_set_of_documents(folder: str, source: str, said: str, plain: PreTrainedTokenizerFast) -> None:
    Path(folder, "empty").mkdir()
    if "blank" in source:
        Path(folder, "blank.txt").write_text("--\n \n--\n")
    with pytest.raises(PromptError) as caught:
        given(source.replace("FOLDER", folder), plain)
    assert said in str(caught.value)


def test_a_folder_in_the_grammar(folder: str, plain: PreTrainedTokenizerFast) -> None:
    spec = parse("texts/books/:10?window=64")
    assert spec == SourceSpec(None, 10, "texts/books/", (("window", 64),))
    assert (spec.kind, spec.label, str(spec)) == ("corpus", "books/:10?window=64", "texts/books/:10?window=64")
    assert parse(spec.label).count == 10
    path = Path(folder)
    assert label_of(path) == "books/"
    assert len(resolve(path, tokenizer=plain, window=24).prompts) == len(given(f"{folder}?window=24", plain))
