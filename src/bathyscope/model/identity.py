"""The identity of a measured model, asked by everything that is stored and read again.

A number holds for one model: its weights, its configuration, the state of its adapters, the order of its blocks and its
precision; where texts are read also for its tokenizer. What a file of an earlier version does not tell is unknown,
which is neither a contradiction nor an agreement.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from bathyscope.model.unread import unread_in_words

if TYPE_CHECKING:
    from bathyscope.model.model import Model

_HASH_LETTERS: Final = 8


@dataclass(frozen=True)
class ModelIdentity:
    """What tells a measured model from every other one; None = unknown.

    Args:
        name: what it is called, which changes no number.
        weights: hash of all weights, of their precision, and of constants and methods that were changed in memory (see
            ``unread``).
        configuration: hash of the configuration and of the states of all adapters.
        adapters: what each adapter does, such as ``default active``; empty = no adapters.
        schedule: the order of its blocks, as text; None = their own.
        precision: dtype of the weights, such as ``float32``.
        n_blocks: number of blocks.
        tokenizer: hash of the tokenizer; compared only where texts are.

    Example:
        >>> identity = identity_of(model)
        >>> identity.n_blocks, identity.precision, identity.adapters
        (4, 'float32', '')
        >>> compare_models(identity, identity).same
        True
    """

    name: str
    weights: str | None = None
    configuration: str | None = None
    adapters: str | None = None
    schedule: str | None = None
    precision: str | None = None
    n_blocks: int | None = None
    tokenizer: str | None = None

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> ModelIdentity:
        """Return what a stored record tells: attributes of a result, the identity of a run, the model of an act."""

        def text(*names: str) -> str | None:
            # an outline has an empty hash, and a JSON record an empty entry, where nothing is told
            return next((str(record[name]) for name in names if record.get(name)), None)

        configuration, n_blocks = text("config_hash"), record.get("n_blocks")
        adapters = record.get("adapters")
        # records with a hash of the configuration tell their adapters, and those without adapters leave them out
        without = "" if configuration is not None else None
        return cls(
            text("model", "name") or "a model",
            text("weight_hash"),
            configuration,
            without if adapters is None else str(adapters),
            text("schedule"),
            text("precision", "dtype"),
            None if n_blocks is None else int(n_blocks),
            text("tokenizer_hash"),
        )

    def record(self) -> dict[str, Any]:
        """Return what is told, as attributes of a result: ``model``, ``weight_hash``, ``config_hash`` and so on."""
        values = {
            "model": self.name,
            "weight_hash": self.weights,
            "config_hash": self.configuration,
            "adapters": self.adapters or None,
            "schedule": self.schedule,
            "precision": self.precision,
            "n_blocks": self.n_blocks,
        }
        return {name: value for name, value in values.items() if value is not None}


@dataclass(frozen=True)
class Agreement:
    """What two identities say of each other.

    Args:
        differences: aspect → one line that says what each has.
        unknown: aspects that one of them, or both, do not tell.
    """

    differences: Mapping[str, str]
    unknown: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether both are shown to be one model: nothing differs, and weights and configuration are told."""
        return not self.differences and not self.unknown

    @property
    def text(self) -> str:
        """The differences in one line; empty without any."""
        return "; ".join(self.differences.values())


def identity_of(model: Model, tokenizer: str | None = None) -> ModelIdentity:
    """Return the identity of a loaded model as it is now.

    Args:
        tokenizer: its hash, where texts are read.
    """
    from bathyscope.model.weights import adapters_of, config_hash

    return ModelIdentity(
        model.name,
        model.weight_hash or None,
        config_hash(model.hf),
        adapters_of(model.hf) or "",
        model.schedule,
        str(model.dtype).removeprefix("torch."),
        model.n_blocks,
        tokenizer,
    )


def compare_models(
    first: ModelIdentity, second: ModelIdentity, of_first: str = "the first", of_second: str = "the second"
) -> Agreement:
    """Return in what two models differ, and what is unknown of that.

    Names are not compared: a model may be moved or renamed. One checkpoint in two precisions has two hashes, so that
    weights are not compared then; nor are orders of blocks, where equal weights say that what runs is the same, as of
    an exported schedule.

    Args:
        of_first: what has the first, such as "the plan".
        of_second: what has the second.
    """
    differences: dict[str, str] = {}

    def differ(aspect: str, ours: object, theirs: object) -> None:
        differences[aspect] = f"{aspect}: {of_first} has {ours}, {of_second} {theirs}"

    is_of_one_precision = None in (first.precision, second.precision) or first.precision == second.precision
    unread = unread_in_words(second.weights, first.weights)
    has_same_weights = None not in (first.weights, second.weights) and first.weights == second.weights and not unread
    if None not in (first.n_blocks, second.n_blocks) and first.n_blocks != second.n_blocks:
        differ("blocks", first.n_blocks, second.n_blocks)
    if not is_of_one_precision:
        differ("precision", first.precision, second.precision)
    if unread:
        differences["weights"] = f"weights: {unread}"
    elif first.weights and second.weights and is_of_one_precision and not has_same_weights:
        differ("weights", first.weights[:_HASH_LETTERS], second.weights[:_HASH_LETTERS])
    if first.adapters is not None and second.adapters is not None and first.adapters != second.adapters:
        differ("adapters", first.adapters or "none", second.adapters or "none")
    elif first.configuration and second.configuration and first.configuration != second.configuration:
        has_adapters = bool(first.adapters or second.adapters)
        aspect = "configuration or scaling of adapters" if has_adapters else "configuration"
        differ(aspect, first.configuration[:_HASH_LETTERS], second.configuration[:_HASH_LETTERS])
    if first.schedule != second.schedule and not has_same_weights:
        differ("order of blocks", first.schedule or "their own", second.schedule or "their own")
    if None not in (first.tokenizer, second.tokenizer) and first.tokenizer != second.tokenizer:
        differ("tokenizer", (first.tokenizer or "")[:_HASH_LETTERS], (second.tokenizer or "")[:_HASH_LETTERS])
    is_unknown = {
        "weights": None in (first.weights, second.weights) or not is_of_one_precision,
        "configuration": None in (first.configuration, second.configuration),
    }
    return Agreement(differences, tuple(aspect for aspect, unknown in is_unknown.items() if unknown))
