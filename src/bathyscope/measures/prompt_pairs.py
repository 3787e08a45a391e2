"""Pairs of prompts, one to be patched from the other: who they are, and where their answers are told apart."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from bathyscope.errors import PromptError, did_you_mean
from bathyscope.prompts.prompt import Label, TokenizedPrompt


@dataclass(frozen=True)
class PromptPair:
    """A prompt and the one that it is patched from, of one length and with answers of one length.

    Args:
        first: the first token in which they differ, and with it the first that a patch can change; their length where
            they are the same.
        read_at: the token that predicts the first token in which their answers differ, or their first one where the
            answers are the same. Up to it both answers say the same, so that both predictions are of one text.
    """

    target: TokenizedPrompt
    source: TokenizedPrompt
    first: int
    read_at: int

    @classmethod
    def of(cls, target: TokenizedPrompt, source: TokenizedPrompt) -> Self:
        """Raises PromptError for prompts that cannot be put into each other."""
        names = f"patching: prompts {target.id!r} and {source.id!r}"
        for prompt in (target, source):
            if prompt.answer_tokens is None:
                raise PromptError(
                    f"patching: prompt {prompt.id!r} has no answer, whose prediction is measured; give answer= with "
                    "text=, or answer_tokens= with ids=."
                )
        if len(target) != len(source):
            raise PromptError(
                f"{names} have {len(target)} and {len(source)} tokens; a token is put into the place of the same "
                "number, so give prompts of one length in tokens, answers included."
            )
        if target.answer_tokens != source.answer_tokens:
            raise PromptError(
                f"{names} have answers of {target.answer_tokens} and {source.answer_tokens} tokens, so that they begin "
                "at different ones; give answers of one length in tokens."
            )
        apart = [token for token, (token_id, other) in enumerate(zip(target.ids, source.ids)) if token_id != other]
        begin = len(target) - (target.answer_tokens or 0)
        return cls(
            target,
            source,
            first=min(apart, default=len(target)),
            read_at=min((token for token in apart if token >= begin), default=begin) - 1,
        )

    @property
    def answers(self) -> tuple[int, int]:
        """Ids of the tokens that are predicted: the target's own, the source's."""
        return self.target.ids[self.read_at + 1], self.source.ids[self.read_at + 1]


def pairs_of(
    prompts: Sequence[TokenizedPrompt], selection: str | Sequence[tuple[str | int, str | int]]
) -> Mapping[int, int]:
    """Number of each prompt that is patched → number of the prompt that it is patched from.

    Args:
        selection: a label's name, or (target, source) by id or number.

    Raises:
        PromptError: an unknown prompt or label, no pair at all, a pair given twice, or a prompt with two to be
            patched from.
    """
    return _by_label(prompts, selection) if isinstance(selection, str) else _by_name(prompts, selection)


def _by_label(prompts: Sequence[TokenizedPrompt], label: str) -> Mapping[int, int]:
    groups: dict[Label, list[int]] = {}
    for number, prompt in enumerate(prompts):
        if label in prompt.labels:
            groups.setdefault(prompt.labels[label], []).append(number)
    if not groups:
        label_names = list(dict.fromkeys(name for prompt in prompts for name in prompt.labels))
        raise PromptError(
            f"patching: no prompt has the label {label!r}, whose equal values make "
            f"pairs.{did_you_mean(label, label_names)} Give both prompts of a pair one value of it, or name a label "
            "or the pairs themselves (patching.pairs)."
        )
    source_of: dict[int, int] = {}
    for value, members in groups.items():
        if len(members) != 2:
            names = ", ".join(repr(prompts[number].id) for number in members)
            raise PromptError(
                f"patching: {label}={value!r} stands at {len(members)} prompt{'s' * (len(members) > 1)} ({names}); a "
                "pair is two prompts. Give exactly two the same value."
            )
        first, second = members
        source_of |= {first: second, second: first}
    return dict(sorted(source_of.items()))


def _by_name(
    prompts: Sequence[TokenizedPrompt], name_pairs: Sequence[tuple[str | int, str | int]]
) -> Mapping[int, int]:
    source_of: dict[int, int] = {}
    for names in name_pairs:
        target, source = (_number(prompts, name) for name in names)
        if source_of.get(target) == source:
            raise PromptError(
                f"patching: pairs has prompt {prompts[target].id!r} patched from {prompts[source].id!r} twice; give "
                "each pair once."
            )
        if source_of.setdefault(target, source) != source:
            raise PromptError(
                f"patching: prompt {prompts[target].id!r} is to be patched from both "
                f"{prompts[source_of[target]].id!r} and {prompts[source].id!r}; give each prompt one source, and the "
                "prompt twice where it has two."
            )
    return dict(sorted(source_of.items()))


def _number(prompts: Sequence[TokenizedPrompt], name: str | int) -> int:
    """Ids come before numbers, since a prompt's id may be a number's text."""
    ids = [prompt.id for prompt in prompts]
    if name in ids:
        return ids.index(str(name))
    if isinstance(name, int) and 0 <= name < len(ids):
        return name
    raise PromptError(
        f"patching: pairs names the prompt {name!r}, which is not among the {len(ids)} of the survey."
        f"{did_you_mean(str(name), ids)} Give ids, or numbers from 0 to {len(ids) - 1}."
    )
