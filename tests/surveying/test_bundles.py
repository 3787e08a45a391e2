"""Options of a survey that belong together: one argument, or each by the keyword that it always had."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support import waves

import bathyscope
from bathyscope.cli.commands.survey import read_request
from bathyscope.core.bundles import names_in
from bathyscope.errors import OptionError
from bathyscope.surveying import engines
from bathyscope.surveying.options import BUNDLES, GrowthOptions, SurveyOptions

IDS = [[5, 6, 7, 8, 9], [10, 11, 12, 13], [6, 8, 10, 12, 14]]
VALUES: dict[str, Any] = {
    "part": "2/3",
    "grow": True,
    "until": 0.5,
    "budget": "10min",
    "write": 3,
    "temperature": 0.7,
    "engine": "ray",
    "workers": 2,
    "address": "auto",
    "worker_timeout": 60.0,
}
FURTHER = {"budget": {"until": 0.5}, "temperature": {"write": 3}}
FURTHER |= {name: {"engine": "ray"} for name in ("workers", "address", "worker_timeout")}
"""What an option means nothing without."""


class ReachedError(Exception):
    """The verb has read its bundles."""


@pytest.fixture
def reached(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The bundles as the verb reads them, which ends there."""
    bundles: dict[str, Any] = {}
    read = engines.read_bundle

    def note(kind: type, value: object, name: str) -> Any:
        bundles[name] = read(kind, value, name)
        if len(bundles) == len(BUNDLES):
            raise ReachedError
        return bundles[name]

    monkeypatch.setattr(engines, "read_bundle", note)
    return bundles


def bundle_of(option: str) -> str:
    return next(name for name, kind in BUNDLES.items() if option in [entry.name for entry in fields(kind)])


def test_every_bundled_option_is_tried() -> None:
    assert list(VALUES) == names_in(BUNDLES)
    assert set(VALUES) <= {entry.name for entry in fields(SurveyOptions)}
    assert all(entry.default != VALUES[entry.name] for kind in BUNDLES.values() for entry in fields(kind))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("name", VALUES)
def test_a_keyword_of_an_earlier_version_reaches_the_same_option(
    name: str, reached: dict[str, Any], tmp_path: Path
) -> None:
    bundle, out = bundle_of(name), tmp_path / "run"
    options = {**FURTHER.get(name, {}), name: VALUES[name]}
    by_form = []
    for form in (options, {bundle: options}, {bundle: BUNDLES[bundle](**options)}):
        reached.clear()
        with pytest.raises(ReachedError):
            bathyscope.survey("model", IDS, ["lens"], out, **form)
        by_form.append(dict(reached))
    expected = {kind: BUNDLES[kind]() for kind in BUNDLES}
    expected[bundle] = replace(expected[bundle], **options)
    assert by_form == [expected] * 3


def test_a_bundle_and_its_keywords_may_stand_next_to_each_other(reached: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(ReachedError):
        bathyscope.survey("model", IDS, ["lens"], tmp_path, growing={"until": 0.5}, budget=60)
    assert reached["growing"] == GrowthOptions(until=0.5, budget=60)


def test_results_are_those_of_the_keywords(tmp_path: Path) -> None:
    runs = []
    for name, form in (("first", {"grow": True}), ("second", {"growing": {"grow": True}})):
        for count in (2, 3):
            run = bathyscope.survey(
                waves.loaded("llama"), IDS[:count], ["lens"], tmp_path / name, progress=False, **form
            )
        runs.append(run)
    assert [len(run.prompts) for run in runs] == [3, 3]
    np.testing.assert_array_equal(runs[0]["lens"]["entropy"], runs[1]["lens"]["entropy"])


def test_a_recipe_holds_bundles_as_the_call_does(tmp_path: Path) -> None:
    recipe = tmp_path / "survey.yaml"
    recipe.write_text("growing: {until: 0.5, budget: 10min}\nwriting: {write: 4}\n", encoding="utf-8")
    typed = {"model": "m", "prompts": "p.txt", "out": str(tmp_path / "run"), "until": 1.0, "measures": "lens"}
    _, _, request = read_request(recipe, typed, False)
    assert (request["until"], request["budget"], request["write"]) == (1.0, "10min", 4)
    assert not set(BUNDLES) & set(request)


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ({"growing": {"until": 0.5}, "until": 1.0}, "until=1.0 and growing={'until': 0.5} are two values of one"),
        ({"growing": {"untill": 0.5}}, "growing has no option 'untill'. Did you mean 'until'?"),
        ({"growing": 0.5}, "growing=0.5 is no bundle of options; give a dict or GrowthOptions of: part, grow, until, "),
        ({"growing": {"until": "x"}}, "until takes a number; 'x' given."),
        ({"growing": {"until": 0.5}, "placement": {"engine": "ray"}}, "until=0.5 and engine='ray' do not go together"),
        ({"growing": {"grow": True}, "out": None}, "grow=True lets a run in a folder grow; give out="),
        ({"untill": 0.5}, "survey() has no option 'untill'. Did you mean 'until'?"),
    ],
)
def test_what_is_refused_of_bundles(form: dict[str, Any], message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError) as caught:
        bathyscope.survey("model", IDS, ["lens"], **{"out": tmp_path, **form})
    assert message in str(caught.value)
