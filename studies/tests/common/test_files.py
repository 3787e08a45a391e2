"""Files of results: what is written is read again, and maps open as those that the program writes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from support import waves, zoo

import bathyscope
from bathyscope.errors import StoreError
from bathyscope.extend.figures import draw_maps, render
from studies.common.files import netcdf, write_file


def test_results_are_read_as_they_were(tmp_path: Path) -> None:
    data = {
        "value": (("model", "steps"), np.array([[1.5, np.nan], [0.1, 2.0]])),
        "solved": ("steps", [True, False]),
        "reason": ("model", np.array(["", "too few – §"], dtype=object)),
        "count": ("steps", [1, 2]),
    }
    found = xr.Dataset(data, {"model": ["a", "bc"], "steps": [1, 3]}, {"note": "", "level": 0.95, "seeds": [0, 1]})
    write_file(tmp_path / "new" / "found.nc", netcdf(found))
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["found.nc"]
    with xr.open_dataset(tmp_path / "new" / "found.nc", engine="h5netcdf") as kept:
        xr.testing.assert_equal(kept, found)
        assert (kept.attrs["note"], kept.attrs["level"], list(kept.attrs["seeds"])) == ("", 0.95, [0, 1])
        assert "_FillValue" not in kept["value"].encoding


def test_maps_open_and_are_drawn(tmp_path: Path) -> None:
    model, prompts = waves.loaded("llama"), zoo.prompts(zoo.build("llama"), (30,) * 30)
    data = bathyscope.maps(model, waves.loaded("llama"), prompts, resamples=20, progress=False).data
    own = data.assign_attrs(seconds=1.5)
    write_file(tmp_path / "maps.nc", netcdf(own, group="maps"))
    kept = bathyscope.open(tmp_path / "maps.nc").data
    xr.testing.assert_equal(kept, own)
    assert {name: kept.attrs[name] for name in own.attrs} == own.attrs
    assert render(draw_maps(kept), "png").startswith(b"\x89PNG")


def test_a_disk_that_refuses_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(StoreError, match=r"Cannot write .*Choose a folder with free space"):
        write_file(tmp_path / "file" / "found.nc", b"")
