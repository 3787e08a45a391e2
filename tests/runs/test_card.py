"""What notebooks show of runs, prompts and models; whatever their texts hold, nothing in it acts."""

from __future__ import annotations

from html import unescape

from support import waves, zoo

import bathyscope
from bathyscope import Prompt

EVIL = "<script>alert(1)</script>"


def test_runs_prompts_and_models_have_tables_in_notebooks() -> None:
    model = waves.loaded("llama")
    prompts = [
        Prompt(ids=ids, id=f"{EVIL}{n}", labels={"kind": EVIL})
        for n, ids in enumerate(zoo.prompts(model.hf, (5,) * 22))
    ]
    run = bathyscope.survey(model, prompts, ["lens"], progress=False)
    card = run._repr_html_()
    assert run.verdict.text in unescape(card)
    assert card.count("<svg") == 2  # one for each width
    listed = run.prompts._repr_html_()
    assert listed.count("<tr>") == 21
    assert "… and 2 more." in listed
    told = model._repr_html_()
    assert f"<td>{model.n_blocks} × {model.anatomy.width}</td>" in told
    for shown in (card, listed, told):
        assert "<script" not in shown
