"""Residual stream: norms, relative contributions, cosines, angular distances, largest activations.

Source: csordas2025 and hu2025 (residual stream); angular distance of Gromov et al. 2024.
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.core.cycles import Cycle
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.of.residual import DECLARATION, PARTS, ResidualOptions
from bathyscope.measures.over_tokens import max_over_tokens, mean_over_tokens
from bathyscope.measures.stream_norms import StreamNorms
from bathyscope.model.anatomy.precision import widened
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.probe import BaselineView, FinalStates

_EPS = 1e-6
_ANGULAR_TOKENS = 64


class Residual(Measure[ResidualOptions], declared=DECLARATION):
    by_prompt = True
    keeps_boundaries = True

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return ResidualProbe(facts, batch)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        data: dict[str, np.ndarray] = {}
        if self.options.mean_norms == "last_prompt":
            data |= _norms_of_the_last_prompt(merged)
        if self.options.mean_contributions == "width":
            data |= _contributions_by_width(merged, facts.anatomy.width)
        return DECLARATION.dataset(data, {}, **_stream(facts)) if data else None


class ResidualProbe(MeasureProbe):
    """Collects per-block statistics of the plain forward."""

    def __init__(self, facts: ModelFacts, batch: Batch) -> None:
        super().__init__(wants_parts=facts.checks.parts)
        self._facts = facts
        self._batch = batch
        # of every token [batch, tokens], boundary or block after the other; averaged once all blocks have passed
        self._noted: defaultdict[str, list[Tensor]] = defaultdict(list)
        self._largest: list[list[Tensor]] = []
        self._resid: list[Tensor] = []
        self._angular: Tensor | None = None
        self._fixed_point: Tensor | None = None
        self._by_stream = StreamNorms(facts.anatomy, batch) if facts.anatomy.n_streams > 1 else None

    def baseline(self, view: BaselineView) -> None:
        before, after = widened(view.before_BTD), widened(view.after_BTD)
        size = self._add_boundary(view.before_BTD)
        if self._by_stream is not None:
            self._by_stream.add_block(view.before_BTD, view.after_BTD)
        # between two stored states there may be several blocks
        if self._facts.boundaries[view.block] in self._facts.seen_blocks:
            self._add_part("block", after - before, before, size)
            self._noted["cos_neighbour"].append(torch.cosine_similarity(before, after, dim=-1))
        if view.attention_BTD is not None and view.mlp_BTD is not None:
            attention, mlp = widened(view.attention_BTD), widened(view.mlp_BTD)
            self._add_part("attn", attention, before, size)
            # In sequential blocks the MLP reads the stream that attention has added to; in parallel ones h_l.
            if self._facts.anatomy.parallel:
                self._add_part("mlp", mlp, before, size)
            else:
                between = before + attention
                self._add_part("mlp", mlp, between, torch.linalg.vector_norm(between, dim=-1))

    def finish(self, final: FinalStates) -> None:
        self._add_boundary(final.baseline_BTD)
        self._angular = _by_address(angular_distances(self._resid, self._batch), self._facts)
        cycle = self._facts.anatomy.cycle
        if cycle is not None and cycle.period is not None:
            streams = [self._facts.anatomy.active(resid_ND) for resid_ND in self._resid]
            self._fixed_point = fixed_point_residuals(streams, self._batch, cycle)
        self._resid.clear()

    def _add_part(self, part: str, added: Tensor, stream: Tensor, stream_size: Tensor) -> None:
        norm = torch.linalg.vector_norm(added, dim=-1)
        self._note_norm(part, norm)
        self._noted[f"ratio_{part}"].append(norm / stream_size.clamp_min(_EPS))
        self._noted[f"cos_{part}"].append(torch.cosine_similarity(added, stream, dim=-1))

    def _add_boundary(self, resid_BTD: Tensor) -> Tensor:
        """Notes a boundary's stream; its norms [batch, tokens]."""
        size = torch.linalg.vector_norm(widened(resid_BTD), dim=-1)
        if self._by_stream is not None:
            self._by_stream.add_boundary(resid_BTD)
        self._resid.append(self._batch.flat(resid_BTD))
        self._note_norm("resid", size)
        self._largest.append(_largest(resid_BTD, self._batch))
        return size

    def _note_norm(self, part: str, norm_BT: Tensor) -> None:
        if self.tokens is not None:
            self.tokens.step(f"norm_{part}", norm_BT)
        self._noted[f"norm_{part}"].append(norm_BT)

    def _over_tokens(self) -> dict[str, Tensor]:
        """Means and maxima over tokens of all that was noted, [batch, boundaries or blocks]."""
        # the boundaries or blocks of all variables behind one another: one reduction serves them all
        counts = [len(values) for values in self._noted.values()]
        values_NBT = torch.stack([norm_BT for noted in self._noted.values() for norm_BT in noted])
        kinds_KNB = torch.stack(
            [
                mean_over_tokens(values_NBT, self._batch),
                max_over_tokens(values_NBT, self._batch),
                mean_over_tokens(values_NBT, self._batch, first=1),
            ]
        ).cpu()
        return {
            f"{name}{kind}": values_NB.T
            for kind, all_NB in zip(("", "_max", "_rest"), kinds_KNB)
            for name, values_NB in zip(self._noted, all_NB.split(counts))
        }

    def result(self) -> xr.Dataset:
        n_blocks = self._facts.n_blocks
        reduced = self._over_tokens()
        missing = torch.full((self._batch.size, n_blocks), torch.nan, dtype=torch.float64)
        dims_of = {name: label.dims for name, label in (DECLARATION.table or {}).items()}
        data = {name: values for name, values in reduced.items() if dims_of.get(name) == "prompt boundary"}
        of_blocks = [name for name, dims in dims_of.items() if dims == "prompt block"]
        data |= {name: _of_all_blocks(reduced.get(name), missing, self._facts.seen_blocks) for name in of_blocks}
        data |= _locate_largest(self._largest, resid_width=self._facts.anatomy.width)
        assert self._angular is not None
        data["angular"] = self._angular
        # only of models that loop
        data.pop("fixed_point")
        if self._fixed_point is not None:
            data["fixed_point"] = self._fixed_point
        coords: dict[str, Any] = {
            "boundary": np.array(self._facts.boundaries),
            "block": np.arange(n_blocks),
            "distance": np.arange(1, n_blocks + 1),
            "tokens": ["last", "all"],
        }
        if self._by_stream is None:
            return DECLARATION.dataset(data, coords, **_stream(self._facts))
        coords["stream"] = np.arange(self._facts.anatomy.n_streams)
        dataset = DECLARATION.dataset(data | self._by_stream.result(), coords, **_stream(self._facts))
        dataset.attrs["stream_block_missing"] = self._by_stream.reason
        return dataset


