"""Whether two runs measured the same prompts, and which prompt of one is which of the other.

Equal token ids are known by the manifest's prompt hash. Of one tokenizer, prompts of one name are compared by their
tokens, which every run stores. Models with different tokenizers read the same texts as different ids; there a prompt is
its data set and its id, and the texts are compared where both runs keep them. Where names agree but anything else
contradicts them, the runs are taken for two samples, and it is said why.
"""

from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from bathyscope.analysis.depths.side import ComparedPrompts
from bathyscope.core.text import capitalised
from bathyscope.errors import OptionError, PromptError, StoreError, warn
from bathyscope.prompts.in_memory import GIVEN
from bathyscope.prompts.parsed_source import SourceSpec
from bathyscope.prompts.prompts import words_of
from bathyscope.prompts.reading import reading_flags
from bathyscope.prompts.spec import source_in

Indices = NDArray[np.intp]
PromptTokens = tuple[tuple[int, ...], int | None]
"""Ids of a prompt, and how many of the last are its answer."""

UNPAIRED_HINT = "say paired=False (--unpaired) where they are not"


@dataclass(frozen=True)
class Match:
    """Equal prompts of two sides.

    Args:
        first, second: indices of the prompts, those at the same place being one prompt; empty where the sides
            are two samples.
        note: what a reader must know about it, or why it has no pairs; empty where nothing is special.
    """

    first: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    second: Indices = field(default_factory=lambda: np.empty(0, dtype=np.intp))
    note: str = ""


def match(first: ComparedPrompts, second: ComparedPrompts, paired: bool | None) -> Match:
    """The prompts that two sides share.

    Args:
        paired: True = pair equal prompt ids whatever else is known; False = never; None = where nothing
            contradicts it.
    """
    if paired is False:
        return Match(note=_pairs_taken_apart(first, second))
    other_ids = set(second.prompt_ids)
    # In the order of the first side, which one resample of the prompts then has for both.
    shared = [name for name in first.prompt_ids if name in other_ids]
    if paired and not shared:
        raise OptionError(
            f"paired=True (--paired), but {first.name} and {second.name} have no prompt id in common "
            f"({first.identity.dataset} and {second.identity.dataset}). Leave it out: they are compared as two samples."
        )
    if paired is None and (listed := _listed_prompts(first, second)) is not None:
        return listed
    if not shared:
        return Match()
    if not paired and first.identity.prompt_hash != second.identity.prompt_hash:
        if _source(first.identity.dataset) != _source(second.identity.dataset):
            return Match()
        if reason := _contradiction(first, second, shared):
            reason = f"{reason}{_unlike_reading(first, second)}"
            return Match(note=f"{reason}; they are compared as two samples (paired=True, --paired, pairs them by id)")
    unlike = _insisted_against(first, second, shared) if paired else ""
    if unlike:
        warn(f"{capitalised(unlike)}. Leave paired=True (--paired) out to compare them as two samples.")
    return replace(pairs_by_id(first, second), note=_note(first, second, len(shared), bool(paired), unlike))


def _pairs_taken_apart(first: ComparedPrompts, second: ComparedPrompts) -> str:
    """Say that two samples hold the same prompts, each of which then counts twice; empty where they share none."""
    pairs = len(match(first, second, None).first)
    if not pairs:
        return ""
    prompts = "1 prompt is" if pairs == 1 else f"{pairs} prompts are"
    return (
        f"{prompts} in both {first.name} and {second.name} and counted once for each, as if drawn apart "
        "(paired=False, --unpaired); leave it out to compare prompt by prompt"
    )


def pairs_by_id(first: ComparedPrompts, second: ComparedPrompts) -> Match:
    """Return the prompts of one id as pairs, in the order of the first side, whatever they are."""
    place = {name: index for index, name in enumerate(second.prompt_ids)}
    pairs = [(index, place[name]) for index, name in enumerate(first.prompt_ids) if name in place]
    return Match(*np.array(pairs, dtype=np.intp).reshape(-1, 2).T)


def _insisted_against(first: ComparedPrompts, second: ComparedPrompts, shared: list[str]) -> str:
    """Return how many pairs of one name are other prompts, where one tokenizer makes that certain; else empty."""
    tokens = _tokens_of_both(first, second)
    if tokens is None or first.identity.prompt_hash == second.identity.prompt_hash:
        return ""
    mismatched = [name for name in shared if tokens[0][name] != tokens[1][name]]
    if not mismatched:
        return ""
    return (
        f"{len(mismatched)} of {len(shared)} pairs of {first.name} and {second.name} are different prompts of one "
        f"name: {_unlike_tokens(mismatched[0], *tokens)}"
    )


