from __future__ import annotations

from collections.abc import Callable

import pytest
from transformers import PreTrainedTokenizerFast

from bathyscope.errors import ModelError, PromptError
from bathyscope.prompts.datasets import REGISTRY, dataset
from bathyscope.prompts.datasets.published import aime2024 as to_prompt
from bathyscope.prompts.source import resolve

ROWS = [
    {"Problem": f"Find {n}.", "Solution": "the answer is " * length + str(n)} for n, length in enumerate((1, 90, 2))
]


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ModelError(f"{name} cannot be reached")

    monkeypatch.setattr(dataset, "load_tokenizer", refuse)


def test_written_out() -> None:
    prompt = to_prompt({"Problem": "Find $x$.", "Solution": "It is\n\\boxed{025}\n"})
    assert prompt.text == (
        "Given the following problem, reason and give a final answer to the problem.\nProblem: Find $x$.\n"
        'Your response should end with "\\boxed{[answer]}" where [answer] is the response to the problem.\n\n'
        "It is\n\\boxed{025}\n"
    )
    assert prompt.answer == "It is\n\\boxed{025}\n"


def test_the_papers_limit() -> None:
    limit = REGISTRY["aime2024"].limit
    assert limit is not None
    assert (limit.tokens, limit.tokenizer) == (400, "Qwen/Qwen2.5-1.5B-Instruct")


@pytest.mark.usefixtures("offline")
def test_long_prompts_are_left_out(write_jsonl: Callable[..., str], plain: PreTrainedTokenizerFast) -> None:
    path = write_jsonl(*ROWS)
    lengths = [len(plain(to_prompt(row).text)["input_ids"]) for row in ROWS]
    assert max(lengths[0], lengths[2]) <= 400 < lengths[1]
    with pytest.warns(UserWarning, match=r"aime2024: prompts of at most 400 tokens.*Qwen/Qwen2\.5-1\.5B-Instruct"):
        prompts = resolve(f"aime2024:2@{path}", tokenizer=plain)
    assert [(prompt.answer or "")[-1] for prompt in prompts.prompts] == ["0", "2"]
    everything = resolve(f"aime2024?max_tokens={lengths[1]}@{path}", tokenizer=plain)
    assert len(everything) == 3
    with pytest.raises(
        PromptError, match=r"3 rows asked for, but .* has 2 of at most 400 tokens; ask for at most that"
    ):
        resolve(f"aime2024:3?max_tokens=400@{path}", tokenizer=plain)
    with pytest.raises(PromptError, match=r"there are no rows of at most 5 tokens in .*rows\.jsonl"):
        resolve(f"aime2024?max_tokens=5@{path}", tokenizer=plain)


@pytest.mark.parametrize(("row", "message"), [({"Problem": "a", "Solution": ""}, "'Solution' is empty")])
def test_rows_that_do_not_fit(
    write_jsonl: Callable[..., str], plain: PreTrainedTokenizerFast, row: dict[str, str], message: str
) -> None:
    with pytest.raises(PromptError, match=rf"aime2024, row 1 of .*rows\.jsonl: column {message}"):
        resolve(f"aime2024?max_tokens=99@{write_jsonl(row)}", tokenizer=plain)
