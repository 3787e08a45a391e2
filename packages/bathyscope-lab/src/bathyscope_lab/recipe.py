"""A training recipe: everything that decides what a small model becomes, as one typed, hashable record."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

import yaml

from bathyscope.errors import OptionError, did_you_mean
from bathyscope.options import coerce
from bathyscope_lab.ranges import (
    Count,
    CountFrom0,
    FileSize,
    Keys,
    Memory,
    NotNegative,
    Positive,
    PositiveShare,
    Seed,
    Share,
    Steps,
    Tokens,
    check_values,
)

T = TypeVar("T")


@dataclass(frozen=True)
class TextData:
    """A mix of texts, packed into one stream of tokens.

    Args:
        mix: source → share of the tokens (any positive scale). Sources are ``books``, ``gsm8k``, ``generated``, and
            text files of the data folder by their path (``.txt``, or gzipped ``.txt.gz``).
        tokens: length of the packed stream; a longer run begins it again.
        tokenizer_characters: how much of the text the vocabulary is trained on.
    """

    mix: Mapping[str, float]
    tokens: Count = 24_000_000
    tokenizer_characters: Count = 12_000_000

    def __post_init__(self) -> None:
        check_values(self, "data")
        shares = list(self.mix.values()) if isinstance(self.mix, Mapping) else []
        if not shares or not all(isinstance(share, int | float) and 0 < share < math.inf for share in shares):
            raise OptionError(f"data: mix={self.mix!r}; give sources with positive shares, such as {{books: 1.0}}.")


@dataclass(frozen=True)
class TaskData:
    """Problems of one task.

    Args:
        name: of a task of the laboratory.
        options: of that task.
        count: different training problems; None = a new one every time.
    """

    name: str
    options: Keys = field(default_factory=dict)
    count: Count | None = None

    def __post_init__(self) -> None:
        check_values(self, "task")


@dataclass(frozen=True)
class TokenizerChoice:
    """Where token ids come from.

    Args:
        type: ``bpe`` (byte-level, digits stand alone), ``words`` (a token for each word of the task),
            ``characters`` (byte-level without merges) or ``folder``.
        vocabulary: pieces of a ``bpe``, special ones included.
        folder: a checkpoint folder or hub name whose tokenizer is taken.
    """

    type: Literal["bpe", "words", "characters", "folder"] = "bpe"
    vocabulary: Count | None = None
    folder: str | None = None

    def __post_init__(self) -> None:
        check_values(self, "tokenizer")
        for name, belongs_to in (("vocabulary", "bpe"), ("folder", "folder")):
            given = getattr(self, name) is not None
            if given != (self.type == belongs_to):
                fix = f"leave out {name}" if given else f"add {name}"
                raise OptionError(f"tokenizer: type {self.type} and {name}={getattr(self, name)} disagree; {fix}.")


@dataclass(frozen=True)
class Stage:
    """Shape of a batch until ``until``, a share of the whole run; the last stage ends at 1.

    Args:
        context: tokens of a row: the row's length for texts, the longest problem for a task.
        batch: rows of a step.
        until: share of the run at which the next stage begins.
    """

    context: Tokens
    batch: Count
    until: PositiveShare = 1.0

    def __post_init__(self) -> None:
        check_values(self, "stages")


@dataclass(frozen=True)
class Budget:
    """When a run ends.

    Args:
        steps: optimiser steps.
        tokens: positions read, in place of ``steps``; for texts only, where every step reads equally many.
        minutes: end sooner, and anneal for it; the clock then decides the weights together with the seed.
    """

    steps: Count | None = None
    tokens: Count | None = None
    minutes: Positive | None = None

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.tokens is None):
            raise OptionError("budget: give either steps or tokens (and, if you like, minutes).")
        check_values(self, "budget")


@dataclass(frozen=True)
class Optimisation:
    """AdamW with a linear warm-up and a decay to ``final_ratio`` of the peak rate.

    Args:
        learning_rate: the peak.
        schedule: ``cosine`` falls from the warm-up on; ``plateau`` stays level and falls linearly at the end.
        warmup_steps: steps up to the peak.
        decay: share of the run in which a ``plateau`` falls.
        final_ratio: of the last rate to the peak.
        beta1: decay of the running mean of gradients.
        beta2: decay of the running mean of squared gradients.
        weight_decay: of matrices; norms and biases have none.
        clip: largest norm of a gradient; 0 = no limit.
    """

    learning_rate: Positive = 1e-3
    schedule: Literal["cosine", "plateau"] = "cosine"
    warmup_steps: CountFrom0 = 100
    decay: Share = 0.6
    final_ratio: Share = 0.1
    beta1: Memory = 0.9
    beta2: Memory = 0.95
    weight_decay: NotNegative = 0.1
    clip: NotNegative = 1.0

    def __post_init__(self) -> None:
        check_values(self, "optimisation")


@dataclass(frozen=True)
class Evaluation:
    """What is held out.

    Args:
        every: steps between evaluations during training.
        tokens: of each source of text, at each of them.
        problems: of each split of a task, at each of them.
        final_tokens: as ``tokens``, for the card.
        final_problems: as ``problems``, for the card.
    """

    every: Count = 500
    tokens: Count = 16_384
    problems: Count = 200
    final_tokens: Count = 131_072
    final_problems: Count = 1000

    def __post_init__(self) -> None:
        check_values(self, "evaluation")


@dataclass(frozen=True)
class Saving:
    """What of a run is written down.

    Args:
        dtype: of the finished weights, and of kept ones.
        shard: size of the files of weights.
        every: steps after which the run is secured, to go on from there.
        keep: steps whose weights stay as models of their own, in ``steps/step-0000100``; 0 = before the first. It
            changes nothing of what is trained, and so is not part of the recipe's hash.
    """

    dtype: Literal["float32", "bfloat16"] = "float32"
    shard: FileSize = "5GB"
    every: Count = 500
    keep: Steps = ()

    def __post_init__(self) -> None:
        check_values(self, "saving")


@dataclass(frozen=True)
class Measuring:
    """A survey before and after training.

    Args:
        measures: names of measures.
        prompts: a source of prompts, as for a survey.
        options: of measures, under their names.
    """

    measures: tuple[str, ...]
    prompts: str
    options: Keys = field(default_factory=dict)

    def __post_init__(self) -> None:
        check_values(self, "measure")


@dataclass(frozen=True)
class Recipe:
    """What ``bathyscope lab train`` carries out. In YAML, ``base`` is called ``from``.

    Args:
        name: of the model, for its card.
        seed: of the weights' initial values, the order of texts and the problems.
        model: ``type``, a model type of transformers or of the laboratory, and keys of its configuration.
        base: a checkpoint folder or hub name to go on from, in place of ``model``.
        data: texts to train on.
        task: problems to train on, in place of ``data``.
        tokenizer: where token ids come from; with ``from`` it is the checkpoint's own.
        loss: on ``all`` tokens, on what is ``written`` after the question (steps, answer and end token), or on the
            ``answer`` and the end token alone.
        steps: write a problem's intermediate steps between question and answer.
        stages: shapes of batches.
        budget: when the run ends.
        optimisation: the optimiser's options.
        precision: ``bfloat16`` computes matrix products in bfloat16, on float32 weights.
        compile: run the model through ``torch.compile``.
        threads: of a CPU; None = all.
        scaled_writes: matrices that write into the residual stream start 1/√(2·blocks) smaller, so that the
            stream's size at the readout does not grow with depth.
        evaluation: what is held out, and how often it is looked at.
        saving: what the finished checkpoint looks like.
        measure: what is surveyed before and after training; with ``from`` only.
    """

    name: str
    seed: Seed = 0
    model: Keys | None = None
    base: str | None = None
    data: TextData | None = None
    task: TaskData | None = None
    tokenizer: TokenizerChoice | None = None
    loss: Literal["all", "written", "answer"] = "all"
    steps: bool = False
    stages: tuple[Stage, ...] = (Stage(context=256, batch=16),)
    budget: Budget = field(default_factory=lambda: Budget(steps=1000))
    optimisation: Optimisation = field(default_factory=Optimisation)
    precision: Literal["float32", "bfloat16"] = "float32"
    compile: bool = False
    threads: Count | None = None
    scaled_writes: bool = False
    evaluation: Evaluation = field(default_factory=Evaluation)
    saving: Saving = field(default_factory=Saving)
    measure: Measuring | None = None

    def __post_init__(self) -> None:
        check_values(self, "recipe")
        self._check_origin()
        self._check_data()
        untils = [stage.until for stage in self.stages]
        if not untils:
            raise OptionError("stages is empty; give at least one shape of batches, such as {context: 256, batch: 16}.")
        if untils != sorted(set(untils)) or untils[-1] != 1.0:
            raise OptionError(f"stages end at {untils}; allowed: rising shares of the run, the last one 1.0.")
        if late := [step for step in self.saving.keep if step > self.total_steps]:
            raise OptionError(
                f"saving: keep={late[0]} is behind the last step, {self.total_steps}; give steps up to it, or a larger "
                "budget."
            )

    def _check_origin(self) -> None:
        if (self.model is None) == (self.base is None):
            raise OptionError("recipe: give either model (a new one) or from (a checkpoint to go on from).")
        if self.model is not None and self.tokenizer is None:
            raise OptionError("recipe: a new model needs a tokenizer: bpe, words, characters or folder.")
        if self.base is None and self.measure is not None:
            raise OptionError("measure: compares with the checkpoint trained from; add from, or survey afterwards.")
        if self.base is not None and (self.tokenizer is not None or self.scaled_writes):
            raise OptionError("from: tokenizer and initial weights are the checkpoint's; leave those keys out.")

    def _check_data(self) -> None:
        if (self.data is None) == (self.task is None):
            raise OptionError("recipe: give either data (a mix of texts) or task (problems).")
        if self.data is not None:
            if self.loss != "all" or self.steps:
                raise OptionError("loss: written or answer and steps: true are for a task; texts have no answer.")
        elif self.budget.tokens is not None:
            raise OptionError("budget: tokens are for texts; problems differ in length, so give steps.")
        if self.loss == "written" and not self.steps:
            raise OptionError("loss: written counts written steps; add steps: true, or give loss: answer.")
        if self.task is None and self.tokenizer is not None and self.tokenizer.type == "words":
            raise OptionError("tokenizer: words are a task's list; for texts give bpe or characters.")

    @property
    def context(self) -> int:
        """The longest row of any stage, in tokens."""
        return max(stage.context for stage in self.stages)

    @property
    def stage_ends(self) -> tuple[int, ...]:
        """For each stage, the step that no longer belongs to it; the last one is the number of steps."""
        ends: list[int] = []
        read = 0
        for stage in self.stages:
            begun = ends[-1] if ends else 0
            if self.budget.steps is not None:
                ends.append(max(begun, round(stage.until * self.budget.steps)))
                continue
            assert self.budget.tokens is not None
            n_tokens = stage.batch * stage.context
            count = max(0, -(-(round(stage.until * self.budget.tokens) - read) // n_tokens))
            read += count * n_tokens
            ends.append(begun + count)
        return tuple(ends)

    @property
    def total_steps(self) -> int:
        """Optimiser steps of the whole run."""
        return self.stage_ends[-1]

    @property
    def given(self) -> str:
        """What exact answers are given besides the question, or hold besides the answer; empty where nothing."""
        if not self.steps:
            return ""
        return ", steps and all" if self.loss == "written" else ", given the true steps"

    def to_dict(self) -> dict[str, Any]:
        """The recipe as it would stand in a file, all options written out."""
        content = json.loads(json.dumps(dataclasses.asdict(self)))
        content["from"] = content.pop("base")
        return dict(content)

    def to_yaml(self) -> str:
        """The recipe as a file's text."""
        return yaml.safe_dump(self.to_dict(), sort_keys=False, allow_unicode=True)

    def hash(self) -> str:
        """First 16 hex digits of the SHA-256 of what decides the model; independent of the recipe's formatting."""
        content = self.to_dict()
        content["saving"].pop("keep")
        return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:16]

    @classmethod
    def from_dict(cls, content: Mapping[str, Any]) -> Recipe:
        """A recipe from nested mappings.

        Raises:
            OptionError: an unknown or missing key, or values that do not fit together.
        """
        values = dict(content)
        names = ["from" if field.name == "base" else field.name for field in dataclasses.fields(cls)]
        for name in values:
            if name not in names:
                raise OptionError(
                    f"recipe has no option {name!r}.{did_you_mean(str(name), names)} Allowed: {', '.join(names)}."
                )
        if "from" in values:
            values["base"] = values.pop("from")
        if isinstance(values.get("tokenizer"), str):
            values["tokenizer"] = {"type": values["tokenizer"]}
        for name, part in _PARTS.items():
            if values.get(name) is not None:
                values[name] = _build(part, values[name], name)
        if "stages" in values:
            values["stages"] = tuple(_build(Stage, stage, "stages") for stage in _listed(values["stages"]))
        return _build(cls, values, "recipe")