def _listed_prompts(first: ComparedPrompts, second: ComparedPrompts) -> Match | None:
    """Pairs of equal prompts of two lists, whose ids are no more than places in them, in the order of the first.

    Prompts of stored states are such a list too: they are named after the requests that were served.

    None where ids pair them too, where the prompts are no lists, and where one list holds a prompt twice, or neither
    holds all of the other.
    """
    if first.identity.prompt_hash == second.identity.prompt_hash:
        return None
    is_stored = any(side.run.stored is not None for side in (first, second))
    if not is_stored and not _source(first.identity.dataset) == _source(second.identity.dataset) == GIVEN:
        return None
    if (tokens := _tokens_of_both(first, second)) is None:
        return None
    places = [{prompt: place for place, prompt in enumerate(prompts.values())} for prompts in tokens]
    shared = [prompt for prompt in places[0] if prompt in places[1]]
    is_whole = len(shared) == min(map(len, tokens))
    if not is_whole or any(len(place_of) < len(prompts) for place_of, prompts in zip(places, tokens)):
        return None
    if all(tokens[1].get(name) == prompt for name, prompt in tokens[0].items() if prompt in places[1]):
        return None
    indices = [np.array([place_of[prompt] for prompt in shared], dtype=np.intp) for place_of in places]
    order = f"{first.name} and {second.name} list equal prompts under other ids, which are paired by their tokens"
    rest = _note(first, second, len(shared), insisted=False, unlike="")
    return Match(indices[0], indices[1], f"{order}; {rest}" if rest else order)


def _unlike_reading(first: ComparedPrompts, second: ComparedPrompts) -> str:
    """Say of two unlike readings of one source what each was; empty where both are alike."""
    if first.run.prompts.reading == second.run.prompts.reading:
        return ""
    ways = (
        f"{side.name} {reading_flags(side.run.prompts.reading).strip() or 'as it stands'}" for side in (first, second)
    )
    return f", since it was read in two ways ({', '.join(ways)})"


def _contradiction(first: ComparedPrompts, second: ComparedPrompts, shared: list[str]) -> str:
    """Why equal ids of equal data do not mean equal prompts; empty where nothing speaks against it."""
    source = _source(first.identity.dataset)
    both = f"{first.name} and {second.name}"
    if (tokens := _tokens_of_both(first, second)) is not None:
        unlike = [name for name in shared if tokens[0][name] != tokens[1][name]]
        if unlike and source == GIVEN:
            return f"{both} were given different lists of prompts, whose ids mean nothing outside of them"
        return f"{both} name the same data, but {_unlike_tokens(unlike[0], *tokens)}" if unlike else ""
    # Of one tokenizer equal prompts have equal ids: unequal hashes then mean other prompts, or more of them.
    if first.identity.tokenizer_hash == second.identity.tokenizer_hash:
        if len(first.prompt_ids) == len(second.prompt_ids):
            return (
                f"{both} name the same data and prompts, but the prompts differ "
                "(another seed, split, file, label or chat template?)"
            )
        if source == GIVEN:
            return f"{both} were given different lists of prompts, whose ids mean nothing outside of them"
        counts = [{prompt.id: len(prompt) for prompt in side.prompts} for side in (first, second)]
        unlike = [name for name in shared if counts[0][name] != counts[1][name]]
        if unlike:
            return f"{both} name the same data, but {_unlike_counts(unlike[0], *counts)}"
        return _other_text(first, second, shared)
    if source == GIVEN and None in (_texts(first), _texts(second)):
        return f"{both} were given lists of prompts, whose texts are not stored in both to be compared"
    if isinstance(source, SourceSpec):
        if source.kind == "corpus" and source.option("chars") is None:
            return (
                f"{both} cut the same text into windows of tokens, which hold different text under different "
                "tokenizers; cut it by characters (?chars=1000) to pair them"
            )
        if source.kind == "generated" and first.identity.seed != second.identity.seed:
            seeds = f"{first.identity.seed} and {second.identity.seed}"
            return f"{both} were surveyed with the seeds {seeds}, so the problems differ"
    return _other_text(first, second, shared)


