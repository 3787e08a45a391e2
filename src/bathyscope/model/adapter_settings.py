"""Settings of an adapter that would take its library for ever, or that contradict its weights."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, Final

from bathyscope.core.apart import Apart, can_be_apart
from bathyscope.core.text import elided
from bathyscope.errors import ModelError, did_you_mean, warn
from bathyscope.model.files import fewer_blocks

_SECONDS: Final = 10.0
"""That matching the patterns of an adapter may take, which takes milliseconds."""
_PATTERNS: Final = ("target_modules", "exclude_modules", "feedforward_modules")
"""Settings that are a pattern of modules' paths, where they are a text."""
_PATTERNS_OF_LAYERS: Final = ("layers_pattern",)
_PATTERNS_BY_NAME: Final = ("rank_pattern", "alpha_pattern")
"""Settings whose keys are patterns of the ends of paths."""
_OTHER_TASKS: Final = {
    "SEQ_CLS": "classifying texts",
    "TOKEN_CLS": "classifying tokens",
    "QUESTION_ANS": "marking answers in a text",
    "FEATURE_EXTRACTION": "embedding texts",
}
"""What peft calls the tasks of models that predict no tokens."""
_HEADS: Final = ("score", "classifier", "qa_outputs")
_REPLICATED: Final = "layer_replication"
_DRAWN_BY: Final = "init_lora_weights"
_ROUNDS: Final = re.compile(r"niter_0*([0-9]+)")
_LOFTQ: Final = "loftq_config"
_LOFTQ_ROUNDS: Final = "loftq_iter"
_MOST_ROUNDS: Final = 1_000
"""That the library goes through before it reads an adapter's weights; those who publish take dozens at most."""


def require_bounded(name: str, settings: Mapping[str, Any], tensors: Collection[str], paths: Collection[str]) -> None:
    """Refuse settings that the library would follow without end.

    Args:
        name: of the adapter.
        settings: its ``adapter_config.json``.
        tensors: names of its weights.
        paths: of all modules of the model that it is put into.

    Raises:
        ModelError: names the setting.
    """
    _require_few_blocks(name, settings.get(_REPLICATED), tensors)
    _require_few_rounds(name, settings)
    patterns = [*_patterns_of(settings)]
    if not patterns or not can_be_apart():
        return
    matching = Apart(lambda request: _match_all(**request))
    try:
        matching({"patterns": patterns, "paths": sorted(paths)}, _SECONDS)
    except (TimeoutError, ChildProcessError):
        longest = max(patterns, key=len)
        raise ModelError(
            f"The adapter {name} names modules by patterns that are not matched within {_SECONDS:g} s, such as "
            f"{elided(repr(longest), 60)}. List the names of its modules in their place (target_modules)."
        ) from None


