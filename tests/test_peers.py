"""The table of other packages: which models they are asked about, and what the page says is what is stored."""

from __future__ import annotations

import argparse
import json
import sys
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]
PEERS = ROOT / "benchmarks" / "peers"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Load a script by its file: its name is that of other scripts too."""
    spec = spec_from_file_location(f"peers_{name}", PEERS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, f"peers_{name}", module)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script that asks."""
    return load("run", monkeypatch)


def test_a_model_is_a_name_and_a_folder(run: ModuleType, tmp_path: Path) -> None:
    """Any model of the table may be asked about alone, and the bundled one has no folder to give."""
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert run.name_and_folder(f"Gemma3={tmp_path}") == ("Gemma3", tmp_path.resolve())
    name, folder = run.name_and_folder("bundled")
    assert name == "bundled"
    assert (folder / "config.json").is_file()


@pytest.mark.parametrize("text", ["", "Gemma3", "Gemma3=", "gemma3={folder}", "bundled={folder}", "{folder}"])
def test_another_model_is_refused_with_the_names_that_are_allowed(run: ModuleType, text: str, tmp_path: Path) -> None:
    """A folder alone does not say whose rows it fills."""
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    with pytest.raises(argparse.ArgumentTypeError, match="Give SmolLM2=FOLDER, Gemma3=FOLDER or bundled"):
        run.name_and_folder(text.format(folder=tmp_path))


def test_a_folder_without_a_model_is_refused_before_any_environment_is_set_up(run: ModuleType, tmp_path: Path) -> None:
    """Nor is it taken for the error of a package."""
    with pytest.raises(argparse.ArgumentTypeError, match=r"has no config\.json"):
        run.name_and_folder(f"SmolLM2={tmp_path}")


def test_every_peer_is_asked_about_models_whose_texts_have_a_length(run: ModuleType) -> None:
    """Every model has rows by at least four packages."""
    for name in run.LETTERS:
        assert sum(name in peer.models for peer in run.PEERS) >= 4
    assert {name for peer in run.PEERS for name in peer.models} == set(run.LETTERS)


def test_a_package_that_ends_with_an_error_has_its_name_and_version_in_the_table(run: ModuleType) -> None:
    """As the package index names it, and not as the script does."""
    answer = run.failure(run.Peer("tuned_lens", "tuned-lens==0.2.0"), "unknown model")
    assert (answer["package"], answer["version"], answer["error"]) == ("tuned-lens", "0.2.0", "unknown model")


def test_the_page_has_the_table_of_what_is_stored(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Written again from the stored answers, the page is the same, and each answer lies in the file of its model."""
    table = load("table", monkeypatch)
    page = tmp_path / "peers.md"
    text = table.PAGE.read_text(encoding="utf-8")
    page.write_text(text, encoding="utf-8")
    table.write_table(PEERS / "results", page)
    assert page.read_text(encoding="utf-8") == text
    for file in (PEERS / "results").glob("*__*.json"):
        assert json.loads(file.read_text(encoding="utf-8"))["model"] == file.stem.partition("__")[2]