def _tokens_of_both(
    first: ComparedPrompts, second: ComparedPrompts
) -> tuple[dict[str, PromptTokens], dict[str, PromptTokens]] | None:
    """Return the tokens of each prompt of both runs, by its id, where equal prompts have equal tokens.

    Returns:
        None under different tokenizers, and where an earlier version's run stores no tokens. Prompts that were given
        as token ids have no tokenizer, and mean the same under every one.
    """
    tokenizers = first.identity.tokenizer_hash, second.identity.tokenizer_hash
    if None not in tokenizers and tokenizers[0] != tokenizers[1]:
        return None
    try:
        return _tokens(first), _tokens(second)
    except StoreError:
        return None


def _tokens(side: ComparedPrompts) -> dict[str, PromptTokens]:
    return {prompt.id: (tuple(prompt.ids), prompt.answer_tokens) for prompt in side.prompts}


def _unlike_tokens(name: str, first: dict[str, PromptTokens], second: dict[str, PromptTokens]) -> str:
    """Return in what two prompts of one name differ."""
    (first_ids, first_answer), (second_ids, second_answer) = first[name], second[name]
    if len(first_ids) != len(second_ids):
        return _unlike_counts(name, {name: len(first_ids)}, {name: len(second_ids)})
    if first_ids == second_ids:
        answers = [f"{count} tokens" if count else "none" for count in (first_answer, second_answer)]
        return f"the answer of prompt {name!r} differs ({answers[0]} and {answers[1]})"
    place = next(place for place, (token, other) in enumerate(zip(first_ids, second_ids)) if token != other)
    return f"the tokens of prompt {name!r} differ from token {place} on"


def _unlike_counts(name: str, first: dict[str, int], second: dict[str, int]) -> str:
    return f"prompt {name!r} has {first[name]} and {second[name]} tokens under the same tokenizer"


def _other_text(first: ComparedPrompts, second: ComparedPrompts, shared: list[str]) -> str:
    """Say which prompt has another text in each run; empty where all agree, or where a run keeps no text."""
    texts = [_texts(side) for side in (first, second)]
    if texts[0] is None or texts[1] is None:
        return ""
    knows_specials = all(_knows_specials(side) for side in (first, second))
    for name in shared:
        # an earlier version's run does not tell the token that one tokenizer writes before a text, and the other not
        shorter, longer = sorted((texts[0][name], texts[1][name]), key=len)
        if longer != shorter if knows_specials else not longer.endswith(shorter):
            return f"{first.name} and {second.name} name the same data, but the text of prompt {name!r} differs"
    return ""


def _knows_specials(side: ComparedPrompts) -> bool:
    record = side.run.prompts.record
    return record is None or record.specials is not None


def _texts(side: ComparedPrompts) -> dict[str, str] | None:
    """Return the text of each prompt of a run without white space, by its id; None where the run keeps none.

    White space and special tokens are left out because tokenizers differ in what they make of them.
    """
    prompts = side.run.prompts
    if prompts.tokenizer_hash is None:
        return None
    try:
        return {name: "".join("".join(words_of(prompts, n)).split()) for n, name in enumerate(prompts.names)}
    except (PromptError, StoreError):  # a run without text, or an earlier version's
        return None


def _note(first: ComparedPrompts, second: ComparedPrompts, shared: int, insisted: bool, unlike: str) -> str:
    both = f"{first.name} and {second.name}"
    sentences = []
    if first.identity.prompt_hash == second.identity.prompt_hash:
        pass  # parts of runs on the same prompts
    elif insisted:
        sentences.append(f"{both} are paired by prompt id because paired=True (--paired) says so")
        if unlike:
            sentences.append(unlike)
    elif _tokens_of_both(first, second) is None and None in (_texts(first), _texts(second)):
        is_one_tokenizer = first.identity.tokenizer_hash == second.identity.tokenizer_hash
        cause = "do not both store their tokens" if is_one_tokenizer else "have different tokenizers"
        sentences.append(
            f"{both} {cause} and are paired by prompt id; that their texts are the same cannot "
            f"be checked, {UNPAIRED_HINT}"
        )
    left = [len(side.prompt_ids) - shared for side in (first, second)]
    if any(left):
        sentences.append(f"{both} share {shared} prompts; {left[0]} and {left[1]} of their own are left out")
    return "; ".join(sentences)


def _source(dataset: str) -> SourceSpec | str:
    """What a label of data says without the number of prompts, for comparing."""
    spec = source_in(dataset)
    # a name that somebody gave is no source
    return dataset if spec is None else replace(spec, count=None)
