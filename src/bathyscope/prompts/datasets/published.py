"""The papers' data sets: what each prompt is made of, and the table of where rows come from."""

import re
from typing import Final

from bathyscope.errors import PromptError
from bathyscope.prompts.datasets.dataset import DataSet, TokenLimit, filled_text_of, list_of, text_of
from bathyscope.prompts.files import Row
from bathyscope.prompts.prompt import Prompt

GSM8K_MARK: Final = "####"


def gsm8k(row: Row) -> Prompt:
    """GSM8K: grade-school word problems with worked solutions.

    Instruction, problem, the worked solution verbatim, and the final answer, which is the answer span.

    The papers measure on the whole string. The span is the final answer alone, because the worked solution
    is given to the model as text and only the number after "The final answer is" is to be concluded from it.
    """
    rationale, mark, answer = text_of(row, "answer").partition(GSM8K_MARK)
    if not mark or not answer.strip():
        raise PromptError(f"column 'answer' must end with '{GSM8K_MARK} ANSWER', as GSM8K's solutions do.")
    final = answer.strip()
    text = (
        "Given the following problem, reason and give a final answer to the problem.\n"
        f"Problem: {text_of(row, 'question')}\n"
        'Your response should end with "The final answer is [answer]" where [answer] is the response to the '
        f"problem.\n\n{rationale}The final answer is {final}"
    )
    return Prompt(text=text, answer=final)


def aime2024(row: Row) -> Prompt:
    """AIME 2024: olympiad qualification problems with worked solutions.

    Instruction, problem, and the worked solution verbatim, which is the answer span.

    A solution need not end with its result, nor hold it only once, so that no shorter span can be told.
    """
    solution = filled_text_of(row, "Solution")
    text = (
        "Given the following problem, reason and give a final answer to the problem.\n"
        f"Problem: {filled_text_of(row, 'Problem')}\n"
        'Your response should end with "\\boxed{[answer]}" where [answer] is the response to the '
        f"problem.\n\n{solution}"
    )
    return Prompt(text=text, answer=solution)


def hellaswag(row: Row) -> Prompt:
    """HellaSwag: a scene and its right ending.

    Context, one space (none before a comma), and the right ending, which is the answer span.
    """
    endings, label = list_of(row, "endings"), row["label"]
    if not all(isinstance(ending, str) for ending in endings):
        raise PromptError("column 'endings' must be a list of texts.")
    if not str(label).isdecimal() or int(label) >= len(endings):
        raise PromptError(
            f"column 'label' must be the number of the right ending, 0 to {len(endings) - 1}, not {label!r} "
            "(the test split has no labels)."
        )
    ending: str = endings[int(label)]
    if not ending.strip():
        raise PromptError(f"ending {label} of column 'endings', the right one, is empty.")
    # The answer is the ending alone: the blank before it belongs to its first token.
    space = "" if ending.startswith(",") else " "
    return Prompt(text=f"{text_of(row, 'ctx')}{space}{ending}", answer=ending)


def math(row: Row) -> Prompt:
    """MATH, intermediate algebra: competition problems with worked solutions, at five levels of difficulty.

    The problem; the whole worked solution is the answer span. Label: ``level``, 1 to 5.
    """
    level = re.fullmatch(r"Level (\d+)", text_of(row, "level").strip())
    if level is None:
        raise PromptError(f"column 'level' must be a text such as 'Level 3', not {row['level']!r}.")
    answer = f" {filled_text_of(row, 'solution')}"
    text = f"Problem: {filled_text_of(row, 'problem')}\nAnswer:{answer}"
    return Prompt(text=text, answer=answer, labels={"level": int(level[1])})


def mquake(row: Row) -> Prompt:
    """MQuAKE-CF-3k: questions whose answer takes a chain of two to four facts.

    The first wording of the question; the answer before any edit is the answer span.

    Label: ``hops``, the number of facts in the unedited chain.
    """
    questions = list_of(row, "questions")
    if not questions or not isinstance(questions[0], str) or not questions[0].strip():
        raise PromptError("column 'questions' must be a list of texts with at least one question.")
    # The chain before any edit: the data set is about edited facts, the papers measure the true ones.
    hops = len(list_of(row, "orig_triples"))
    if not hops:
        raise PromptError("column 'orig_triples' is empty, so that the number of hops is not known.")
    answer = f" {filled_text_of(row, 'answer')}"
    return Prompt(text=f"Question: {questions[0]}\nAnswer:{answer}", answer=answer, labels={"hops": hops})


def two_hop(row: Row) -> Prompt:
    """Two-hop questions of HoppingTooLate: half a sentence that ends in an entity, reached over another one.

    The half sentence verbatim; the entity that completes it is the answer span. Label: ``hops``, always 2.
    """
    answer = f" {filled_text_of(row, 'e3_label')}"
    return Prompt(text=f"{filled_text_of(row, 'source_prompt')}{answer}", answer=answer, labels={"hops": 2})


def lambada(row: Row) -> Prompt:
    """LAMBADA (OpenAI's version): passages whose last word needs the whole passage.

    The passage verbatim; its last word is the answer span.
    """
    text = text_of(row, "text")
    words = text.split()
    if len(words) < 2:
        raise PromptError("column 'text' must hold at least two words: a passage and its last word.")
    return Prompt(text=text.rstrip(), answer=words[-1])


_HU2025: Final = "hu2025, prompts"
_SCORE: Final = "csordas2025, depth score"
_QWEN: Final = TokenLimit(400, "Qwen/Qwen2.5-1.5B-Instruct")
_TWO_HOP: Final = "datasets/two_hop.csv of github.com/edenbiran/HoppingTooLate"
_TWO_HOP_SOURCE: Final = "csordas2025, erasure and integrated gradients"
_MQUAKE: Final = ("questions", "answer", "orig_triples")
_MATH: Final = ("problem", "level", "solution")

DATA_SETS: Final = (
    DataSet(
        "aime2024", "Maxwell-Jia/AIME_2024", None, "train", ("Problem", "Solution"), aime2024, _HU2025, limit=_QWEN
    ),
    DataSet("gsm8k", "openai/gsm8k", "main", "test", ("question", "answer"), gsm8k, "csordas2025 and hu2025, prompts"),
    DataSet("hellaswag", "Rowan/hellaswag", None, "validation", ("ctx", "endings", "label"), hellaswag, _HU2025),
    DataSet("lambada", "EleutherAI/lambada_openai", None, "test", ("text",), lambada, "lad2024, benchmarks"),
    DataSet("math", "EleutherAI/hendrycks_math", "intermediate_algebra", "test", _MATH, math, _SCORE, level="level"),
    DataSet("mquake", "henryzhongsc/MQuAKE-Remastered", None, "CF3k", _MQUAKE, mquake, _SCORE, level="hops"),
    DataSet("two_hop", None, None, None, ("source_prompt", "e3_label"), two_hop, _TWO_HOP_SOURCE, origin=_TWO_HOP),
)
"""In alphabetical order."""
