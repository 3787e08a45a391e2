"""Depth against performance: a benchmark's score regressed on the number of layers, from a table of models."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bathyscope.analysis.options import DepthPerformanceOptions
from bathyscope.core.arrays import FloatArray
from bathyscope.core.calls import takes
from bathyscope.core.estimates import Estimate
from bathyscope.core.paths import given_path
from bathyscope.core.result import LabelledResult, tabulate_over
from bathyscope.core.text import level_text
from bathyscope.errors import OptionError, did_you_mean, warn
from bathyscope.labels import Label, labelled
from bathyscope.options import require_different
from bathyscope.prompts.files import read_rows
from bathyscope.statistics.depth_performance import CONDITION_LIMIT, LAYERS, VIF_LIMIT, regress

FEW_FAMILIES: Final = 10
"""Families below which clustered errors are known to be too small."""

_TEXTS: Final = ("name", "family")
COLUMNS: Final = (
    "term",
    "errors",
    "coefficient",
    "standard_error",
    "ci_low",
    "ci_high",
    "p_value",
    "partial_r2",
    "vif",
)
_PERCENT: Final = 10.0
"""Above it a score is no share."""
_POSITIVE: Final = (LAYERS, "d_model", "d_ff")
_ROWS: Final = "Rows are counted from 1, the header left out."


@takes(DepthPerformanceOptions)
def depth_performance(
    table: str | Path | pd.DataFrame,
    *,
    score: str = "score",
    covariates: Sequence[str] = ("d_model", "d_ff"),
    fixed_effects: bool = False,
    clustered: bool = False,
    level: float = 0.95,
) -> LabelledResult:
    """Least squares of a score on the number of layers, with other sizes of the models as covariates.

    Args:
        table: one row a model, as a DataFrame or a file (.csv, .jsonl, either may be gzipped, or .parquet). Columns:
            name, family, layers, the covariates, and the score; others are left aside.
        ...: the options of ``DepthPerformanceOptions``.

    Returns:
        A result; its ``data`` holds the following.
        By ``term`` (intercept, layers, covariates): coefficient, partial_r2 and vif (variance inflation factor). By
        ``errors`` and term: standard_error, ci_low, ci_high and p_value, where errors are plain, hc3 (robust against
        unequal variances) and, where asked for, clustered. By ``point`` (layers): mean_response, the score to be
        expected with the covariates at their means, and by errors and point its confidence band, band_low and
        band_high. By ``model``: its row, and adjusted_layers and adjusted_score, the partial-regression plot, in which
        the line of least squares is the mean response.

    Raises:
        OptionError: missing columns, values that are no numbers (with their rows), a model that is there twice, a
            column that does not vary, columns that follow from each other, or too few models.
        PromptError: the file cannot be read.

    Example:
        >>> import pandas as pd
        >>> sizes = {"name": list("abcdef"), "family": list("uvuvuv"), "layers": [6, 12, 18, 24, 30, 36]}
        >>> table = pd.DataFrame({**sizes, "score": [0.2, 0.3, 0.35, 0.5, 0.5, 0.7]})
        >>> found = bathyscope.depth_performance(table, covariates=[])
        >>> round(float(found.coefficient.sel(term="layers")), 4)
        0.0155
    """
    covariates = () if list(covariates) == ["none"] else covariates
    _require_others(covariates, score)
    if score in (*_TEXTS, LAYERS):
        raise OptionError(f"{score!r} cannot be the score, since it is a part of the regression already (--score).")
    rows = _rows(table)
    columns = list(dict.fromkeys([*_TEXTS, LAYERS, *covariates, score]))
    _require_columns(rows, columns)
    names, families = (_texts(rows, column) for column in _TEXTS)
    _require_different(names)
    numbers = {column: _numbers(rows, column) for column in columns if column not in _TEXTS}
    fit, exact = regress(
        numbers[score],
        numbers[LAYERS],
        {name: numbers[name] for name in covariates},
        families,
        fixed_effects=fixed_effects,
        clustered=clustered,
        level=level,
    )
    _warn_of_mixed_units(score, numbers[score])
    _warn(fit, [names[place] for place in exact], len(set(families)) if clustered else None)
    by_model = {"score" if name == score else name: values for name, values in numbers.items()}
    inputs = labelled({name: Label("model", name, "", source="given") for name in by_model}, by_model)
    counts = {"models": len(names), "families": len(set(families))}
    settings = {"score": score, "fixed_effects": int(fixed_effects), "level": level}
    data = (
        fit.assign(inputs.data_vars)
        .assign_coords(model=names, family=("model", families))
        .assign_attrs(counts | settings)
    )
    return LabelledResult(data, _conclude(data), _tabulate, figure="depth_performance")


def _tabulate(data: xr.Dataset) -> pd.DataFrame:
    return tabulate_over(data, COLUMNS, ("errors", "term"))


def _conclude(data: xr.Dataset) -> str:
    """Return what one layer more changes, how well the regression fits, and what it is of."""
    attrs = data.attrs
    of_layers = data.isel(errors=0).sel(term=LAYERS)
    return (
        f"One layer more changes {attrs['score']} by {Estimate.of(of_layers, 'coefficient', 'ci'):+.3g}. "
        f"{counted(data)}; R² {attrs['r2']:.3f} (adjusted {attrs['r2_adjusted']:.3f}), "
        f"{attrs['residual_degrees_of_freedom']} degrees of freedom; condition number of the "
        f"standardised predictors {attrs['condition_number']:.3g}. "
        f"{level_text(attrs['level'])} intervals."
    )


def counted(data: xr.Dataset) -> str:
    """``24 models of 4 families``."""
    families = data.attrs["families"]
    return f"{data.attrs['models']} models of {families} {'family' if families == 1 else 'families'}"


def _rows(table: str | Path | pd.DataFrame) -> Sequence[Mapping[Any, Any]]:
    if isinstance(table, pd.DataFrame):
        repeated = [str(name) for name, is_repeated in zip(table.columns, table.columns.duplicated()) if is_repeated]
        if repeated:
            raise OptionError(f"The table has several columns named {repeated[0]!r}; keep one, or rename the others.")
        return table.to_dict("records")
    if not isinstance(table, str | Path):
        raise OptionError(
            f"table={table!r} is no table; give a DataFrame, or the path of a file (.csv, .jsonl or .parquet)."
        )
    rows = list(read_rows(given_path(table, "table")))
    # a file's header may be padded with blanks
    return [{str(name).strip(): value for name, value in row.items()} for row in rows]


def _require_others(covariates: Sequence[str], score: str) -> None:
    require_different(covariates, "covariates")
    taken = [name for name in covariates if name in (*_TEXTS, LAYERS, score)]
    if taken:
        raise OptionError(
            f"{taken[0]!r} cannot be a covariate, since it is a part of the regression already; give other columns "
            "with numbers, such as d_model and d_ff, or none."
        )


def _require_columns(rows: Sequence[Mapping[Any, Any]], columns: Sequence[str]) -> None:
    if not rows:
        raise OptionError(f"The table has no rows; give one a model, with the columns {', '.join(columns)}.")
    present = list(dict.fromkeys(str(name) for row in rows for name in row))
    missing = [name for name in columns if name not in present]
    if missing:
        hints = "".join(did_you_mean(name, [name for name in present if name not in columns]) for name in missing[:1])
        raise OptionError(
            f"The table has no column {', '.join(map(repr, missing))}.{hints} It has: {', '.join(present)}. Needed: "
            f"{', '.join(columns)} (other names: score= and covariates=, --score and --covariates)."
        )


def _texts(rows: Sequence[Mapping[Any, Any]], column: str) -> list[str]:
    texts = ["" if _is_missing(row.get(column)) else str(row[column]).strip() for row in rows]
    empty = [str(number) for number, text in enumerate(texts, start=1) if not text]
    if empty:
        raise OptionError(f"{column} is missing in row {', '.join(empty)}; every model needs one. {_ROWS}")
    return texts


def _numbers(rows: Sequence[Mapping[Any, Any]], column: str) -> FloatArray:
    # Every row that is wrong is named at once: a table is mended in one go.
    numbers = np.array([_number(row.get(column)) for row in rows])
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        raise OptionError(f"{column} is not a number in {_places(rows, column, wrong)}. {_ROWS}")
    if column in _POSITIVE and (numbers <= 0).any():
        raise OptionError(f"{column} must be positive, and is not in {_places(rows, column, numbers <= 0)}. {_ROWS}")
    if column == LAYERS and (numbers % 1 != 0).any():
        raise OptionError(f"{column} is no whole number in {_places(rows, column, numbers % 1 != 0)}. {_ROWS}")
    return numbers


def _number(value: Any) -> float:
    if isinstance(value, bool | np.bool_):
        return math.nan
    try:
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _places(rows: Sequence[Mapping[Any, Any]], column: str, wrong: NDArray[np.bool_]) -> str:
    cells = []
    for place in np.flatnonzero(wrong).tolist():
        value = rows[place].get(column)
        cells.append(f"row {place + 1} ({'nothing' if _is_missing(value) else repr(value)})")
    return ", ".join(cells)


def _is_missing(value: Any) -> bool:
    # NaN, by which pandas marks an empty cell, is the one value that differs from itself.
    return value is None or value == "" or bool(value != value)


def _require_different(names: Sequence[str]) -> None:
    for name, times in Counter(names).items():
        if times > 1:
            places = [str(number) for number, other in enumerate(names, start=1) if other == name]
            raise OptionError(
                f"The model {name!r} stands in rows {', '.join(places)}; each counts once. Leave repeated rows out, or "
                f"give several benchmarks a column each (score=, --score). {_ROWS}"
            )


def _warn_of_mixed_units(column: str, scores: NDArray[np.float64]) -> None:
    """Warn where some scores look like shares and others like percent of the same."""
    sizes = np.abs(scores)
    shares, percents = int((sizes <= 1).sum()), int((sizes > _PERCENT).sum())
    if shares and percents and shares + percents == len(sizes):
        warn(
            f"{shares} of {len(sizes)} values of {column!r} are at most 1, and the others above {_PERCENT:g}: if some "
            "are shares and others percent, the regression is of the mixture. Give all in one unit."
        )


def _warn(fit: xr.Dataset, exact: Sequence[str], families: int | None) -> None:
    vif, condition = fit["vif"][1:], fit.attrs["condition_number"]
    if (vif > VIF_LIMIT).any() or condition > CONDITION_LIMIT:
        factors = ", ".join(f"{name} {factor:.3g}" for name, factor in zip(vif["term"].values, vif.values))
        warn(
            f"Layers and covariates grow together: variance inflation factors {factors} (large above {VIF_LIMIT:g}), "
            f"condition number {condition:.3g} (large above {CONDITION_LIMIT:g}). Their coefficients can "
            "hardly be told apart, which their intervals show; models of unequal shape would tell more.",
        )
    if exact:
        warn(
            f"The regression meets {', '.join(exact)} exactly whatever the score (the only model of its family?); "
            "robust errors (hc3) do not exist then.",
        )
    if families is not None and families < FEW_FAMILIES:
        warn(
            f"Errors clustered by {families} families are too small as a rule; {FEW_FAMILIES} families or more are "
            "needed.",
        )
