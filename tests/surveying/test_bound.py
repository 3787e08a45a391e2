"""A survey with a bound is the survey of the bounded model, and says so wherever it is stored."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path

import numpy as np
import pytest
from support import zoo

import bathyscope
from bathyscope.cli import main
from bathyscope.errors import OptionError
from bathyscope.extend import bounded, bundled_model

MEASURES = ["residual", "drop"]


def test_it_is_the_survey_of_the_bounded_model(tmp_path: Path) -> None:
    model = bathyscope.load(zoo.build("llama"))
    prompts = zoo.prompts(model.hf)
    plain = bathyscope.survey(model, prompts, MEASURES, progress=False)
    largest = float(plain["residual"].norm_block_max.max())
    text = f"clamp:{largest / 20:.3f}"
    run = bathyscope.survey(model, prompts, MEASURES, tmp_path / "run", bound=text, progress=False)
    by_hand = bathyscope.survey(bounded(model, text), prompts, MEASURES, progress=False)
    for name in MEASURES:
        assert run[name].equals(by_hand[name])
    assert not np.allclose(run["drop"].loss, plain["drop"].loss, atol=1e-3)
    assert run.identity.model.endswith(f", contributions clamped to {float(text[6:]):g}")
    # another bound is another model
    with pytest.raises(bathyscope.BathyscopeError, match="weight"):
        bathyscope.survey(model, prompts, MEASURES, tmp_path / "run", bound="zero:0.01", progress=False)
    with pytest.raises(bathyscope.BathyscopeError, match="weight"):
        bathyscope.survey(model, prompts, MEASURES, tmp_path / "run", progress=False)


@pytest.mark.parametrize("kind", ["clamp", "zero"])
def test_a_bound_that_touches_nothing_is_told(kind: str, tmp_path: Path) -> None:
    model = bathyscope.load(zoo.build("llama"))
    prompts = zoo.prompts(model.hf)
    plain = bathyscope.survey(model, prompts, ["drop"], progress=False)
    told = "the largest number that blocks write into the stream is"
    words = rf"^bound={kind}:1000 \(--bound\) changes nothing: {told} (\S+)\."
    with pytest.warns(UserWarning, match=words) as caught:
        run = bathyscope.survey(model, prompts, ["drop"], tmp_path / "run", bound=f"{kind}:1000", progress=False)
    assert np.array_equal(run["drop"].loss, plain["drop"].loss)
    # the number itself is not touched, and one a little below it is
    match = re.match(words, str(caught[0].message))
    assert match is not None
    largest = float(match[1])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        bathyscope.survey(model, prompts, ["drop"], bound=f"{kind}:{largest * 0.99}", progress=False)
        # nothing is computed
        bathyscope.survey(model, prompts, ["drop"], tmp_path / "run", bound=f"{kind}:1000", progress=False)
    with pytest.warns(UserWarning, match="changes nothing"):
        bathyscope.survey(model, prompts, ["drop"], bound=f"{kind}:{largest * 1.01}", progress=False)


def test_it_is_resumed_by_the_same_bound(tmp_path: Path) -> None:
    model = bathyscope.load(zoo.build("llama"))
    prompts = zoo.prompts(model.hf)
    first = bathyscope.survey(model, prompts, ["residual"], tmp_path / "run", bound="zero:0.1", progress=False)
    again = bathyscope.load(zoo.build("llama"))
    second = bathyscope.survey(again, prompts, ["residual"], tmp_path / "run", bound="zero:0.1", progress=False)
    assert first["residual"].equals(second["residual"])


def test_it_goes_with_a_schedule_and_a_control() -> None:
    model = bathyscope.load(zoo.build("llama"))
    prompts = zoo.prompts(model.hf)
    run = bathyscope.survey(
        model, prompts, ["residual"], schedule="drop:1", bound="clamp:0.001", control="untrained", progress=False
    )
    control = run.controls["untrained-0"]
    for each in (run, control):
        assert each["residual"].sizes["block"] == model.n_blocks - 1
        # no part writes more than 0.001 in any of 64 coordinates
        assert float(each["residual"].norm_mlp_max.max()) <= 0.001 * 8 * (1 + 1e-5)


def test_the_command_takes_it(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    prompts = tmp_path / "prompts.jsonl"
    prompts.write_text(json.dumps({"text": "The old house stood at the edge."}) + "\n", encoding="utf-8")
    words = ["survey", str(bundled_model()), "--prompts", str(prompts), "--measures", "residual"]
    assert main([*words, "--out", str(tmp_path / "run"), "--bound", "clamp:1e-3", "--quiet"]) == 0
    run = bathyscope.open(tmp_path / "run")
    assert float(run["residual"].norm_mlp_max.max()) < 0.001 * 100
    assert run.identity.model.endswith("contributions clamped to 0.001")
    capsys.readouterr()
    assert main([*words, "--out", str(tmp_path / "other"), "--bound", "clip:1"]) == 2
    assert "Unknown bound 'clip:1'. Did you mean 'clamp'? Write clamp:NUMBER or zero:NUMBER." in capsys.readouterr().err
    assert main(["survey", "--help"]) == 0
    assert "--bound" in capsys.readouterr().out


@pytest.mark.parametrize("others", [{"part": "1/2", "out": "x"}, {"engine": "ray", "out": "x"}])
def test_it_needs_a_whole_survey_in_this_process(others: dict[str, str], tmp_path: Path) -> None:
    others = {name: str(tmp_path / value) if name == "out" else value for name, value in others.items()}
    with pytest.raises(OptionError, match=r"bound='clamp:1' and .* do not go together; survey the bounded model whole"):
        bathyscope.survey("nobody/model", ["Some text."], bound="clamp:1", **others)  # type: ignore[arg-type]
