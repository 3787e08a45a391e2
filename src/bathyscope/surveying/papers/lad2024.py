"""lad2024: models, corpora and figures."""

from typing import Final

from bathyscope.surveying.papers.reproduction import Figure, Reproduction, Work

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
_TEXT: Final = ("corpus",)
CAPITALS: Final = (("The capital of France is", " Paris"), ("The capital of Italy is", " Rome"))
"""Two prompts of one length, each patched into the other; the paper names the method and no prompts."""

REPRODUCTION: Final = Reproduction(
    paper="lad2024",
    models=MODELS,
    works=(
        Work("corpus", _CORPUS),
        Work("repeat-3", _CORPUS, {"repeat": {"length": 3}}),
        Work("lens", "pile.txt:10?chars=500", {"lens": {"norm": ("recompute", "frozen")}}),
        Work("words", "pile.txt", verb="subjoiner"),
        Work("wic", "wic", verb="wic"),
        Work("ing", "pile.txt", verb="ing"),
        Work("drop", "hellaswag,arc_easy,lambada_openai", {"schedules": ("drop",)}, "evaluate"),
        Work("swap", "hellaswag,arc_easy,lambada_openai", {"schedules": ("swap",)}, "evaluate"),
        Work("capitals", CAPITALS, {"patching": {"pairs": ((0, 1), (1, 0))}}),
        Work("repeats", "hellaswag", {"schedules": ("repeat:3", "repeat:5")}, "evaluate"),
    ),
    figures=(
        Figure("1", "the stages and their signatures", _TEXT, ("stages",)),
        Figure("5a", "blocks dropped and swapped", _TEXT, ("drop_and_swap", "drop.kl", "swap.kl")),
        Figure("5b, 5c, 14", "similarity of boundaries (CKA)", _TEXT, ("cka.last",)),
        Figure("6a", "attention to the five tokens before", _TEXT, ("attention_locality.total_prev5",)),
        Figure("6b", "sub-joiner heads", ("words",), ("subjoiner",)),
        Figure("7a, 20", "probes of word meaning (WiC)", ("wic",), ("wic",)),
        Figure("7b, 21", "entropy of the lens", ("lens",), ("lens.entropy",)),
        Figure("8, 19", "prediction and suppression neurons", _TEXT, ("neurons.fractions",)),
        Figure("9, 23", 'neurons that act most on tokens ending in "ing"', _TEXT, ("neurons.top_ing",)),
        Figure("10, 12b, 22", "norm of the MLP's contribution", _TEXT, ("residual.norm_mlp",)),
        Figure("11, 12c, 24, 25", "repeated blocks", ("corpus", "repeat-3"), ("repeat.kl", "repeat.loss")),
        Figure("12a", 'probes of "-ing" by neurons', ("ing",), ("ing",)),
        Figure("15", "benchmarks with a block dropped", ("drop",), ("evaluation",)),
        Figure("16", "benchmarks with neighbours swapped", ("swap",), ("evaluation",)),
        Figure("17, 18", "what swapped blocks write", _TEXT, ("swap_cosine",)),
        Figure("26", "HellaSwag with blocks repeated", ("repeats",), ("evaluation",)),
        Figure("table 1", "activation patching, named among the methods", ("capitals",), ("patching",)),
        Figure("§4.3", "prediction neurons where the KL falls", _TEXT, ("prediction_fall",)),
    ),
)
