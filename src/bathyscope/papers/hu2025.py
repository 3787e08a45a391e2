"""hu2025: published numbers, models and figures."""

from __future__ import annotations

from typing import Final

from bathyscope.papers.reproduction import DepthTable, Figure, Reproduction, Sizes, Survey

_TABLE_1: Final = DepthTable(
    estimators=("cosine", "kl", "overlap"),
    surveys=("hellaswag", "gsm8k", "aime2024"),
    depths={
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
    },
)
_TABLE_2: Final = {
    "1.5B": Sizes(28, 12, 2),
    "7B": Sizes(28, 28, 4),
    "14B": Sizes(48, 40, 8),
    "32B": Sizes(64, 40, 8),
}
MODELS: Final = tuple(_TABLE_1.depths)


def _sizes(model: str) -> Sizes:
    """The row of a model in Table 2, which lists them by the part of their name that counts parameters."""
    return next(_TABLE_2[part] for part in model.split("-") if part in _TABLE_2)


REPRODUCTION: Final = Reproduction(
    paper="hu2025",
    models=MODELS,
    surveys=(
        Survey("hellaswag", "hellaswag:10"),
        Survey("gsm8k", "gsm8k:10"),
        Survey("aime2024", "aime2024:5"),
        Survey("addition", "addition:1?digits=6", ("erasure", "integrated_gradients")),
        Survey("multiplication", "multiplication:1?digits=6", ("erasure", "integrated_gradients")),
    ),
    figures=(
        Figure((1, 1), "relative contributions and cosines on GSM8K, all models", ("gsm8k",), ("residual",)),
        Figure((2, 2), "future skip effects on GSM8K, all models", ("gsm8k",), ("skip",)),
        Figure((3, 3), "logit lens on GSM8K, all models", ("gsm8k",), ("lens",)),
        Figure((4, 4), "erasure on an addition and a multiplication", ("addition", "multiplication"), ("erasure",)),
        Figure(
            (5, 5),
            "integrated gradients on an addition and a multiplication",
            ("addition", "multiplication"),
            ("integrated_gradients",),
        ),
        Figure(
            (6, 9),
            "relative contributions, cosines, skip effects and logit lens by data set",
            ("hellaswag", "gsm8k", "aime2024"),
            ("residual", "skip", "lens"),
        ),
    ),
    depths=_TABLE_1,
    note="The published depths are of weights in 8 bits (LLM.int8), those measured here of the checkpoints' own "
    "weights: a depth may differ by a block or two for that alone.",
    sizes={model: _sizes(model) for model in MODELS},
)
