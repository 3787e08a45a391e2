"""Costs of subsets by prompt: computed once, batch by batch, and kept in a folder as soon as each batch is done."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Final, Literal

import numpy as np
import xarray as xr

from bathyscope.core.arrays import FloatArray
from bathyscope.core.progress import ProgressBar
from bathyscope.measures.costs import Metric, Over, Values, tree_costs
from bathyscope.measures.token_samples import TokenSample, TokenSampler
from bathyscope.model import Model
from bathyscope.prompts.prompts import Prompts
from bathyscope.runs.pieces import Pieces
from bathyscope.runs.shards import decode, encode
from bathyscope.wavefront.batch import Batch, plan_batches
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.histories import History, Tree, without

Role = Literal["calibration", "test"]
_PIECES: Final = "costs"


class Ledger:
    """What histories cost each prompt of a sample.

    Args:
        model: what is run.
        samples: prompts by the role that they have.
        kept: where finished pieces are; None = in memory alone.
        over: which tokens of a prompt count.
        progress: show a bar where it takes long.
        samplers: which tokens of the prompts are read out, by role; None = all of them.
    """

    def __init__(
        self,
        model: Model,
        samples: Mapping[Role, Prompts],
        kept: Pieces | None,
        over: Over,
        progress: bool,
        samplers: Mapping[Role, TokenSampler] | None = None,
    ) -> None:
        self.wave = Wavefront(model.anatomy, tails=model.checks.tails)
        self.model, self.samples, self._kept = model, samples, kept
        self._over, self._progress, self._samplers = over, progress, samplers
        self._known: dict[tuple[Role, tuple[Metric, ...]], dict[History, dict[Metric, FloatArray]]] = {}
        self._places = {
            role: plan_batches(own.lengths, 1, self.wave.policy.tokens, model.anatomy.equal_lengths)
            for role, own in samples.items()
        }
        self.full_loss: dict[Role, FloatArray] = {}
        """[prompts], loss of the full model, of the samples that were measured."""
        self.calls: dict[Role, int] = dict.fromkeys(samples, 0)
        """Calls of a block on every batch of a sample, so far."""

    def batches(self, role: Role) -> list[Batch]:
        """The batches of a sample."""
        return [self._batch(role, places) for places in self._places[role]]

    def planned(self, role: Role, histories: Sequence[History], metrics: Sequence[Metric] = ("loss",)) -> int:
        """The calls that asking for these histories would add: 0 where all are known."""
        missing = self._missing(role, histories, tuple(metrics))
        return Tree(missing).calls if missing else 0

    def values(
        self, role: Role, histories: Sequence[History], metrics: Sequence[Metric] = ("loss",), title: str = "measuring"
    ) -> Values:
        """Metric → [histories, prompts] in the order of the sample; ``loss`` is that above the full model's.

        Histories that were asked for before are not run again.
        """
        asked = tuple(metrics)
        known = self._known.setdefault((role, asked), {})
        missing = self._missing(role, histories, asked)
        if missing:
            known.update(self._computed(role, missing, asked, title))
        return {metric: np.stack([known[history][metric] for history in histories]) for metric in asked}

    def _missing(self, role: Role, histories: Sequence[History], metrics: tuple[Metric, ...]) -> list[History]:
        """The full model, and what is not known yet; nothing where all is."""
        known = self._known.get((role, metrics), {})
        found = [history for history in dict.fromkeys(histories) if history not in known and history != self._full]
        return [self._full, *found] if found else []

    @property
    def _full(self) -> History:
        return without(self.model.n_blocks, ())

    def _computed(
        self, role: Role, histories: Sequence[History], metrics: tuple[Metric, ...], title: str
    ) -> dict[History, dict[Metric, FloatArray]]:
        tree, places = Tree(histories), self._places[role]
        found = {metric: np.full((len(histories), len(self.samples[role])), np.nan) for metric in metrics}
        digest = hashlib.sha256(json.dumps([metrics, histories]).encode()).hexdigest()[:16]
        said = f"{title}: {tree.calls:,} calls of a block on each of {len(places)} batches ({role})"
        with ProgressBar(said, tree.calls * len(places), quiet=not self._progress) as bar:
            for number, own in enumerate(places):
                name, before = f"{_PIECES}/{role}/{digest}-{number:05d}.nc", tree.calls * number
                piece = self._read(name)
                if piece is None:
                    batch = self._batch(role, own)
                    advance = partial(_advance, bar, before)
                    piece = tree_costs(
                        self.wave,
                        batch,
                        tree,
                        metrics,
                        advance,
                        over=self._over,
                        samples=self._token_samples(role, own, batch),
                    )
                    self._keep(name, piece)
                for metric in metrics:
                    found[metric][:, own] = piece[metric]
                bar.advance_to(before + tree.calls)
        self.calls[role] += tree.calls
        self.full_loss.setdefault(role, found["loss"][0].copy())
        found["loss"] = found["loss"] - found["loss"][0]
        return {history: {m: found[m][row] for m in metrics} for row, history in enumerate(histories)}

    def _batch(self, role: Role, places: Sequence[int]) -> Batch:
        prompts = [self.samples[role][place] for place in places]
        return Batch.of([p.ids for p in prompts], self.model.device, [p.answer_tokens for p in prompts])

    def _token_samples(self, role: Role, numbers: Sequence[int], batch: Batch) -> list[TokenSample] | None:
        if self._samplers is None:
            return None
        sampler = self._samplers[role]
        # the last token has no next one
        return [sampler.sample(number, 0, length - 1) for number, length in zip(numbers, batch.lengths)]

    def _read(self, name: str) -> Values | None:
        content = None if self._kept is None else self._kept.find(name)
        if content is None:
            return None
        found: Values = {metric: value.values for metric, value in decode(content)["piece"].data_vars.items()}  # type: ignore[misc]
        return found

    def _keep(self, name: str, piece: Values) -> None:
        if self._kept is not None:
            held = {metric: (("history", "prompt"), value) for metric, value in piece.items()}
            self._kept.put(name, encode({"piece": xr.Dataset(held)}))


def _advance(bar: ProgressBar, before: int, calls: int) -> None:
    bar.advance_to(before + calls)
