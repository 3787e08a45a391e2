"""Measures of other packages that were written for earlier versions are heard under the names of then."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import xarray as xr
from support import waves

import bathyscope
from bathyscope.measures.answered import AnsweredMeasure
from bathyscope.measures.base import Measure, MeasureProbe

IDS = [[5, 6, 7, 8], [9, 10, 11], [5, 6, 7]]
CALLS: list[str] = []


class FormerProbe(MeasureProbe):
    def __init__(self, prompts: int) -> None:
        super().__init__()
        self.prompts = prompts

    def beside(self, others: Mapping[str, MeasureProbe]) -> None:
        CALLS.append(f"beside {', '.join(others)}")
        super().beside(others)

    def result(self) -> xr.Dataset:
        return xr.Dataset({"length": (("prompt", "place"), [[0.0] * 7] * self.prompts)})


class Former(Measure[Any]):
    by_prompt = True
    listens = ("lens",)

    @property
    def extents(self) -> Mapping[str, int]:
        CALLS.append("extents")
        return {**super().extents, "place": 7}

    def begin(self, wave: Any, reference: Any) -> None:
        CALLS.append("begin")
        super().begin(wave, reference)

    def stands(self, before: Any, prompts: int) -> bool:
        CALLS.append(f"stands {prompts}")
        return super().stands(before, prompts)

    def probe(self, facts: Any, batch: Any, indices: Any) -> MeasureProbe:
        return FormerProbe(len(batch.lengths))


def test_a_measure_of_an_earlier_version_is_asked_under_its_own_names(tmp_path: Any) -> None:
    CALLS.clear()
    for count in (2, 3):
        bathyscope.survey(
            waves.loaded("llama"), IDS[:count], ["lens", Former], tmp_path / "run", grow=True, progress=False
        )
    assert "begin" in CALLS
    assert "beside lens, former" in CALLS
    assert "stands 2" in CALLS
    assert "extents" in CALLS


def test_members_are_the_same_under_both_names() -> None:
    measure = Former()
    assert measure.reads_values_of == measure.listens == ("lens",)
    assert measure.lengths_by_dim == measure.extents == {"place": 7}
    assert measure.stays_valid(measure, 2) is measure.stands(measure, 2) is True
    assert bathyscope.extend.Measure.listens == ()


def test_super_reaches_the_class_above_and_not_the_base() -> None:
    class Below(AnsweredMeasure[Any]):
        @property
        def extents(self) -> Mapping[str, int]:
            return {**super().extents, "further": 1}

    class Lowest(Below):
        @property
        def extents(self) -> Mapping[str, int]:
            return {**super().extents, "last": 2}

    measure = Lowest()
    measure._longest = 5
    assert measure.lengths_by_dim == {"token": 5, "further": 1, "last": 2}
