"""Watching a training: a survey of the model as it is, every so many steps, one run a step in one folder.

A survey never stops a training: what fails is told once, and the training goes on.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from bathyscope.errors import BathyscopeError, StoreError, warn
from bathyscope.options import Range
from bathyscope.prompts.source import Source, require_there
from bathyscope.runs.folder import folder_path
from bathyscope.runs.run import Run
from bathyscope.statistics.bootstrap import mean_intervals
from bathyscope.statistics.sampling import Sampling
from bathyscope.surveying.training.twin import random_states_kept, twin_of, unwrapped

MEASURES: Final = ("lens", "skip", "drop")
IDLE: Final = 0.01
"""Nats: a block whose drop costs surely less than this, and surely gains less, is idle."""
STEP: Final = "step-{:08d}"
_ABOUT: Final = "course.json"
_LONGEST: Final = 200
"""Characters of the prompts that stand in it."""


class Watch:
    """Surveys a model under training at the steps that are due.

    Args:
        model: the model; wrapped in data parallelism, compiled or with adapters if it must be.
        prompts: as for ``survey``; read once, so that every step sees the same tokens.
        out: folder of the course, a run for each step in it.
        every: steps between two surveys.
        measures: as for ``survey``; lens, skip and drop are what the numbers below are of.
        max_share: share of the training time since the last survey that one may take (1 = as long again); where it
            would take more, it is left out until enough time has passed.
        seed: as for ``survey``.
        tokenizer: of the model, where its folder has none.

    Raises:
        OptionError, PromptError: what is asked for cannot be done.
        ModelError: weights that are scattered over processes.
        StoreError: the folder holds the course of another training.

    Example:
        >>> watch = bathyscope.watch(model.hf, [[5, 9, 7, 30]], out="runs/watched", every=2)
        >>> sorted(watch(2))[:2]
        ['depth/idle_blocks', 'depth/own']
    """

    def __init__(
        self,
        model: nn.Module,
        prompts: Source,
        out: str | Path,
        *,
        every: int = 500,
        measures: Sequence[str] = MEASURES,
        max_share: float = 0.05,
        seed: int = 0,
        tokenizer: Any = None,
    ) -> None:
        Range(1).check(every, "every")
        Range(0.0001).check(max_share, "max_share")
        require_there(prompts)
        unwrapped(model)
        self.folder = folder_path(out, "out")
        self._model, self._prompts, self._tokenizer = model, prompts, tokenizer
        self.every, self._measures, self._max_share, self._seed = every, list(measures), max_share, seed
        self._survey_seconds = 0.0
        self._surveyed_at = time.monotonic()
        self._has_warned = self._has_thinned = False
        self._require_own_folder()

    def __call__(self, step: int) -> dict[str, float]:
        """Survey the model where the step is due; return the numbers to log, empty where it is not."""
        if step % self.every or not _is_first_process() or self._is_too_costly():
            return {}
        began = time.monotonic()
        try:
            with random_states_kept():
                values = depths_of(self._survey(step))
        except Exception as error:  # a training of days must not end for a measurement
            reason = str(error) if isinstance(error, BathyscopeError) else f"{type(error).__name__}: {error}"
            self._warn_once(f"The survey at step {step} failed, and the training goes on: {reason}")
            return {}
        finally:
            self._surveyed_at = time.monotonic()
        self._survey_seconds = self._surveyed_at - began
        return {**values, "depth/seconds": self._survey_seconds}

    def _survey(self, step: int) -> Run:
        from bathyscope.model.loading import load
        from bathyscope.surveying.engines import survey

        model = load(twin_of(self._model), tokenizer=self._tokenizer)
        out = self.folder / STEP.format(step)
        return survey(model, self._prompts, self._measures, out=out, seed=self._seed, progress=False)

    def _is_too_costly(self) -> bool:
        """Say whether the next survey would take more than its share of the time since the last one."""
        trained = time.monotonic() - self._surveyed_at
        too_costly = self._survey_seconds > self._max_share * trained
        if too_costly and not self._has_thinned:
            self._has_thinned = True
            warn(
                f"A survey takes {self._survey_seconds:.3g} s, more than {self._max_share:.0%} of the {trained:.3g} s "
                "of training since the last one, and is left out until it is not. Give fewer prompts, a larger every=, "
                "or another max_share=."
            )
        return too_costly

    def _warn_once(self, message: str) -> None:
        if not self._has_warned:
            self._has_warned = True
            warn(message)

    def _require_own_folder(self) -> None:
        """Begin the course's folder, or see that it is this training's."""
        config = getattr(unwrapped(self._model), "config", None)
        shape = {
            name: getattr(config, name, None)
            for name in ("model_type", "num_hidden_layers", "hidden_size", "vocab_size")
        }
        about = {
            "shape": shape,
            "measures": self._measures,
            "seed": self._seed,
            "prompts": _abbreviated(str(self._prompts)),
        }
        place = self.folder / _ABOUT
        if place.exists():
            stored = json.loads(place.read_text(encoding="utf-8"))
            if stored != about:
                changed = ", ".join(name for name in about if stored.get(name) != about[name])
                raise StoreError(
                    f"{str(self.folder)!r} holds the course of another training ({changed} differ). Give another "
                    "folder (out=…)."
                )
            return
        if _is_first_process():
            self.folder.mkdir(parents=True, exist_ok=True)
            place.write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")


def _abbreviated(text: str) -> str:
    """Return a text, or the beginning of a long one with a hash of all of it."""
    if len(text) <= _LONGEST:
        return text
    return f"{text[:_LONGEST]}… sha256:{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()}"


def watch(model: nn.Module, prompts: Source, out: str | Path, **options: Any) -> Watch:
    """Return what surveys a model at the steps of a training loop: ``watch(step)`` gives the numbers to log.

    Args:
        model: the model under training.
        prompts: as for ``survey``.
        out: folder of the course.
        **options: ``every``, ``measures``, ``max_share``, ``seed`` and ``tokenizer`` of ``Watch``.

    Raises:
        OptionError, PromptError, ModelError, StoreError: as ``Watch``.

    Example:
        >>> watch = bathyscope.watch(model.hf, [[5, 9, 7, 30]], out="runs/course", every=100)
        >>> watch(1)
        {}
    """
    return Watch(model, prompts, out, **options)


def depths_of(run: Run) -> dict[str, float]:
    """Return what a training logs of a run: the verdict's readings in blocks, and how many blocks are idle."""
    values: dict[str, float] = {}
    if "lens" in run:
        verdict = run.verdict
        readings = {"readable": verdict.readable, "own": verdict.own, "later": verdict.later}
        values |= {f"depth/{name}": r.value for name, r in readings.items() if not np.isnan(r.value)}
    if "drop" in run:
        values["depth/idle_blocks"] = float(idle_blocks(run).sum())
    return values


def idle_blocks(run: Run, bound: float = IDLE) -> np.ndarray:
    """Return for each block whether its drop surely changes the loss by less than ``bound`` nats, [L].

    The interval over prompts must lie within ±bound: a test of equivalence, not the lack of a difference.
    """
    drop = run["drop"]
    added_PL = (drop["loss"] - drop["baseline_loss"]).transpose("prompt", "dropped").values
    return np.array([-bound < ends.low and ends.high < bound for ends in mean_intervals(added_PL, Sampling(level=0.9))])


def _is_first_process() -> bool:
    distributed = torch.distributed.is_available() and torch.distributed.is_initialized()
    return not distributed or torch.distributed.get_rank() == 0
