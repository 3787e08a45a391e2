"""Score regressed on layers: against statsmodels' formulas, least squares solved directly, and closed formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
import xarray as xr
from scipy import stats

from bathyscope.errors import OptionError
from bathyscope.statistics.depth_performance import CONDITION_LIMIT, VIF_LIMIT, regress

N = 40


def a_table(noise: float = 0.03, seed: int = 0) -> pd.DataFrame:
    """Models of unequal shape, with planted slopes and errors that grow with the layers."""
    draw = np.random.default_rng(seed)
    layers = draw.integers(6, 60, N).astype(float)
    d_model = 64.0 * draw.integers(8, 64, N)
    d_ff = draw.integers(2, 6, N) * d_model
    family = np.array([f"family {number % 12}" for number in range(N)])
    own = draw.normal(0, 0.05, 12)[np.arange(N) % 12]
    score = 0.2 + 0.004 * layers + 2e-5 * d_model - 1e-6 * d_ff + own + noise * layers / 30 * draw.normal(size=N)
    return pd.DataFrame({"family": family, "layers": layers, "d_model": d_model, "d_ff": d_ff, "score": score})


TABLE = a_table()


def regressed(
    table: pd.DataFrame = TABLE, covariates: tuple[str, ...] = ("d_model", "d_ff"), **options: Any
) -> xr.Dataset:
    found, _ = regressed_and_met(table, covariates, **options)
    return found


def regressed_and_met(
    table: pd.DataFrame, covariates: tuple[str, ...] = ("d_model", "d_ff"), **options: Any
) -> tuple[xr.Dataset, list[int]]:
    return regress(
        table["score"].to_numpy(),
        table["layers"].to_numpy(),
        {name: table[name].to_numpy() for name in covariates},
        table["family"].tolist(),
        **options,
    )


@pytest.mark.parametrize("kind", ["plain", "hc3", "clustered"])
@pytest.mark.parametrize("level", [0.95, 0.8])
def test_coefficients_and_errors_are_those_of_the_formula(kind: str, level: float) -> None:
    model = smf.ols("score ~ layers + d_model + d_ff", TABLE)
    codes = TABLE["family"].astype("category").cat.codes
    fit: Any = {
        "plain": lambda: model.fit(),
        "hc3": lambda: model.fit(cov_type="HC3", use_t=True),
        "clustered": lambda: model.fit(cov_type="cluster", cov_kwds={"groups": codes}, use_t=True),
    }[kind]()
    found = regressed(clustered=True, level=level)
    assert found["term"].values.tolist() == ["intercept", "layers", "d_model", "d_ff"]
    np.testing.assert_allclose(found.coefficient, fit.params, rtol=1e-8)
    errors = found.sel(errors=kind)
    np.testing.assert_allclose(errors.standard_error, fit.bse, rtol=1e-7)
    np.testing.assert_allclose(np.stack([errors.ci_low, errors.ci_high], 1), fit.conf_int(1 - level), rtol=1e-6)
    np.testing.assert_allclose(errors.p_value, fit.pvalues, rtol=1e-6)
    assert errors.degrees_of_freedom == (11 if kind == "clustered" else N - 4)
    assert (found.attrs["r2"], found.attrs["r2_adjusted"]) == (
        pytest.approx(fit.rsquared),
        pytest.approx(fit.rsquared_adj),
    )


def test_constants_of_families_leave_differences_within_families() -> None:
    fit = smf.ols("score ~ layers + d_model + d_ff + C(family)", TABLE).fit()
    found = regressed(fixed_effects=True)
    np.testing.assert_allclose(found.coefficient[1:], fit.params[["layers", "d_model", "d_ff"]], rtol=1e-8)
    np.testing.assert_allclose(
        found.sel(errors="plain").standard_error[1:], fit.bse[["layers", "d_model", "d_ff"]], rtol=1e-8
    )
    demeaned = TABLE.drop(columns="family") - TABLE.groupby("family").transform("mean")
    within = np.linalg.lstsq(demeaned[["layers", "d_model", "d_ff"]].to_numpy(), demeaned["score"].to_numpy())[0]
    np.testing.assert_allclose(found.coefficient[1:], within, rtol=1e-8)
    assert found.attrs["residual_degrees_of_freedom"] == N - 4 - 11
    # the intercept is that of the average model
    mean = TABLE[["layers", "d_model", "d_ff"]].mean().to_numpy()
    assert found.coefficient[0] + found.coefficient.values[1:] @ mean == pytest.approx(TABLE["score"].mean())


@pytest.mark.parametrize("fixed_effects", [False, True])
def test_planted_slopes_come_back_exactly_without_noise(fixed_effects: bool) -> None:
    table = TABLE.assign(score=0.1 + 0.004 * TABLE["layers"] + 2e-5 * TABLE["d_model"] - 1e-6 * TABLE["d_ff"])
    found = regressed(table, fixed_effects=fixed_effects)
    np.testing.assert_allclose(found.coefficient, [0.1, 0.004, 2e-5, -1e-6], rtol=1e-6)
    alone = regressed(table.assign(score=3 - 0.5 * table["layers"]), ())
    np.testing.assert_allclose(alone.coefficient, [3, -0.5], rtol=1e-9)
    np.testing.assert_allclose(alone.vif[1], 1)


def test_the_band_is_that_of_the_mean_response_by_its_closed_formula() -> None:
    found = regressed(level=0.9, points=7)
    x = np.stack([np.ones(N), *(TABLE[name] for name in ("layers", "d_model", "d_ff"))], 1)
    inverse = np.linalg.inv(x.T @ x)
    beta = inverse @ x.T @ TABLE["score"].to_numpy()
    residual = TABLE["score"].to_numpy() - x @ beta
    sigma2 = residual @ residual / (N - 4)
    leverage = np.einsum("ni,ij,nj->n", x, inverse, x)
    hc3 = inverse @ (x.T * (residual / (1 - leverage)) ** 2) @ x @ inverse
    t = stats.t.ppf(0.95, N - 4)
    np.testing.assert_array_equal(found["point"], np.linspace(TABLE["layers"].min(), TABLE["layers"].max(), 7))
    for place, layers in enumerate(found["point"]):
        at = np.array([1, layers, TABLE["d_model"].mean(), TABLE["d_ff"].mean()])
        assert found.mean_response[place] == pytest.approx(at @ beta)
        for kind, covariance in (("plain", sigma2 * inverse), ("hc3", hc3)):
            reach = t * np.sqrt(at @ covariance @ at)
            assert found.sel(errors=kind).band_low[place] == pytest.approx(at @ beta - reach)
            assert found.sel(errors=kind).band_high[place] == pytest.approx(at @ beta + reach)
    # narrowest in the middle, unlike a band made of the coefficient's interval alone, which has no width there
    width = found.sel(errors="plain").band_high - found.sel(errors="plain").band_low
    assert 0 < width.min() < width[0]
    assert width.values.argmin() not in (0, 6)


def test_partial_r2_is_what_a_term_adds_and_vif_what_others_know_of_it() -> None:
    found = regressed()
    names = ["layers", "d_model", "d_ff"]
    whole = smf.ols("score ~ layers + d_model + d_ff", TABLE).fit()
    for place, name in enumerate(names, start=1):
        others = " + ".join(own for own in names if own != name)
        without = smf.ols(f"score ~ {others}", TABLE).fit()
        assert found.partial_r2[place] == pytest.approx((without.ssr - whole.ssr) / without.ssr)
        assert found.vif[place] == pytest.approx(1 / (1 - smf.ols(f"{name} ~ {others}", TABLE).fit().rsquared))
    assert np.isnan([found.partial_r2[0], found.vif[0]]).all()
    eigenvalues = np.linalg.eigvalsh(TABLE[names].corr())
    assert found.attrs["condition_number"] == pytest.approx(np.sqrt(eigenvalues[-1] / eigenvalues[0]))


@pytest.mark.parametrize("fixed_effects", [False, True])
def test_the_line_through_the_adjusted_points_is_the_mean_response(fixed_effects: bool) -> None:
    found = regressed(fixed_effects=fixed_effects)
    slope, offset = np.polyfit(found.adjusted_layers, found.adjusted_score, 1)
    assert slope == pytest.approx(found.coefficient[1])
    np.testing.assert_allclose(offset + slope * found["point"], found.mean_response)


def test_sizes_that_grow_together_are_known_as_collinear() -> None:
    assert not (regressed().vif > VIF_LIMIT).any()
    draw = np.random.default_rng(1)
    grown = TABLE.assign(d_model=64 * TABLE["layers"] + 20 * draw.normal(size=N))
    found = regressed(grown, ("d_model",))
    assert (found.vif[1:] > VIF_LIMIT).all()
    assert found.attrs["condition_number"] > CONDITION_LIMIT


def test_the_only_model_of_a_family_leaves_no_robust_errors() -> None:
    table = TABLE.assign(family=["alone", *TABLE["family"][1:]])
    found, met = regressed_and_met(table, fixed_effects=True)
    assert met == [0]
    assert np.isnan(found.sel(errors="hc3").standard_error).all()
    assert np.isnan(found.sel(errors="hc3").band_low).all()
    rest = regressed(table[1:], fixed_effects=True)
    np.testing.assert_allclose(found.coefficient[1:], rest.coefficient[1:], rtol=1e-8)
    np.testing.assert_allclose(
        found.sel(errors="plain").standard_error[1:], rest.sel(errors="plain").standard_error[1:]
    )
    assert np.isfinite(rest.sel(errors="hc3").standard_error).all()


@pytest.mark.thorough
def test_intervals_cover_the_planted_slope() -> None:
    covered = []
    for seed in range(500):
        table = TABLE.assign(score=0.004 * TABLE["layers"] + 0.05 * np.random.default_rng([seed, 1]).normal(size=N))
        found = regressed(table, points=2)
        covered.append(found["ci_low"].values[0, 1] <= 0.004 <= found["ci_high"].values[0, 1])
    assert 0.93 <= np.mean(covered) <= 0.97


@pytest.mark.parametrize(
    ("changed", "options", "said"),
    [
        ({"d_model": 512.0}, {}, "All models have the same d_model (512), which then explains nothing; leave it out"),
        ({"layers": 12.0}, {}, "All models have the same layers (12), which then explains nothing."),
        ({"score": 0.5}, {}, "All models have the same score (0.5)"),
        (
            {"d_ff": 4 * TABLE["d_model"]},
            {},
            "d_ff follows exactly from layers and d_model, so that no regression tells them apart. Leave one out",
        ),
        ({"d_model": TABLE["layers"] * 128}, {}, "d_model follows exactly from layers, so that"),
        (
            {"layers": TABLE["family"].astype("category").cat.codes.to_numpy(dtype=float) + 2},
            {"fixed_effects": True},
            "layers follows exactly from the families",
        ),
        ({"family": "one"}, {"clustered": True}, "All models are of one family; clustered errors need at least two"),
    ],
)
def test_mistakes(changed: dict[str, Any], options: dict[str, Any], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        regressed(TABLE.assign(**changed), **options)
    assert said in str(caught.value)


def test_too_few_models() -> None:
    with pytest.raises(OptionError, match="One model alone tells nothing of how models differ; give at least 5 models"):
        regressed(TABLE[:1])
    with pytest.raises(
        OptionError, match=r"4 models are too few for 4 parameters \(intercept, layers, d_model, d_ff\)"
    ):
        regressed(TABLE[:4])
    with pytest.raises(
        OptionError, match=r"12 models .* 15 parameters .* and 11 constants of families\); give at least 16"
    ):
        regressed(TABLE[:12], fixed_effects=True)
    assert regressed(TABLE[:5]).attrs["residual_degrees_of_freedom"] == 1
