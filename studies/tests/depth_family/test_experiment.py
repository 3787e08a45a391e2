"""A depth family in small: members differ in depth alone, all read the same tokens, and nothing is done twice."""

from __future__ import annotations

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
import yaml
from bathyscope_lab.recipes import read_recipe
from matplotlib.figure import Figure

import bathyscope
from bathyscope.errors import ModelError, OptionError, PromptError, StoreError
from studies.common.program import main
from studies.depth_family import command, figure
from studies.depth_family.command import app
from studies.depth_family.experiment import ONE_SEED, DepthFamily, depth_family
from studies.depth_family.members import FAMILY, members_of

pytestmark = pytest.mark.filterwarnings("ignore:Maps are fitted to")

SCORES = ["depth_score_layer", "depth_score_output"]
SMALL: dict[str, Any] = {
    "data": {"mix": {"books": 1.0}, "tokens": 3000, "tokenizer_characters": 8000},
    "stages": [{"context": 48, "batch": 4}],
    "budget": {"steps": 4},
    "evaluation": {"every": 4, "tokens": 200, "final_tokens": 200},
}
PROMPTS = [
    bathyscope.Prompt(text=f"Tom has {n} cups and {n + 2} plates. He has {2 * n + 2}", answer=f" {2 * n + 2}")
    for n in range(3, 9)
]


@pytest.fixture(scope="module")
def recipes(tmp_path_factory: pytest.TempPathFactory, text_recipe: Any) -> dict[str, str]:
    """Files of recipes: two and four blocks with norms before, four with norms behind."""
    folder = tmp_path_factory.mktemp("recipes")
    made = {}
    for name, kind, blocks in (("two", "llama", 2), ("four", "llama", 4), ("four_post", "olmo2", 4)):
        recipe = text_recipe(**SMALL, name=name)
        content = recipe.to_dict()
        content["model"] |= {"type": kind, "num_hidden_layers": blocks}
        made[name] = str(folder / f"{name}.yaml")
        Path(made[name]).write_text(yaml.safe_dump(content), encoding="utf-8")
    return made


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("family")


@pytest.fixture(scope="module")
def options(recipes: dict[str, str]) -> DepthFamily:
    return DepthFamily(recipes=tuple(recipes.values()), seeds=(0, 1), prompts=PROMPTS, maps=True, resamples=20)


@pytest.fixture(scope="module")
def found(options: DepthFamily, folder: Path, data_root: Path) -> xr.Dataset:
    return depth_family(options, folder, data_root, device="cpu", progress=False)


@pytest.mark.thorough
def test_members_and_their_losses(found: xr.Dataset, folder: Path) -> None:
    names = ["two-seed-0", "two-seed-1", "four-seed-0", "four-seed-1", "four_post-seed-0", "four_post-seed-1"]
    assert list(found.member.values) == names
    assert list(found.blocks.values) == [2, 2, 4, 4, 4, 4]
    assert list(found.member_norms.values) == ["pre"] * 4 + ["post"] * 2
    assert list(found.tokens.values) == [4 * 4 * 48] * 6
    assert bool(((found.loss > 3) & (found.loss < 7)).all())
    assert len(set(found.loss.values.ravel().tolist())) == 6
    assert found.attrs["note"] == ""


@pytest.mark.thorough
def test_every_seed_reads_the_tokens_of_the_first(found: xr.Dataset, folder: Path) -> None:
    texts = [(folder / "models" / name / "tokenizer.json").read_bytes() for name in found.member.values]
    assert all(text == texts[0] for text in texts)


@pytest.mark.thorough
def test_depths_are_those_of_the_runs(found: xr.Dataset, folder: Path) -> None:
    run = bathyscope.open(folder / "runs" / "four-seed-1")
    estimators = run["effective_depth"]["estimator"].values.tolist()
    assert len(estimators) == 9
    assert list(found.estimator.values) == [*estimators, *SCORES]
    assert "depth_score" in run.measures
    own, mine = run["effective_depth"], found.sel(member="four-seed-1", estimator=estimators)
    np.testing.assert_array_equal(mine["depth"], own["depth"])
    np.testing.assert_allclose(mine["ratio"], own["ratio"])
    runs = [folder / "runs" / name for name in ("four-seed-1", "four-seed-0")]
    alone = bathyscope.compare(runs, resamples=20).runs.sel(run="four-seed-1")
    np.testing.assert_allclose(mine["ratio_low"], alone["ci_low"])
    assert float(mine["ratio"].sel(estimator="centre_of_mass")) > 0.25
    # blocks by the mean over prompts of what skipping them changes
    effect = run["depth_score"]["layer_effect"].sel(reduction="max").mean("prompt").values
    score = found["depth"].sel(member="four-seed-1", estimator="depth_score_layer")
    # in blocks done a position among blocks lies in their middles
    assert float(score) == pytest.approx(float((effect * (np.arange(4) + 0.5)).sum() / effect.sum()))


