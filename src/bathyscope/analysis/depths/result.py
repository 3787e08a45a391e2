"""What a comparison gives: labelled arrays over comparisons and estimators, and how to read them as a whole."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from bathyscope.analysis.depths.cohorts import Contrasted, columns_of, ends_of
from bathyscope.analysis.depths.leading import Leading, lead_text
from bathyscope.analysis.depths.questions import DIFFERENCE, ComparisonPlan
from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.core.arrays import collect
from bathyscope.core.result import TabledResult
from bathyscope.core.tables import TextTable
from bathyscope.core.text import counted
from bathyscope.labels import variable
from bathyscope.statistics.correction import holm
from bathyscope.statistics.effective_depth import DepthEstimate

SOURCE = "hu2025, effective depth"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison(TabledResult):
    """What came out.

    Args:
        data: (comparison, estimator): the difference of the ratios, its interval and tests; the coordinates
            ``reference``, ``other`` and ``kind`` (paired, two-sample, partly paired) say what is compared.
        runs: (run, estimator): each run's own ratio and interval, from all its prompts.
        notes: what a reader must know: how prompts were paired, what differs besides, what was left out.
        sides: the runs, or parts of runs, that were compared.
        readings: (comparison, reading): how the verdict's readings differ, as ratios of L.
        blocks: (comparison, block): how the loss added without each block differs; None where that was not measured in
            two runs of equally many blocks.
    """

    data: xr.Dataset
    runs: xr.Dataset
    notes: tuple[str, ...]
    sides: tuple[ComparedPrompts, ...]
    readings: xr.Dataset
    blocks: xr.Dataset | None = None

    @property
    def _outline(self) -> str:
        return f" {'; '.join(self.data['comparison'].values)}. {self.summary()}"

    @property
    def level(self) -> float:
        """Coverage of the intervals."""
        return float(self.data.attrs["level"])

    @property
    def quantity(self) -> str:
        """What ``difference`` holds: a difference of ratio, or a slope."""
        return str(self.data.attrs["quantity"])

    @property
    def text(self) -> str:
        """What the first comparison says in a sentence, then what is behind it."""
        from bathyscope.analysis.depths.sentences import sentence

        return f"{sentence(self)}. {self.explanation}"

    @property
    def explanation(self) -> str:
        """How the verdict and the costs of blocks differ, and how many estimators do."""
        lead = lead_text(self.readings, self.blocks, self.level)
        estimators = self.summary()
        if not lead:
            return estimators
        counted_of = "" if estimators.startswith("No estimator") else "Of the estimators, "
        return f"{lead} {counted_of}{estimators}"

    def tables(self) -> list[TextTable]:
        """Return for every comparison how the verdict's readings, the costs of blocks and the estimators differ."""
        from bathyscope.analysis.depths.tables import comparison_tables

        return comparison_tables(self)

    def to_dataframe(self) -> pd.DataFrame:
        """One row a comparison and estimator."""
        frame = self.data.to_dataframe().reset_index()
        first = ["comparison", "reference", "other", "kind", "estimator"]
        return frame[[*first, *(name for name in frame.columns if name not in first)]]

    def summary(self) -> str:
        """How many intervals exclude 0, how many would by chance, and how many tests hold after correction."""
        low, high = self.data["ci_low"].values, self.data["ci_high"].values
        outside = (low > 0) | (high < 0)
        tested = np.isfinite(self.data["p_value"].values)
        tests, alpha = int(tested.sum()), 1 - self.level
        if not tests:
            intervals = int(np.isfinite(low).sum())
            if not intervals:
                return "No estimator has a difference with an interval."
            return f"{int(outside.sum())} of {intervals} intervals exclude 0; none of these estimators has a test."
        holm = int((self.data["p_holm"].values[tested] < alpha).sum())
        summary = (
            f"{int(outside[tested].sum())} of {tests} tested intervals exclude 0; about {tests * alpha:.2g} would by "
            f"chance if nothing differed. After Holm's correction {holm} of {tests} p-values are below {alpha:.2g}."
        )
        # The smallest p-value that this many resamples can show, times the number of tests (Holm's first step).
        if tests / (self.data.attrs["resamples"] + 1) >= alpha:
            summary += " No p-value can be, with so few resamples for so many tests: give more."
        return summary + self._no_difference()

    def _no_difference(self) -> str:
        """How many differences are shown to be none; empty where none was asked for."""
        if "p_equivalence" not in self.data:
            return ""
        p = self.data["p_equivalence"].values
        tests, ruled_out = int(np.isfinite(p).sum()), int((p < 1 - self.level).sum())
        asked_for = f"{counted(tests, 'test')} {'asks' if tests == 1 else 'ask'} for a {self.change}"
        return (
            f" {asked_for} of more than {self.bound}, and {ruled_out} {'rules' if ruled_out == 1 else 'rule'} it out."
        )

    @property
    def change(self) -> str:
        """What is compared in a word: a difference, or a slope."""
        return "difference" if self.quantity == DIFFERENCE else "slope"

    @property
    def bound(self) -> str:
        """Up to where a difference counts as none, in the unit it was given in; empty where none was asked for."""
        return str(self.data.attrs.get("bound", ""))


