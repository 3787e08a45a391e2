"""Measures that do harm to the process that computes them, once."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from bathyscope.extend import Measure, MeasureProbe, variable


@dataclass(frozen=True)
class Harm:
    """When harm is done.

    Args:
        mark: a file that says that it was done.
        seconds: to sleep instead of dying.
        again: do it every time.
    """

    mark: str = ""
    seconds: float = 0.0
    again: bool = False


class _Probe(MeasureProbe):
    def __init__(self, harm: Harm, prompts: list[int]) -> None:
        super().__init__()
        self._harm, self._prompts = harm, prompts

    def result(self) -> xr.Dataset:
        mark = Path(self._harm.mark)
        # not in the process of the tests themselves
        elsewhere = "ray" in sys.modules and "pytest" not in sys.modules
        if elsewhere and 2 in self._prompts and (self._harm.again or not mark.exists()):
            mark.touch()
            time.sleep(self._harm.seconds)
            if not self._harm.seconds:
                os.kill(os.getpid(), signal.SIGKILL)
        return xr.Dataset({"number": variable(("prompt",), np.array(self._prompts), "number", "1", source="given")})


class Deadly(Measure[Harm]):
    """It computes nothing, and ends or delays its process when it has prompt 2."""

    options_type = Harm

    def probe(self, facts: Any, batch: Any, prompts: Any) -> MeasureProbe:
        return _Probe(self.options, list(prompts))


@contextmanager
def shipped() -> Iterator[None]:
    """Inside, workers are sent this module itself, which they could not import."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
