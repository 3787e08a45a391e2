"""Transformer against MoEUT: numbers are those of the models that were trained, and nothing finished is done again."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from bathyscope_lab.recipes import read_recipe

from bathyscope import load
from bathyscope.errors import OptionError
from bathyscope.extend.prompts import Problem, task
from studies.sharing.exact_answers import exact_answers
from studies.sharing.experiment import Sharing, check_comparable, sharing
from studies.sharing.readings import PROBES

COMMON = """\
task: {name: arithmetic, options: {modules: [nearest_integer_root, mul], entropy: [2, 2]}}
tokenizer: characters
stages: [{context: 96, batch: 8}]
budget: {steps: 30}
optimisation: {learning_rate: 0.02, warmup_steps: 2}
evaluation: {every: 1000, problems: 2, final_problems: 2}
"""
SHARED = "hidden_size: 16, num_attention_heads: 2, head_dim: 8, max_position_embeddings: 128"
TRANSFORMER = f"""\
name: plain
model: {{type: bathyscope_universal, {SHARED}, group_size: 3, repeats: 1, intermediate_size: 16}}
{COMMON}"""
MOEUT = f"""\
name: shared
model:
  {{type: bathyscope_moeut, {SHARED}, group_size: 1, repeats: 2, attention_experts: 2, attention_experts_per_tok: 1,
    num_experts: 8, num_experts_per_tok: 2, moe_intermediate_size: 8}}
{COMMON}"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("experiment")
    (folder / "plain.yaml").write_text(TRANSFORMER, encoding="utf-8")
    (folder / "shared.yaml").write_text(MOEUT, encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def options(folder: Path) -> Sharing:
    recipes = (str(folder / "plain.yaml"), str(folder / "shared.yaml"))
    return Sharing(recipes, losses=("answer",), seeds=(3, 1), asked=24, measured=2, tolerance=0.5)


@pytest.fixture(scope="module")
def found(options: Sharing, folder: Path) -> xr.Dataset:
    return sharing(options, folder / "out", device="cpu", progress=False)


def trained(folder: Path, name: str, seed: int) -> Path:
    return folder / "out" / "models" / f"{name}-answer-seed-{seed}"


def test_one_seed_of_a_few_steps_from_end_to_end(options: Sharing, folder: Path) -> None:
    """What stands for the two seeds below, which are for ``make test-thorough``."""
    short = replace(options, seeds=(1,), asked=4, measured=1)
    first = sharing(short, folder / "short", device="cpu", progress=False, changes=("budget.steps=3",))
    assert first.n_blocks.sel(loss="answer", seed=1).values.tolist() == [3, 2]
    np.testing.assert_allclose(first.ratio, first.depth / first.n_blocks)
    assert first.probe.values.tolist() == [problem.question for problem in PROBES]
    losses = first.value.sel(loss="answer", quantity="training_loss", seed=1).values
    assert float(first.difference.sel(loss="answer", quantity="training_loss")) == pytest.approx(losses[0] - losses[1])
    kept = sorted([*folder.rglob("model.safetensors"), *folder.rglob("answers/*.json"), *folder.rglob("*.nc")])
    before = [path.stat().st_mtime_ns for path in kept]
    again = sharing(short, folder / "short", device="cpu", progress=False, changes=("budget.steps=3",))
    assert [path.stat().st_mtime_ns for path in kept] == before
    xr.testing.assert_identical(again, first)


@pytest.mark.thorough
def test_recipes_and_seeds_stand_in_the_order_that_was_asked_for(found: xr.Dataset) -> None:
    assert found.recipe.values.tolist() == ["plain", "shared"]
    assert found.seed.values.tolist() == [3, 1]
    assert found.n_blocks.sel(loss="answer", seed=3).values.tolist() == [3, 2]
    assert found.module.values.tolist() == ["nearest_integer_root", "mul", "all"]


def asked_of(module: str) -> list[Problem]:
    """The different ones of the first 24 held-out problems of a module."""
    made = task("arithmetic", modules=("nearest_integer_root", "mul"), entropy=(2, 2))
    problems = [made.problem(index, 0, "interpolate") for index in range(48)]
    return list({one.question: one for one in problems if one.labels["module"] == module}.values())


@pytest.mark.thorough
def test_accuracy_is_that_of_decoding_to_the_end(found: xr.Dataset, folder: Path) -> None:
    model = load(trained(folder, "plain", 3))
    tokenizer = model.tokenizer
    assert tokenizer is not None
    own = found.sel(recipe="plain", loss="answer", seed=3, split="interpolate")
    right: list[bool] = []
    for module in ("nearest_integer_root", "mul"):
        begun = len(right)
        for problem in asked_of(module):
            ids = tokenizer(problem.question, return_tensors="pt").input_ids
            with torch.no_grad():
                written = model.hf.generate(ids, max_new_tokens=13, do_sample=False)[0, ids.shape[1] :]
            text = tokenizer.decode(written, skip_special_tokens=True)
            right.append(text == f" {problem.answer}" and tokenizer.eos_token_id in written.tolist())
        assert float(own.accuracy.sel(module=module)) == pytest.approx(np.mean(right[begun:]))
        assert int(own.n_problems.sel(module=module)) == len(right) - begun
    assert sum(right) > 0
    assert len(right) < 48, "some problem is drawn twice"
    assert float(own.accuracy.sel(module="all")) == pytest.approx(np.mean(right))


@pytest.mark.thorough
def test_the_commonest_answer_is_counted(found: xr.Dataset) -> None:
    answers = [problem.answer for problem in asked_of("mul")]
    most = max(answers.count(answer) for answer in answers)
    own = found.commonest.sel(split="interpolate", module="mul")
    np.testing.assert_allclose(own, np.full(own.shape, most / len(answers)))


@pytest.mark.thorough
def test_wilson_intervals_are_by_hand(found: xr.Dataset) -> None:
    own = found.sel(recipe="plain", loss="answer", seed=3, split="interpolate")
    z = 1.959963984540054
    for module in ("mul", "all"):
        n = int(own.n_problems.sel(module=module))
        p = float(own.accuracy.sel(module=module))
        middle = (p + z**2 / (2 * n)) / (1 + z**2 / n)
        reach = z / (1 + z**2 / n) * np.sqrt(p * (1 - p) / n + z**2 / (4 * n**2))
        assert float(own.accuracy_low.sel(module=module)) == pytest.approx(max(middle - reach, 0))
        assert float(own.accuracy_high.sel(module=module)) == pytest.approx(middle + reach)


@pytest.mark.thorough
def test_modules_without_harder_problems_have_no_extrapolation(found: xr.Dataset) -> None:
    hard = found.accuracy.sel(split="extrapolate")
    assert bool(hard.sel(module="nearest_integer_root").isnull().all())
    np.testing.assert_array_equal(hard.sel(module="all"), hard.sel(module="mul"))
    assert "accuracy/extrapolate/mul" in found.quantity.values
    assert "accuracy/extrapolate/nearest_integer_root" not in found.quantity.values


@pytest.mark.thorough
def test_depths_are_shares_of_each_models_own_steps(found: xr.Dataset) -> None:
    np.testing.assert_allclose(found.ratio, found.depth / found.n_blocks)
    np.testing.assert_allclose(found.ratio_low, found.depth_low / found.n_blocks)
    assert bool(((found.score >= 0) & (found.score <= found.n_blocks - 1)).all())
    assert bool((found.score_low <= found.score).all())
    assert bool((found.erasure_depth <= found.n_blocks).all())
    assert bool((found.erasure_depth > 0).all())
    assert bool((found.erasure_depth_low <= found.erasure_depth).all())
    assert bool((found.erasure_depth <= found.erasure_depth_high).all())


@pytest.mark.thorough
def test_erasure_maps_are_of_the_four_problems(found: xr.Dataset) -> None:
    assert found.probe.values.tolist() == [problem.question for problem in PROBES]
    for name, blocks in (("plain", 3), ("shared", 2)):
        own = found.sel(recipe=name, loss="answer", seed=1).isel(probe=2)
        n_tokens, start = int(own.n_tokens), int(own.answer_start)
        pieces = own["piece"].values[:n_tokens].tolist()
        assert "".join(pieces).removeprefix("<|begin|>") == PROBES[2].example().text
        assert "".join(pieces[start:]).strip() == "-12"
        effect = own.erasure.values
        assert np.isfinite(effect[: blocks + 1, :n_tokens]).all()
        assert np.isnan(effect[blocks + 1 :]).all()
        assert np.isnan(effect[:, n_tokens:]).all()
        assert (effect[0, : start - 1] > 0).any()


@pytest.mark.thorough
def test_a_problem_is_solved_where_the_model_writes_its_answer(found: xr.Dataset, folder: Path) -> None:
    model = load(trained(folder, "plain", 3))
    assert model.tokenizer is not None
    for problem in PROBES:
        ids = model.tokenizer(problem.question + " ", return_tensors="pt").input_ids
        with torch.no_grad():
            written = model.hf.generate(ids, max_new_tokens=8, do_sample=False)[0, ids.shape[1] :]
        is_right = model.tokenizer.decode(written, skip_special_tokens=True) == problem.answer
        assert bool(found.solved.sel(recipe="plain", loss="answer", seed=3, probe=problem.question)) == is_right


@pytest.mark.thorough
def test_differences_are_the_first_recipe_less_the_second(found: xr.Dataset) -> None:
    own = found.value.sel(loss="answer", quantity="training_loss")
    by_seed = [float(own.sel(recipe="plain", seed=s)) - float(own.sel(recipe="shared", seed=s)) for s in (3, 1)]
    difference = found.sel(loss="answer", quantity="training_loss")
    assert float(difference.difference) == pytest.approx(np.mean(by_seed))
    # two values a, b: s / √2 = |a − b| / 2, and Student's 97.5 % quantile with one degree of freedom is 12.706
    reach = 12.7062047 * abs(by_seed[0] - by_seed[1]) / 2
    assert float(difference.difference_high - difference.difference) == pytest.approx(reach)
    assert int(difference.difference_seeds) == 2


@pytest.mark.thorough
def test_what_is_finished_is_not_done_again(found: xr.Dataset, options: Sharing, folder: Path) -> None:
    # beside it stand the folders of other tests
    out = folder / "out"
    kept = sorted([*out.rglob("model.safetensors"), *out.rglob("answers/*.json"), *out.rglob("*.nc")])
    before = [path.stat().st_mtime_ns for path in kept]
    again = sharing(options, out, device="cpu", progress=False)
    assert len([path for path in kept if path.suffix == ".safetensors"]) == 4
    assert [path.stat().st_mtime_ns for path in kept] == before
    xr.testing.assert_identical(again, found)


@pytest.mark.thorough
def test_other_problems_are_asked_anew(folder: Path, found: xr.Dataset) -> None:
    path = trained(folder, "shared", 1)
    kept = folder / "again.json"
    recipe, model = read_recipe(path / "recipe.yaml"), load(path)
    few, more = (exact_answers(model, recipe, asked, kept) for asked in (2, 24))
    xr.testing.assert_equal(more.accuracy, found.accuracy.sel(recipe="shared", loss="answer", seed=1, drop=True))
    assert bool((few.accuracy_high - few.accuracy_low > more.accuracy_high - more.accuracy_low).any())


@pytest.mark.thorough
def test_every_variable_is_documented(found: xr.Dataset) -> None:
    page = (Path(__file__).parents[3] / "docs" / "lab.md").read_text(encoding="utf-8")
    section = page.partition("### Transformer against MoEUT")[2].partition("\n### ")[0]
    assert [name for name in found.data_vars if f"`{name}`" not in section] == []


def test_the_recipes_of_the_package_can_be_compared() -> None:
    recipes = [read_recipe(name) for name in Sharing().recipes]
    check_comparable(recipes, Sharing())
    with pytest.raises(OptionError, match="parameters differ by"):
        check_comparable(recipes, Sharing(tolerance=0.0))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"recipes": ("smallest",)}, "recipes has 1 members; give the two that are to be compared"),
        ({"losses": ()}, "losses and seeds are empty; give at least one of each"),
        ({"losses": ("anser",)}, r"'anser' is not allowed\. Did you mean 'answer'\? Allowed: all, answer\."),
        ({"losses": ("all", "answer", "all")}, r"losses names all twice; name each once\."),
        ({"seeds": (0, 1, 1)}, r"seeds names 1 twice; name each once\."),
        ({"seeds": (0, -1)}, r"seeds: -1 is out of range; give whole numbers of at least 0\."),
        ({"asked": 0}, "asked=0 is out of range; give at least 1"),
        ({"tolerance": -1.0}, r"tolerance=-1\.0 is out of range; give a share of the parameters, such as 0\.01"),
    ],
)
def test_options_are_checked(given: dict[str, object], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        Sharing(**given)  # type: ignore[arg-type]


def test_recipes_that_cannot_be_compared(tmp_path: Path) -> None:
    other = "arithmetic_moeut"
    with pytest.raises(
        OptionError, match="'smallest' is no new model on the task arithmetic, whose problems are asked"
    ):
        sharing(Sharing(("smallest", other)), tmp_path)
    with pytest.raises(OptionError, match="both are called 'arithmetic_moeut'; give them different names"):
        sharing(Sharing((other, other)), tmp_path)
    with pytest.raises(OptionError, match=r"parameters differ by \d+\.\d\d% .*more than the tolerance of 1\.0%"):
        sharing(Sharing(), tmp_path, changes=("model.hidden_size=64",))
    longer = tmp_path / "longer.yaml"
    recipe = read_recipe(other, ["name=longer", "budget.steps=7"])
    longer.write_text(recipe.to_yaml(), encoding="utf-8")
    with pytest.raises(OptionError, match="and longer differ in budget, so that their seeds are no pairs"):
        sharing(Sharing((Sharing().recipes[0], str(longer))), tmp_path)
    with pytest.raises(OptionError, match=r"recipe 'arithmetic_transformer' trains on written steps .*set steps=false"):
        sharing(Sharing(), tmp_path, changes=("steps=true",))
    assert not (tmp_path / "models").exists()
