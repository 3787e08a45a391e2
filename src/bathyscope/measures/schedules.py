"""What drop, swap and repeat share: next-token statistics of the model under other schedules of its blocks.

Per token: KL(normal ‖ intervened), top-1 agreement, entropy and cross-entropy of the next token, averaged over the
positions that have a next token. Source: lad2024, layer interventions.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.errors import ModelError, OptionError, warn
from bathyscope.measures.base import MeasureProbe, ModelFacts
from bathyscope.measures.declaration import Declaration
from bathyscope.schedule import Schedule
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare, same_or
from bathyscope.wavefront.probe import FinalStates
from bathyscope.wavefront.rows import Request

_VARIABLES = {"kl": "kl_from_reference", "top1_agreement": "top1_agreement", "entropy": "entropy", "loss": "loss"}


def check_blocks(blocks: Sequence[int] | None, allowed: int, measure: str) -> tuple[int, ...]:
    """The asked block indices, or all.

    Args:
        allowed: how many there are (the last ones of swap and repeat have no partner).

    Raises:
        OptionError: an index out of range.
    """
    if blocks is None:
        return tuple(range(allowed))
    for block in blocks:
        if not 0 <= block < allowed:
            raise OptionError(f"{measure}: block {block} is out of range; allowed: 0 to {allowed - 1}.")
    return tuple(int(b) for b in blocks)


def runnable(schedules: Mapping[int, Schedule], facts: ModelFacts, measure: str, asked: bool) -> dict[int, Schedule]:
    """The schedules in which every block that takes its keys and values from another one finds them (Gemma 4).

    The others are left out with a warning, or refused where they were ``asked`` for one by one.

    Raises:
        ModelError: an asked schedule cannot run, or none can.
    """
    lacking = {i: found for i, schedule in schedules.items() if (found := facts.checks.lacking(schedule))}
    if not lacking:
        return dict(schedules)
    first, (block, source) = next(iter(lacking.items()))
    text = (
        f"{measure}:{first} cannot run: in this {facts.anatomy.family.name} model block {block} takes the keys and "
        f"values of block {source}, which would not have run before it"
    )
    kept = {i: schedule for i, schedule in schedules.items() if i not in lacking}
    if asked or not kept:
        raise ModelError(f"{text}. Leave {', '.join(map(str, lacking))} out of {measure}'s blocks.")
    warn(f"{text}. Left out of {measure}: {', '.join(map(str, lacking))}.")
    return kept


class ScheduleProbe(MeasureProbe):
    """Reads out the final states of rows that follow other schedules.

    Args:
        rows: index along the measure's dimension → its row.
        dimension: ``dropped``, ``swapped`` or ``start``.
        positions: over which positions of a prompt the means go, see ``declared.schedules``.
    """

    def __init__(
        self,
        declaration: Declaration,
        facts: ModelFacts,
        batch: Batch,
        rows: Mapping[int, Request],
        dimension: str,
        positions: str,
    ) -> None:
        super().__init__(list(rows.values()))
        self._facts, self._batch, self._rows, self._dimension = facts, batch, rows, dimension
        self._declaration, self._positions = declaration, positions
        self._found: dict[str, Tensor] = {}
        self._noise = np.zeros(batch.size)

    def finish(self, final: FinalStates) -> None:
        batch = self._batch
        control = batch.flat(final.control_BTD)
        states = [batch.flat(final.full[r]) for r in self._rows.values()]
        found = compare(
            final.readout,
            control,
            [*states, control, same_or(control, batch.flat(final.baseline_BTD))],
            tuple(_VARIABLES.values()),
            vocabulary=self._facts.anatomy.vocabulary,
            targets_N=batch.next_ids_N,
        )
        for name, values in found.items():
            own = self._counted(name)
            self._found[name] = torch.stack([piece[:, own].mean(-1) for piece in batch.split(values)])
        # one way to the host for all of them
        self._found = dict(zip(self._found, torch.stack(list(self._found.values())).cpu()))
        if self.tokens is not None and self._dimension == "dropped":
            self.tokens.put("added_loss", found["loss"][:-2] - found["loss"][-2], dropped=list(self._rows))
            self.tokens.put("added_kl", found["kl_from_reference"][:-2])
        plain = found["kl_from_reference"][-1]
        self._noise = torch.stack([piece.max() for piece in batch.split(plain)]).cpu().numpy()
        if not all(bool(torch.isfinite(values).all()) for values in self._found.values()):
            raise ModelError(
                f"A schedule of {self._dimension} blocks gives NaN or Inf predictions on this input; load the model "
                "with a wider dtype (dtype='float32')."
            )

    def _counted(self, metric: str) -> slice:
        """The positions of a prompt that a metric's mean is over."""
        return slice(1, None) if self._positions == "published" and metric != "loss" else slice(None, -1)

    def noise(self) -> np.ndarray:
        return self._noise

    def result(self) -> xr.Dataset:
        data: dict[str, Tensor | np.ndarray] = {
            name: self._found[metric][:, :-2] for name, metric in _VARIABLES.items()
        }
        data |= {f"baseline_{name}": self._found[name][:, -2] for name in ("entropy", "loss")}
        # all but the last token, or but the first
        data["n_averaged"] = np.array(self._batch.lengths, dtype=np.int64) - 1
        return self._declaration.dataset(data, {self._dimension: np.array(list(self._rows), dtype=np.int64)})