class ComparisonRow(NamedTuple):
    """One comparison: its contrasts and reasons by estimator, and what leads it."""

    kind: str
    outcomes: list[Contrasted]
    reasons: list[str]
    notes: list[str]
    leading: Leading


def comparison_data(
    plan: ComparisonPlan, rows: Sequence[ComparisonRow], estimators: Sequence[str], bounds: Sequence[float | None]
) -> xr.Dataset:
    """``Comparison.data`` of the answers to a plan, one row each; ``bounds`` are those of equivalence."""
    dims = ("comparison", "estimator")
    outcomes = [row.outcomes for row in rows]
    of = partial(collect, [[outcome.contrast for outcome in row] for row in outcomes])
    reference_ratio, other_ratio = ends_of(outcomes)
    p_value, quantity = of("p_value"), plan.quantity
    unit, formula = "1 per doubling", "least-squares slope of the ratio over log₂ of the size"
    if quantity == DIFFERENCE:
        unit, formula = "1", "ratio of the other run − ratio of the reference"
    blocks = np.array([contrast.blocks for contrast in plan.contrasts], dtype=np.float64)
    described: dict[str, tuple[Any, str, str, str]] = {
        "reference_ratio": (reference_ratio, "ratio of the reference", "1", "depth / L"),
        "other_ratio": (other_ratio, "ratio of the other run", "1", "depth / L"),
        "difference": (of("estimate"), quantity, unit, formula),
        "ci_low": (of("ci_low"), "lower end of its interval", unit, "bootstrap over prompts"),
        "ci_high": (of("ci_high"), "upper end of its interval", unit, "bootstrap over prompts"),
        "depth_difference": (
            of("estimate") * blocks[:, None],
            "difference of depth, for equal numbers of blocks",
            "block",
            "L · difference of ratio",
        ),
        "standard_error": (of("standard_error"), "standard error of the difference", unit, "bootstrap over prompts"),
        "effect_size": (of("effect_size"), "difference over the spread of single prompts", "1", "Cohen's d"),
        "positive_share": (of("positive_share"), "share of resamples above 0", "1", "ties count half"),
        "exists_share": (of("exists_share"), "share of resamples in which all ratios exist", "1", ""),
        "p_value": (p_value, "two-sided p-value of no difference", "1", "1 − level of the interval that reaches 0"),
        "p_holm": (holm(p_value), "p-value corrected for all comparisons and estimators", "1", "Holm"),
        "n_prompts": (columns_of(outcomes, ["n_prompts"])["n_prompts"], "prompts in use", "prompt", ""),
    }
    if None not in bounds:
        described["p_equivalence"] = (
            of("p_equivalence"),
            "p-value of a difference as large as equivalence, or larger",
            "1",
            "the larger of two one-sided tests at ± equivalence",
        )
        none = "differences smaller than this count as none"
        described["equivalence"] = (np.array(bounds, dtype=np.float64), none, unit, "")
    reasons = np.array([row.reasons for row in rows], dtype=object)
    described["reason"] = (reasons, "why there is no difference or no interval", "", "")
    data = {
        name: variable(dims[: np.ndim(values)], values, text, units, formula=formula, source=SOURCE)
        for name, (values, text, units, formula) in described.items()
    }
    coords = {
        "comparison": [contrast.label for contrast in plan.contrasts],
        "estimator": list(estimators),
        "reference": ("comparison", [contrast.sides[0].name for contrast in plan.contrasts]),
        "other": ("comparison", [contrast.sides[-1].name for contrast in plan.contrasts]),
        "kind": ("comparison", [row.kind for row in rows]),
    }
    return xr.Dataset(data, coords)


def run_data(
    sides: Sequence[ComparedPrompts], estimates_of: Mapping[int, dict[str, DepthEstimate]], estimators: Sequence[str]
) -> xr.Dataset:
    """Return each run's own estimates as a dataset over runs and estimators."""
    estimates = [[estimates_of[id(side)][name] for name in estimators] for side in sides]
    blocks = np.array([side.n_blocks for side in sides])
    texts = {
        "ratio": ("depth", "effective depth ratio"),
        "ci_low": ("ci_low", "lower end of the interval of the ratio"),
        "ci_high": ("ci_high", "upper end of the interval of the ratio"),
    }
    dims, formula = ("run", "estimator"), "depth / L"
    data = {
        name: variable(dims, collect(estimates, end) / blocks[:, None], text, "1", formula=formula, source=SOURCE)
        for name, (end, text) in texts.items()
    }
    coords = {
        "run": [side.name for side in sides],
        "estimator": list(estimators),
        "model": ("run", [side.model for side in sides]),
        "dataset": ("run", [side.identity.dataset for side in sides]),
        "blocks": ("run", blocks),
        "prompts": ("run", [len(side.prompts) for side in sides]),
    }
    return xr.Dataset(data, coords)
