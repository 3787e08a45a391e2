"""The numbers that expectations are judged by, each with its 95 % interval over prompts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import xarray as xr
from scipy import stats

from bathyscope.extend.statistics import bootstrap_interval, resample_counts
from studies.common.arrays import FloatArray
from studies.interventions.closer import WRITER
from studies.interventions.expected import Expectation
from studies.interventions.measuring import STUDIES, VARIANTS
from studies.real_model.models import ModelKey
from studies.real_model.reading import LEVEL, Decision, Reading

RESAMPLES: Final = 2000
AS_IS, CLAMPED, LEFT_OUT = range(len(VARIANTS))
_ROUNDING: Final = 1e-9
Stored = Mapping[str, xr.Dataset]
"""``pairs``, ``pairs_untrained``, ``massive`` and ``closer`` of one model, as far as they are measured."""
Quantity = Callable[["Sample"], float]


class Sample:
    """Stored results of one study, and how much each prompt counts.

    Args:
        arrays: name → [prompt, …] or [prompt, variant, …], of ``arrays_of``.
        counts: [prompts], how often each was drawn; None = once.
    """

    def __init__(self, arrays: Mapping[str, FloatArray], counts: FloatArray | None = None) -> None:
        self._arrays = arrays
        averaged = arrays["n_averaged"]
        # of every variant the same tokens
        self.weights = averaged[:, 0] if averaged.ndim == 2 else averaged
        # a prompt's first token is predicted by nothing
        self.tokens = self.weights + 1
        if counts is not None:
            self.weights, self.tokens = self.weights * counts, self.tokens * counts

    def mean(self, name: str, *, over_all_tokens: bool = False) -> FloatArray:
        """Return the mean of a variable over prompts, weighted by their tokens."""
        weights = self.tokens if over_all_tokens else self.weights
        mean: FloatArray = np.tensordot(weights, self._arrays[name], 1) / weights.sum()
        return mean

    def most(self, name: str) -> FloatArray:
        """Return the largest value of a variable over prompts and boundaries, by variant."""
        largest: FloatArray = self._arrays[name][self.weights > 0].max((0, 2))
        return largest

    def added(self, kind: str) -> FloatArray:
        """Return what an intervention at each block or pair adds to the loss."""
        cost: FloatArray = self.mean(f"loss_{kind}") - self.mean("baseline_loss")
        return cost

    def removals(self) -> FloatArray:
        """Return what removing each block adds to the loss, [variant, block]."""
        cost: FloatArray = self.mean("drop.loss") - self.mean("drop.baseline_loss")[:, None]
        return cost

    def half_depth(self) -> FloatArray:
        """Return the boundary from which half of the tokens keep their final prediction, by variant."""
        return np.array([_reaches_half(shares) for shares in self.mean("lens.top1_kept", over_all_tokens=True)])


def arrays_of(data: xr.Dataset) -> dict[str, FloatArray]:
    """Return stored results as arrays, prompts first."""
    arrays = {}
    for name, array in data.data_vars.items():
        dims = ("prompt", "variant", ...) if "variant" in array.dims else ("prompt", ...)
        arrays[str(name)] = np.asarray(array.transpose(*dims).values, np.float64)
    return arrays


def loss_of_change(place: int) -> Quantity:
    """Return the function of the loss under a change of ``closer``, by its place."""
    return lambda sample: float(sample.mean("loss")[place])


def _reaches_half(shares: FloatArray) -> float:
    """Return where a share by boundary, drawn as straight lines, first reaches one half."""
    upper = int(np.argmax(shares >= 0.5 - _ROUNDING))
    if upper == 0:
        return 0.0
    below, above = shares[upper - 1 : upper + 1]
    return upper - float((above - 0.5) / (above - below))


def _second_half(pairs: FloatArray) -> slice:
    """Return the pairs whose two blocks are both in the second half."""
    return slice((pairs.size + 1) // 2, None)


def parallel_against_dropping(sample: Sample) -> float:
    parallel, dropped = sample.added("parallel"), sample.added("dropped")
    either = (dropped[:-1] + dropped[1:]) / 2
    late = _second_half(parallel)
    return float(parallel[late].mean() / either[late].mean())


def parallel_against_swapping(sample: Sample) -> float:
    parallel, swapped = sample.added("parallel"), sample.added("swapped")
    late = _second_half(parallel)
    return float(parallel[late].mean() / swapped[late].mean())


def parallel_late_against_early(sample: Sample) -> float:
    parallel = sample.added("parallel")
    late = _second_half(parallel)
    # the pair between the halves is in neither
    return float(parallel[late].mean() / parallel[1 : late.start - 1].mean())


def parallel_of_the_writer(sample: Sample) -> float:
    parallel = sample.added("parallel")
    return float(parallel[WRITER - 1 : WRITER + 1].mean() / np.median(parallel))


def parallel_untrained(sample: Sample) -> float:
    parallel = sample.added("parallel")
    return float(parallel[_second_half(parallel)].mean())


def _share_of_largest(sample: Sample, variant: int) -> float:
    largest = sample.most("residual.largest")
    return float(largest[variant] / largest[AS_IS])


def largest_clamped(sample: Sample) -> float:
    return _share_of_largest(sample, CLAMPED)


def largest_left_out(sample: Sample) -> float:
    return _share_of_largest(sample, LEFT_OUT)


def _added_loss(sample: Sample, variant: int) -> float:
    loss = sample.mean("drop.baseline_loss")
    return float(loss[variant] - loss[AS_IS])


def loss_clamped(sample: Sample) -> float:
    return _added_loss(sample, CLAMPED)


def loss_left_out(sample: Sample) -> float:
    return _added_loss(sample, LEFT_OUT)


def loss_against_the_writer(sample: Sample) -> float:
    return _added_loss(sample, LEFT_OUT) / float(sample.removals()[AS_IS, WRITER])


def writer_left_over(sample: Sample) -> float:
    cost = sample.removals()[:, WRITER]
    return float(cost[LEFT_OUT] / cost[AS_IS])


def norm_of_the_rest(sample: Sample) -> float:
    norm = sample.mean("residual.norm_resid_rest")
    middle = norm.shape[1] // 2
    return float(norm[LEFT_OUT, middle] / norm[AS_IS, middle])


def _rank_correlation(sample: Sample, variant: int) -> float:
    cost = sample.removals()
    return float(stats.spearmanr(cost[variant], cost[AS_IS]).statistic)


def profile_clamped(sample: Sample) -> float:
    return _rank_correlation(sample, CLAMPED)


def profile_left_out(sample: Sample) -> float:
    return _rank_correlation(sample, LEFT_OUT)


def _depth_moved(sample: Sample, variant: int) -> float:
    depth = sample.half_depth()
    blocks = sample.mean("drop.loss").shape[1]
    return float((depth[variant] - depth[AS_IS]) / blocks)


def depth_clamped(sample: Sample) -> float:
    return _depth_moved(sample, CLAMPED)


def depth_left_out(sample: Sample) -> float:
    return _depth_moved(sample, LEFT_OUT)


QUANTITIES: Final[Mapping[str, tuple[str, Quantity]]] = {
    function.__name__: (name, function)
    for name, functions in {
        "pairs": (
            parallel_against_dropping,
            parallel_against_swapping,
            parallel_late_against_early,
            parallel_of_the_writer,
        ),
        "pairs_untrained": (parallel_untrained,),
        "massive": (
            *(largest_clamped, largest_left_out, loss_clamped, loss_left_out, loss_against_the_writer),
            *(writer_left_over, norm_of_the_rest, profile_clamped, profile_left_out, depth_clamped, depth_left_out),
        ),
    }.items()
    for function in functions
}
"""Key of an expectation → the stored file that it is read off, and its function."""
_CORRELATIONS: Final = frozenset({"profile_clamped", "profile_left_out"})
_DEPTHS: Final = frozenset({"depth_clamped", "depth_left_out"})


def read_quantity(key: str, stored: Stored) -> Reading | None:
    """Return the quantity of an expectation with its interval; None = not measured yet."""
    name, function = QUANTITIES[key]
    if name not in stored:
        return None
    limits = (-1.0, 1.0) if key in _CORRELATIONS else (-np.inf, np.inf)
    return with_interval(stored[name], function, limits, grouped=key in _DEPTHS)


def with_interval(
    data: xr.Dataset,
    function: Quantity,
    limits: tuple[float, float] = (-np.inf, np.inf),
    *,
    grouped: bool = False,
) -> Reading:
    """Return a function of the stored results with its interval over prompts.

    Args:
        limits: that the value cannot leave.
        grouped: the function chooses between places, so that it jumps.
    """
    arrays = arrays_of(data)
    whole = Sample(arrays)
    value = function(whole)
    counts = resample_counts(whole.weights.size, RESAMPLES, np.random.default_rng(0))
    resampled = np.array([function(Sample(arrays, draw)) for draw in counts])
    low, high = bootstrap_interval(value, resampled, whole.weights, level=LEVEL, limits=limits, grouped=grouped)
    return Reading(value, low, high)


def decide(expectation: Expectation, model: ModelKey, reading: Reading) -> Decision:
    """Compare an interval with the bound of a model."""
    low, high = expectation.bounds[model]
    if reading.low >= low - _ROUNDING and reading.high <= high + _ROUNDING:
        return "holds"
    if reading.high < low - _ROUNDING or reading.low > high + _ROUNDING:
        return "does not hold"
    return "cannot be decided"


def load_stored(results: Path, model: ModelKey) -> dict[str, xr.Dataset]:
    """Return what is stored of one model."""
    files = {name: results / f"{name}__{model}.nc" for name in STUDIES}
    return {name: xr.load_dataset(file, engine="h5netcdf") for name, file in files.items() if file.exists()}
