from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets import REGISTRY
from bathyscope.prompts.datasets.published import two_hop as to_prompt
from bathyscope.prompts.source import resolve


def test_written_out() -> None:
    prompt = to_prompt({"source_prompt": "the spouse of the performer of Imagine is", "e3_label": "Yoko Ono"})
    assert prompt.text == "the spouse of the performer of Imagine is Yoko Ono"
    assert (prompt.answer, prompt.labels) == (" Yoko Ono", {"hops": 2})


def test_it_is_not_on_the_hub() -> None:
    message = (
        r"two_hop is not on the hub; take datasets/two_hop\.csv of github\.com/edenbiran/HoppingTooLate and give it as "
        r"a local file with the columns source_prompt, e3_label: two_hop:10@FILE\.csv"
    )
    with pytest.raises(PromptError, match=message):
        resolve("two_hop:3")


@pytest.mark.parametrize("change", [{"e3_label": " "}, {"source_prompt": ""}, {"e3_label": None}])
def test_rows_that_do_not_fit(write_jsonl: Callable[..., str], change: dict[str, object]) -> None:
    row = {"source_prompt": "the capital of France is", "e3_label": "Paris"}
    with pytest.raises(
        PromptError, match=r"two_hop, row 2 of .*: column '(e3_label|source_prompt)' (is empty|must hold)"
    ):
        REGISTRY["two_hop"].prompts(path=write_jsonl(row, {**row, **change}))


@pytest.mark.shared
def test_real_rows(shared: Callable[[str], Path]) -> None:
    path = shared("data/two_hop/two_hop_1000.csv")
    prompts = resolve(f"two_hop@{path}").prompts
    assert len(prompts) == 1000
    assert prompts[0].text == "the country of origin of the most notable work of Douglas Adams is United Kingdom"
    assert resolve(f"two_hop:7@{path}").prompts == prompts[:7]
