from __future__ import annotations

import dataclasses
from importlib.resources import files
from pathlib import Path

import pytest
import yaml

from bathyscope.errors import OptionError
from bathyscope.lab.recipe import ModelShape, Recipe, Stage


def test_yaml_gives_the_recipe_back(toy_recipe: Recipe, tmp_path: Path) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text(toy_recipe.to_yaml(), encoding="utf-8")
    assert Recipe.read(path) == toy_recipe


def test_hash_follows_content_not_formatting(toy_recipe: Recipe, tmp_path: Path) -> None:
    content = yaml.safe_load(toy_recipe.to_yaml())
    path = tmp_path / "toy.yaml"
    path.write_text("# a remark\n" + yaml.safe_dump(content, sort_keys=True), encoding="utf-8")
    assert Recipe.read(path).hash() == toy_recipe.hash()
    assert dataclasses.replace(toy_recipe, seed=4).hash() != toy_recipe.hash()


def test_stage_ends_where_it_says(toy_recipe: Recipe) -> None:
    first, last = toy_recipe.stages
    assert [toy_recipe.stage(share) for share in (0.0, 0.49, 0.5, 1.0)] == [first, first, last, last]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batchs": 3}, "'batchs' is not an option of recipe"),
        (
            {"model": {"block": 3}},
            "'block' is not an option of model; allowed: blocks, .* Did you mean 'blocks'",
        ),
        ({"stages": [{"until": 1.0, "context": 8}]}, "stages lacks batch"),
    ],
)
def test_unknown_and_missing_options_are_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Recipe.from_dict({"name": "x", **change})


def test_a_recipe_without_a_name_is_refused() -> None:
    with pytest.raises(OptionError, match="recipe lacks name"):
        Recipe.from_dict({})


def test_parts_that_do_not_fit_are_refused() -> None:
    with pytest.raises(OptionError, match=r"the last one 1\.0"):
        Recipe(name="x", stages=(Stage(until=0.9, context=8, batch=1),))
    with pytest.raises(OptionError, match="A stage has context 1024, the model 512"):
        Recipe(name="x", stages=(Stage(until=1.0, context=1024, batch=1),))
    with pytest.raises(OptionError, match="heads a multiple of kv_heads"):
        Recipe(name="x", model=ModelShape(heads=6, kv_heads=4))


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="No recipe at"):
        Recipe.read(tmp_path / "none.yaml")
    (tmp_path / "list.yaml").write_text("- 1", encoding="utf-8")
    with pytest.raises(OptionError, match="holds list; a recipe is a mapping"):
        Recipe.read(tmp_path / "list.yaml")


def test_the_shipped_recipe_reads_and_holds_no_path() -> None:
    path = Path(str(files("bathyscope.lab") / "recipes" / "bundled.yaml"))
    recipe = Recipe.read(path)
    assert recipe.model.blocks == 12
    assert recipe.stages[-1].context == recipe.model.context
    assert "/" not in "".join(line for line in path.read_text().splitlines() if not line.startswith("#"))