@pytest.mark.thorough
def test_trends_are_over_the_series_that_has_several_depths(found: xr.Dataset) -> None:
    assert list(found.norms.values) == ["pre"]
    own = found.sel(norms="pre", estimator="centre_of_mass")
    ratio = found["ratio"].sel(estimator="centre_of_mass").values
    assert float(own["slope"]) == pytest.approx(ratio[2:4].mean() - ratio[:2].mean())
    assert float(own["model_low"]) < float(own["prompt_low"]) <= float(own["slope"])


def test_two_members_are_trained_surveyed_and_told(recipes: dict[str, str], data_root: Path, tmp_path: Path) -> None:
    """What stands for the six members below, which are for ``make test-thorough``."""
    options = DepthFamily(recipes=(recipes["two"], recipes["four"]), prompts=PROMPTS, resamples=20)
    found = depth_family(options, tmp_path, data_root, device="cpu", progress=False)
    names = ["two-seed-0", "four-seed-0"]
    assert list(found.member.values) == names
    assert list(found.blocks.values) == [2, 4]
    assert found.attrs["note"] == ONE_SEED
    for name in names:
        own, mine = bathyscope.open(tmp_path / "runs" / name)["effective_depth"], found.sel(member=name)
        np.testing.assert_array_equal(mine["depth"].sel(estimator=own["estimator"]), own["depth"])
    ratio = found["ratio"].sel(estimator="centre_of_mass").values
    assert float(found["slope"].sel(norms="pre", estimator="centre_of_mass")) == pytest.approx(ratio[1] - ratio[0])
    files = [path for path in sorted(tmp_path.rglob("*")) if path.suffix in (".safetensors", ".nc")]
    before = [path.stat().st_mtime_ns for path in files]
    xr.testing.assert_identical(depth_family(options, tmp_path, data_root, device="cpu", progress=False), found)
    assert [path.stat().st_mtime_ns for path in files] == before


def test_the_place_of_norms_is_read_off_the_recipe(recipes: dict[str, str], tmp_path: Path) -> None:
    members = members_of(FAMILY, [0], [], [], tmp_path)
    assert [one.norms for one in members] == ["pre", "pre", "pre", "peri", "post", "mixed"]
    universal = ["model.type=bathyscope_universal", "model.post_norm_blocks=0"]
    (plain,) = members_of(["depth_12_mixed"], [0], [], universal, tmp_path)
    assert plain.norms == "bathyscope_universal"
    (post,) = members_of(["depth_12_mixed"], [0], [], ["model.post_norm_blocks=12"], tmp_path)
    assert post.norms == "post, of the sum"


def test_a_mixed_series_keeps_the_share_of_blocks_that_norm_the_sum(tmp_path: Path) -> None:
    def other(blocks: int, post: int, repeats: int = 1) -> str:
        changes = [f"model.group_size={blocks}", f"model.post_norm_blocks={post}", f"model.repeats={repeats}"]
        recipe = read_recipe("depth_12_mixed", [*changes, f"name=other_{blocks}_{post}_{repeats}"])
        path = tmp_path / f"{recipe.name}.yaml"
        path.write_text(yaml.safe_dump(recipe.to_dict()), encoding="utf-8")
        return str(path)

    assert len(members_of(["depth_12_mixed", other(24, 6)], [0], [], [], tmp_path)) == 2
    said = r"differ in model\.post_norm_blocks / group_size, so that a trend would not be one of depth"
    with pytest.raises(OptionError, match=said):
        members_of(["depth_12_mixed", other(24, 3)], [0], [], [], tmp_path)
    with pytest.raises(OptionError, match=r"differ in model\.repeats, so that"):
        members_of(["depth_12_mixed", other(4, 1, 3)], [0], [], [], tmp_path)


@pytest.mark.thorough
def test_placements_are_compared_with_the_member_of_their_depth_and_seed(found: xr.Dataset, folder: Path) -> None:
    pairs = [f"four_post-seed-{seed} − four-seed-{seed}" for seed in (0, 1)]
    assert list(found.pair.values) == pairs
    runs = [folder / "runs" / name for name in ("four-seed-0", "four_post-seed-0")]
    wanted = bathyscope.compare(runs, resamples=20).data.sel(estimator="settle")
    own = found.sel(pair=pairs[0], estimator="settle")
    assert float(own["difference"]) == float(wanted["difference"][0])
    assert float(own["difference_low"]) == float(wanted["ci_low"][0])


