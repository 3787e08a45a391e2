from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bathyscope.errors import PromptError
from bathyscope.prompts.parsed_source import SourceSpec
from bathyscope.prompts.source import require_there
from bathyscope.prompts.spec import parse, source_in


@pytest.mark.parametrize(
    ("text", "expected", "kind", "label"),
    [
        ("gsm8k", SourceSpec("gsm8k"), "data set", "gsm8k"),
        ("gsm8k:10", SourceSpec("gsm8k", 10), "data set", "gsm8k:10"),
        (
            "gsm8k:10?split=train",
            SourceSpec("gsm8k", 10, None, (("split", "train"),)),
            "data set",
            "gsm8k:10?split=train",
        ),
        (
            "lambada:20@a dir/b:c?d@e.csv",
            SourceSpec("lambada", 20, "a dir/b:c?d@e.csv"),
            "data set",
            "lambada:20",
        ),
        ("hellaswag@rows.parquet", SourceSpec("hellaswag", None, "rows.parquet"), "data set", "hellaswag"),
        (
            "sums:5?steps=3&digits=2",
            SourceSpec("sums", 5, None, (("steps", 3), ("digits", 2))),
            "generated",
            "sums:5?steps=3&digits=2",
        ),
        (
            "problems:60?steps=1-6",
            SourceSpec("problems", 60, None, (("steps", "1-6"),)),
            "generated",
            "problems:60?steps=1-6",
        ),
        (
            "addition?digits=3&per_level=5",
            SourceSpec("addition", None, None, (("digits", 3), ("per_level", 5))),
            "generated",
            "addition?digits=3&per_level=5",
        ),
        (
            "mquake?hops=2-3&per_level=20@a+b?c@d.jsonl",
            SourceSpec("mquake", None, "a+b?c@d.jsonl", (("hops", "2-3"), ("per_level", 20))),
            "data set",
            "mquake?hops=2-3&per_level=20",
        ),
        (
            "math:10?level=5&split=train",
            SourceSpec("math", 10, None, (("level", 5), ("split", "train"))),
            "data set",
            "math:10?level=5&split=train",
        ),
        ("aime2024:5?max_tokens=400", SourceSpec("aime2024", 5, None, (("max_tokens", 400),)), "data set", None),
        ("dir/stories.txt", SourceSpec(None, None, "dir/stories.txt"), "corpus", "stories.txt"),
        ("b.txt.gz:100", SourceSpec(None, 100, "b.txt.gz"), "corpus", "b.txt.gz:100"),
        (
            "x.y/s.txt?chars=1000&limit=20000",
            SourceSpec(None, None, "x.y/s.txt", (("chars", 1000), ("limit", 20000))),
            "corpus",
            "s.txt?chars=1000&limit=20000",
        ),
        (
            "b.txt.gz?window=256&tokens=1000000",
            SourceSpec(None, None, "b.txt.gz", (("window", 256), ("tokens", 1_000_000))),
            "corpus",
            "b.txt.gz?window=256&tokens=1000000",
        ),
        ("mine.jsonl:3", SourceSpec(None, 3, "mine.jsonl"), "prompt file", "mine.jsonl:3"),
        (
            "mine.txt.jsonl.gz",
            SourceSpec(None, None, "mine.txt.jsonl.gz"),
            "prompt file",
            "mine.txt.jsonl.gz",
        ),
        ("./gsm8k@home.txt", SourceSpec(None, None, "./gsm8k@home.txt"), "corpus", "gsm8k@home.txt"),
        (r"C:\texts\a.txt:7", SourceSpec(None, 7, r"C:\texts\a.txt"), "corpus", r"C:\texts\a.txt:7"),
    ],
)
def test_grammar(text: str, expected: SourceSpec, kind: str, label: str | None) -> None:
    spec = parse(text)
    assert spec == expected
    assert (spec.kind, spec.label, str(spec)) == (kind, label or text, text)


_folders = st.text("abcXYZ012 _-.:?@&=éß", min_size=1, max_size=12)


@given(
    name=st.sampled_from(["gsm8k", "hellaswag", "lambada"]),
    count=st.none() | st.integers(1, 10**9),
    path=st.none() | _folders,
)
def test_data_set_round_trip(name: str, count: int | None, path: str | None) -> None:
    spec = SourceSpec(name, count, path)
    assert parse(str(spec)) == spec


@given(
    folder=st.text("abcXYZ012 _-é", min_size=1, max_size=12),
    suffix=st.sampled_from([".txt", ".txt.gz"]),
    count=st.none() | st.integers(1, 10**9),
    size=st.sampled_from([(), (("window", 64),), (("chars", 1000),)]),
    limit=st.none() | st.integers(1, 10**9),
)
def test_corpus_round_trip(
    folder: str, suffix: str, count: int | None, size: tuple[tuple[str, int], ...], limit: int | None
) -> None:
    options = size if limit is None else (*size, ("limit", limit))
    spec = SourceSpec(None, count, f"{folder}/text{suffix}", options)
    assert parse(str(spec)) == spec


def test_options_are_read_by_type() -> None:
    spec = parse("stories.txt?chars=0100&limit=7")
    assert (spec.option("chars"), spec.option("limit"), spec.option("window")) == (100, 7, None)
    assert parse("gsm8k?split=train").option("split") == "train"
    assert parse("gsm8k").option("split") is None


