"""Whether every weight of a model came from its checkpoint, and what the checkpoint holds beyond them."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from transformers import PreTrainedModel

from bathyscope.errors import ModelError
from bathyscope.model.classes import classifier_of, headless_of

_SHOWN = 5
_WRAPPERS = {
    "_orig_mod.": "torch.compile: model._orig_mod.save_pretrained(FOLDER)",
    "module.": "data parallelism: model.module.save_pretrained(FOLDER)",
    "base_model.model.": "PEFT: model.merge_and_unload().save_pretrained(FOLDER)",
    "pretrained_model.": "TRL's value head: model.pretrained_model.save_pretrained(FOLDER)",
}
"""What puts which words before the names of tensors, and how the model inside is saved."""


def require_complete(
    name: str, hf: PreTrainedModel, report: Mapping[str, Any], architectures: object = None
) -> str | None:
    """Refuse a model with weights that its checkpoint lacks, which the library would have drawn at random.

    Args:
        report: what the library says of names and shapes that do not fit.
        architectures: the classes that the checkpoint's configuration names.

    Returns:
        Sentences about tensors of the checkpoint that the model has no place for, about the class that it was saved by,
        and about those that its configuration ties; None where all were used as it says.

    Raises:
        ModelError: tensors that are missing or of another shape, or a classifier whose head is no other than its
            embedding.
    """
    unexpected = set(report["unexpected_keys"])
    untied = _untie_configuration(hf)
    if report["mismatched_keys"]:
        if all(is_scattered(in_file) for _, in_file, _ in report["mismatched_keys"]):
            raise ModelError(scattered(name))
        shapes = {
            f"{tensor} is {_shape(in_file)} in the file and {_shape(configured)} by the configuration"
            for tensor, in_file, configured in report["mismatched_keys"]
        }
        raise ModelError(
            f"{name} does not fit its configuration: {_listed(shapes)}; config.json belongs to another checkpoint."
        )
    if report["missing_keys"]:
        missing = set(report["missing_keys"])
        # of tied tensors a file holds one, and the library misses both
        require_no_prefix(name, missing - set(hf.all_tied_weights_keys), unexpected)
        also = (
            f"; it holds {_number(unexpected)} that the model does not know ({_listed(unexpected)})"
            if unexpected
            else ""
        )
        raise ModelError(
            f"{name} lacks {_number(missing)} of its {type(hf).__name__}, which would be drawn at random: "
            f"{_listed(missing)}{also}. {_what_lacks_weights(hf, architectures)}"
        )
    left_over = _saved_by(name, hf, unexpected, architectures) or (_left_over(hf, unexpected) if unexpected else None)
    return join_sentences(left_over, untied)


def require_own_head(name: str, architectures: object, tied: bool) -> None:
    """Refuse a classifier whose unembedding is its embedding, which was trained to tell labels apart alone.

    Raises:
        ModelError: with the class that the configuration names.
    """
    classifier = classifier_of(architectures)
    if classifier is not None and tied:
        raise ModelError(
            f"{name} holds a classifier ({classifier} in its config.json) without a head that predicts tokens: its "
            "embedding would pass for one. Give the causal language model that it was made from."
        )


def _what_lacks_weights(hf: PreTrainedModel, architectures: object) -> str:
    """Say what a checkpoint is that lacks weights, by the class that it was saved by where that tells it."""
    classifier, headless = classifier_of(architectures), headless_of(architectures, hf)
    if classifier is not None:
        return f"It is a classifier ({classifier} in its config.json); give the causal model that it was made from."
    if headless is not None:
        return (
            f"It was saved without its head ({headless} in its config.json); give the complete causal language model."
        )
    return (
        "A base model, a classifier or a checkpoint with other names or fewer blocks than its configuration cannot be "
        "measured; give the complete causal language model."
    )


def _saved_by(name: str, hf: PreTrainedModel, unexpected: set[str], architectures: object) -> str | None:
    """Say by which class a checkpoint was saved that predicts no tokens, where its head is all there all the same."""
    head: Any = hf.get_output_embeddings()
    tied = head is not None and head.weight is getattr(hf.get_input_embeddings(), "weight", None)
    # a head of labels is what a classifier has in the place of the other one
    require_own_head(name, architectures, tied and bool(unexpected))
    classifier, headless = classifier_of(architectures), headless_of(architectures, hf)
    if classifier is not None:
        return (
            f"Its config.json names a classifier ({classifier}); measured is the language model whose weights are in "
            f"the same files{', without ' + _listed(unexpected) if unexpected else ''}. Is it the model that you mean?"
        )
    if headless is not None and tied and not unexpected:
        return (
            f"Its config.json names a model without a head ({headless}); its embedding is read as the head, as its "
            "configuration ties them. After other training, as of embeddings of texts, its predictions mean nothing."
        )
    return None


def join_sentences(*sentences: str | None) -> str | None:
    """Return what several parts have to say as one text; None where none of them says anything."""
    return " ".join(sentence for sentence in sentences if sentence) or None


def _untie_configuration(hf: PreTrainedModel) -> str | None:
    """Say that a checkpoint has a head of its own which its configuration ties; None where both agree.

    The library loads such a head untied. The configuration in memory is made to say so too, since whatever is built
    from it would be tied.
    """
    config = hf.config.get_text_config()
    declared = hf.get_expanded_tied_weights_keys(all_submodels=True)
    untied = sorted(declared.keys() - hf.all_tied_weights_keys.keys())
    if not untied:
        return None
    if not hf.all_tied_weights_keys:
        hf.config.tie_word_embeddings = config.tie_word_embeddings = False
    return (
        f"The checkpoint holds {_listed(untied)} with other values than {declared[untied[0]]}, and its configuration "
        "says tie_word_embeddings: true; both were read, untied. Set it to false in config.json, or remove the tensor."
    )


def is_scattered(shape: Iterable[int]) -> bool:
    """Return whether a stored tensor is the empty one that stands for weights of several processes."""
    return tuple(shape) == (0,)


def scattered(name: str) -> str:
    """Say what a checkpoint of empty tensors is, and what helps."""
    return (
        f"{name} holds empty tensors, which DeepSpeed ZeRO-3 leaves in place of weights that are scattered over its "
        "processes. Put them together first: python zero_to_fp32.py CHECKPOINT OUTPUT."
    )


def require_no_prefix(name: str, missing: Collection[str], unexpected: Collection[str]) -> None:
    """Refuse a checkpoint whose names all begin with that of the wrapper they were saved in, saying which.

    Raises:
        ModelError: with the prefix, and how the model inside is saved.
    """
    if not missing:
        return
    first = min(missing, key=len)
    prefixes = (stored.removesuffix(first) for stored in unexpected if stored.endswith(f".{first}"))
    prefix = next((text for text in prefixes if all(f"{text}{tensor}" in unexpected for tensor in missing)), None)
    if prefix is None:
        return
    wrapper = next((words for start, words in _WRAPPERS.items() if prefix.startswith(start)), None)
    saved = "Rename them without it" if wrapper is None else f"Save the model inside of {wrapper}"
    # a value head beside the wrapped model has names of its own
    count = sum(stored.startswith(prefix) for stored in unexpected)
    every = "all " if count == len(unexpected) else ""
    raise ModelError(
        f"The names of {every}{count} tensors of {name} begin with {prefix!r}, and those of its configuration do not. "
        f"{saved}."
    )


def _left_over(hf: PreTrainedModel, unexpected: set[str]) -> str | None:
    """Say what was not loaded: whole blocks behind the last, or single tensors; None of blocks that only draft."""
    blocks = getattr(hf.config.get_text_config(), "num_hidden_layers", None)
    places = [re.search(r"\.(\d+)\.", f".{key}.") for key in unexpected]
    numbers = [int(place[1]) for place in places if place]
    if isinstance(blocks, int) and len(numbers) == len(unexpected) and min(numbers) >= blocks:
        drafting = getattr(hf.config.get_text_config(), "num_nextn_predict_layers", None) or 0
        if max(numbers) < blocks + drafting:
            # they predict further tokens for drafts, and take no part in the model's own forward
            return None
        return (
            f"The checkpoint holds {max(numbers) + 1} blocks, and its configuration asks for the first {blocks}; the "
            "others are left out. Was config.json changed?"
        )
    number, listed = _number(unexpected), _listed(unexpected)
    return f"The checkpoint holds {number} that its {type(hf).__name__} has no place for: {listed}."


def _number(names: Collection[str]) -> str:
    return f"{len(names)} tensor{'s' if len(names) > 1 else ''}"


def _listed(names: Collection[str]) -> str:
    first_names = sorted(names, key=_natural)[:_SHOWN]
    more = len(names) - len(first_names)
    return ", ".join(first_names) + (f" and {more} more" if more else "")


def _natural(name: str) -> list[tuple[int, str]]:
    """Sort block 10 behind block 9."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _shape(shape: Any) -> str:
    return "×".join(str(size) for size in shape)
