"""What notebooks show of runs, prompts and models; whatever their texts hold, nothing in it acts."""

from __future__ import annotations

import math
import re
from xml.etree import ElementTree

import numpy as np
import pytest
from support import waves, zoo

import bathyscope
from bathyscope import Prompt
from bathyscope.runs.card import picture
from bathyscope.runs.readings import DepthReading
from bathyscope.runs.verdict import Verdict

EVIL = "<script>alert(1)</script>"


def test_the_picture_has_each_reading_at_its_place() -> None:
    readable, own = DepthReading("readable", np.array([4.0, 6.0]), 10), DepthReading("own", np.array([10.0, 10.0]), 10)
    verdict = Verdict(readable, own, DepthReading("later", np.array([math.nan, math.nan]), 10), 10)
    drawn = ElementTree.fromstring(picture(verdict))
    places = [float(mark.get("cx", "")) for mark in drawn.iter("circle")]
    line = next(drawn.iter("path")).get("d", "")
    start, length = (float(number) for number in re.findall(r"M([\d.]+) \S+h([\d.]+)", line)[0])
    assert places == pytest.approx([start + length / 2, start + length])
    assert [text.text for text in drawn.iter("text")] == ["readable", "own", "0", "10"]


def test_runs_prompts_and_models_have_tables_in_notebooks() -> None:
    model = waves.loaded("llama")
    prompts = [
        Prompt(ids=ids, id=f"{EVIL}{n}", labels={"kind": EVIL})
        for n, ids in enumerate(zoo.prompts(model.hf, (5,) * 22))
    ]
    run = bathyscope.survey(model, prompts, ["lens"], progress=False)
    card = run._repr_html_()
    assert f"<strong>{run.verdict.text}</strong><" in card.replace("</p>", "")
    assert card.count("<svg") == 1
    listed = run.prompts._repr_html_()
    assert listed.count("<tr>") == 21
    assert "… and 2 more." in listed
    told = model._repr_html_()
    assert f"<td>{model.n_blocks} × {model.anatomy.width}</td>" in told
    for shown in (card, listed, told):
        assert "<script" not in shown
