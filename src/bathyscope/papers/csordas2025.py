"""csordas2025: models, prompts and figures."""

from __future__ import annotations

from typing import Final

from bathyscope.papers.reproduction import TRAINED, Figure, Reproduction, Survey

LLAMA_70B: Final = "meta-llama/Meta-Llama-3.1-70B"
MODELS: Final = (
    "meta-llama/Meta-Llama-3.1-8B",
    LLAMA_70B,
    "meta-llama/Meta-Llama-3.1-405B",
    "meta-llama/Meta-Llama-3.1-8B-Instruct",
    "meta-llama/Meta-Llama-3.1-70B-Instruct",
    "Qwen/Qwen3-8B",
    "Qwen/Qwen3-14B",
    "Qwen/Qwen3-32B",
    "allenai/OLMo-2-1124-7B",
    "allenai/OLMo-2-1124-13B",
    "allenai/OLMo-2-0325-32B",
)
"""The Qwen 3 checkpoints are the post-trained ones."""

QUESTIONS: Final = (
    ("5 + 7 + 5 + 3 + 1 + 7 = ", "28"),
    ("The spouse of the performer of Imagine is", " Yoko Ono"),
)
"""An addition in several steps and a question of two hops."""

_EVERYTHING = ("residual", "lens", "skip", "direct", "erasure", "integrated_gradients", "depth_score")

REPRODUCTION: Final = Reproduction(
    paper="csordas2025",
    models=MODELS,
    surveys=(
        Survey("all-tokens", "gsm8k:20", ("residual", "lens", "skip", "direct"), all_tokens_only=True),
        Survey("future", "gsm8k:10", ("skip", "direct")),
        Survey("questions", QUESTIONS, ("erasure", "integrated_gradients")),
        Survey("hops", "mquake?hops=2-4&per_level=20", ("depth_score",), {"depth_score": {"positions": "answer"}}),
        Survey("levels", "math?level=1-5&per_level=20", ("depth_score",), {"depth_score": {"positions": "every"}}),
    ),
    figures=(
        Figure((1, 1), "benchmark scores against number of layers", reason="a regression over published scores"),
        Figure(
            (2, 2),
            "norms, relative contributions and cosines on 20 GSM8K prompts, Llama 3.1 70B",
            ("all-tokens",),
            ("residual",),
            (LLAMA_70B,),
        ),
        Figure(
            (3, 3),
            "skip effects at all tokens, 20 GSM8K prompts, Llama 3.1 70B",
            ("all-tokens",),
            ("skip",),
            (LLAMA_70B,),
        ),
        Figure(
            (4, 4),
            "skip effects on future tokens, 10 GSM8K prompts, Llama 3.1 70B",
            ("future",),
            ("skip",),
            (LLAMA_70B,),
        ),
        Figure((5, 5), "logit lens on 20 GSM8K prompts, Llama 3.1 70B", ("all-tokens",), ("lens",), (LLAMA_70B,)),
        Figure(
            (6, 6),
            "erasure and integrated gradients on an addition and a two-hop question, Llama 3.1 70B",
            ("questions",),
            ("erasure", "integrated_gradients"),
            (LLAMA_70B,),
        ),
        Figure(
            (7, 7),
            "depth score by hops (MQuAKE) and by level (MATH), Llama 3.1 70B",
            ("hops", "levels"),
            ("depth_score",),
            (LLAMA_70B,),
        ),
        Figure((8, 9), "maps between models; a transformer against MoEUT", reason=TRAINED),
        Figure(
            (10, 13),
            "direct effects at all tokens and on future tokens, Llama 3.1 70B",
            ("all-tokens", "future"),
            ("direct",),
            (LLAMA_70B,),
        ),
        Figure((14, 14), "further maps or trained models", reason=TRAINED),
        Figure(
            (15, 38),
            "the same measurements on every model",
            ("all-tokens", "future", "questions", "hops", "levels"),
            _EVERYTHING,
        ),
        Figure(
            (39, 41),
            "skip effects, erasure and integrated gradients before and after fine-tuning on arithmetic",
            checked=True,
            reason=TRAINED,
        ),
    ),
)
