"""lad2024: models, corpora and figures."""

from __future__ import annotations

from typing import Final

from bathyscope.papers.reproduction import Figure, Reproduction, Survey

MODELS: Final = (
    "EleutherAI/pythia-410m-deduped",
    "EleutherAI/pythia-1.4b-deduped",
    "EleutherAI/pythia-2.8b-deduped",
    "EleutherAI/pythia-6.9b-deduped",
    "gpt2",
    "gpt2-medium",
    "gpt2-large",
    "gpt2-xl",
    "microsoft/phi-1",
    "microsoft/phi-1_5",
    "microsoft/phi-2",
    "Qwen/Qwen2.5-0.5B",
    "Qwen/Qwen2.5-1.5B",
    "Qwen/Qwen2.5-3B",
    "meta-llama/Llama-3.2-1B",
    "meta-llama/Llama-3.2-3B",
)

# About a million tokens; the same windows for models of every context.
_CORPUS = "pile.txt:2000?window=512"
_BY_BLOCK = ("drop", "swap", "attention_locality", "neurons", "lens")
_EVERYTHING = ("residual", *_BY_BLOCK, "repeat", "swap_cosine", "cka")

REPRODUCTION: Final = Reproduction(
    paper="lad2024",
    models=MODELS,
    surveys=(
        Survey("corpus", _CORPUS, (*_EVERYTHING, "stages")),
        Survey("repeat-3", _CORPUS, ("repeat",), {"repeat": {"length": 3}}),
        Survey("lens", "pile.txt:10?chars=500", ("lens",), {"lens": {"norm": ("recompute", "frozen")}}),
    ),
    figures=(
        Figure(
            (1, 1),
            "stages: attention to previous tokens, prediction and suppression neurons, KL under drop, lens",
            ("corpus",),
            ("stages",),
            checked=True,
        ),
        Figure(
            (5, 9),
            "drop and swap, attention to previous tokens, neurons and lens, by model",
            ("corpus", "lens"),
            _BY_BLOCK,
        ),
        Figure((10, 10), "mean norm of the MLP's contribution, by model", ("corpus",), ("residual",), checked=True),
        Figure((11, 12), "as 5–9, by model", ("corpus", "lens"), _BY_BLOCK),
        Figure(
            (14, 26),
            "repeated blocks, cosines under swap, similarity of boundaries, and the same measurements on every model",
            ("corpus", "repeat-3", "lens"),
            _EVERYTHING,
        ),
    ),
)