@pytest.mark.thorough
def test_profiles_are_means_over_prompts_of_each_boundary(found: xr.Dataset, folder: Path) -> None:
    for name, blocks in (("two-seed-1", 2), ("four_post-seed-0", 4)):
        run = bathyscope.open(folder / "runs" / name)
        own = found.sel(member=name)
        for key, wanted in (("largest", run["residual"]["largest"]), ("gradient", run["gradient"]["norm"])):
            np.testing.assert_allclose(own[key].values[: blocks + 1], wanted.mean("prompt").values)
            assert own[key].values[blocks + 1 :].size == 4 - blocks
            assert np.isnan(own[key].values[blocks + 1 :]).all()
            there = own.isel(boundary=slice(0, blocks + 1))
            assert (there[f"{key}_low"] <= there[key]).all()
            assert (there[key] <= there[f"{key}_high"]).all()


@pytest.mark.thorough
def test_maps_are_between_depths_and_placements(found: xr.Dataset, folder: Path) -> None:
    names = ["two-seed-0 → four-seed-0", "four-seed-0 → four_post-seed-0"]
    assert sorted(found["map"].values) == sorted(names)
    assert bool(found["map_deviation"].notnull().all())
    again = bathyscope.maps(
        *(folder / "models" / name for name in ("two-seed-0", "four-seed-0")), PROMPTS, resamples=20, progress=False
    )
    own = found.sel(map=names[0])
    np.testing.assert_allclose(own["map_deviation"], again["deviation"], rtol=1e-9)
    best = [float(again["r2"].isel(target=t)[s]) for t, s in enumerate(again["best_source"].values)]
    assert float(own["map_r2_least"].sel(direction="best_source")) == pytest.approx(min(best))


@pytest.mark.thorough
def test_what_is_finished_is_not_done_again(
    found: xr.Dataset, options: DepthFamily, folder: Path, data_root: Path
) -> None:
    files = [path for path in sorted(folder.rglob("*")) if path.suffix in (".safetensors", ".nc")]
    before = [path.stat().st_mtime_ns for path in files]
    again = depth_family(options, folder, data_root, device="cpu", progress=False)
    assert len(before) > 12
    assert [path.stat().st_mtime_ns for path in files] == before
    xr.testing.assert_identical(again, found)


@pytest.mark.thorough
def test_trained_folders_take_the_place_of_training(found: xr.Dataset, folder: Path, tmp_path: Path) -> None:
    models = tuple(str(folder / "models" / name) for name in ("two-seed-0", "four-seed-0"))
    own = DepthFamily(models=models, prompts=PROMPTS, resamples=20)
    given = depth_family(own, tmp_path, device="cpu", progress=False)
    assert not (tmp_path / "models").exists()
    assert given.attrs["note"] == ONE_SEED
    kept = found.sel(member=given.member.values)
    for name in ("loss", "depth", "ratio_low"):
        np.testing.assert_array_equal(given[name], kept[name])
    assert bool(given["model_low"].isnull().all())
    assert "pair" not in given.coords