def test_levels() -> None:
    spec = parse("sums:9?steps=2-4&digits=03")
    assert (spec.option("steps"), spec.option("digits"), spec.option("hops")) == ("2-4", 3, None)
    assert str(parse("sums:9?steps=02-04&digits=5-5")) == "sums:9?steps=2-4&digits=5"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gsmk8:3", r"'gsmk8' is neither a data set nor a prompt file\. Did you mean 'gsm8k'\?"),
        ("gsmk8:3@rows.jsonl", r"'gsmk8' is neither .* Did you mean 'gsm8k'\?"),
        ("The quick brown fox", r"give a list of strings: \['The quick brown fox'\]"),
        (
            "Question: what is it?",
            r"'Question' is neither .*Allowed: aime2024, gsm8k, .*, two_hop, problems, sums, addition",
        ),
        (
            "notes.md",
            r"file ending in \.txt \(plain text\), \.jsonl, .* \(one prompt a line\) or \.csv, .*\?text=",
        ),
        ("", r"Prompts '': the text is empty; give a data set"),
        ("gsm8k:", r"the count after ':' must be a whole number of at least 1, not ''"),
        ("gsm8k:0", r"at least 1, not '0'"),
        ("gsm8k:ten", r"at least 1, not 'ten'"),
        ("stories.txt:-3", r"at least 1, not '-3'"),
        ("stories.txt?chars=1e3", r"chars= must be a whole number of at least 1, not '1e3'"),
        (
            "stories.txt?char=100",
            r"unknown option 'char'\. Did you mean 'chars'\? A corpus takes: window=, chars=",
        ),
        ("mine.jsonl?limit=3", r"unknown option 'limit'\. A prompt file takes: text=, answer=, labels="),
        ("stories.txt?", r"unknown option ''"),
        ("stories.txt?chars=9&chars=9", r"'chars' is given twice"),
        ("stories.txt?chars=9&window=9", r"by tokens \(window=\) or by characters \(chars=\); give one"),
        ("gsm8k:3@", r"no file after '@'; write gsm8k@FILE\.jsonl"),
        ("gsm8k?split=", r"split= has no value"),
        ("gsm8k?split=train@rows.jsonl", r"a local file has none; leave out one"),
        ("problems", r"say how many, for example problems:20"),
        ("problems:1000000000", r"1,000,000,000 prompts of problems are too many .*; ask for at most 1,000,000\."),
        ("task:permutations:1000001", r"1,000,001 prompts of task:permutations are too many"),
        ("sums?per_level=2000000", r"2,000,000 prompts of sums are too many"),
        ("sums:3@rows.jsonl", r"sums are generated and read no file"),
        ("problems:3?digits=2", r"unknown option 'digits'\. Options of problems: steps=, per_level="),
        ("problems:3?step=2", r"unknown option 'step'\. Did you mean 'steps'\?"),
        ("addition:3?digit=2", r"unknown option 'digit'\. Did you mean 'digits'\? Options of addition: digits=, per"),
        (
            "mquake:3?hop=2",
            r"unknown option 'hop'\. Did you mean 'hops'\? Options of mquake: hops=, per_level=, split=",
        ),
        ("gsm8k?per_level=3", r"unknown option 'per_level'\. Options of gsm8k: split="),
        ("two_hop:3?split=test", r"unknown option 'split'\. Options of two_hop: none"),
        ("adition:3", r"'adition' is neither .* Did you mean 'addition'\?"),
        ("mquake:3?hops=4-2", r"hops= must be .* a rising range such as 1-3, not '4-2'"),
        ("math:3?level=0", r"level= must be a whole number of at least 1, .*not '0'"),
        ("math:3?level=hard", r"level= must be .*not 'hard'"),
        ("problems:3?steps=1,3", r"steps= must be .*not '1,3'"),
        ("problems:3?steps=", r"steps= must be .*not ''"),
        ("mquake:60?per_level=20", r"':60' is the number of prompts altogether and per_level=20 that of each level"),
        ("mquake?per_level=0", r"per_level= must be a whole number of at least 1, not '0'"),
    ],
)
def test_refused(text: str, message: str) -> None:
    with pytest.raises(PromptError, match=message):
        parse(text)


def test_a_long_text_is_not_said_three_times() -> None:
    with pytest.raises(PromptError) as caught:
        parse("Once upon a time there was a house. " * 100)
    assert len(str(caught.value)) < 700
    assert str(caught.value).endswith("or a file that holds it.")
    for longer_than_a_name in ("x" * 5000 + ".txt", "x" * 5000 + "/"):
        with pytest.raises(PromptError):
            require_there(longer_than_a_name)


def test_a_folder_without_its_slash_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "books").mkdir()
    with pytest.raises(PromptError, match=r"For the texts of this folder write books/\."):
        parse("books:3")


@pytest.mark.parametrize(("name", "kind"), [("rows.xlsx", "ending in .xlsx"), ("rows", "without an ending")])
def test_a_file_of_another_format_is_told_from_one_that_is_missing(
    name: str, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / name).write_text("a", encoding="utf-8")
    with pytest.raises(PromptError, match=re.escape(f"The file is there, but files {kind} are not read")) as caught:
        parse(f"{name}?text=question")
    assert "Did you mean" not in str(caught.value)
    with pytest.raises(PromptError, match=re.escape(f"The file is there, but files {kind} are not read")) as caught:
        parse(f"{name}:3")
    assert "Did you mean" not in str(caught.value)


def test_no_file_is_meant_that_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "notes.md").write_text("a", encoding="utf-8")
    with pytest.raises(PromptError) as caught:
        parse("note.md")
    assert "Did you mean" not in str(caught.value)
    (tmp_path / "notes.txt").write_text("a", encoding="utf-8")
    with pytest.raises(PromptError, match=r"Did you mean 'notes\.txt'\?"):
        parse("notes.text")


def test_a_name_that_is_no_source_has_none_and_an_error_names_the_source_once() -> None:
    assert source_in("problems:20") == parse("problems:20")
    assert source_in("given") is None
    with pytest.raises(PromptError, match=r"^Prompts 'problems:0': (?!Prompts)"):
        parse("problems:0")
