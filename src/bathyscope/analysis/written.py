"""Does a model that thinks longer write the right answer more often? Depth of what it wrote, against being right.

For prompts whose continuation was surveyed (``survey(write=…)``) and that have an answer: the rank correlation of being
right with how late the written tokens settle, with its interval over prompts and a permutation test of no relation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import xarray as xr
from scipy import stats

from bathyscope.analysis.options import WrittenOptions
from bathyscope.core.arrays import FloatArray
from bathyscope.core.calls import takes
from bathyscope.core.estimates import Estimate
from bathyscope.core.result import TabledResult, rows_of
from bathyscope.errors import OptionError
from bathyscope.labels import Label, Table, labelled
from bathyscope.measures.curves import one_norm
from bathyscope.prompts.continued import WRITTEN
from bathyscope.runs.opening import open_run
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import bootstrap_interval
from bathyscope.statistics.sampling import Sampling

if TYPE_CHECKING:
    import pandas as pd

QUANTITIES: Final[Mapping[str, str]] = {
    "deep_thinking_ratio": "share of tokens that settle late",
    "settle_depth": "settle depth",
    "prediction_depth": "prediction depth",
}
"""Of the written tokens, means by prompt; variables of the lens."""
_MORE: Final[Mapping[str, str]] = {
    "deep_thinking_ratio": "A larger share of tokens that settle late",
    "settle_depth": "A greater settle depth",
    "prediction_depth": "A greater prediction depth",
}
"""What a positive correlation is of."""
_FEWEST: Final = 5
_FEWEST_APART: Final = 2
"""Right prompts, and wrong ones, that must read another depth than the commonest for the correlation's interval."""
_by_quantity = partial(Label, "quantity", source="own")
_TABLE: Final[Table] = {
    "correlation": _by_quantity("rank correlation with writing the right answer", formula="Spearman's over prompts"),
    "correlation_low": _by_quantity("lower end of its interval", formula="bootstrap over prompts"),
    "correlation_high": _by_quantity("upper end of its interval", formula="bootstrap over prompts"),
    "p": _by_quantity("p-value of no relation", formula="permutation of the answers over prompts"),
    "right": _by_quantity("mean over prompts with the right answer", "boundary, or 1"),
    "wrong": _by_quantity("mean over the other prompts", "boundary, or 1"),
}