def require_consistent(name: str, settings: Mapping[str, Any], shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Refuse settings that no base could make fit, and warn of those by which an adapter changes nothing.

    Args:
        name: of the adapter.
        settings: its ``adapter_config.json``.
        shapes: of its weights.

    Raises:
        ModelError: a kind that the library does not know, another rank than that of its matrices, or a classifier's.
    """
    from peft import PeftType

    _require_language(name, settings, shapes)
    kind = settings.get("peft_type")
    if kind is not None and kind not in {member.value for member in PeftType}:
        near = did_you_mean(str(kind), [member.value for member in PeftType])
        raise ModelError(
            f"The adapter {name} is of the kind {elided(repr(kind), 40)} (peft_type), which peft does not know.{near} "
            "Update peft, or save the adapter again."
        )
    ranks = {shape[0] for tensor, shape in shapes.items() if tensor.endswith("lora_A.weight") and shape}
    rank = settings.get("r")
    if kind == "LORA" and len(ranks) == 1 and not settings.get("rank_pattern") and ranks != {rank}:
        raise ModelError(
            f"The adapter {name} says r={rank!r}, and its matrices are of rank {ranks.pop()}. Its settings are those "
            "of another adapter: download both files, or save the adapter, again."
        )
    if kind == "LORA" and settings.get("lora_alpha") == 0 and not settings.get("alpha_pattern"):
        warn(f"The adapter {name} multiplies what it adds by lora_alpha=0: the model is its base, unchanged.")


def _require_language(name: str, settings: Mapping[str, Any], tensors: Collection[str]) -> None:
    """Refuse an adapter with the head of a classifier, and warn of one of another task that has none."""
    task = settings.get("task_type")
    if task not in _OTHER_TASKS:
        return
    heads = [tensor for tensor in tensors if tensor.rpartition(".")[0].split(".")[-1] in _HEADS]
    if heads:
        raise ModelError(
            f"The adapter {name} is of a model for {_OTHER_TASKS[task]} (task_type: {task}), with a head for that "
            f"({heads[0]}), and not of a language model. Give an adapter with task_type CAUSAL_LM."
        )
    warn(
        f"The adapter {name} was trained for {_OTHER_TASKS[task]} (task_type: {task}) and has no head for that; it is "
        "measured in the language model that it is put into. Is it the adapter that you mean?"
    )


def _require_few_blocks(name: str, replicated: object, tensors: Collection[str]) -> None:
    """Refuse blocks that are run again hundreds of times, which the adapter's weights do not have."""
    if not isinstance(replicated, Sequence):
        return
    ranges = [pair for pair in replicated if isinstance(pair, Sequence) and len(pair) == 2]
    blocks = sum(max(0, last - first) for first, last in ranges if isinstance(first, int) and isinstance(last, int))
    stored = fewer_blocks(blocks, tensors)
    if stored:
        raise ModelError(
            f"The adapter {name} asks for {blocks:,} blocks ({_REPLICATED}), and its weights are those of at most "
            f"{stored:,}. Download it, or save the adapter, again."
        )


def _require_few_rounds(name: str, settings: Mapping[str, Any]) -> None:
    """Refuse weights that are first approximated in rounds without end, and then replaced by those of the file."""
    in_text = _ROUNDS.search(str(settings.get(_DRAWN_BY)))
    section = settings.get(_LOFTQ)
    rounds = {_DRAWN_BY: in_text[1] if in_text else 0}
    if isinstance(section, Mapping):
        rounds |= {f"{_LOFTQ}.{_LOFTQ_ROUNDS}": section.get(_LOFTQ_ROUNDS, 0)}
    for setting, number in rounds.items():
        # of ten digits no number is made, which may have millions
        digits = str(number)
        if len(digits) > 9 or (digits.isdecimal() and int(digits) > _MOST_ROUNDS):
            raise ModelError(
                f"The adapter {name} asks for {elided(digits, 20)} rounds of approximation ({setting}) before its "
                f"weights are read; allowed: at most {_MOST_ROUNDS:,}. Set {_DRAWN_BY} to true in its "
                "adapter_config.json where its weights need none."
            )


def _patterns_of(settings: Mapping[str, Any]) -> Iterator[str]:
    """Yield the patterns that the library matches with every path, as it completes them."""
    for key in _PATTERNS:
        if isinstance(settings.get(key), str):
            yield settings[key]
    for key in _PATTERNS_OF_LAYERS:
        value = settings.get(key)
        for text in [value] if isinstance(value, str) else value if isinstance(value, list) else []:
            yield rf".*\.[^.]*\.{text}\.(\d+)\."
    for key in _PATTERNS_BY_NAME:
        value = settings.get(key)
        for text in value if isinstance(value, Mapping) else ():
            yield rf"(.*\.)?({text})$"


def _match_all(patterns: list[str], paths: list[str]) -> bool:
    """Match every pattern with every path; what is no pattern is for the library to refuse."""
    for pattern in patterns:
        try:
            compiled = re.compile(pattern)
        except (re.error, RecursionError, OverflowError):
            continue
        for path in paths:
            compiled.fullmatch(path)
            compiled.match(path)
    return True
