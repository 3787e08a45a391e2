"""The stages of the campaign: which numbers of which model, in order of size, and what each is expected to take.

A stage is one call of ``bathyscope reproduce`` with a record of its own. Parameters and blocks are those of the
checkpoints' configurations; what follows from them is arithmetic, and said to be.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from bathyscope.errors import OptionError, did_you_mean

TABLE: Final = "hu2025-table1"
_FIGURES: Final = {TABLE: "", "csordas2025": "2a,2b,3b,4a,4b,17b", "lad2024": "5a"}
"""Target → the figures whose numbers docs/predictions.md has bounds for; a table is whole."""
_LETTERS: Final = {TABLE: "h", "csordas2025": "c", "lad2024": "l"}
"""Target → its paper, as the table of models calls it."""
_READ: Final[Mapping[str, tuple[int, float]]] = {
    TABLE: (9_000, 0.0),
    "csordas2025": (8_000, 0.5),
    "lad2024": (1_000_000, 1.0),
}
"""Target → tokens that are read, and further forwards for each block of the model: a skipped block needs half of one
behind it on average, and a dropped and a swapped one half each."""
BYTES: Final = 2
"""Of a parameter, as the checkpoints are stored (bfloat16)."""
_HOUR: Final = 3600.0

# billions of parameters, blocks, and the papers that measured it
_MODELS: Final[Mapping[str, tuple[float, int, str]]] = {
    "gpt2": (0.124, 12, "l"),
    "gpt2-medium": (0.355, 24, "l"),
    "EleutherAI/pythia-410m-deduped": (0.405, 24, "l"),
    "Qwen/Qwen2.5-0.5B": (0.494, 24, "l"),
    "gpt2-large": (0.774, 36, "l"),
    "meta-llama/Llama-3.2-1B": (1.236, 16, "l"),
    "EleutherAI/pythia-1.4b-deduped": (1.415, 24, "l"),
    "microsoft/phi-1": (1.418, 24, "l"),
    "microsoft/phi-1_5": (1.418, 24, "l"),
    "Qwen/Qwen2.5-1.5B": (1.544, 28, "l"),
    "Qwen/Qwen2.5-1.5B-Instruct": (1.544, 28, "h"),
    "Qwen/Qwen2.5-Math-1.5B": (1.544, 28, "h"),
    "gpt2-xl": (1.558, 48, "l"),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B": (1.777, 28, "h"),
    "EleutherAI/pythia-2.8b-deduped": (2.775, 32, "l"),
    "microsoft/phi-2": (2.780, 32, "l"),
    "Qwen/Qwen2.5-3B": (3.086, 36, "l"),
    "meta-llama/Llama-3.2-3B": (3.213, 28, "l"),
    "EleutherAI/pythia-6.9b-deduped": (6.857, 32, "l"),
    "allenai/OLMo-2-1124-7B": (7.299, 32, "c"),
    "Qwen/Qwen2.5-7B-Instruct": (7.616, 28, "h"),
    "Qwen/Qwen2.5-Math-7B": (7.616, 28, "h"),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-7B": (7.616, 28, "h"),
    "meta-llama/Meta-Llama-3.1-8B": (8.030, 32, "c"),
    "meta-llama/Meta-Llama-3.1-8B-Instruct": (8.030, 32, "c"),
    "Qwen/Qwen3-8B": (8.191, 36, "c"),
    "allenai/OLMo-2-1124-13B": (13.716, 40, "c"),
    "Qwen/Qwen3-14B": (14.768, 40, "c"),
    "Qwen/Qwen2.5-14B": (14.770, 48, "h"),
    "Qwen/Qwen2.5-14B-Instruct": (14.770, 48, "h"),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": (14.770, 48, "h"),
    "allenai/OLMo-2-0325-32B": (32.234, 64, "c"),
    "Qwen/Qwen3-32B": (32.762, 64, "c"),
    "Qwen/Qwen2.5-32B": (32.764, 64, "h"),
    "Qwen/Qwen2.5-32B-Instruct": (32.764, 64, "h"),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-32B": (32.764, 64, "h"),
    "meta-llama/Meta-Llama-3.1-70B": (70.554, 80, "c"),
    "meta-llama/Meta-Llama-3.1-70B-Instruct": (70.554, 80, "c"),
    "meta-llama/Meta-Llama-3.1-405B": (405.853, 126, "c"),
}


@dataclass(frozen=True)
class Machine:
    """What estimates assume of a machine; none of it is measured.

    Args:
        petaflops: floating-point operations of a forward, 10¹⁵ a second.
        gigabytes: that a download brings in a second.
        memory: of the accelerator, in GB; larger models are streamed from disk for every stage.
    """

    petaflops: float = 0.2
    gigabytes: float = 0.1
    memory: float = 80.0


@dataclass(frozen=True)
class Stage:
    """One call of ``reproduce``.

    Args:
        target: what is reproduced.
        model: the hub's name.
        place: a folder in its place; empty = the hub.
        billions, blocks: parameters and blocks of the model.
    """

    target: str
    model: str
    place: str
    billions: float
    blocks: int

    @property
    def name(self) -> str:
        """Name of the stage's record and folder."""
        return f"{self.target}__{re.sub(r'[^A-Za-z0-9.]+', '_', self.model)}"

    @property
    def gigabytes(self) -> float:
        """Of the checkpoint on disk."""
        return self.billions * BYTES

    def hours(self, machine: Machine) -> float:
        """Return the hours that it should take: its forwards, and its download where no folder is in its place."""
        tokens, by_block = _READ[self.target]
        forwards = tokens * (1 + by_block * self.blocks)
        seconds = forwards * 2e9 * self.billions / (machine.petaflops * 1e15)
        return (seconds + (0.0 if self.place else self.gigabytes / machine.gigabytes)) / _HOUR

    def arguments(self, records: str, runs: str) -> list[str]:
        """Return what ``bathyscope reproduce`` is called with."""
        model = f"{self.model}={self.place}" if self.place else self.model
        figures = ["--figures", _FIGURES[self.target]] if _FIGURES[self.target] else []
        return [self.target, "--models", model, *figures, "--record", f"{records}/{self.name}.json", "--out", runs]


def stages_of(chosen: Sequence[str] = ()) -> list[Stage]:
    """Return the stages, the smallest models first.

    Args:
        chosen: models of the papers by the whole name or the part behind its owner, or NAME=FOLDER for a folder in its
            place; none = all.

    Raises:
        OptionError: no paper has such a model.
    """
    places = _places(chosen)
    return [
        Stage(target, model, places[model], billions, blocks)
        for model, (billions, blocks, papers) in _MODELS.items()
        if model in places
        for target, letter in _LETTERS.items()
        if letter in papers
    ]


def _places(chosen: Sequence[str]) -> dict[str, str]:
    if not chosen:
        return dict.fromkeys(_MODELS, "")
    short = {name.rpartition("/")[2]: name for name in _MODELS}
    places: dict[str, str] = {}
    for text in chosen:
        name, _, place = text.partition("=")
        whole = short.get(name, name)
        if whole not in _MODELS:
            near = did_you_mean(name, [*short, *_MODELS])
            raise OptionError(f"No paper has a model {name!r}.{near} The papers' models: {', '.join(short)}.")
        places[whole] = place
    return places
