"""A fitted Jacobian lens: J_b for every boundary, with what can be said of how far to trust it.

J_b is the mean over prompts of the mean over source tokens p of Σ_{p' ≥ p} ∂h_L[p'] / ∂h_b[p], and the lens reads
readout(J_b h_b). Prompts go to two halves in turn, so that the agreement of the halves is known; sums over prompts are
kept, not means, so that lenses of different prompts can be added.
Source: jlens 2026, Jacobian lens.

Suffixes: H halves, B fitted boundaries, D width, N tokens.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.core.result import TabledResult, rows_of
from bathyscope.core.text import without_folders
from bathyscope.errors import OptionError, describe_value, warn
from bathyscope.labels import Table, labelled
from bathyscope.measures.jacobian.writing import write_lens
from bathyscope.measures.of.jacobian_lens import DECLARATION
from bathyscope.model.identity import ModelIdentity, compare_models

if TYPE_CHECKING:
    import pandas as pd

PROPERTIES: Final[Table] = {
    name: label for name, label in (DECLARATION.table or {}).items() if label.dims == "boundary"
}
"""What is known of a lens itself, by boundary."""


@dataclass(frozen=True)
class LensOrigin:
    """What a lens was fitted to.

    Args:
        model: its name.
        weight_hash: of the model's weights; None = the file does not say.
        n_blocks: of the model; None = the file does not say.
        directions: random orthonormal cotangents of each prompt; None = all of them, so that J is exact.
        skip_first: tokens at the beginning of each prompt that are neither sources nor targets; None = unknown.
        prompt_hash: of the prompts that it was asked for; None = unknown.
        tokens: sources and targets in all; None = unknown.
        config_hash, adapters, schedule, precision: of the model (see ``ModelIdentity``); None = the file does not say.
        fitted: short hashes of what it was fitted to, one for each prompt (``text_key``); None = unknown.
    """

    model: str
    weight_hash: str | None = None
    n_blocks: int | None = None
    directions: int | None = None
    skip_first: int | None = None
    seed: int = 0
    prompts: str = ""
    prompt_hash: str | None = None
    tokens: int | None = None
    versions: tuple[tuple[str, str], ...] = ()
    config_hash: str | None = None
    adapters: str | None = None
    schedule: str | None = None
    precision: str | None = None
    fitted: tuple[str, ...] | None = None

    def record(self) -> dict[str, Any]:
        """Return everything, for a file."""
        return {**asdict(self), "versions": dict(self.versions)}

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> LensOrigin:
        """Return what a file says."""
        fitted = record.get("fitted")
        if not isinstance(fitted, list | tuple | None):
            raise TypeError("what it was fitted to is no list")
        versions = tuple(sorted(record["versions"].items()))
        return cls(**{**record, "versions": versions, "fitted": None if fitted is None else tuple(fitted)})

    @classmethod
    def of_model(cls, identity: ModelIdentity, **of_prompts: Any) -> LensOrigin:
        """Return the origin of a lens that is to be fitted to a model."""
        return cls(
            identity.name,
            identity.weights,
            identity.n_blocks,
            config_hash=identity.configuration,
            adapters=identity.adapters,
            schedule=identity.schedule,
            precision=identity.precision,
            **of_prompts,
        )

    def renamed(self, other: LensOrigin) -> LensOrigin:
        """Return the same with another origin's model, and with its prompts where these are not told."""
        of_model = {name: getattr(other, name) for name in ("model", "weight_hash", "n_blocks", *_TOLD_LATER)}
        fitted = other.fitted if self.fitted is None else self.fitted
        return replace(self, **{**of_model, "fitted": fitted})

    @property
    def identity(self) -> ModelIdentity:
        """The model that it was fitted to, as far as the file tells it."""
        return ModelIdentity.of_record(asdict(self))


