"""Does a benchmark's score go with the number of layers, other things being equal? Least squares over models.

score = β₀ + β₁·layers + β₂·d_model + β₃·d_ff (+ a constant for each family) + ε. Models of one family grow in all
three at once, so that the regression often cannot tell them apart: the variance inflation factors say how far. The
confidence band is that of the regression, E[score | layers] with the covariates at their means, and includes what is
not known of every coefficient at once.
"""

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final

import numpy as np
import xarray as xr
from numpy.typing import NDArray
from statsmodels.regression.linear_model import OLS
from statsmodels.stats.outliers_influence import variance_inflation_factor

from bathyscope.core.arrays import FloatArray
from bathyscope.errors import OptionError
from bathyscope.labels import Label, Table, interval, labelled
from bathyscope.statistics.uncertainty import agree

LAYERS: Final = "layers"
INTERCEPT: Final = "intercept"
VIF_LIMIT: Final = 10.0
"""Variance inflation factor above which a coefficient is hardly told from the others."""
CONDITION_LIMIT: Final = 30.0
"""Condition number of the standardised predictors above which the same holds of all of them."""

_LEVERAGE_ONE = 1 - 1e-9

_SOURCE: Final = "least squares over models"
_PER_UNIT: Final = "score per unit of the term"
_by_term = partial(Label, "term", source=_SOURCE)
_by_errors = partial(Label, "errors term", units=_PER_UNIT, formula="Student's t", source=_SOURCE)
_band = partial(Label, "errors point", units="score", formula="x'β ± t·√(x'Vx)", source=_SOURCE)
_by_model = partial(Label, "model", formula="residual on covariates and families + mean", source=_SOURCE)
_MEAN: Final = "score to be expected of a model of so many layers, covariates at their means"
_TABLE: Final[Table] = {
    "coefficient": _by_term("coefficient", _PER_UNIT, "least squares"),
    "partial_r2": _by_term("share that a term explains of what the others leave", "1", "t²/(t² + df)"),
    "vif": _by_term("variance inflation factor", "1", "1/(1 − R² of the term on the other terms)"),
    "standard_error": _by_errors("standard error of the coefficient"),
    **interval("ci", _by_errors, "the coefficient's interval"),
    "p_value": _by_errors("two-sided p-value of a coefficient of 0", units="1"),
    "degrees_of_freedom": Label("errors", "degrees of freedom of Student's t", source=_SOURCE),
    "mean_response": Label("point", _MEAN, "score", "x'β", _SOURCE),
    **interval("band", _band, "the confidence band of the regression"),
    "adjusted_layers": _by_model("layers, covariates held constant", "layer"),
    "adjusted_score": _by_model("score, covariates held constant", "score"),
}


def regress(
    score: FloatArray,
    layers: FloatArray,
    covariates: Mapping[str, FloatArray],
    families: Sequence[str],
    *,
    fixed_effects: bool = False,
    clustered: bool = False,
    level: float = 0.95,
    points: int = 101,
) -> tuple[xr.Dataset, list[int]]:
    """Least squares of ``score`` on ``layers`` and covariates, all ``[models]``.

    Args:
        families: each model's family.
        fixed_effects: a constant for each family: only differences within families count.
        clustered: standard errors that allow models of one family to deviate together; they need many families.
        points: where the band is computed, evenly spaced.

    Returns:
        By ``term`` (intercept, layers, covariates; with constants of families the intercept is that of the average
        model), by ``errors`` (``plain``, ``hc3`` and, where asked for, ``clustered``), by ``point`` (layers, from the
        fewest to the most) and by ``model``. And the models that the regression meets exactly whatever their score, so
        that ``hc3`` does not exist.
    """
    predictors = {LAYERS: layers, **covariates}
    members = np.unique(np.asarray(families), return_inverse=True)[1]
    design, terms = _design(predictors, members if fixed_effects else None)
    _check(score, predictors, design, len(terms))
    fit = OLS(score, design).fit()
    full = np.flatnonzero(fit.get_influence().hat_matrix_diag > _LEVERAGE_ONE).tolist()
    robust = None if full else fit.get_robustcov_results("HC3", use_t=True)
    kinds = {"plain": fit, "hc3": robust, **(_by_family(fit, members) if clustered else {})}
    at = np.tile(design.mean(axis=0), (points, 1))
    at[:, 1] = np.linspace(layers.min(), layers.max(), points)
    others, slopes = np.delete(design, 1, axis=1), list(range(1, len(terms)))
    t = fit.tvalues[slopes]
    errors = [_errors(kind_fit, at, len(terms), level) for kind_fit in kinds.values()]
    values = {
        "coefficient": fit.params[: len(terms)],
        "partial_r2": np.array([math.nan, *(t**2 / (t**2 + fit.df_resid))]),
        "vif": np.array([math.nan, *(variance_inflation_factor(design, place) for place in slopes)]),
        **{name: np.array([kind_errors[name] for kind_errors in errors]) for name in errors[0]},
        "mean_response": at @ fit.params,
        "adjusted_layers": layers.mean() + OLS(layers, others).fit().resid,
        "adjusted_score": score.mean() + OLS(score, others).fit().resid,
    }
    centred = design[:, 1:] - design[:, 1:].mean(axis=0)
    attrs = {
        "r2": float(fit.rsquared),
        "r2_adjusted": float(fit.rsquared_adj),
        "residual_degrees_of_freedom": int(fit.df_resid),
        "condition_number": float(np.linalg.cond(centred / np.linalg.norm(centred, axis=0))),
    }
    coords = {"term": list(terms), "errors": list(kinds), "point": at[:, 1]}
    return labelled(_TABLE, {name: values[name] for name in _TABLE}, coords).assign_attrs(attrs), full


