"""What ``diff`` gives: the labelled arrays, their conclusion and table. Loads no model library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bathyscope.analysis.between.diff_text import beyond_rounding, conclude, fields, first_beyond, lay_out, tabulate
from bathyscope.core.arrays import mean_of_known
from bathyscope.core.result import LabelledResult, PageResult
from bathyscope.core.tables import TextTable
from bathyscope.labels import variable
from bathyscope.model.identity import ModelIdentity
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.sampling import Sampling

if TYPE_CHECKING:
    from bathyscope.analysis.between.weights import WeightComparison

PARTS: Final = ("attention", "mlp")
_LENGTHS: Final = ("drift", "part_drift")
"""Values that are never negative, to the bit; a divergence may be so by rounding."""
_TEXTS: Final = {
    "drift": ("boundary", "distance of the streams over the norm of the first", "1", "‖h_b^B − h_b^A‖ / ‖h_b^A‖"),
    "part_drift": ("block part", "distance of what a part adds over its norm in the first", "1", "‖c^B − c^A‖ / ‖c^A‖"),
    "graft": ("block", "effect of the second model's block in the first", "nats", "KL(A ‖ A with block of B)"),
    "graft_back": ("block", "effect of the first model's block in the second", "nats", "KL(B ‖ B with block of A)"),
    "cumulative": ("block", "effect of all blocks up to this one", "nats", "KL(A ‖ A with blocks ≤ l of B)"),
    "cumulative_back": ("block", "the same in the second model", "nats", "KL(B ‖ B with blocks ≤ l of A)"),
    "output": ("", "effect of the whole second model in place of the first", "nats", "KL(A ‖ B)"),
    "unexplained": ("", "effect of all blocks together, less the sum of the single grafts", "nats", ""),
    "unexplained_back": ("", "the same in the second model", "nats", ""),
}


@dataclass(frozen=True, eq=False, repr=False)
class Difference(LabelledResult, PageResult):
    """Where two models part; ``bathyscope.report`` draws it.

    Args:
        first: the first block behind which the drift of any prompt exceeds what rounding may do to it, 0 also where the
            embeddings differ; None where none does.
    """

    first: int | None = None
    figure: str = field(default="diff", kw_only=True)
    kind = "difference"

    @property
    def heading(self) -> str:
        """The heading of its section on a page."""
        return f"Where they part: {self.data.attrs['model']} and {self.data.attrs['other']}"

    @property
    def models(self) -> tuple[ModelIdentity, ...]:
        """Both models, as far as the result tells them."""
        attrs = self.data.attrs
        other = {name.removeprefix("other_"): value for name, value in attrs.items() if name.startswith("other_")}
        return ModelIdentity.of_record(attrs), ModelIdentity.of_record({**other, "model": attrs["other"]})

    def record(self) -> dict[str, Any]:
        """Return the JSON record: what it is, the conclusion in words, and the fields."""
        return {"kind": "diff", "conclusion": self.text, **(self.fields or {})}

    def tables(self) -> list[TextTable]:
        """Return the blocks, what they do together, and the tokens at which the models part."""
        return lay_out(self.data)

    def without_words(self) -> Self:
        """Return the same result with numbers of tokens in the place of their words: what differs still does."""
        names = ("piece", "predicted", "other")
        numbers = np.unique(np.stack([self.data[name].values for name in names]), return_inverse=True)[1]
        shape = (len(names), *self.data["piece"].shape)
        written = {name: (("prompt", "token"), ids.astype(str)) for name, ids in zip(names, numbers.reshape(shape))}
        return replace(self, data=self.data.assign(written))


@dataclass(frozen=True)
class TokenPredictions:
    """What the models predict, token by token: [prompts, tokens], padded behind a prompt's end.

    Args:
        drift: [prompts, boundaries, tokens], of the streams; NaN behind the end.
        kl: KL(A ‖ B) of the prediction behind each token, in nats; NaN behind the end.
        pieces: the tokens as text, or their ids.
        predicted, other: the most probable next token of either model, as text or id.
    """

    drift: NDArray[np.float64]
    kl: NDArray[np.float64]
    pieces: NDArray[np.str_]
    predicted: NDArray[np.str_]
    other: NDArray[np.str_]


def difference(
    values: Mapping[str, NDArray[np.float64]],
    tokens: TokenPredictions,
    weights: WeightComparison,
    prompt_ids: Sequence[str],
    names: tuple[str, str],
    families: tuple[str, str],
    sampling: Sampling,
    vocabularies: Mapping[str, Any] | None = None,
) -> Difference:
    """Return the result of the numbers, with means over prompts and their intervals.

    Args:
        values: variable → [prompts, …]; ``noise_floor`` [prompts, boundaries] is what rounding may do to the drift,
            ``output_floor`` [prompts] to the predictions, in nats.
        weights: where those of both models differ.
        names, families: of the models.
        vocabularies: attributes that say which tokens are compared; None = all.
    """
    n_blocks = len(weights.changes)
    arrays: dict[str, Any] = {}
    unexplained = {
        "unexplained": values["cumulative"][:, -1] - values["graft"].sum(1),
        "unexplained_back": values["cumulative_back"][:, -1] - values["graft_back"].sum(1),
    }
    for name, (dims, long_name, units, formula) in _TEXTS.items():
        column = {**values, **unexplained}[name]
        arrays[name] = variable(["prompt", *dims.split()], column, long_name, units, formula=formula, source="own")
        _add_means(arrays, name, dims.split(), column, f"{long_name}, mean over prompts", units, sampling)
    arrays["weight_change"] = variable(
        ["block"],
        weights.changes,
        "change of the weights over their norm",
        "1",
        formula="‖W_B − W_A‖ / ‖W_A‖",
        source="own",
    )
    arrays["noise_floor"] = variable(
        ["prompt", "boundary"],
        values["noise_floor"],
        "drift that rounding may explain, from random rounding of every operation",
        "1",
        source="own",
    )
    arrays["output_floor"] = variable(
        ["prompt"], values["output_floor"], "difference of predictions that rounding may explain", "nats", source="own"
    )
    arrays["beyond"] = variable(
        ["boundary"],
        beyond_rounding(values["drift"], values["noise_floor"]).sum(0),
        "prompts whose drift is above what rounding may explain",
        "1",
        source="own",
    )
    arrays["token_drift"] = variable(
        ["prompt", "boundary", "token"], tokens.drift, "distance of the streams at a token", "1", source="own"
    )
    arrays["token_kl"] = variable(
        ["prompt", "token"], tokens.kl, "difference of the prediction behind a token", "nats", source="own"
    )
    for name, texts in (("piece", tokens.pieces), ("predicted", tokens.predicted), ("other", tokens.other)):
        arrays[name] = (("prompt", "token"), texts)
    coords = {
        "prompt": list(prompt_ids),
        "boundary": np.arange(n_blocks + 1),
        "block": np.arange(n_blocks),
        "part": list(PARTS),
        "token": np.arange(tokens.kl.shape[1]),
    }
    attrs: dict[str, Any] = {"model": names[0], "other": names[1], **sampling.record, **(vocabularies or {})}
    attrs["settings_differ"] = weights.settings
    if weights.details:
        attrs["setting_details"] = list(weights.details)
    if weights.places is not None:
        attrs["adapters_in" if weights.by_adapters else "weights_differ"] = weights.places
    if families[0] != families[1]:
        attrs |= {"family": families[0], "other_family": families[1]}
    data = xr.Dataset(arrays, coords, attrs)
    first = first_beyond(data)
    return Difference(data, conclude(data, first), tabulate, fields(data, first), first)


def _add_means(
    arrays: dict[str, Any],
    name: str,
    dims: list[str],
    values_PX: NDArray[np.float64],
    long_name: str,
    units: str,
    sampling: Sampling,
) -> None:
    """Add the mean over prompts of some values and the ends of its interval, which for lengths is not below 0."""
    flat_PX = values_PX.reshape(len(values_PX), -1)
    limits = (0.0, np.inf) if name in _LENGTHS else (-np.inf, np.inf)
    ends = np.array(mean_intervals(flat_PX, sampling, limits=limits))
    columns = {"mean": mean_of_known(flat_PX, axis=0), "low": ends[:, 0], "high": ends[:, 1]}
    for end, column in columns.items():
        arrays[f"{name}_{end}"] = variable(dims, column.reshape(values_PX.shape[1:]), long_name, units, source="own")
