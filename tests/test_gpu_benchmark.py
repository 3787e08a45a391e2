"""benchmarks/gpu.py on a CPU: no part of it fails for want of a name, and it tells right from wrong."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from bathyscope.surveying import rates


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The benchmark, as a module."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "benchmarks"))
    import gpu

    return gpu


@pytest.mark.parametrize(
    "parts",
    ["machine,speed,streamed,waits,equal_rows,call_sizes", pytest.param("right", marks=pytest.mark.thorough)],
)
def test_every_part_runs(parts: str, gpu: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "SECONDS", 0.01)
    monkeypatch.setattr(sys, "argv", ["gpu.py", "--tiny", "--out", str(tmp_path), "--only", parts])
    assert gpu.main() == 0
    found = [json.loads(line) for line in (tmp_path / "gpu.jsonl").read_text().splitlines()]
    named = {part.rstrip("s") for part in parts.split(",")}
    assert {one["part"].rstrip("s") for one in found} == {*named, "end"}
    assert not [one for one in found if "failed" in one or "skipped" in one]
    assert all(one["worst"] == 0 for one in found if "worst" in one)


@pytest.mark.parametrize(
    ("one", "other", "gap"),
    [
        ((1.0, 2.0), (1.0, 2.5), 0.25),
        ((0.5, math.nan, math.inf), (0.25, math.nan, math.inf), 0.25),
        ((1.0, 2.0), (1.0, math.nan), math.inf),
        ((1.0, math.nan), (1.0, 2.0), math.inf),
        ((math.inf,), (-math.inf,), math.inf),
        ((math.nan,), (math.nan,), 0.0),
    ],
)
def test_what_is_no_number_on_one_device_alone_is_no_agreement(
    one: tuple[float, ...], other: tuple[float, ...], gap: float, gpu: Any
) -> None:
    here, there = (xr.Dataset({"a": ("x", np.array(values))}) for values in (one, other))
    assert gpu._gap(here, there) == gap
