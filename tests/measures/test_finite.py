"""What overflows in a model's dtype is refused by every measure that would average over what is left."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from support import waves, zoo

import bathyscope
from bathyscope import ModelError
from bathyscope.measures.skip import SkipProbe
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.probe import RowsView
from bathyscope.wavefront.rows import SkipRow

IDS = zoo.prompts(zoo.build("llama"), (14, 9))
PROMPTS = [bathyscope.Prompt(ids=ids, answer_tokens=3) for ids in IDS]


@pytest.fixture(scope="module")
def overflowing() -> bathyscope.Model:
    """In float16 the logits of some tokens are infinite, at the end and on the way; the stream is not."""
    hf = zoo.entry("llama").build().half()
    with torch.no_grad():
        hf.model.norm.weight.mul_(100)
        hf.lm_head.weight[5].mul_(30_000)
    return bathyscope.load(hf)


@pytest.mark.parametrize(
    ("measure", "options", "what"),
    [
        ("lens", {}, "The lens"),
        ("skip", {}, "The model with a block left out"),
        ("depth_score", {}, "The model with a block left out"),
        ("erasure", {}, "The model with a token erased"),
        ("patching", {"pairs": (("0", "0"),)}, "The model"),
        ("drop", {}, "A schedule of dropped blocks"),
    ],
)
def test_overflow_is_refused(overflowing: bathyscope.Model, measure: str, options: dict[str, Any], what: str) -> None:
    with pytest.raises(ModelError, match=rf"{what} gives NaN or Inf predictions on this input; load the model with a"):
        bathyscope.survey(overflowing, PROMPTS, [measure], progress=False, **{measure: options})


def test_what_overflows_solves_nothing(overflowing: bathyscope.Model) -> None:
    with pytest.raises(ModelError, match="The model gives NaN or Inf predictions on this input"):
        bathyscope.solved(overflowing, PROMPTS, progress=False)


def changed(after: torch.Tensor) -> SkipProbe:
    """Effects of one row on two prompts of 3 and 2 tokens."""
    before = torch.full((2, 3, 4), 10.0)
    probe = waves.skipping(Batch.of([[5, 6, 7], [5, 6]]), [(), ()])
    probe.rows(RowsView(1, [[SkipRow(0)]], before[None], after[None], before, before + 1, before, before + 1))
    return probe


def test_a_stream_that_overflows_where_a_block_is_left_out_is_no_missing_value() -> None:
    after = torch.full((2, 3, 4), 12.0)
    after[1, 2] = torch.inf  # beyond the second prompt's end
    assert changed(after).effect("all")[:, 0, 2, 0, 1].tolist() == [1.0, 1.0]
    for wrong in (torch.inf, torch.nan):
        after[1, 1, 0] = wrong
        with pytest.raises(ModelError, match="The model with a block left out gives NaN or Inf contributions"):
            changed(after).effect("all")


def test_a_model_in_full_precision_is_measured() -> None:
    found = waves.run(waves.loaded("llama"), IDS, {"lens": {}})["lens"]
    assert found["entropy"].notnull().all()
