"""Places of norms beside each other, on made-up runs whose differences are known, and what their seeds say together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from bathyscope_lab.model import build_model
from bathyscope_lab.train import train
from scipy import stats
from support.compared import a_run

from bathyscope import Run, load
from studies.depth_family.command import seed_rows
from studies.depth_family.members import Member, members_of
from studies.depth_family.placements import differences, placements
from studies.depth_family.profiles import PROFILES

SETTINGS = {"resamples": 100, "level": 0.95, "seed": 0}
SHIFTS = {"depth_12": (0.0, 0.02, 0.01), "depth_12_peri": (0.1, 0.15, 0.05)}
"""How much of the depth later each seed's curves cross."""
PAIRED = np.subtract(SHIFTS["depth_12_peri"], SHIFTS["depth_12"])


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> list[Member]:
    return members_of(list(SHIFTS), [0, 1, 2], [], [], Path(tmp_path_factory.mktemp("members")))


@pytest.fixture(scope="module")
def runs(members: list[Member]) -> list[Run]:
    return [
        a_run(model=f"own/{one.name}", blocks=12, shift=SHIFTS[one.recipe.name][one.recipe.seed]) for one in members
    ]


@pytest.fixture(scope="module")
def found(members: list[Member], runs: list[Run]) -> xr.Dataset:
    """As the experiment makes it, but for losses and trends, which seeds have no part in."""
    made = differences(members, runs, placements(members, runs), SETTINGS)
    ratio = [[SHIFTS[one.recipe.name][one.recipe.seed] + 0.6] for one in members]
    grown = np.arange(13.0) * np.arange(1, 7)[:, None]
    return made.assign(
        ratio=(("member", "estimator"), np.broadcast_to(ratio, (6, made.sizes["estimator"]))),
        **dict.fromkeys(PROFILES, (("member", "boundary"), grown)),
    ).assign_coords(
        member=[one.name for one in members],
        recipe=("member", [one.recipe.name for one in members]),
        blocks=("member", [12] * 6),
        boundary=np.arange(13),
    )


def test_each_seed_stands_beside_the_reference_of_its_own(found: xr.Dataset) -> None:
    assert found["pair"].values.tolist() == [f"depth_12_peri-seed-{n} − depth_12-seed-{n}" for n in range(3)]
    assert found["placement"].values.tolist() == ["depth_12_peri − depth_12"] * 3
    # settle depths of these runs are the same for each prompt but for the shift
    np.testing.assert_allclose(found["difference"].sel(estimator="settle"), PAIRED, atol=1e-12)
    # of six prompts that agree a share of all may be unlike them, with differences down to −1
    unseen = 1 - 0.025 ** (1 / 6)
    low = PAIRED - unseen * (PAIRED + 1)
    np.testing.assert_allclose(found["difference_low"].sel(estimator="settle"), low, atol=1e-12)


def test_seeds_together_have_students_interval(found: xr.Dataset) -> None:
    rows = seed_rows(found)
    (settle,) = [
        row for row in rows if (row["seeds_of"], row.get("estimator")) == ("depth_12_peri − depth_12", "settle")
    ]
    wanted = stats.ttest_rel(SHIFTS["depth_12_peri"], SHIFTS["depth_12"]).confidence_interval(0.95)
    np.testing.assert_allclose([settle["low"], settle["high"]], [wanted.low, wanted.high], atol=1e-12)
    assert settle["mean"] == pytest.approx(PAIRED.mean())
    assert (settle["least"], settle["most"]) == pytest.approx((PAIRED.min(), PAIRED.max()))
    (reference,) = [row for row in rows if (row["seeds_of"], row.get("estimator")) == ("depth_12", "settle")]
    wanted = stats.ttest_1samp(np.array(SHIFTS["depth_12"]) + 0.6, 0).confidence_interval(0.95)
    np.testing.assert_allclose([reference["low"], reference["high"]], [wanted.low, wanted.high])
    of_profiles = [row for row in rows if row.get("profile") == "gradient" and row["seeds_of"] == "depth_12_peri"]
    assert [row["boundary"] for row in of_profiles] == list(range(13))
    assert of_profiles[-1]["mean"] == 12 * (4 + 5 + 6) / 3


def test_one_seed_says_nothing_of_seeds(members: list[Member], runs: list[Run], found: xr.Dataset) -> None:
    first = found.isel(member=[0, 3], pair=[0])
    assert seed_rows(first) == []
    assert placements([members[0], members[4]], [runs[0], runs[4]]) == []


@pytest.mark.parametrize(("rate", "furthest"), [(1e-9, 2e-9), (1e-3, None)])
def test_a_step_at_no_rate_leaves_the_model_as_its_recipe_draws_it(
    rate: float, furthest: float | None, text_recipe: Any, data_root: Path, tmp_path: Path
) -> None:
    """What the page of experiments takes for untrained; at a real rate it would be told apart."""
    recipe = text_recipe(
        name="drawn",
        scaled_writes=True,
        data={"mix": {"books": 1.0}, "tokens": 3000, "tokenizer_characters": 8000},
        stages=[{"context": 48, "batch": 4}],
        budget={"tokens": 192},
        optimisation={"learning_rate": rate, "warmup_steps": 0},
        evaluation={"every": 4, "tokens": 200, "final_tokens": 200},
    )
    folder = train(recipe, tmp_path / "drawn", data_root, device="cpu", progress=False).folder
    trained = load(folder, dtype="float32", device="cpu")
    drawn = build_model(recipe.model, trained.tokenizer, recipe.context, recipe.seed, recipe.scaled_writes).state_dict()
    kept = trained.hf.state_dict()
    apart = max(float((kept[name] - weights).abs().max()) for name, weights in drawn.items())
    assert apart <= furthest if furthest is not None else apart > 1e-4
