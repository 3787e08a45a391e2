from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from bathyscope_lab.recipe import Recipe
from bathyscope_lab.recipes import read_recipe, shipped

from bathyscope.errors import OptionError


def test_yaml_gives_the_recipe_back(text_recipe: Any, tmp_path: Path) -> None:
    path = tmp_path / "toy.yaml"
    path.write_text(text_recipe().to_yaml(), encoding="utf-8")
    assert read_recipe(path) == text_recipe()


def test_hash_follows_content_not_formatting(text_recipe: Any, tmp_path: Path) -> None:
    content = yaml.safe_load(text_recipe().to_yaml())
    path = tmp_path / "toy.yaml"
    path.write_text("# a remark\n" + yaml.safe_dump(content, sort_keys=True), encoding="utf-8")
    assert read_recipe(path).hash() == text_recipe().hash()
    assert text_recipe(seed=4).hash() != text_recipe().hash()


def test_stages_end_at_their_share_of_tokens(text_recipe: Any) -> None:
    assert text_recipe().stage_ends == (10, 20)
    stages = [{"until": 0.5, "context": 32, "batch": 4}, {"context": 64, "batch": 4}]
    assert text_recipe(stages=stages).stage_ends == (10, 15)
    assert text_recipe(budget={"tokens": 20 * 128 + 1}).total_steps == 21


