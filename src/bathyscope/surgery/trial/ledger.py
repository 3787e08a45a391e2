"""Costs of subsets by prompt: computed once, batch by batch, and stored in a folder as soon as each batch is done."""

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
from bathyscope.runs.netcdf import encode
from bathyscope.runs.pieces import Pieces
from bathyscope.runs.shards import decode
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
        pieces: where finished work is stored; None = in memory alone.
        over: which tokens of a prompt count.
        progress: show a bar where it takes long.
        samplers: which tokens of the prompts are read out, by role; None = all of them.
    """

    def __init__(
        self,
        model: Model,
        samples: Mapping[Role, Prompts],
        pieces: Pieces | None,
        over: Over,
        progress: bool,
        samplers: Mapping[Role, TokenSampler] | None = None,
    ) -> None:
        self.wave = Wavefront(model.anatomy, tails=model.checks.tails)
        self.model, self.samples, self._pieces = model, samples, pieces
        self._over, self._progress, self._samplers = over, progress, samplers
        self._values: dict[tuple[Role, tuple[Metric, ...]], dict[History, dict[Metric, FloatArray]]] = {}
        self._places = {
            role: plan_batches(prompts.lengths, 1, self.wave.policy.tokens, model.anatomy.equal_lengths)
            for role, prompts in samples.items()
        }
        self.full_loss: dict[Role, FloatArray] = {}
        """[prompts], loss of the full model, of the samples that were measured."""
        self.calls: dict[Role, int] = dict.fromkeys(samples, 0)
        """Calls of a block on every batch of a sample, so far."""

    def batches(self, role: Role) -> list[Batch]:
        """Return the batches of a sample."""
        return [self._batch(role, places) for places in self._places[role]]

    def planned(self, role: Role, histories: Sequence[History], metrics: Sequence[Metric] = ("loss",)) -> int:
        """Return the calls that asking for these histories would add: 0 where all were computed."""
        missing = self._missing(role, histories, tuple(metrics))
        return Tree(missing).calls if missing else 0

    def values(
        self, role: Role, histories: Sequence[History], metrics: Sequence[Metric] = ("loss",), title: str = "measuring"
    ) -> Values:
        """Return metric → [histories, prompts] in the order of the sample; ``loss`` is that above the full model's.

        Histories that were asked for earlier are not run again.
        """
        names = tuple(metrics)
        computed = self._values.setdefault((role, names), {})
        missing = self._missing(role, histories, names)
        if missing:
            computed.update(self._compute(role, missing, names, title))
        return {metric: np.stack([computed[history][metric] for history in histories]) for metric in names}

    def _missing(self, role: Role, histories: Sequence[History], metrics: tuple[Metric, ...]) -> list[History]:
        """Return the full model and the histories that were not computed yet; nothing where all were."""
        computed = self._values.get((role, metrics), {})
        missing = [history for history in dict.fromkeys(histories) if history not in computed and history != self._full]
        # costs are differences from the full model on the same batch, so that it is run with each new set
        return [self._full, *missing] if missing else []

    @property
    def _full(self) -> History:
        return without(self.model.n_blocks, ())

    def _compute(
        self, role: Role, histories: Sequence[History], metrics: tuple[Metric, ...], title: str
    ) -> dict[History, dict[Metric, FloatArray]]:
        tree = Tree(histories)
        places = self._places[role]
        values = {metric: np.full((len(histories), len(self.samples[role])), np.nan) for metric in metrics}
        # The name of a piece says which histories are in it, so that another search in the folder finds its own.
        digest = hashlib.sha256(json.dumps([metrics, histories]).encode()).hexdigest()[:16]
        text = f"{title}: {tree.calls:,} calls of a block on each of {len(places)} batches ({role})"
        with ProgressBar(text, tree.calls * len(places), quiet=not self._progress) as bar:
            for number, batch_places in enumerate(places):
                name = f"{_PIECES}/{role}/{digest}-{number:05d}.nc"
                before = tree.calls * number
                piece = self._read_piece(name)
                if piece is None:
                    batch = self._batch(role, batch_places)
                    advance = partial(_advance, bar, before)
                    piece = tree_costs(
                        self.wave,
                        batch,
                        tree,
                        metrics,
                        advance,
                        over=self._over,
                        samples=self._token_samples(role, batch_places, batch),
                    )
                    self._store_piece(name, piece)
                for metric in metrics:
                    values[metric][:, batch_places] = piece[metric]
                bar.advance_to(before + tree.calls)
        self.calls[role] += tree.calls
        # The full model is the first history of every tree.
        self.full_loss.setdefault(role, values["loss"][0].copy())
        values["loss"] = values["loss"] - values["loss"][0]
        return {history: {m: values[m][row] for m in metrics} for row, history in enumerate(histories)}

    def _batch(self, role: Role, places: Sequence[int]) -> Batch:
        prompts = [self.samples[role][place] for place in places]
        return Batch.of([p.ids for p in prompts], self.model.device, [p.answer_tokens for p in prompts])

    def _token_samples(self, role: Role, numbers: Sequence[int], batch: Batch) -> list[TokenSample] | None:
        if self._samplers is None:
            return None
        sampler = self._samplers[role]
        # the last token has no next one
        return [sampler.sample(number, 0, length - 1) for number, length in zip(numbers, batch.lengths)]

    def _read_piece(self, name: str) -> Values | None:
        content = None if self._pieces is None else self._pieces.find(name)
        if content is None:
            return None
        piece: Values = {metric: value.values for metric, value in decode(content)["piece"].data_vars.items()}  # type: ignore[misc]
        return piece

    def _store_piece(self, name: str, piece: Values) -> None:
        if self._pieces is not None:
            variables = {metric: (("history", "prompt"), value) for metric, value in piece.items()}
            self._pieces.put(name, encode({"piece": xr.Dataset(variables)}))


def _advance(bar: ProgressBar, before: int, calls: int) -> None:
    bar.advance_to(before + calls)
