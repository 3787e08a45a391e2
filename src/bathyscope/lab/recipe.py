"""A training recipe: everything that decides what a small model becomes, as one typed, hashable record."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from bathyscope.errors import OptionError, did_you_mean


@dataclass(frozen=True)
class ModelShape:
    """A Llama-like decoder: RMSNorm, rotary positions, SwiGLU, grouped queries, tied embeddings."""

    blocks: int = 12
    width: int = 192
    heads: int = 6
    kv_heads: int = 3
    mlp_width: int = 512
    context: int = 512
    vocabulary: int = 4096


@dataclass(frozen=True)
class DataMix:
    """Shares of the tokens by source, and how much is prepared.

    ``books``, ``gsm8k`` and ``generated`` are proportions (any positive scale); ``tokens`` is the length of
    the packed stream, ``tokenizer_characters`` how much text the vocabulary is trained on.
    """

    books: float = 0.60
    gsm8k: float = 0.15
    generated: float = 0.25
    tokens: int = 24_000_000
    tokenizer_characters: int = 12_000_000


@dataclass(frozen=True)
class Stage:
    """Batch shape until ``until``, a share of the whole run; the last stage ends at 1."""

    until: float
    context: int
    batch: int


@dataclass(frozen=True)
class Optimisation:
    """AdamW with a linear warm-up, a plateau and a linear decay to ``final_ratio`` of the peak rate.

    The run ends when ``max_tokens`` or ``max_minutes`` is reached, whichever is first; the rate follows the
    larger of the two shares, so that the run always ends annealed. ``decay`` is a share of the run; the
    warm-up is counted in steps, since compiling takes a minute before the first one.
    """

    learning_rate: float = 3e-3
    warmup_steps: int = 150
    decay: float = 0.6
    final_ratio: float = 0.01
    beta1: float = 0.9
    beta2: float = 0.95
    weight_decay: float = 0.1
    clip: float = 1.0
    max_tokens: int = 20_000_000
    max_minutes: float | None = None


@dataclass(frozen=True)
class Recipe:
    """What ``python -m bathyscope.lab.train`` carries out.

    ``autocast``: bfloat16 matrix products on float32 weights. ``compile``: through ``torch.compile``.
    ``checkpoint_steps`` and ``evaluate_steps``: every how many steps.
    """

    name: str
    seed: int = 0
    threads: int = 1
    autocast: bool = True
    compile: bool = False
    checkpoint_steps: int = 500
    evaluate_steps: int = 500
    model: ModelShape = field(default_factory=ModelShape)
    data: DataMix = field(default_factory=DataMix)
    stages: tuple[Stage, ...] = (
        Stage(until=0.6, context=256, batch=16),
        Stage(until=1.0, context=512, batch=8),
    )
    optimisation: Optimisation = field(default_factory=Optimisation)

    def __post_init__(self) -> None:
        untils = [stage.until for stage in self.stages]
        if not untils or untils != sorted(untils) or untils[-1] != 1.0:
            raise OptionError(f"stages end at {untils}; allowed: rising shares of the run, the last one 1.0.")
        longest = max(stage.context for stage in self.stages)
        if longest > self.model.context:
            raise OptionError(
                f"A stage has context {longest}, the model {self.model.context}; shorten the stage or raise "
                "model.context."
            )
        if self.model.width % self.model.heads or self.model.heads % self.model.kv_heads:
            raise OptionError(
                f"width {self.model.width}, heads {self.model.heads}, kv_heads {self.model.kv_heads}: width "
                "must be a multiple of heads, and heads a multiple of kv_heads."
            )

    def stage(self, progress: float) -> Stage:
        """The stage at a share of the run, 0 ≤ progress ≤ 1."""
        return next((stage for stage in self.stages if progress < stage.until), self.stages[-1])

    def to_dict(self) -> dict[str, Any]:
        return dataclasses.asdict(self)

    def to_yaml(self) -> str:
        # Through JSON, which turns the tuples into lists that safe YAML can write.
        return yaml.safe_dump(json.loads(json.dumps(self.to_dict())), sort_keys=False)

    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 of the recipe's content; independent of its formatting."""
        return hashlib.sha256(json.dumps(self.to_dict(), sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Recipe:
        """A recipe from nested mappings.

        Raises:
            OptionError: an unknown or missing key, or values that do not fit together.
        """
        values = dict(content)
        for name, part in (("model", ModelShape), ("data", DataMix), ("optimisation", Optimisation)):
            if name in values:
                values[name] = _build(part, values[name], name)
        if "stages" in values:
            values["stages"] = tuple(_build(Stage, stage, "stages") for stage in values["stages"])
        recipe: Recipe = _build(cls, values, "recipe")
        return recipe

    @classmethod
    def read(cls, path: Path) -> Recipe:
        """A recipe from a YAML file.

        Raises:
            OptionError: no such file, not a mapping, or as in `from_dict`.
        """
        if not path.is_file():
            raise OptionError(f"No recipe at {path}; give a YAML file such as lab/recipes/bundled.yaml.")
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if not isinstance(content, Mapping):
            raise OptionError(f"{path} holds {type(content).__name__}; a recipe is a mapping of option: value.")
        return cls.from_dict(content)


def _build(cls: type[Any], values: Mapping[str, Any], where: str) -> Any:
    allowed = {f.name: f for f in dataclasses.fields(cls)}
    for key in values:
        if key not in allowed:
            raise OptionError(
                f"{key!r} is not an option of {where}; allowed: {', '.join(allowed)}.{did_you_mean(key, allowed)}"
            )
    missing = [
        name
        for name, f in allowed.items()
        if name not in values and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
    ]
    if missing:
        raise OptionError(f"{where} lacks {', '.join(missing)}; add it to the recipe.")
    return cls(**values)
