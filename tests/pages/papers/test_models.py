from __future__ import annotations

from pathlib import Path

import pytest

from bathyscope.errors import OptionError
from bathyscope.pages.papers.models import NamedModel, chosen_models

PUBLISHED = ("Qwen/Qwen2.5-14B", "allenai/OLMo-2-1124-7B")


def one(text: str) -> NamedModel:
    return chosen_models([text], PUBLISHED)[0]


def test_without_a_choice_all_of_the_paper() -> None:
    assert chosen_models([], PUBLISHED) == (
        NamedModel("Qwen2.5-14B", "Qwen/Qwen2.5-14B", "Qwen/Qwen2.5-14B"),
        NamedModel("OLMo-2-1124-7B", "allenai/OLMo-2-1124-7B", "allenai/OLMo-2-1124-7B"),
    )


@pytest.mark.parametrize("text", ["Qwen2.5-14B", "Qwen/Qwen2.5-14B", "qwen2.5-14b"])
def test_a_name_of_the_paper(text: str) -> None:
    assert one(text) == NamedModel("Qwen2.5-14B", "Qwen/Qwen2.5-14B", "Qwen/Qwen2.5-14B")


def test_a_folder_that_stands_for_a_published_model(tmp_path: Path) -> None:
    expected = NamedModel("Qwen2.5-14B", str(tmp_path / "stand-in"), "Qwen/Qwen2.5-14B")
    assert one(f"Qwen2.5-14B={tmp_path / 'stand-in'}") == expected
    named_alike = tmp_path / "Qwen2.5-14B"
    named_alike.mkdir()
    assert one(str(named_alike)) == NamedModel("Qwen2.5-14B", str(named_alike), "Qwen/Qwen2.5-14B")


def test_models_that_the_paper_does_not_have(tmp_path: Path) -> None:
    assert one("openai-community/gpt2") == NamedModel("gpt2", "openai-community/gpt2", None)
    assert one(f"mine={tmp_path}") == NamedModel("mine", str(tmp_path), None)
    assert one(f"{tmp_path}/absent") == NamedModel("absent", f"{tmp_path}/absent", None)
    odd = tmp_path / "a=b"
    odd.mkdir()
    assert one(str(odd)) == NamedModel("a=b", str(odd), None)


def test_two_models_of_one_name() -> None:
    with pytest.raises(OptionError) as caught:
        chosen_models(["one/tiny", "other/tiny"], PUBLISHED)
    assert "two models called 'tiny' (one/tiny and other/tiny)" in str(caught.value)
    assert "tiny-1=one/tiny tiny-2=other/tiny" in str(caught.value)


@pytest.mark.parametrize("text", ["", "=folder", "name="])
def test_a_text_that_names_nothing(text: str) -> None:
    with pytest.raises(OptionError, match=r"does not name a model. Give a name of the paper, a folder, or NAME=FOLDER"):
        one(text)
