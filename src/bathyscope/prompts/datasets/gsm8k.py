"""GSM8K: grade-school word problems with worked solutions."""

from __future__ import annotations

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets.dataset import DataSet, text_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt

MARK = "####"


def to_prompt(row: Row) -> Prompt:
    """Instruction, problem, the worked solution verbatim, and the final answer, which is the answer span.

    The papers measure on the whole string. The span is the final answer alone, because the worked solution
    is given to the model as text and only the number after "The final answer is" is to be concluded from it.
    """
    rationale, mark, answer = text_of(row, "answer").partition(MARK)
    if not mark or not answer.strip():
        raise PromptError(f"column 'answer' must end with '{MARK} ANSWER', as GSM8K's solutions do.")
    final = answer.strip()
    text = (
        "Given the following problem, reason and give a final answer to the problem.\n"
        f"Problem: {text_of(row, 'question')}\n"
        'Your response should end with "The final answer is [answer]" where [answer] is the response to the '
        f"problem.\n\n{rationale}The final answer is {final}"
    )
    return Prompt(text=text, answer=final)


DATA_SET = DataSet(
    name="gsm8k",
    hub="openai/gsm8k",
    config="main",
    split="test",
    columns=("question", "answer"),
    to_prompt=to_prompt,
    source="csordas2025 and hu2025, prompts",
)