_PARTS: dict[str, type[Any]] = {
    "data": TextData,
    "task": TaskData,
    "tokenizer": TokenizerChoice,
    "budget": Budget,
    "optimisation": Optimisation,
    "evaluation": Evaluation,
    "saving": Saving,
    "measure": Measuring,
}


def _listed(stages: object) -> Sequence[Any]:
    if isinstance(stages, str) or not isinstance(stages, Sequence):
        raise OptionError(f"stages: a list of mappings with context and batch is expected; {stages!r} given.")
    return stages


def _build(cls: type[T], values: Any, where: str) -> T:
    """``values`` as the dataclass, all required ones there."""
    if isinstance(values, Mapping):
        missing = [
            f.name
            for f in dataclasses.fields(cls)  # type: ignore[arg-type]
            if f.name not in values and f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING
        ]
        unknown = set(values) - {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
        if missing and not unknown:
            raise OptionError(f"{where} lacks {', '.join(missing)}; add it to the recipe.")
        hints = typing.get_type_hints(cls)
        values = {name: _read_number(hints.get(name), value) for name, value in values.items()}
    return coerce(cls, values, where)


def _read_number(hint: Any, value: Any) -> Any:
    """The number that an option takes where YAML reads a text (``1e-3`` without a point) or ``1.0e+4`` for a count."""
    kinds = {hint, *get_args(hint)} & {int, float}
    if not kinds or not isinstance(value, str | float):
        return value
    try:
        number = float(value)
    except ValueError:
        return value
    if float in kinds:
        return number
    return int(number) if number.is_integer() else value