class FittedLens(TabledResult):
    """Matrices J_b that carry the stream at boundary b to where it would be at the last one.

    Args:
        origin: what it was fitted to.
        boundaries: those that it has matrices of, in order.
        sums_HBDD: Σ J_b over the prompts of each half (or of one part, where halves are unknown), float32.
        counts: prompts of each half.
        squares_B: Σ ‖J_b − I‖² over single prompts as they were sampled, for the error of sampling.

    Example:
        >>> lens = bathyscope.fit_lens(model, "prompts.jsonl", skip_first=2)
        >>> lens.matrix(3).shape
        torch.Size([32, 32])
    """

    def __init__(
        self,
        origin: LensOrigin,
        boundaries: Sequence[int],
        sums_HBDD: Tensor,
        counts: Sequence[int],
        squares_B: Tensor,
    ) -> None:
        self.origin = origin
        self.boundaries = tuple(boundaries)
        self.sums_HBDD = sums_HBDD
        self.counts = tuple(counts)
        self.squares_B = squares_B

    @property
    def _outline(self) -> str:
        return f" of {self.origin.model}: width {self.width}, {self.prompts} prompts"

    def __deepcopy__(self, memo: dict[int, Any]) -> FittedLens:
        # Options are copied into manifests; the matrices of a large model must not be.
        return self

    @property
    def width(self) -> int:
        """d, the width of the stream."""
        return int(self.sums_HBDD.shape[-1])

    @property
    def prompts(self) -> int:
        """How many prompts it is the mean of."""
        return sum(self.counts)

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 over the matrices and what they were fitted to, for the identity of runs that read with the lens."""
        record = self.origin.record()
        # a file of an earlier version keeps the fingerprint that runs know it by
        origin = {name: value for name, value in record.items() if name not in _TOLD_LATER or value is not None}
        digest = hashlib.sha256(repr((self.boundaries, self.counts, origin)).encode())
        for half_BDD in self.sums_HBDD:
            for sum_DD in half_BDD:
                digest.update(sum_DD.contiguous().cpu().numpy().tobytes())
        return digest.hexdigest()

    def matrix(self, boundary: int) -> Tensor:
        """Return J_b, [width, width] float32, with J_b h = matrix @ h; the identity at the last boundary.

        Raises:
            OptionError: the lens has no matrix of this boundary.
        """
        if boundary == self.origin.n_blocks:
            return torch.eye(self.width)
        return self.sums_HBDD[:, self._place(boundary)].sum(0) / self.prompts

    def transport(self, boundary: int, resid_ND: Tensor) -> Tensor:
        """Return the states of a boundary as they would be at the last one, in their own dtype."""
        return transported(self.matrix(boundary).to(resid_ND.device), resid_ND)

    @property
    def data(self) -> xr.Dataset:
        """What is known of the lens itself, by boundary: see ``PROPERTIES``."""
        rows = [self._properties(place) for place in range(len(self.boundaries))]
        values = {name: np.array([row[name] for row in rows]) for name in PROPERTIES}
        return labelled(PROPERTIES, values, {"boundary": list(self.boundaries)})

    @property
    def text(self) -> str:
        """What it was fitted to, and how far its halves agree."""
        how = "all directions" if self.origin.directions is None else f"{self.origin.directions} random directions"
        first = f"A Jacobian lens of {without_folders(self.origin.model)}, fitted to {self.prompts} prompts by {how}."
        data = self.data
        if not np.isfinite(data.half_agreement_rest).any():
            return first
        place = int(np.nanargmin(data.half_agreement_rest.values))
        with_identity, rest = (float(data[name][place]) for name in ("half_agreement", "half_agreement_rest"))
        return (
            f"{first} Two halves of the prompts agree least at boundary {self.boundaries[place]}: cosine "
            f"{with_identity:.2f}, or {rest:.2f} without the identity, which any two lenses share."
        )

    def to_dataframe(self) -> pd.DataFrame:
        """Return the same numbers as a table, a row for every boundary."""
        return self.data.to_dataframe().reset_index()

    def record(self) -> dict[str, Any]:
        """Return everything but the matrices as one JSON record."""
        return {"conclusion": self.text, "fitted_to": self.origin.record(), "boundaries": rows_of(self.to_dataframe())}

    def save(self, path: str | Path, *, unfinished: int | None = None) -> Path:
        """Write the lens as one safetensors file (see ``measures.jacobian.writing``).

        Args:
            unfinished: how many prompts a fit that was interrupted had taken; None = it is finished.

        Raises:
            OptionError: ``path`` does not end in .safetensors.
            StoreError: the file cannot be written, or is there and no lens.
        """
        about = {
            "origin": self.origin.record(),
            "boundaries": self.boundaries,
            "counts": self.counts,
            "unfinished": unfinished,
        }
        return write_lens(path, about, self.sums_HBDD, self.squares_B)

    def __add__(self, other: FittedLens) -> FittedLens:
        """Return the lens of both lenses' prompts.

        Raises:
            OptionError: they are of different models, boundaries, or ways of fitting; a prompt is in both.
        """
        if not isinstance(other, FittedLens):
            return NotImplemented
        agreement = compare_models(self.origin.identity, other.origin.identity, "one lens", "the other")
        if agreement.differences:
            raise OptionError(f"Only lenses of one model can be added; {agreement.text}.")
        for name, first, second in self._differences(other):
            if first != second:
                raise OptionError(f"Only lenses fitted alike can be added; {name} is {first} and {second}.")
        if agreement.unknown:
            warn(f"One of these lenses does not tell the {' and '.join(agreement.unknown)} of its model.")
        fitted = self._fitted_with(other)
        origin = replace(
            self.origin,
            prompts=" + ".join(dict.fromkeys((self.origin.prompts, other.origin.prompts))),
            prompt_hash=None,
            tokens=_sum_of_known(self.origin.tokens, other.origin.tokens),
            fitted=fitted,
        )
        return joined(self, other, origin)

    def _fitted_with(self, other: FittedLens) -> tuple[str, ...] | None:
        """Return what both lenses were fitted to; None, with a warning, where one of them does not tell.

        Raises:
            OptionError: a prompt is in both, and would count twice.
        """
        first, second = self.origin.fitted, other.origin.fitted
        if first is None or second is None:
            warn(
                "One of these lenses does not tell its prompts: those in both count twice, and make the error and the "
                "agreement of the halves look better than they are."
            )
            return None
        both = len({*first} & {*second})
        if both:
            raise OptionError(
                f"{both} of {len(second)} prompts of the second lens are in the first one too, and would count twice. "
                "Fit the second to other prompts."
            )
        return (*first, *second)

    def _differences(self, other: FittedLens) -> list[tuple[str, Any, Any]]:
        """Return what must be equal of two lenses that are added: name, this one's, the other's."""
        origins = [(name, getattr(self.origin, name), getattr(other.origin, name)) for name in _OF_THE_FIT]
        return [
            *origins,
            ("the width", self.width, other.width),
            ("the list of boundaries", self.boundaries, other.boundaries),
            ("the number of halves", len(self.counts), len(other.counts)),
        ]

    def _place(self, boundary: int) -> int:
        if boundary not in self.boundaries:
            first, last = self.boundaries[0], self.boundaries[-1]
            raise OptionError(
                f"This lens has no matrix of boundary {describe_value(boundary)}; it has those of {first} to {last}."
            )
        return self.boundaries.index(boundary)

    def _properties(self, place: int) -> dict[str, float]:
        """Return the values of ``PROPERTIES`` at one boundary."""
        halves = [self.sums_HBDD[half, place] / count for half, count in enumerate(self.counts) if count]
        mean_DD = self.sums_HBDD[:, place].sum(0) / self.prompts
        identity_DD = torch.eye(self.width)
        size = float(mean_DD.double().square().sum())
        agreement = agreement_rest = math.nan
        if len(halves) == 2:
            agreement = _cosine(*halves)
            agreement_rest = _cosine(*(half - identity_DD for half in halves))
        missing = 0.0 if self.origin.directions is None else 1 - self.origin.directions / self.width
        variance = missing * float(self.squares_B[place]) / self.prompts**2
        return {
            "half_agreement": agreement,
            "half_agreement_rest": agreement_rest,
            "identity_share": float(mean_DD.double().trace()) ** 2 / (self.width * size) if size else math.nan,
            # sampling makes the lens longer than it is, by as much as it is off
            "sampling_error": math.sqrt(variance / (size - variance)) if size > variance else math.nan,
        }


def joined(first: FittedLens, second: FittedLens, origin: LensOrigin) -> FittedLens:
    """Return the lens of two lenses' prompts, half by half."""
    counts = [count + further for count, further in zip(first.counts, second.counts, strict=True)]
    sums_HBDD = first.sums_HBDD + second.sums_HBDD
    return FittedLens(origin, first.boundaries, sums_HBDD, counts, first.squares_B + second.squares_B)


_OF_THE_FIT: Final = ("directions", "skip_first", "n_blocks")
_TOLD_LATER: Final = ("config_hash", "adapters", "schedule", "precision", "fitted")
"""Fields of an origin that files of earlier versions do not tell."""


def text_key(ids: Sequence[int]) -> str:
    """Return a short hash of what of a prompt a lens is fitted to: all tokens but the last, which nothing follows."""
    return hashlib.sha256(repr(list(ids[:-1])).encode()).hexdigest()[:16]


def transported(matrix_DD: Tensor, resid_ND: Tensor) -> Tensor:
    """Return J h of every state, [N, D], computed in float32 and given in the states' own dtype."""
    return (resid_ND.float() @ matrix_DD.mT).to(resid_ND.dtype)


def _cosine(first: Tensor, second: Tensor) -> float:
    """Return the cosine of two matrices as vectors; NaN where one is 0."""
    norms = float(torch.linalg.vector_norm(first.double()) * torch.linalg.vector_norm(second.double()))
    return float((first.double() * second.double()).sum()) / norms if norms else math.nan


def _sum_of_known(first: int | None, second: int | None) -> int | None:
    return None if first is None or second is None else first + second
