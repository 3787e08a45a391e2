"""``bathyscope.depth_performance``: tables from files and frames, labelled results, warnings and refusals."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import bathyscope
from bathyscope.errors import OptionError, PromptError
from bathyscope.statistics.depth_performance import regress

DRAW = np.random.default_rng(0)
N = 24
LAYERS = DRAW.integers(6, 60, N)
D_MODEL = 64 * DRAW.integers(8, 64, N)
D_FF = D_MODEL * DRAW.integers(1, 9, N)
TABLE = pd.DataFrame(
    {
        "name": [f"model {number}" for number in range(N)],
        "family": [f"family {number % 4}" for number in range(N)],
        "layers": LAYERS,
        "d_model": D_MODEL,
        "d_ff": D_FF,
        "score": 0.2 + 0.004 * LAYERS + 0.03 * DRAW.normal(size=N),
        "hellaswag": 0.4 + 0.03 * DRAW.normal(size=N),
        "note": "left aside",
    }
)


@pytest.fixture(autouse=True)
def no_unexpected_warning() -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_every_number_is_that_of_the_statistics() -> None:
    found = bathyscope.depth_performance(TABLE, level=0.9)
    fit, _ = regress(
        TABLE["score"].to_numpy(float),
        LAYERS.astype(float),
        {"d_model": D_MODEL.astype(float), "d_ff": D_FF.astype(float)},
        TABLE["family"].tolist(),
        level=0.9,
    )
    assert found["term"].values.tolist() == ["intercept", "layers", "d_model", "d_ff"]
    assert found["errors"].values.tolist() == ["plain", "hc3"]
    for name in (*fit.data_vars, *fit.coords):
        np.testing.assert_array_equal(found[name].values, fit[name].values, err_msg=str(name))
    np.testing.assert_array_equal(found["layers"].values, LAYERS)
    assert found["family"].values.tolist() == TABLE["family"].tolist()
    assert (found.attrs["models"], found.attrs["families"], found.attrs["level"]) == (N, 4, 0.9)
    for name, values in found.data_vars.items():
        assert {"long_name", "units", "formula", "source"} <= set(values.attrs), name


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".jsonl", ".parquet"])
def test_files_are_tables_too(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"models{suffix}"
    if suffix == ".jsonl":
        TABLE.to_json(path, orient="records", lines=True, double_precision=15)
    elif suffix == ".parquet":
        TABLE.to_parquet(path)
    else:
        TABLE.to_csv(path, index=False)
    found, wanted = bathyscope.depth_performance(str(path)), bathyscope.depth_performance(TABLE)
    np.testing.assert_allclose(found["coefficient"].values, wanted["coefficient"].values, rtol=1e-9)
    assert found["model"].values.tolist() == wanted["model"].values.tolist()


def test_other_columns_can_be_chosen() -> None:
    found = bathyscope.depth_performance(
        TABLE.drop(columns=["score", "d_ff"]), score="hellaswag", covariates=["d_model"]
    )
    assert found["term"].values.tolist() == ["intercept", "layers", "d_model"]
    np.testing.assert_array_equal(found["score"].values, TABLE["hellaswag"])
    alone = bathyscope.depth_performance(TABLE, covariates=[])
    np.testing.assert_allclose(alone["coefficient"].values[::-1], np.polyfit(LAYERS, TABLE["score"], 1))
    np.testing.assert_allclose(alone["adjusted_layers"].values, LAYERS)


def test_fixed_effects_hold_the_family_constant() -> None:
    moved = TABLE.assign(score=TABLE["score"] + 3 * (TABLE["family"] == "family 2"))
    found, wanted = (bathyscope.depth_performance(table, fixed_effects=True) for table in (moved, TABLE))
    np.testing.assert_allclose(found["coefficient"].values[1:], wanted["coefficient"].values[1:], rtol=1e-6)
    assert found.attrs["fixed_effects"] == 1


def test_what_cannot_be_told_apart_is_said() -> None:
    grown = TABLE.assign(d_model=64 * LAYERS + DRAW.integers(-8, 9, N))
    with pytest.warns(
        UserWarning, match=r"inflation factors layers \d+.*, d_model .*condition number .* hardly be told"
    ):
        bathyscope.depth_performance(grown, covariates=["d_model"])
    lonely = TABLE.assign(family=["alone", *TABLE["family"][1:]])
    with pytest.warns(UserWarning, match="The regression meets model 0 exactly whatever the score"):
        bathyscope.depth_performance(lonely, fixed_effects=True)
    with pytest.warns(UserWarning, match="Errors clustered by 4 families are too small as a rule; 10 families or more"):
        found = bathyscope.depth_performance(TABLE, clustered=True)
    assert found["errors"].values.tolist() == ["plain", "hc3", "clustered"]


def changed(column: str, values: dict[int, Any]) -> pd.DataFrame:
    """The table with some values of a column replaced."""
    given = TABLE[column].astype(object)
    for row, value in values.items():
        given[row] = value
    return TABLE.assign(**{column: given})


@pytest.mark.parametrize(
    ("table", "options", "said"),
    [
        (
            TABLE.rename(columns={"layers": "n_layers", "d_ff": "ffn"}),
            {},
            "The table has no column 'layers', 'd_ff'. Did you mean 'n_layers'? It has: name, family, n_layers, "
            "d_model, ffn, score, hellaswag, note. Needed: name, family, layers, d_model, d_ff, score (other names:",
        ),
        (TABLE, {"score": "mmlu"}, "The table has no column 'mmlu'."),
        (TABLE[:0], {}, "The table has no rows; give one a model, with the columns name, family, layers"),
        (
            changed("layers", {1: "twelve", 3: "", 4: None}),
            {},
            "layers is not a number in row 2 ('twelve'), row 4 (nothing), row 5 (nothing). Rows are counted from 1",
        ),
        (changed("score", {0: float("inf")}), {}, "score is not a number in row 1 (inf)"),
        (changed("d_model", {2: "4,096"}), {}, "d_model is not a number in row 3 ('4,096')"),
        (changed("d_ff", {2: 0, 5: -4}), {}, "d_ff must be positive, and is not in row 3 (0), row 6 (-4)"),
        (changed("family", {7: " "}), {}, "family is missing in row 8; every model needs one"),
        (
            changed("name", {9: "model 2"}),
            {},
            "The model 'model 2' stands in rows 3, 10; each counts once. Leave repeated rows out, or give several",
        ),
        (TABLE[:3], {}, "3 models are too few for 4 parameters"),
        (TABLE.assign(d_ff=4 * D_MODEL), {}, "d_ff follows exactly from layers and d_model"),
        (TABLE, {"covariates": "layers"}, "'layers' cannot be a covariate, since it is a part of the regression"),
        (
            TABLE,
            {"covariates": ["d_ff", "d_ff"]},
            "covariates: 'd_ff' is given twice; give it once",
        ),
        (TABLE, {"covariates": ["layers"]}, "'layers' cannot be a covariate, since it is a part of the regression"),
    ],
)
def test_mistakes(table: pd.DataFrame, options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        bathyscope.depth_performance(table, **options)
    assert said in str(caught.value)


def test_mistakes_in_files(tmp_path: Path) -> None:
    path = tmp_path / "models.csv"
    path.write_text("name,family,layers,d_model,d_ff,score\na,b,1,2,3,0.5\nc,d,1,2,3,0,5\n", encoding="utf-8")
    with pytest.raises(PromptError, match="line 3: more values than the 6 columns; put a value that holds commas in"):
        bathyscope.depth_performance(path)
    path.write_text("name;family;layers;d_model;d_ff;score\na;b;1;2;3;0.5\n", encoding="utf-8")
    with pytest.raises(PromptError, match=r"its columns are separated by ';'; write it with commas between them"):
        bathyscope.depth_performance(path)
    path.write_text("model,family,layers\na,b,1\n", encoding="utf-8")
    with pytest.raises(OptionError, match=r"It has: model, family, layers\. Needed: name, family"):
        bathyscope.depth_performance(path)
    with pytest.raises(PromptError, match=r"model\.csv does not exist\. Did you mean 'models\.csv'\?"):
        bathyscope.depth_performance(tmp_path / "model.csv")
    with pytest.raises(PromptError, match=r"unknown kind of file; allowed: \.jsonl"):
        bathyscope.depth_performance(path.rename(tmp_path / "models.xlsx"))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"table": 3}, "table=3 is no table; give a DataFrame, or the path of a file"),
        ({"table": None}, "table=None is no table"),
        ({"score": 3}, "score takes a text; 3 given."),
        ({"covariates": [["d_model"]]}, r"covariates takes a text; \['d_model'\] given."),
        ({"covariates": None}, "covariates takes a list; None given."),
        ({"level": "0.9"}, "level takes a number; '0.9' given."),
        ({"level": 95.0}, "level=95.0 is out of range; allowed: 0.01 to 0.9999."),
        ({"fixed_effects": "yes"}, "fixed_effects takes true or false; 'yes' given."),
    ],
)
def test_arguments_of_another_type_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError, match=said):
        bathyscope.depth_performance(**{"table": TABLE, **given})


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({}, {"score": "layers"}, "'layers' cannot be the score"),
        ({}, {"score": "family"}, "'family' cannot be the score"),
        ({"score": LAYERS.mean() < LAYERS}, {}, r"score is not a number in row 1 \("),
        ({"layers": LAYERS + 0.6}, {}, r"layers is no whole number in row 1 \("),
    ],
)
def test_columns_that_are_no_score_or_no_layers(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        bathyscope.depth_performance(TABLE.assign(**changes), **options)


def test_a_column_that_stands_twice() -> None:
    with pytest.raises(OptionError, match=r"several columns named 'score'; keep one"):
        bathyscope.depth_performance(pd.concat([TABLE, TABLE[["score"]] * 2], axis=1))


def test_no_covariates_can_be_said_in_words() -> None:
    """As in a shell, where an empty list cannot be written."""
    found = bathyscope.depth_performance(TABLE, covariates="none").data
    assert found.identical(bathyscope.depth_performance(TABLE, covariates=[]).data)
    assert found.term.values.tolist() == ["intercept", "layers"]


@pytest.mark.parametrize(("factors", "is_mixed"), [([100, 1], True), ([100, 100], False), ([1, 1], False)])
def test_shares_and_percent_in_one_column_are_said(factors: list[float], is_mixed: bool) -> None:
    scores = (0.3 + 0.4 * TABLE["score"].rank(pct=True)) * np.resize(factors, len(TABLE))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        bathyscope.depth_performance(TABLE.assign(score=scores))
    assert any("if some are shares and others percent" in str(warning.message) for warning in caught) is is_mixed
