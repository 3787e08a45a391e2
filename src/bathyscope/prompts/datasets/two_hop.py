"""Two-hop questions of HoppingTooLate: half a sentence that ends in an entity, reached over another one."""

from __future__ import annotations

from bathyscope.prompts.datasets.dataset import DataSet, filled_text_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt


def to_prompt(row: Row) -> Prompt:
    """The half sentence verbatim; the entity that completes it is the answer span. Label: ``hops``, always 2."""
    answer = f" {filled_text_of(row, 'e3_label')}"
    return Prompt(text=f"{filled_text_of(row, 'source_prompt')}{answer}", answer=answer, labels={"hops": 2})


DATA_SET = DataSet(
    name="two_hop",
    hub=None,
    config=None,
    split=None,
    columns=("source_prompt", "e3_label"),
    to_prompt=to_prompt,
    source="csordas2025, erasure and integrated gradients",
    origin="datasets/two_hop.csv of github.com/edenbiran/HoppingTooLate",
)