@pytest.mark.thorough
@pytest.mark.parametrize("form", ["csv", "table"])
def test_the_command_shows_and_writes_what_was_found(
    form: str,
    found: xr.Dataset,
    folder: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked: list[Any] = []

    def asked_for(options: DepthFamily, out: Path, changes: tuple[str, ...], **named: Any) -> xr.Dataset:
        asked.append(((options, out), {**named, "changes": changes}))
        return found

    monkeypatch.setattr(command, "depth_family", asked_for)
    monkeypatch.setattr(figure, "draw", lambda data: Figure())
    arguments = ["--models", "a,b", "--seeds", "0,1", "--data", "texts", "--set", "budget.steps=3", "--format", form]
    shutil.copytree(folder / "maps", tmp_path / "maps")
    assert main(["--out", str(tmp_path), "--maps", *arguments], app, "python -m studies.depth_family") == 0
    drawn = [path.with_suffix(".png").read_bytes() for path in (tmp_path / "maps").glob("*.nc")]
    assert len(drawn) == found.sizes["map"]
    assert all(picture.startswith(b"\x89PNG") for picture in drawn)
    (options, out), named = asked[0]
    assert options == DepthFamily(models=("a", "b"), seeds=(0, 1), maps=True)
    assert (out, Path(named["data"]), named["changes"]) == (tmp_path, Path("texts"), ("budget.steps=3",))
    assert (tmp_path / "depth-family.png").read_bytes().startswith(b"\x89PNG")
    with xr.open_dataset(tmp_path / "depth-family.nc", engine="h5netcdf") as kept:
        np.testing.assert_array_equal(kept["slope"], found["slope"])
    printed = capsys.readouterr().out
    if form == "table":
        assert "Effective depth ratio, and its slope for each doubling of blocks" in printed
        assert "two-seed-0 → four-seed-0, best target: slope" in printed
        assert "Difference of the ratio by the place of norms" in printed
        assert "Ratios, and their differences, over seeds, with Student's intervals" in printed
        assert "Largest activations and gradients by boundary" in printed
        return
    rows = list(csv.DictReader(io.StringIO(printed)))
    of_seeds = [row for row in rows if row["seeds_of"] != ""]
    of_mass = [row for row in rows if row["estimator"] == "centre_of_mass" and row["seeds_of"] == ""]
    wanted = found.sel(estimator="centre_of_mass")
    members, (trend, *pairs) = of_mass[: found.sizes["member"]], of_mass[found.sizes["member"] :]
    assert [row["member"] for row in members] == found.member.values.tolist()
    assert [float(row["depth"]) for row in members] == wanted["depth"].values.tolist()
    assert float(trend["slope"]) == wanted["slope"].item()
    assert [float(row["books_loss"]) for row in members] == found["loss"].sel(text="books").values.tolist()
    assert [row["pair"] for row in pairs] == found.pair.values.tolist()
    assert [float(row["difference"]) for row in pairs] == wanted["difference"].values.tolist()
    assert sum(row["map"] != "" for row in rows) == 4
    placement = next(row for row in of_seeds if row["seeds_of"] == "four_post − four" and row["estimator"] == "settle")
    assert float(placement["mean"]) == pytest.approx(found["difference"].sel(estimator="settle").mean().item())
    boundaries = [row for row in rows if row["boundary"] != "" and row["seeds_of"] == ""]
    assert len(boundaries) == 2 * 3 + 4 * 5
    assert float(boundaries[-1]["gradient"]) == found["gradient"].isel(member=-1, boundary=4).item()


@pytest.mark.thorough
def test_maps_of_other_options_are_refused(found: xr.Dataset, options: DepthFamily, folder: Path) -> None:
    models = tuple(str(folder / "models" / name) for name in ("two-seed-0", "four-seed-0"))
    other = DepthFamily(models=models, prompts=PROMPTS, maps=True, resamples=60)
    with pytest.raises(StoreError, match="holds maps with other resamples; give the same models, prompts and options"):
        depth_family(other, folder, device="cpu", progress=False)


@pytest.mark.thorough
def test_other_tokens_are_refused(found: xr.Dataset, folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    shutil.copytree(folder / "models" / "four-seed-0", other)
    content = json.loads((other / "tokenizer.json").read_text(encoding="utf-8"))
    content["model"]["merges"] = content["model"]["merges"][:20]
    (other / "tokenizer.json").write_text(json.dumps(content), encoding="utf-8")
    models = (str(folder / "models" / "two-seed-0"), str(other))
    with pytest.raises(PromptError, match="four-seed-0 reads the prompts as other tokens than two-seed-0"):
        depth_family(DepthFamily(models=models, prompts=PROMPTS), tmp_path / "out", device="cpu", progress=False)


def test_members_differ_in_depth_alone(recipes: dict[str, str], tmp_path: Path) -> None:
    content = yaml.safe_load(Path(recipes["four"]).read_text(encoding="utf-8"))
    content["name"], content["optimisation"]["learning_rate"] = "faster", 0.02
    path = tmp_path / "faster.yaml"
    path.write_text(yaml.safe_dump(content), encoding="utf-8")
    said = "faster-seed-0 and two-seed-0 both have pre norms and differ in optimisation.learning_rate, so that"
    with pytest.raises(OptionError, match=said):
        members_of([recipes["two"], str(path)], [0], [], [], tmp_path)


def test_mistakes(recipes: dict[str, str], tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="The family has two-seed-0 twice; give each recipe and seed once"):
        members_of([recipes["two"], recipes["two"]], [0], [], [], tmp_path)
    with pytest.raises(OptionError, match="The family has no member; give recipes with at least one seed, or models"):
        members_of([], [0], [], [], tmp_path)
    with pytest.raises(ModelError, match=r"holds no recipe\.yaml and no training\.json; give folders that bathyscope"):
        members_of([], [], [str(tmp_path)], [], tmp_path)
    with pytest.raises(OptionError, match="resamples=0 is out of range; allowed: 1 or more"):
        DepthFamily(resamples=0)