def test_stages_end_at_their_share_of_steps(task_recipe: Any) -> None:
    stages = [{"until": 0.25, "context": 32, "batch": 4}, {"context": 64, "batch": 2}]
    assert task_recipe(stages=stages).stage_ends == (5, 20)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batchs": 3}, r"recipe has no option 'batchs'\..* Allowed: name, seed"),
        ({"budget": {"token": 3}}, r"budget has no option 'token'\. Did you mean 'tokens'\?"),
        ({"stages": [{"until": 1.0, "context": 8}]}, "stages lacks batch; add it"),
        ({"stages": [{"until": 0.9, "context": 8, "batch": 1}]}, r"stages end at \[0\.9\]; .* the last one 1\.0"),
        ({"stages": []}, "stages is empty; give at least one shape of batches, such as {context: 256, batch: 16}"),
        ({"bse": "x"}, r"recipe has no option 'bse'\..* Allowed: name, seed, model, from, data"),
        ({"base": "gpt2"}, r"recipe has no option 'base'\..* Allowed: name, seed, model, from, data"),
        ({"model": 5}, "recipe: model=5 is not allowed; give names with their values, such as {name: value}"),
        (
            {"data": None, "task": {"name": "permutations", "options": [1]}},
            r"task: options=\[1\] is not allowed; give names with their values, such as {name: value}",
        ),
        ({"stages": 3}, "a list of mappings with context and batch is expected; 3 given"),
        ({"budget": {"steps": 3, "tokens": 4}}, "give either steps or tokens"),
        ({"optimisation": {"learning_rate": "fast"}}, "learning_rate takes a number; 'fast' given"),
        ({"budget": {"steps": "1.5"}}, "steps takes a whole number; '1.5' given"),
        ({"optimisation": {"schedule": "linear"}}, "schedule='linear' is unknown\\. .*Allowed: cosine, plateau"),
        ({"loss": "answer"}, "texts have no answer"),
        ({"loss": "written"}, "texts have no answer"),
        ({"tokenizer": "words"}, "words are a task's list; for texts give bpe or characters"),
        ({"tokenizer": "bpe"}, "type bpe and vocabulary=None disagree; add vocabulary"),
        ({"tokenizer": {"type": "characters", "vocabulary": 9}}, "disagree; leave out vocabulary"),
        ({"tokenizer": None}, "a new model needs a tokenizer"),
        ({"model": None}, "give either model .* or from"),
        ({"from": "gpt2"}, "give either model .* or from"),
        ({"model": None, "from": "gpt2"}, "tokenizer and initial weights are the checkpoint's"),
        ({"task": {"name": "x"}}, "give either data .* or task"),
        ({"data": {"mix": {"books": 0}}}, "give sources with positive shares"),
        ({"data": {"mix": {"books": float("inf")}}}, "give sources with positive shares"),
        ({"data": {"mix": ["books"]}}, r"mix=\['books'\]; give sources with positive shares, such as \{books: 1\.0\}"),
        ({"measure": {"measures": ["skip"], "prompts": "x"}}, "compares with the checkpoint trained from; add from"),
    ],
)
def test_what_does_not_fit_is_refused(text_recipe: Any, change: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        text_recipe(**change)


def test_steps_that_count_have_to_be_written(task_recipe: Any) -> None:
    with pytest.raises(OptionError, match="loss: written counts written steps; add steps: true, or give loss: answer"):
        task_recipe(loss="written")


COUNT = "give a whole number from 1 on"
NAN = float("nan")


@pytest.mark.parametrize(
    ("part", "option", "value", "allowed"),
    [
        *(("optimisation", "learning_rate", value, "give a finite number above 0") for value in (-1.0, 0.0, NAN)),
        ("optimisation", "learning_rate", float("inf"), "give a finite number above 0"),
        ("optimisation", "warmup_steps", -1, "give a whole number from 0 on"),
        *(("optimisation", name, 1.1, "give a number from 0 to 1") for name in ("decay", "final_ratio")),
        *(
            ("optimisation", name, value, "give a number from 0 to below 1")
            for name in ("beta1", "beta2")
            for value in (-0.1, 1.0)
        ),
        *(("optimisation", name, -1.0, "give 0 or a finite number above it") for name in ("weight_decay", "clip")),
        *(("evaluation", name, 0, COUNT) for name in ("every", "tokens", "problems", "final_tokens", "final_problems")),
        *(("saving", "every", value, COUNT) for value in (0, -1)),
        *(("saving", "shard", value, "KB, MB, GB or TB, such as 5GB") for value in ("banana", "0MB", "5")),
        *(("budget", name, 0, COUNT) for name in ("steps", "tokens")),
        ("task", "count", 0, COUNT),
        *(("data", name, 0, COUNT) for name in ("tokens", "tokenizer_characters")),
        ("tokenizer", "vocabulary", 0, COUNT),
        ("stages", "context", 1, "give a whole number from 2 on"),
        ("stages", "batch", 0, COUNT),
        ("stages", "until", 0.0, "give a number above 0, at most 1"),
    ],
)
def test_numbers_out_of_range_are_refused(
    text_recipe: Any, part: str, option: str, value: object, allowed: str
) -> None:
    whole = {
        "budget": {},
        "data": {"mix": {"books": 1.0}},
        "stages": {"context": 8, "batch": 1},
        "task": {"name": "x"},
        "tokenizer": {"type": "bpe"},
    }
    changed = {**whole.get(part, {}), option: value}
    with pytest.raises(OptionError, match=rf"^{part}: {option}={value!r} is not allowed; .*{allowed}"):
        text_recipe(**{part: [changed] if part == "stages" else changed})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": -1}, "recipe: seed=-1 is not allowed; give a whole number from 0 to 4294967295"),
        ({"seed": 2**32}, "recipe: seed=4294967296 is not allowed"),
        ({"threads": 0}, "recipe: threads=0 is not allowed; give a whole number from 1 on"),
        ({"budget": {"steps": 5, "minutes": 0}}, "budget: minutes=0.0 is not allowed; give a finite number above 0"),
    ],
)
def test_seeds_threads_and_minutes_out_of_range_are_refused(
    text_recipe: Any, change: dict[str, object], message: str
) -> None:
    with pytest.raises(OptionError, match=message):
        text_recipe(**change)


def test_the_ends_of_the_ranges_are_allowed(text_recipe: Any) -> None:
    edges = {"warmup_steps": 0, "decay": 1, "final_ratio": 0, "beta1": 0, "weight_decay": 0, "clip": 0}
    recipe = text_recipe(optimisation=edges, saving={"shard": "0.5gb", "every": 1}, seed=2**32 - 1, threads=1)
    assert recipe.optimisation.decay == 1.0
    assert recipe.saving.shard == "0.5gb"