def _design(
    predictors: Mapping[str, FloatArray], members: NDArray[np.intp] | None
) -> tuple[FloatArray, tuple[str, ...]]:
    """``[models, parameters]``: ones, predictors, and a centred indicator of every family but the first."""
    columns = [np.ones(len(predictors[LAYERS])), *predictors.values()]
    if members is not None:
        indicators = (members[:, None] == np.arange(1, members.max() + 1)).astype(np.float64)
        columns += list((indicators - indicators.mean(axis=0)).T)
    return np.stack(columns, axis=1), (INTERCEPT, *predictors)


def _check(score: FloatArray, predictors: Mapping[str, FloatArray], design: FloatArray, terms: int) -> None:
    if len(score) == 1:
        raise OptionError(
            f"One model alone tells nothing of how models differ; give at least {design.shape[1] + 1} models."
        )
    for name, values in {**predictors, "score": score}.items():
        if agree(values):
            cure = "" if name in (LAYERS, "score") else f"; leave it out: covariates without {name!r}"
            raise OptionError(f"All models have the same {name} ({values[0]:g}), which then explains nothing{cure}.")
    models, parameters = design.shape
    if models <= parameters:
        what = ", ".join([INTERCEPT, *predictors])
        families = f" and {parameters - terms} constants of families" if parameters > terms else ""
        raise OptionError(
            f"{models} models are too few for {parameters} parameters ({what}{families}); give at least "
            f"{parameters + 1} models, or fewer covariates."
        )
    # columns of very unequal size, such as 24 layers and a width of 11008, must count alike
    scaled = design / np.linalg.norm(design, axis=0)
    for place, name in enumerate(predictors, start=1):
        columns = [column for column in range(design.shape[1]) if column <= place or column >= terms]
        if np.linalg.matrix_rank(scaled[:, columns], tol=1e-9) < len(columns):
            before = list(predictors)[: place - 1]
            of = " and ".join([*before, *(["the families"] if design.shape[1] > terms else [])])
            raise OptionError(
                f"{name} follows exactly from {of}, so that no regression tells them apart. Leave one out: choose the "
                "covariates (for example d_model alone, where d_ff is always 4·d_model), or do without the families."
            )


def _by_family(fit: Any, members: NDArray[np.intp]) -> dict[str, Any]:
    if members.max() < 1:
        raise OptionError(
            "All models are of one family; clustered errors need at least two, and ten or more to be good."
        )
    return {"clustered": fit.get_robustcov_results("cluster", groups=members, use_t=True)}


def _errors(fit: Any, at: FloatArray, terms: int, level: float) -> dict[str, Any]:
    """What one kind of covariance gives; NaN where it does not exist."""
    if fit is None:
        none, nowhere = np.full(terms, np.nan), np.full(len(at), np.nan)
        by_term = dict.fromkeys(("standard_error", "ci_low", "ci_high", "p_value"), none)
        return {**by_term, "band_low": nowhere, "band_high": nowhere, "degrees_of_freedom": math.nan}
    ends, band = fit.conf_int(1 - level), fit.t_test(at).conf_int(1 - level)
    return {
        "standard_error": fit.bse[:terms],
        "ci_low": ends[:terms, 0],
        "ci_high": ends[:terms, 1],
        "p_value": fit.pvalues[:terms],
        "band_low": band[:, 0],
        "band_high": band[:, 1],
        "degrees_of_freedom": float(getattr(fit, "df_resid_inference", None) or fit.df_resid),
    }
