"""``bathyscope.group``: each group as a run of its own prompts, differences, tests, and clear refusals."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest
import xarray as xr
from statsmodels.stats.multitest import multipletests
from support import zoo
from support.compared import a_run, without

import bathyscope
from bathyscope.analysis.depths.side import sides_of
from bathyscope.errors import OptionError
from bathyscope.runs.run import Run
from bathyscope.statistics.difference import two_sample_difference
from bathyscope.statistics.effective_depth import ESTIMATORS, effective_depth
from bathyscope.statistics.permutation import permutation_p
from bathyscope.statistics.sampling import Sampling

CLASSES = ["both"] * 7 + ["neither"] * 6 + ["only deep"] * 8
QUICK = {"resamples": 100, "permutations": 99}


def a_labelled_run(**changes: object) -> Run:
    return a_run(prompts=21, labels={"solved_by": CLASSES}, spread=0.1, **changes)  # type: ignore[arg-type]


RUN = a_labelled_run()


def test_a_group_is_the_run_of_its_prompts_alone() -> None:
    found = bathyscope.group(RUN, "solved_by", level=0.9, seed=3, **QUICK)
    assert found["group"].values.tolist() == ["neither", "only deep", "both"]
    assert found["prompts"].values.tolist() == [6, 8, 7]
    (side,) = sides_of([RUN])
    for name in found["group"].values:
        own = side.where(np.array(CLASSES) == name, str(name))
        wanted = effective_depth(own.curves, Sampling(100, level=0.9, seed=3))
        for estimator in ESTIMATORS:
            cell = found.sel(group=name, estimator=estimator)
            assert cell["value"].item() == pytest.approx(wanted[estimator].ratio, abs=1e-12)
            assert cell["depth"].item() == pytest.approx(wanted[estimator].depth, abs=1e-12)
            assert cell["ci_low"].item() == pytest.approx(wanted[estimator].ci_low / 10)
            assert cell["ci_high"].item() == pytest.approx(wanted[estimator].ci_high / 10)
            assert (cell["n"].item(), cell["reason"].item()) == (int(cell["prompts"]), "")


def test_differences_are_those_of_two_samples_and_corrected_together() -> None:
    found = bathyscope.group(RUN, "solved_by", seed=3, **QUICK)
    assert found["pair"].values.tolist() == ["only deep − neither", "both − neither", "both − only deep"]
    readings = sides_of([RUN])[0].readings()
    for pair in found["pair"].values:
        one = found.sel(pair=pair)
        members = [np.array(CLASSES) == one[side].item() for side in ("reference", "other")]
        for estimator in ESTIMATORS:
            first, second = (readings[estimator].take(member) for member in members)
            cell = one.sel(estimator=estimator)
            wanted = two_sample_difference(first, second, Sampling(100, seed=3))
            for name, field in {
                "difference": "estimate",
                "difference_low": "ci_low",
                "difference_high": "ci_high",
                "effect_size": "effect_size",
            }.items():
                np.testing.assert_equal(cell[name].item(), getattr(wanted, field), err_msg=f"{estimator}: {name}")
            whole = estimator in ("cosine", "kl", "overlap")
            p = np.nan if whole else permutation_p(first, second, permutations=99, seed=3)
            np.testing.assert_equal(cell["p_value"].item(), p)
    numbers = found[["p_value", "p_holm"]].to_dataframe()[["p_value", "p_holm"]].reset_index()
    tested = numbers[numbers["p_value"].notna()]
    assert len(tested) == 3 * 6
    np.testing.assert_allclose(tested["p_holm"], multipletests(tested["p_value"], method="holm")[1])
    assert numbers["p_holm"][numbers["p_value"].isna()].isna().all()


def test_a_planted_difference_is_found_and_its_absence_is_not() -> None:
    shifted = a_run(prompts=20, spread=0.02, seed=1)
    depth = shifted["lens"]["settle_depth"].copy(
        data=shifted["lens"]["settle_depth"].values + np.repeat([0.0, 2.0], 10)
    )
    tree = {
        f"/{name}": shifted[name].assign_coords(hops=("prompt", np.repeat([2, 3], 10))) for name in shifted.measures
    }
    tree["/lens"] = tree["/lens"].assign(settle_depth=depth)
    run = Run(xr.DataTree.from_dict(tree), shifted.manifest)
    found = bathyscope.group(run, "hops", estimators=["settle", "prediction"], resamples=500)
    one = found.sel(pair="3 − 2")
    assert one["difference"].sel(estimator="settle").item() == pytest.approx(0.2, abs=0.03)
    assert one["difference_low"].sel(estimator="settle").item() > 0.15
    assert one["p_value"].sel(estimator="settle").item() < 0.001
    assert one["p_holm"].sel(estimator="settle").item() == 2 * one["p_value"].sel(estimator="settle").item()
    assert one["p_value"].sel(estimator="prediction").item() > 0.05


def test_clusters_within_groups_are_dealt_whole_and_others_paired() -> None:
    within = [f"{name}{place % 3}" for place, name in enumerate(CLASSES)]
    across = [place % 4 for place in range(21)]
    run = a_run(prompts=21, labels={"solved_by": CLASSES, "book": within, "image": across}, spread=0.1)
    reading = sides_of([run])[0].readings()["settle"]
    for label, values in (("book", within), ("image", across)):
        found = bathyscope.group(run, "solved_by", cluster=label, estimators=["settle"], **QUICK)
        one = found.sel(pair="both − only deep", estimator="settle")
        number = np.array([list(dict.fromkeys(values)).index(value) for value in values])
        first, second = (
            replace(reading, cluster=number).take(np.array(CLASSES) == name) for name in ("only deep", "both")
        )
        wanted = two_sample_difference(first, second, Sampling(100))
        assert (one["difference_low"].item(), one["difference_high"].item()) == (wanted.ci_low, wanted.ci_high)
        p = permutation_p(first, second, permutations=99) if label == "book" else wanted.p_value
        assert one["p_value"].item() == p
        assert found.attrs["cluster"] == label
    own = bathyscope.group(run, "solved_by", cluster="book", **QUICK).sel(group="both", estimator="settle")
    plain = bathyscope.group(run, "solved_by", **QUICK).sel(group="both", estimator="settle")
    assert own["value"].item() == plain["value"].item()
    assert own["ci_low"].item() != plain["ci_low"].item()


def test_groups_of_few_clusters_are_reported() -> None:
    run = a_run(prompts=21, labels={"solved_by": CLASSES, "book": [place // 4 for place in range(21)]}, spread=0.1)
    with pytest.warns(UserWarning, match=r"Groups of fewer than 3 clusters: both \(2\)\. Their intervals say next"):
        bathyscope.group(run, "solved_by", cluster="book", estimators=["settle"], **QUICK)
    with pytest.raises(OptionError, match=r"no label 'boo'. Did you mean 'book'"):
        bathyscope.group(run, "solved_by", cluster="boo")


def test_small_groups_are_reported_with_a_warning() -> None:
    labels = {"solved_by": ["only deep", "", *["both"] * 4, *["neither"] * 5]}
    run = a_run(prompts=11, labels=labels)
    with (
        pytest.warns(UserWarning, match="1 of 11 prompts have no label 'solved_by' and belong to no group"),
        pytest.warns(
            UserWarning, match=r"Groups of fewer than 5 prompts: only deep \(1\), both \(4\)\. Their intervals"
        ),
    ):
        found = bathyscope.group(run, "solved_by", **QUICK)
    alone = found.sel(group="only deep")
    assert np.isfinite(alone["value"]).all()
    assert alone["ci_low"].isnull().all()
    assert alone["ci_high"].isnull().all()
    assert set(alone["reason"].values) == {"an interval needs at least two prompts with values, and there is one"}
    against = found.sel(pair="only deep − neither")
    assert np.isfinite(against["difference"]).all()
    assert against[["difference_low", "difference_high", "p_value", "p_holm"]].isnull().all()
    real = [name for name in ESTIMATORS if name not in ("cosine", "kl", "overlap")]
    assert found.sel(pair="both − neither", estimator=real)["p_value"].notnull().all()


def test_groups_stand_in_their_natural_order() -> None:
    def groups(values: list[object], by: str = "kind") -> list[str]:
        run = a_run(prompts=len(values), labels={by: values})
        return [str(name) for name in bathyscope.group(run, by, estimators=["settle"], **QUICK)["group"].values]

    assert groups([10, 9, 10, 9] * 3) == ["9", "10"]
    assert groups([1234568, 1234567] * 5) == ["1234567", "1234568"]
    assert groups([0.1234568, 0.1234567, 2.0] * 5) == ["0.1234567", "0.1234568", "2"]
    assert groups(["Level 10", "Level 9", "easy"] * 5) == ["Level 9", "Level 10", "easy"]
    assert groups(["both", "only shallow", "only deep", "neither"] * 5) == [
        *("neither", "only shallow", "only deep", "both"),
    ]


def test_the_data_sets_of_a_union_are_groups() -> None:
    run = a_run(prompts=12)
    where = np.array(["gsm8k:6"] * 6 + ["aime2024:6"] * 6, dtype=object)
    tree = {f"/{name}": run[name].assign_coords(dataset=("prompt", where)) for name in run.measures}
    found = bathyscope.group(Run(xr.DataTree.from_dict(tree), run.manifest), "dataset", **QUICK)
    assert found["group"].values.tolist() == ["gsm8k:6", "aime2024:6"]


@pytest.fixture(scope="module")
def surveyed() -> Run:
    """A survey with every depth measure, on prompts of two levels with answers."""
    model = zoo.build("llama")
    prompts = [
        bathyscope.Prompt(ids=ids, answer_tokens=3, labels={"level": 1 + number % 2})
        for number, ids in enumerate(zoo.prompts(model, (22, 30) * 5))
    ]
    return bathyscope.survey(model, prompts, ["effective_depth", "depth_score"], progress=False)


def test_depth_scores_are_those_of_the_measure_by_level(surveyed: Run) -> None:
    found = bathyscope.group(surveyed, "level", resamples=1000, permutations=99)
    measured = surveyed["depth_score"].sel(reduction="mean")
    for kind in ("layer", "output"):
        own = found.sel(estimator=f"depth_score_{kind}")
        np.testing.assert_allclose(own["depth"].values, measured[f"score_{kind}"].values + 0.5, rtol=1e-9)
        for end in ("ci_low", "ci_high"):
            wanted = measured[end].sel(score=kind).values
            np.testing.assert_allclose(own[end].values * 5 - 0.5, wanted, rtol=1e-6, err_msg=f"{kind} {end}")
    lens = surveyed["lens"]
    for level, group in ((1, "1"), (2, "2")):
        chosen = lens["level"].values == level
        share = np.average(lens["deep_thinking_ratio"].values[chosen], weights=lens["n_tokens"].values[chosen])
        cell = found.sel(estimator="deep_thinking_ratio", group=group)
        assert cell["value"].item() == pytest.approx(share)
        assert np.isnan(cell["depth"].item())
    assert found["estimator"].values[-3:].tolist() == [
        *("deep_thinking_ratio", "depth_score_layer", "depth_score_output"),
    ]


def test_a_run_of_depth_scores_alone_is_enough(surveyed: Run) -> None:
    alone = without(surveyed, "residual", "lens", "skip", "effective_depth", "noise")
    assert alone.measures == ("depth_score",)
    found = bathyscope.group(alone, "level", **QUICK)
    assert found["estimator"].values.tolist() == ["depth_score_layer", "depth_score_output"]
    assert found["group"].values.tolist() == ["1", "2"]


def test_a_group_that_agrees_has_the_interval_that_its_number_leaves_open() -> None:
    alike = a_run(prompts=21, labels={"solved_by": CLASSES}, spread=0.0)
    result = bathyscope.group(alike, "solved_by", estimators=["prediction"], **QUICK)
    for number, name in ((6, "neither"), (7, "both"), (8, "only deep")):
        cell = result.data.sel(group=name, estimator="prediction")
        # of n prompts that agree, a share 1 − 0.025^(1/n) of all may be unlike them, anywhere from 0 to L
        others, value = 1 - 0.025 ** (1 / number), cell["value"].item()
        assert cell["ci_low"].item() == pytest.approx(value - others * value)
        assert cell["ci_high"].item() == pytest.approx(value + others * (1 - value))


@pytest.mark.parametrize(
    ("positions", "estimators", "named"),
    [
        ("all", ["prediction", "kl"], "(prediction, kl)"),
        ("answer", ["prediction", "cosine"], "(cosine)"),
        ("answer", ["prediction", "deep_thinking_ratio"], ""),
    ],
)
def test_means_over_tokens_that_prompts_share_are_reported(positions: str, estimators: list[str], named: str) -> None:
    model = zoo.build("llama")
    first, *others = zoo.prompts(model, (14, *[4] * 10))
    prompts = [
        bathyscope.Prompt(ids=[*first, *ids], answer_tokens=1, labels={"level": number % 2})
        for number, ids in enumerate(others)
    ]
    options = {"lens": {"positions": positions}}
    run = bathyscope.survey(model, prompts, ["residual", "lens"], progress=False, **options)  # type: ignore[arg-type]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bathyscope.group(run, "level", estimators=estimators, **QUICK)
    texts = [str(warning.message) for warning in caught if "in beginnings that prompts share" in str(warning.message)]
    assert len(texts) == bool(named)
    if named:
        # 14 of the 18 tokens of each are the same, and what comes after them begins alike by chance at most
        assert texts[0].startswith(("78 % of the tokens", "79 %", "80 %", "81 %", "82 %"))
        assert f"means over all tokens {named} say little" in texts[0]
    apart = bathyscope.survey(model, others, ["lens"], progress=False)
    assert apart.share_in_common < 0.5


@pytest.mark.parametrize(
    ("measures", "wanted"),
    [
        (("lens",), [name for name in ESTIMATORS if "cosine" not in name and name != "centre_of_mass"]),
        (("residual",), ["cosine", "interpolated_cosine"]),
        (("residual", "lens"), [name for name in ESTIMATORS if name != "centre_of_mass"]),
        (("skip",), ["centre_of_mass"]),
    ],
)
def test_each_estimator_needs_what_it_is_read_off_and_no_more(measures: tuple[str, ...], wanted: list[str]) -> None:
    whole = bathyscope.group(RUN, "solved_by", **QUICK)
    part = without(RUN, *(name for name in RUN.measures if name not in measures))
    result = bathyscope.group(part, "solved_by", **QUICK)
    assert result["estimator"].values.tolist() == wanted
    for name in ("value", "ci_low", "ci_high", "difference", "difference_low", "p_value"):
        np.testing.assert_array_equal(result[name].values, whole.data.sel(estimator=wanted)[name].values, err_msg=name)


@pytest.mark.parametrize(
    ("run", "options", "said"),
    [
        (RUN, {"by": "solved"}, "no label 'solved'. Did you mean 'solved_by'? Their labels: dataset, solved_by."),
        (RUN, {"by": "dataset"}, "All labelled prompts have the same dataset (made up); a comparison needs two."),
        (
            RUN,
            {"estimators": ["cosin"]},
            "This run has no estimator 'cosin'. Did you mean 'cosine'? Allowed: cosine, kl",
        ),
        (RUN, {"estimators": []}, "No estimator was chosen; give at least one of: cosine"),
        (RUN, {"permutations": 0}, "permutations=0 is out of range; allowed: 1 to 10000000."),
        (RUN, {"resamples": 0}, "resamples=0 is out of range; allowed: 20 to 10000000."),
        (RUN, {"seed": -1}, "seed=-1 is out of range; allowed: 0 to 4294967295."),
        (
            a_run(prompts=13, labels={"solved_by": list(range(13))}),
            {},
            "The label 'solved_by' has 13 values (0, 1, 2, 3 …), and groups are compared pair by pair; at most 12",
        ),
    ],
)
def test_mistakes(run: Run, options: dict[str, object], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        bathyscope.group(run, **{"by": "solved_by", **options})  # type: ignore[arg-type]
    assert said in str(caught.value)