def _of_all_blocks(values_PL: Tensor | None, missing_PL: Tensor, blocks: Sequence[int]) -> Tensor:
    """Return values of some blocks as those of all, NaN where one has none."""
    if values_PL is None or values_PL.shape == missing_PL.shape:
        return missing_PL if values_PL is None else values_PL
    everywhere_PL = missing_PL.to(values_PL.dtype, copy=True)
    everywhere_PL[:, list(blocks)] = values_PL
    return everywhere_PL


def _by_address(distances: Tensor, facts: ModelFacts) -> Tensor:
    """Return distances between boundaries that are next to each other in the list as distances in blocks."""
    boundaries, n_blocks = facts.boundaries, facts.n_blocks
    if len(boundaries) == n_blocks + 1:
        return distances
    in_blocks = distances.new_full((*distances.shape[:3], n_blocks), torch.nan)
    for place, boundary in enumerate(boundaries):
        for further, other in enumerate(boundaries[place + 1 :]):
            in_blocks[:, :, place, other - boundary - 1] = distances[:, :, place, further]
    return in_blocks


def _largest(resid_BTD: Tensor, batch: Batch) -> list[Tensor]:
    """Per prompt the largest |h|, where it is among tokens × channels, and the median |h|; float64 [3] each."""
    largest_of_prompts = []
    for row, length in zip(resid_BTD, batch.lengths):
        # In the stream's own dtype: to widen it first would change no order, and copy all of it.
        size = row[:length].abs().flatten()
        largest, index = size.max(0)
        largest_of_prompts.append(torch.stack([largest.double(), index.double(), widened(size).median().double()]))
    return largest_of_prompts


