"""Commands on a page name models that can be loaded."""

from pathlib import Path

import pytest

from bathyscope.pages.text.commands import quote_model, quote_more_prompts, quote_prompts


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gpt2", "gpt2"),
        ("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-1.5B"),
        ("LlamaForCausalLM", "MODEL"),
        ("GPT2LMHeadModel", "MODEL"),
        ("/no/such/folder", "MODEL"),
        ("a b", "MODEL"),
    ],
)
def test_names_that_nobody_can_load_are_placeholders(name: str, text: str) -> None:
    assert quote_model(name) == text


def test_a_folder_is_quoted_where_it_names_no_place_on_a_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "my model"
    place.mkdir()
    monkeypatch.chdir(tmp_path)
    assert quote_model("my model") == "'my model'"
    assert quote_model(str(place)) == "MODEL"
    assert quote_prompts(str(place / "mine.jsonl")) == "YOURS.jsonl"


@pytest.mark.parametrize(
    ("name", "count", "text"),
    [
        ("gsm8k:10", None, "gsm8k:20"),
        ("problems:16?steps=1-4", None, "'problems:32?steps=1-4'"),
        ("problems:16?steps=1-4", 40, "'problems:40?steps=1-4'"),
        ("mine.jsonl", None, "MORE.jsonl"),
        ("bundled prompts", None, "YOURS.jsonl"),
    ],
)
def test_more_prompts_are_more_than_there_were(name: str, count: int | None, text: str) -> None:
    assert quote_more_prompts(name, count) == text
