from __future__ import annotations

import pytest

from bathyscope.errors import OptionError
from bathyscope.measures.registry import MEASURES
from bathyscope.options import coerce
from bathyscope.papers.presets import PRESETS, preset


@pytest.mark.parametrize("name", PRESETS)
def test_presets_name_measures_and_options_that_exist(name: str) -> None:
    chosen = preset(name)
    assert set(chosen.measures) <= set(MEASURES)
    assert set(chosen.options) <= set(chosen.measures)
    for measure, options in chosen.options.items():
        coerce(MEASURES[measure].options_type, options, measure)
    assert chosen.notes


def test_published_seeds() -> None:
    assert (preset("csordas2025").seed, preset("hu2025").seed) == (123, 123)


def test_an_unknown_preset() -> None:
    with pytest.raises(OptionError) as caught:
        preset("hu2024")
    assert str(caught.value).startswith("Unknown preset 'hu2024'. Did you mean 'hu2025'? Allowed: csordas2025,")
