"""hu2025: published numbers, models and figures; which models it compares, and its data sets by difficulty."""

import re
from typing import Final

from bathyscope.surveying.papers.reproduction import Figure, Reproduction, Table, Work

_DEPTHS: Final = {
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": ((17, 16, 17), (20, 1, 24), (23, 23, 24)),
    "Qwen/Qwen2.5-1.5B-Instruct": ((16, 20, 19), (21, 22, 23), (23, 23, 23)),
    "Qwen/Qwen2.5-Math-1.5B": ((16, 16, 16), (20, 22, 23), (23, 23, 23)),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": ((16, 16, 16), (24, 24, 24), (25, 25, 24)),
    "Qwen/Qwen2.5-7B-Instruct": ((17, 20, 18), (25, 25, 25), (26, 26, 26)),
    "Qwen/Qwen2.5-Math-7B": ((16, 11, 16), (23, 23, 23), (24, 24, 24)),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": ((26, 30, 30), (40, 39, 41), (44, 44, 44)),
    "Qwen/Qwen2.5-14B-Instruct": ((27, 32, 30), (40, 41, 42), (45, 45, 45)),
    "Qwen/Qwen2.5-14B": ((27, 30, 30), (40, 40, 42), (45, 45, 45)),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": ((42, 42, 46), (58, 55, 57), (61, 58, 58)),
    "Qwen/Qwen2.5-32B-Instruct": ((43, 46, 43), (60, 58, 58), (61, 60, 60)),
    "Qwen/Qwen2.5-32B": ((43, 46, 46), (60, 57, 59), (61, 59, 60)),
}
_SIZES: Final = {"1.5B": (28, 12, 2), "7B": (28, 28, 4), "14B": (48, 40, 8), "32B": (64, 40, 8)}
"""Blocks, heads of queries, heads of keys and values, by the part of a model's name that counts parameters."""
MODELS: Final = tuple(_DEPTHS)
_DATA: Final = ("hellaswag", "gsm8k", "aime2024")
_OTHERS: Final = ("hellaswag", "aime2024")
_DIGITS: Final = ("addition", "multiplication")


def _sizes(model: str) -> tuple[tuple[int], ...]:
    return tuple((size,) for size in next(_SIZES[part] for part in model.split("-") if part in _SIZES))


REPRODUCTION: Final = Reproduction(
    paper="hu2025",
    models=MODELS,
    works=(
        Work("hellaswag", "hellaswag:10"),
        Work("gsm8k", "gsm8k:10"),
        Work("aime2024", "aime2024:5"),
        Work("addition", "addition:1?digits=6"),
        Work("multiplication", "multiplication:1?digits=6"),
    ),
    figures=(
        Figure("1", "cosines of contributions on GSM8K", ("gsm8k",), ("residual.cosines",)),
        Figure("2", "lens on GSM8K", ("gsm8k",), ("lens.kl_lens_final", "lens.overlap")),
        Figure("3a", "effect of a skipped block on later tokens, GSM8K", ("gsm8k",), ("skip.future",)),
        Figure("3b", "change of the output at later tokens, GSM8K", ("gsm8k",), ("skip.output_future",)),
        Figure("4a", "integrated gradients on a sum and a product", _DIGITS, ("integrated_gradients.prompt",)),
        Figure("4b", "erasure on a sum and a product", _DIGITS, ("erasure",)),
        Figure("5", "cosines of contributions on two data sets", _OTHERS, ("residual.cosines",)),
        Figure("6", "effect of a skipped block on later tokens, by data set", _OTHERS, ("skip.future",)),
        Figure("7", "change of the output at later tokens, by data set", _OTHERS, ("skip.output_future",)),
        Figure("8", "lens: KL from the final prediction, by data set", _OTHERS, ("lens.kl_lens_final",)),
        Figure("9", "lens: overlap of the top 5 with the final ones, by data set", _OTHERS, ("lens.overlap",)),
    ),
    tables={
        "1": Table(
            "effective depth",
            ("cosine", "kl", "overlap"),
            _DATA,
            _DEPTHS,
            "The published depths are of weights in 8 bits (LLM.int8), those measured here of the checkpoints' own "
            "weights: a depth may differ by a block or two for that alone.",
            {"residual.cosines": "cosine", "lens.kl_lens_final": "kl", "lens.overlap": "overlap"},
            weights="8 bits (LLM.int8)",
        ),
        "2": Table(
            "sizes of the models",
            ("blocks", "query_heads", "key_heads"),
            (),
            {model: _sizes(model) for model in MODELS},
        ),
    },
)


REASONING_PAIRS: Final = (
    ("Qwen2.5-Math-1.5B", "DeepSeek-R1-Distill-Qwen-1.5B"),
    ("Qwen2.5-Math-7B", "DeepSeek-R1-Distill-Qwen-7B"),
    ("Qwen2.5-14B", "DeepSeek-R1-Distill-Qwen-14B"),
    ("Qwen2.5-32B", "DeepSeek-R1-Distill-Qwen-32B"),
)
"""Base model and the model trained from it on long chains of thought, by their names without an owner."""

DIFFICULTY: Final = ("hellaswag", "gsm8k", "aime24")
"""Data sets from the easiest to the hardest."""

_OTHER_NAMES: Final = {"aime2024": "aime24"}


def difficulty_rank(dataset: str) -> int | None:
    """Return the place of a data set among :data:`DIFFICULTY`, 0 = easiest; None for others.

    ``dataset`` is a run's label, such as ``gsm8k:10`` or ``AIME_2024.jsonl``.
    """
    begins = re.match(r"[\w-]*", dataset.lower())
    name = re.sub(r"[-_]", "", begins[0]) if begins else ""
    name = _OTHER_NAMES.get(name, name)
    return DIFFICULTY.index(name) if name in DIFFICULTY else None