@dataclass(frozen=True, eq=False, repr=False)
class WrittenDepth(TabledResult):
    """Depth of what a model wrote against being right.

    Args:
        data: by ``quantity``: correlation with its interval, p, and the means of both groups.
        prompts: how many have an answer.
        solved: how many of those the model wrote the right answer to.
        cut_off: how many of those the limit of tokens ended before the model did.

    Example:
        >>> run = bathyscope.survey(model, "prompts.jsonl", ["lens"], write=1)
        >>> bathyscope.written(run).prompts
        12
    """

    data: xr.Dataset
    prompts: int
    solved: int
    cut_off: int = 0

    @property
    def text(self) -> str:
        """What was found, in two sentences, or three where the first quantity tells nothing."""
        limited = f"; the limit of tokens ended {self.cut_off} of the texts" if self.cut_off else ""
        counted = f"The model wrote the right answer to {self.solved} of {self.prompts} prompts{limited}."
        places = np.flatnonzero(~np.isnan(self.data["correlation"].values))
        if not places.size:
            alike = "answers" if self.solved in (0, self.prompts) else "depths"
            return f"{counted} No correlation with depth can be told: all {alike} are alike."
        # in the order of the table, and never the one that correlates most
        constant = " and the ".join(QUANTITIES[name] for name in _names(self.data, places[0]))
        verb = "is" if places[0] == 1 else "are"
        untold = f" The {constant} {verb} the same in all prompts." if constant else ""
        first = self.data.isel(quantity=places[0])
        subject = _MORE[str(first["quantity"].item())]
        rho, p = Estimate.of(first, "correlation"), float(first["p"])
        # the test and the interval are of two kinds, and may part where there are few prompts; where no two prompts are
        # out of order there is no interval, and one prompt that is right, or wrong, shows nothing
        is_apart = min(self.solved, self.prompts - self.solved) > 1
        if rho.has_interval:
            is_apart = rho.low > 0 or rho.high < 0
        is_shown = p <= 1 - float(self.data.attrs["level"]) and is_apart
        relation = ("goes with" if rho.value > 0 else "goes against") if is_shown else "is not shown to go with"
        return (
            f"{counted}{untold} {subject} {relation} being right (rank correlation "
            f"{rho.write_in_brackets('+.2f')}, p = {p:.2g})."
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return a row for every quantity."""
        return self.data.to_dataframe().reset_index()

    def record(self) -> dict[str, Any]:
        """Return everything as one JSON record."""
        counts = {"prompts": self.prompts, "solved": self.solved, "cut_off": self.cut_off}
        return {"conclusion": self.text, **counts, "quantities": rows_of(self.to_dataframe())}


@takes(WrittenOptions)
def written(
    run: Run | str | Path,
    *,
    resamples: int = 1000,
    level: float = 0.95,
    permutations: int = 9999,
    seed: int = 0,
) -> WrittenDepth:
    """Return how the depth of written tokens goes with writing the right answer.

    Args:
        run: or its folder, of ``survey(write=…)`` with the lens, on prompts with answers.
        ...: the options of ``WrittenOptions``.

    Raises:
        OptionError: a run of given texts, without the lens, with a lens that is not of the answer alone
            (``lens.positions``), or with fewer than five answered prompts.

    Example:
        >>> run = bathyscope.survey(model, "prompts.jsonl", ["lens"], write=1)
        >>> bathyscope.written(run).data["quantity"].values.tolist()
        ['deep_thinking_ratio', 'settle_depth', 'prediction_depth']
    """
    if isinstance(run, str | Path):
        run = open_run(run)
    if not isinstance(run, Run) or "lens" not in run or not _is_written(run):
        raise OptionError("written() needs a survey with lens and write=…, on prompts with answers; this run is none.")
    positions = (run.identity.measures.get("lens") or {}).get("positions", "all")
    if positions != "answer":
        raise OptionError(
            f"The lens of this run is measured at lens.positions={positions}, which holds tokens of the question. "
            "Survey with write=… and without that option: it is answer then."
        )
    lens = one_norm(run["lens"])
    is_right = np.asarray(lens["right"].values, dtype=np.float64)
    answered = ~np.isnan(is_right)
    # a copy of a prompt is written the same answer, and is no observation of its own
    copies = run.clusters()
    numbers = np.arange(len(answered)) if copies is None else copies
    once = np.flatnonzero(answered)[np.unique(numbers[answered], return_index=True)[1]]
    if once.size < _FEWEST:
        raise OptionError(
            f"written() needs at least {_FEWEST} different prompts with answers; this run has {once.size}."
        )
    sampling = Sampling(resamples, level, seed)
    rows = [
        _related(np.asarray(lens[name].values, dtype=np.float64)[once], is_right[once], sampling, permutations)
        for name in QUANTITIES
    ]
    values = {name: np.array([row[name] for row in rows]) for name in _TABLE}
    data = labelled(_TABLE, values, {"quantity": list(QUANTITIES)}).assign_attrs(level=level)
    unended = np.asarray(lens["ended"].values)[answered] == 0
    return WrittenDepth(data, int(answered.sum()), int(is_right[answered].sum()), int(unended.sum()))


def _is_written(run: Run) -> bool:
    """Return whether a run is of what the model wrote, and not of given texts with labels of these names."""
    coords = run["lens"].coords
    return all(name in coords for name in ("written", "ended", "right")) and WRITTEN in run.identity.dataset


def _names(data: xr.Dataset, count: int) -> list[str]:
    """Return the names of the first quantities."""
    return [str(name) for name in data["quantity"].values[:count]]


def _related(depth_P: FloatArray, right_P: FloatArray, sampling: Sampling, permutations: int) -> dict[str, float]:
    """Return the values of the table for one quantity."""
    groups = {"right": _mean(depth_P[right_P == 1]), "wrong": _mean(depth_P[right_P == 0])}
    correlation = float(_rank_correlations(depth_P[None], right_P[None])[0])
    if math.isnan(correlation):
        return {**dict.fromkeys(_TABLE, math.nan), **groups}
    rng = np.random.default_rng(sampling.seed)
    drawn_RP = rng.integers(len(depth_P), size=(sampling.resamples, len(depth_P)))
    resampled = _rank_correlations(depth_P[drawn_RP], right_P[drawn_RP])
    weights = np.ones(len(depth_P))
    low, high = bootstrap_interval(correlation, resampled, weights, level=sampling.level, limits=(-1.0, 1.0))
    if low == high or not _is_varied(depth_P, right_P):
        # every order that was drawn is the same, as where one prompt is right: that is no interval of no width. Nor do
        # resamples of a group whose prompts nearly all read alike show what other prompts of it may read
        low = high = math.nan
    shuffled_RP = rng.permuted(np.tile(right_P, (permutations, 1)), axis=1)
    by_chance = _rank_correlations(np.broadcast_to(depth_P, shuffled_RP.shape), shuffled_RP)
    # the order that was found is one of the possible ones (Phipson and Smyth 2010)
    as_far = int((np.abs(by_chance) >= abs(correlation) - 1e-12).sum())
    return {
        "correlation": correlation,
        "correlation_low": low,
        "correlation_high": high,
        "p": (1 + as_far) / (1 + permutations),
        **groups,
    }


def _is_varied(depth_P: FloatArray, right_P: FloatArray) -> bool:
    """Return whether prompts of both groups read other depths than the one that most of all prompts read."""
    depths, counts = np.unique(depth_P, return_counts=True)
    is_apart = depth_P != depths[counts.argmax()]
    return min(int(is_apart[right_P == group].sum()) for group in (0, 1)) >= _FEWEST_APART


def _rank_correlations(first_RP: FloatArray, second_RP: FloatArray) -> FloatArray:
    """Return Spearman's correlation of each pair of rows; NaN where one of them is constant."""
    ranks = [stats.rankdata(values, axis=1) for values in (first_RP, second_RP)]
    first, second = (values - values.mean(1, keepdims=True) for values in ranks)
    sizes = np.sqrt((first**2).sum(1) * (second**2).sum(1))
    return np.asarray((first * second).sum(1) / np.where(sizes > 0, sizes, np.nan))


def _mean(values: FloatArray) -> float:
    return float(values.mean()) if values.size else math.nan
