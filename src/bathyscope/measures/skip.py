"""Skip effects: how much later blocks change their contribution when one block is left out at some tokens.

E[s,l] = ‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6) per token, O[s] = ‖y − ȳ‖₂, where block s is skipped.
``all``: at every token from ``protect_first`` on, measured at every token. ``future``: only before a sampled
token t, measured from t on, pooled over the sampled t. Source: csordas2025 and hu2025, layer skipping.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.measures.base import REDUCTIONS, Measure, MeasureProbe, ModelFacts, require_range, variable
from bathyscope.measures.positions import COUNT, SHORTEST, check_positions, sample_positions
from bathyscope.measures.tokens import reduce_tokens
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare, same_or
from bathyscope.wavefront.probe import FinalStates, RowsView
from bathyscope.wavefront.rows import Request, SkipBefore, SkipRow

PARTS = ("block",)
_EPS = 1e-6
_SOURCE = "csordas2025, layer skipping; hu2025, layer skipping"


@dataclass(frozen=True)
class SkipOptions:
    """Options of the skip effects.

    Args:
        parts: what is skipped; "block" = the whole block.
        positions: for every prompt the tokens t of the future effects; None = sampled (every 8th token,
            shuffled, the first four); an empty list = no future effects for that prompt.
        protect_first: how many first tokens keep the skipped block's real output.
    """

    parts: tuple[str, ...] = ("block",)
    positions: tuple[tuple[int, ...], ...] | None = None
    protect_first: int = 1


class Skip(Measure[SkipOptions]):
    """Skip effects on all tokens and on future tokens."""

    name = "skip"
    options_type = SkipOptions

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        lengths = [len(p) for p in prompts]
        for part in self.options.parts:
            if part not in PARTS:
                raise OptionError(
                    f"skip: part {part!r} is unknown.{did_you_mean(part, PARTS)} Allowed: {', '.join(PARTS)}."
                )
        if not self.options.parts:
            raise OptionError(f"skip: parts is empty; allowed: {', '.join(PARTS)}.")
        require_range("skip: protect_first", self.options.protect_first, 0, min(lengths))
        if self.options.positions is not None:
            self._positions = check_positions(self.options.positions, lengths, self.name)
            return
        self._positions = sample_positions(lengths, seed)
        without = sum(not own for own in self._positions)
        if without:
            warnings.warn(
                f"skip: {without} of {len(lengths)} prompts are too short for a sampled position (shorter than "
                f"{SHORTEST} tokens); their effects on future tokens are missing. Longer prompts, or positions, "
                "would give them.",
                stacklevel=4,
            )

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return facts.n_blocks * (1 + COUNT / 2) / 2

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        width = max((len(p) for p in self._positions), default=0)
        return SkipProbe(self.options, facts, batch, [self._positions[i] for i in indices], width)


class SkipProbe(MeasureProbe):
    """Reduces per-token effects to mean, 95th percentile and maximum, block by block.

    Args:
        positions: the tokens t of each prompt of the batch.
        samples: length of the ``sample`` dimension (the most positions any prompt has).
    """

    def __init__(
        self,
        options: SkipOptions,
        facts: ModelFacts,
        batch: Batch,
        positions: Sequence[tuple[int, ...]],
        samples: int,
    ) -> None:
        n_blocks, protect = facts.n_blocks, options.protect_first
        self._all: dict[Request, int] = {SkipRow(s, protect): s for s in range(n_blocks)}
        self._future: dict[Request, int] = {
            SkipBefore(s, prompt, t, protect): s
            for prompt, starts in enumerate(positions)
            for t in dict.fromkeys(starts)
            for s in range(n_blocks)
        }
        super().__init__([*self._all, *self._future])
        self._facts, self._batch, self._positions, self._samples = facts, batch, positions, samples
        # results stay on the model's device until the batch is done: no waiting for the accelerator on the way
        device, shape = batch.ids_BT.device, (batch.size, len(REDUCTIONS), n_blocks)
        self._effect_all = torch.zeros(*shape, n_blocks, dtype=torch.float64, device=device)
        self._effect_future = torch.zeros(*shape, n_blocks, dtype=torch.float64, device=device)
        for prompt, length in enumerate(batch.lengths):
            # the skipped block itself: its whole contribution is gone at every token that skips it
            own = (torch.arange(length, device=device) >= protect).double()[None]
            index = torch.arange(n_blocks, device=device)
            self._effect_all[prompt, :, index, index] = reduce_tokens(own)
        self._output_all = torch.zeros(shape, dtype=torch.float64, device=device)
        self._output_future = torch.zeros(shape, dtype=torch.float64, device=device)
        for prompt, starts in enumerate(positions):
            if not starts:
                self._effect_future[prompt] = torch.nan
                self._output_future[prompt] = torch.nan
        self._pooled: dict[int, list[tuple[list[int], Tensor]]] = {}
        self._noise = torch.zeros(batch.size, dtype=torch.float64, device=device)

    def rows(self, view: RowsView) -> None:
        wanted = self._all if view.prompt is None else self._future
        found = [(i, wanted[r]) for i, served in enumerate(view.requests) for r in served if r in wanted]
        self._note_noise(view)
        if not found:
            return
        rows = [i for i, _ in found]
        skipped = [s for _, s in found]
        effect_RBT = relative_change(view, rows)
        if view.prompt is not None:
            self._pooled.setdefault(view.prompt, []).append((skipped, effect_RBT[:, 0]))
            return
        for prompt, length in enumerate(self._batch.lengths):
            reduced = reduce_tokens(effect_RBT[:, prompt, :length])
            self._effect_all[prompt, :, skipped, view.block] = reduced

    def block_done(self, block: int) -> None:
        for prompt, pieces in self._pooled.items():
            by_row: dict[int, list[Tensor]] = {}
            for skipped, effect_RN in pieces:
                for row, s in enumerate(skipped):
                    by_row.setdefault(s, []).append(effect_RN[row])
            order = sorted(by_row)
            effect = torch.stack([torch.cat(by_row[s]) for s in order])
            self._effect_future[prompt, :, order, block] = reduce_tokens(effect)
        self._pooled.clear()

    def finish(self, final: FinalStates) -> None:
        vocabulary = self._facts.anatomy.vocabulary
        batch = self._batch
        requests = list(self._all)
        control = batch.flat(final.control_BTD)
        rows = [batch.flat(final.full[r]) for r in requests] + [same_or(control, batch.flat(final.baseline_BTD))]
        change = compare(final.readout, control, rows, ["l2"], vocabulary=vocabulary)["l2"]
        for prompt, piece in enumerate(batch.split(change)):
            reduced = reduce_tokens(piece)
            self._output_all[prompt] = reduced[:, :-1]
            self._noise[prompt] = torch.maximum(self._noise[prompt], reduced[2, -1])
        pooled: dict[int, list[Tensor]] = {}
        for tail in final.tails:
            mine = [r for r in tail.rows if r in self._future]
            if mine:
                mine.sort(key=lambda r: self._future[r])
                rows = [tail.rows[r] for r in mine]
                found = compare(final.readout, tail.control_ND, rows, ["l2"], vocabulary=vocabulary)["l2"]
                pooled.setdefault(tail.prompt, []).append(found)
        for prompt, pieces in pooled.items():
            # the last block has no row: skipping it before t changes nothing from t on
            self._output_future[prompt, :, :-1] = reduce_tokens(torch.cat(pieces, dim=-1))

    def _note_noise(self, view: RowsView) -> None:
        plain = view.baseline_after.float() - view.baseline_before.float()
        control = view.control_after.float() - view.control_before.float()
        gap = torch.linalg.vector_norm(control - plain, dim=-1)
        gap = gap / torch.linalg.vector_norm(plain, dim=-1).clamp_min(_EPS)
        if view.prompt is not None:
            self._noise[view.prompt] = torch.maximum(self._noise[view.prompt], gap.max().double())
            return
        self._noise = torch.maximum(self._noise, gap.masked_fill(~self._batch.valid_BT, 0.0).amax(-1).double())

    def noise(self) -> np.ndarray:
        return self._noise.cpu().numpy()

    def result(self) -> xr.Dataset:
        n_blocks = self._facts.n_blocks
        dims = ("prompt", "part", "reduction", "skipped")
        data = {
            "effect_all": _effect(self._effect_all, "at all tokens"),
            "effect_future": _effect(self._effect_future, "at later tokens"),
            "output_all": _output(self._output_all, dims, "at all tokens"),
            "output_future": _output(self._output_future, dims, "at later tokens"),
        }
        positions = np.full((self._batch.size, self._samples), -1, dtype=np.int64)
        for prompt, starts in enumerate(self._positions):
            positions[prompt, : len(starts)] = starts
        data["positions"] = variable(
            ("prompt", "sample"),
            positions,
            "sampled token t of the future effects (−1 = none)",
            "token",
            source=_SOURCE,
        )
        coords = {
            "part": list(PARTS),
            "reduction": list(REDUCTIONS),
            "skipped": np.arange(n_blocks),
            "block": np.arange(n_blocks),
            "sample": np.arange(self._samples),
        }
        return xr.Dataset(data, coords)


def relative_change(view: RowsView, rows: Sequence[int]) -> Tensor:
    """‖c̄_l − c_l‖₂ / max(‖c_l‖₂, 1e-6) of the given rows against the control, [rows, batch, tokens]."""
    picked: slice | list[int] = list(rows)
    if list(rows) == list(range(rows[0], rows[0] + len(rows))):
        picked = slice(rows[0], rows[0] + len(rows))
    control = view.control_after.float() - view.control_before.float()
    size = torch.linalg.vector_norm(control, dim=-1).clamp_min_(_EPS)
    change = view.after[picked].float() - view.before[picked].float()
    return torch.linalg.vector_norm(change.sub_(control), dim=-1).div_(size)


def _effect(values: Tensor, where: str) -> xr.Variable:
    return variable(
        ("prompt", "part", "reduction", "skipped", "block"),
        values[:, None],
        f"relative change of a block's contribution when an earlier one is skipped, {where}",
        "1",
        formula="‖c_l − c̄_l‖₂ / max(‖c_l‖₂, 1e-6), reduced over tokens",
        source=_SOURCE,
        direction="higher = the block depends more on the skipped one",
    )


def _output(values: Tensor, dims: Sequence[str], where: str) -> xr.Variable:
    return variable(
        dims,
        values[:, None],
        f"change of the output probabilities when a block is skipped, {where}",
        "1",
        formula="‖y − ȳ‖₂ ≤ √2, reduced over tokens",
        source=_SOURCE,
        direction="higher = the output depends more on the skipped block",
    )