def _locate_largest(largest: Sequence[Sequence[Tensor]], resid_width: int) -> dict[str, Tensor]:
    """The largest |h| of every boundary and prompt, its token and channel, and its ratio to the median |h|."""
    values_PBK = torch.stack([torch.stack(list(by_prompt)) for by_prompt in zip(*largest)]).cpu()
    value, index, median = values_PBK.unbind(-1)
    return {
        "largest": value,
        "largest_token": index.long() // resid_width,
        "largest_channel": index.long() % resid_width,
        "largest_ratio": value / median.clamp_min(1e-12),
    }


def angular_distances(resid_BND: Sequence[Tensor], batch: Batch) -> Tensor:
    """Angular distance between boundaries, [prompt, last/all, boundary, distance 1…L], NaN beyond the last boundary.

    Args:
        resid_BND: every boundary, of all real tokens [N, width] each, prompt after prompt.
    """
    boundaries = len(resid_BND)
    distances = torch.full((batch.size, 2, boundaries, boundaries - 1), torch.nan, dtype=torch.float64)
    first = 0
    for prompt, length in enumerate(batch.lengths):
        total_BB = last_BB = resid_BND[0].new_zeros(boundaries, boundaries, dtype=torch.float64)
        # a few tokens at a time: together, all boundaries would be there twice
        for pieces in zip(*(resid_ND[first : first + length].split(_ANGULAR_TOKENS) for resid_ND in resid_BND)):
            piece_BND = torch.stack(pieces)
            # near 0 and 1 the arc cosine of a float32 cosine keeps only three digits
            unit_TBD = torch.nn.functional.normalize(piece_BND.double(), dim=-1).transpose(0, 1)
            angle_TBB = torch.arccos((unit_TBD @ unit_TBD.transpose(1, 2)).clamp(-1, 1)) / torch.pi
            total_BB, last_BB = total_BB + angle_TBB.sum(0), angle_TBB[-1]
        # from here on on the host, which need not know how many distances there are
        angles_KBB = torch.stack([last_BB, total_BB / length]).cpu()
        for distance in range(1, boundaries):
            distances[prompt, :, : boundaries - distance, distance - 1] = angles_KBB.diagonal(distance, dim1=1, dim2=2)
        first += length
    return distances


def fixed_point_residuals(resid_BND: Sequence[Tensor], batch: Batch, cycle: Cycle) -> Tensor:
    """How far each step's stream is from that of the same step one loop before, [prompt, block].

    It is ‖h^r − h^{r−1}‖ / ‖h^{r−1}‖, a mean over tokens; NaN in the first loop and outside of loops.

    Args:
        resid_BND: every boundary, of all real tokens [N, width] each, prompt after prompt.
    """
    n_blocks = len(resid_BND) - 1
    residuals = torch.full((batch.size, n_blocks), torch.nan, dtype=torch.float64)
    for step, loop in enumerate(cycle.loop):
        if loop < 1 or cycle.period is None:
            continue
        after, before = resid_BND[step + 1].double(), resid_BND[step + 1 - cycle.period].double()
        change = torch.linalg.vector_norm(after - before, dim=-1)
        values_N = (change / torch.linalg.vector_norm(before, dim=-1).clamp_min(_EPS)).cpu()
        residuals[:, step] = torch.stack([tokens.mean() for tokens in values_N.split(list(batch.lengths))])
    return residuals


def _stream(facts: ModelFacts) -> dict[str, str]:
    """In parallel blocks there is no stream between attention and MLP."""
    return {"stream": "h_l"} if facts.anatomy.parallel else {}


def _norms_of_the_last_prompt(merged: xr.Dataset) -> dict[str, np.ndarray]:
    """csordas2025's mean norms: what each prompt adds to the running sum is dropped, the tokens are counted."""
    tokens = merged["n_tokens"].values
    names = [f"norm_{part}" for part in ("resid", "attn", "mlp")]
    return {f"published_{name}": merged[name].values[-1] * tokens[-1] / tokens.sum() for name in names}


def _contributions_by_width(merged: xr.Dataset, width: int) -> dict[str, np.ndarray]:
    """hu2025's mean ratios and cosines: each prompt counts as many tokens as the stream has channels."""
    tokens = merged["n_tokens"].values
    names = [f"{kind}_{part}" for kind in ("ratio", "cos") for part in PARTS]
    return {
        f"published_{name}": (merged[name].values * tokens[:, None]).sum(0) / (len(tokens) * width) for name in names
    }
