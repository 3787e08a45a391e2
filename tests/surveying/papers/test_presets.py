from __future__ import annotations

import pytest

from bathyscope.errors import OptionError
from bathyscope.measures.registry import MEASURES
from bathyscope.options import coerce
from bathyscope.surveying.papers.faults import faults_in
from bathyscope.surveying.papers.presets import AS_PUBLISHED, PRESETS, preset

PAIRS = [name.removesuffix(AS_PUBLISHED) for name in PRESETS if name.endswith(AS_PUBLISHED)]


@pytest.mark.parametrize("name", PRESETS)
def test_presets_name_measures_and_options_that_exist(name: str) -> None:
    chosen = preset(name)
    assert set(chosen.measures) <= set(MEASURES)
    for measure, options in chosen.options.items():
        coerce(MEASURES[measure].options_type, options, measure)
    assert chosen.notes


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_measures_what_any_prompts_allow(name: str) -> None:
    """Measures of answers are asked for by name, since most prompts have none."""
    assert not [measure for measure in preset(name).measures if MEASURES[measure].needs_answers]


def test_published_seeds() -> None:
    assert (preset("csordas2025").seed, preset("hu2025").seed) == (123, 123)


@pytest.mark.parametrize("paper", PAIRS)
def test_as_published_adds_the_faults_and_nothing_else(paper: str) -> None:
    plain, published = preset(paper), preset(f"{paper}{AS_PUBLISHED}")
    assert (published.measures, published.seed) == (plain.measures, plain.seed)
    assert faults_in(plain.options) == ()
    added = {
        (measure, option): value
        for measure, options in published.options.items()
        for option, value in options.items()
        if option not in plain.options.get(measure, {})
    }
    found = faults_in(published.options)
    assert added == {(fault.measure, option): value for fault in found for option, value in fault.options.items()}
    assert {fault.paper for fault in found} == {paper}
    for measure, options in plain.options.items():
        assert options.items() <= published.options[measure].items()
    assert all(fault.note() in published.notes for fault in found)


def test_every_paper_has_such_a_preset() -> None:
    assert set(PAIRS) == {"csordas2025", "hu2025", "lad2024"}


def test_an_unknown_preset() -> None:
    with pytest.raises(OptionError) as caught:
        preset("hu2024")
    assert str(caught.value).startswith("Unknown preset 'hu2024'. Did you mean 'hu2025'? Allowed: csordas2025,")
