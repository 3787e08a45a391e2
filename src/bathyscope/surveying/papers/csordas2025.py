"""csordas2025: models, data and figures, by the numbers of the camera-ready version."""

from typing import Final

from bathyscope.prompts.tasks.arithmetic import probes
from bathyscope.surveying.papers.reproduction import Figure, Reproduction, Work

LLAMA_8B: Final = "meta-llama/Meta-Llama-3.1-8B"
LLAMA_70B: Final = "meta-llama/Meta-Llama-3.1-70B"
MODELS: Final = (
    LLAMA_8B,
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

_70B: Final = (LLAMA_70B,)
_FURTHER: Final = tuple(model for model in MODELS if model != LLAMA_70B)
_MAPPED: Final = ("Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-14B")
_TUNED: Final = ("meta-llama/Llama-3.2-3B", "meta-llama/Llama-3.2-3B-Instruct")
_TWO: Final = "a Transformer and a MoEUT trained alike on arithmetic (bathyscope lab); give both with --models"
_FINE_TUNED: Final = (
    "Llama-3.2-3B or its Instruct model before and after fine-tuning on arithmetic (bathyscope lab); give both with "
    "--models"
)

QUESTIONS: Final = (("5 + 7 + 5 + 3 + 1 + 7 = ", "28"), ("The spouse of the performer of Imagine is", " Yoko Ono"))
"""An addition in several steps and a question of two hops."""
ARITHMETIC: Final = tuple((f"{problem.question} ", problem.answer) for problem in probes())
"""Probes of the models trained on arithmetic. Erasure puts the mean of one other example in place of a token."""

REPRODUCTION: Final = Reproduction(
    paper="csordas2025",
    models=MODELS,
    works=(
        Work("scores", "scores.csv", verb="depth_performance"),
        Work("gsm8k-20", "gsm8k:20", all_tokens_only=True),
        Work("gsm8k-10", "gsm8k:10"),
        Work("questions", QUESTIONS),
        Work("levels", "math?level=1-5&per_level=20", {"depth_score": {"positions": "every"}}),
        Work("hops", "mquake?hops=2-4&per_level=20", {"depth_score": {"positions": "answer"}}),
        Work("maps", "c4.txt:1000?window=256", verb="maps"),
        Work("arithmetic", ARITHMETIC, {"erasure": {"reference": ["Q: What is 7 - (3 + 2)? A: 2"]}}),
        Work("math-20", "math:20"),
        Work("gsm8k-50", "gsm8k:50"),
        Work("helm", "helm.jsonl:20"),
    ),
    figures=(
        Figure("1", "benchmark score against number of layers", ("scores",), ("depth_performance",)),
        Figure("2a", "relative contributions of attention and MLP", ("gsm8k-20",), ("residual.ratios",), _70B),
        Figure("2b", "cosines of contributions with the stream", ("gsm8k-20",), ("residual.cosines",), _70B),
        Figure("3a", "effect of a skipped block on later ones, all tokens", ("gsm8k-20",), ("skip.all",), _70B),
        Figure("3b", "effect of a skipped block on later tokens", ("gsm8k-10",), ("skip.future",), _70B),
        Figure("4a", "lens: KL from the final prediction", ("gsm8k-20",), ("lens.kl_lens_final",), _70B),
        Figure("4b", "lens: overlap of the top 5 with the final ones", ("gsm8k-20",), ("lens.overlap",), _70B),
        Figure("5a", "direct (local) effects, all tokens", ("gsm8k-20",), ("direct.all",), _70B),
        Figure("5b", "direct (local) effects on later tokens", ("gsm8k-10",), ("direct.future",), _70B),
        Figure(
            "6a, 6b, 6c, 6d",
            "integrated gradients and erasure on an addition and a two-hop question",
            ("questions",),
            ("integrated_gradients.prompt", "erasure"),
            (LLAMA_8B,),
        ),
        Figure("7a", "depth score by level of MATH", ("levels",), ("depth_score.layer",), _70B),
        Figure("7b", "depth score by hops of MQuAKE", ("hops",), ("depth_score.layer",), _70B),
        Figure("8", "linear maps between two models", ("maps",), ("maps",), _MAPPED),
        Figure("9, 42, 43", "erasure, Transformer and MoEUT", ("arithmetic",), ("erasure",), needs=_TWO),
        Figure(
            "10, 11, 12",
            "robustness: skip effects on MATH and on 50 GSM8K examples",
            ("math-20", "gsm8k-50"),
            ("skip.all", "skip.future"),
            _70B,
        ),
        Figure("13", "skip effects of four single examples", ("gsm8k-10",), ("skip.prompts_future",), _70B),
        Figure("14", "skip effects on HELM Lite", ("helm",), ("skip.all", "skip.future"), _70B),
        Figure("15", "norms of the stream and what is added", ("gsm8k-20",), ("residual.norms",), _70B),
        Figure("16", "cosines of neighbouring boundaries", ("gsm8k-20",), ("residual.neighbour",), _70B),
        Figure("17a", "change of the output, all tokens", ("gsm8k-20",), ("skip.output_all",), _70B),
        Figure("17b", "change of the output at later tokens", ("gsm8k-10",), ("skip.output_future",), _70B),
        Figure("18, 19, 20", "norms, further models", ("gsm8k-20",), ("residual.norms",), _FURTHER),
        Figure(
            "21, 22",
            "relative contributions and cosines, further models",
            ("gsm8k-20",),
            ("residual.ratios", "residual.cosines"),
            _FURTHER,
        ),
        Figure("23, 24, 25, 26", "effects on later tokens, further models", ("gsm8k-10",), ("skip.future",), _FURTHER),
        Figure(
            "27, 28, 29", "direct effects, further models", ("gsm8k-10",), ("direct.all", "direct.future"), _FURTHER
        ),
        Figure("30, 31", "lens, further models", ("gsm8k-20",), ("lens.kl_lens_final", "lens.overlap"), _FURTHER),
        Figure(
            "32",
            "erasure and integrated gradients, the larger model",
            ("questions",),
            ("erasure", "integrated_gradients.prompt"),
            _70B,
        ),
        Figure(
            "33, 34",
            "erasure and integrated gradients, further models",
            ("questions",),
            ("erasure", "integrated_gradients.prompt"),
            _FURTHER,
        ),
        Figure(
            "35, 36, 37",
            "depth scores, further models",
            ("levels", "hops"),
            ("depth_score.layer", "depth_score.output"),
            _FURTHER,
        ),
        Figure("38", "effect of each skipped block by difficulty", ("levels", "hops"), ("depth_score.by_level",), _70B),
        Figure(
            "39, 40, 41",
            "skip effects, erasure and integrated gradients before and after fine-tuning",
            ("arithmetic",),
            ("skip.all", "erasure", "integrated_gradients.prompt"),
            _TUNED,
            needs=_FINE_TUNED,
        ),
    ),
)