def test_numbers_that_yaml_reads_as_texts_are_numbers() -> None:
    """YAML wants 1.0e-3 for a number, people write 1e-3."""
    changes = ["optimisation.learning_rate=2e-3", "budget.steps=1e3", "stages.0.batch=3.2e+1"]
    recipe = read_recipe("smallest", changes)
    assert recipe.optimisation.learning_rate == 0.002
    assert recipe.budget.steps == 1000
    assert recipe.stages[0].batch == 32
    same = read_recipe("smallest", ["optimisation.learning_rate=0.002", "budget.steps=1000", "stages.0.batch=32"])
    assert recipe.hash() == same.hash()


HASHES = {
    "arithmetic_moeut": "ebb51c949b7bd40d",
    "bundled": "64fc5d625569a4e1",
    "depth_12": "102f97940d948f54",
    "fine_tune": "172726abc9de6b5a",
    "permutations": "68cd31e6cdd33585",
    "smallest": "8cf5530d21ffea8e",
}


@pytest.mark.parametrize("name", HASHES)
def test_hashes_of_shipped_recipes_stay(name: str) -> None:
    """Folders of interrupted and of finished runs belong to them."""
    assert read_recipe(name).hash() == HASHES[name]


def test_tokens_are_no_budget_for_problems(task_recipe: Any) -> None:
    with pytest.raises(OptionError, match="problems differ in length, so give steps"):
        task_recipe(budget={"tokens": 100})


def test_a_recipe_without_a_name_is_refused() -> None:
    with pytest.raises(OptionError, match="recipe lacks name"):
        Recipe.from_dict({})


def test_overrides_reach_into_mappings_and_lists() -> None:
    changed = read_recipe(
        "smallest",
        ["model.num_hidden_layers=8", "seed=2", "stages.0.batch=5", "budget.minutes=1.5", "task.options.hops=[1, 2]"],
    )
    assert changed.model is not None
    assert changed.task is not None
    assert changed.model["num_hidden_layers"] == 8
    assert (changed.seed, changed.stages[0].batch, changed.budget.minutes) == (2, 5, 1.5)
    assert changed.task.options["hops"] == [1, 2]
    assert changed.name == read_recipe("smallest").name


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("seed", "'seed' sets nothing; write KEY=VALUE"),
        ("stages.7.batch=3", "there is no '7' in"),
        ("seed.x=3", "'x' cannot be set in 0"),
        ("sed=3", "recipe has no option 'sed'. Did you mean 'seed'"),
    ],
)
def test_overrides_that_lead_nowhere_are_refused(override: str, message: str) -> None:
    with pytest.raises(OptionError, match=message):
        read_recipe("smallest", ["seed=0", override])


def test_a_missing_recipe_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        OptionError, match=r"No recipe 'smalest'\. Did you mean 'smallest'\? Give a YAML file or one of"
    ):
        read_recipe("smalest")
    (tmp_path / "list.yaml").write_text("- 1", encoding="utf-8")
    with pytest.raises(OptionError, match="holds list; a recipe is a mapping"):
        read_recipe(tmp_path / "list.yaml")


@pytest.mark.parametrize("name", shipped())
def test_a_shipped_recipe_reads_is_called_as_its_file_and_holds_no_path(name: str) -> None:
    text = shipped()[name].read_text(encoding="utf-8")
    assert text.startswith("# ")
    lines = [line for line in text.splitlines() if not line.startswith(("#", "from: "))]
    assert "/" not in "".join(lines)
    assert read_recipe(name).name == name


def test_the_bundled_recipe_is_what_the_bundled_model_was_trained_by() -> None:
    recipe = read_recipe("bundled")
    assert recipe.model is not None
    assert recipe.model["num_hidden_layers"] == 12
    assert recipe.total_steps == 5523
    assert recipe.budget.tokens == 22_622_208
