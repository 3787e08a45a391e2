"""Token ids without padding: by their mask, or by the run of one token that padding leaves at an end of bare ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Final, Literal, NamedTuple

from bathyscope.errors import PromptError, warn
from bathyscope.prompts.prompt import Prompt, is_token_ids

Side = Literal["begin with", "end in"]

IDS: Final = "input_ids"
MASK: Final = "attention_mask"
_LONG_RUN: Final = 3
"""So many tokens that end a text in a row are in no text."""


@dataclass(frozen=True)
class EdgeTokens:
    """Token ids that tokenizers put before and after texts.

    Args:
        pads: what fills short prompts up.
        ends: what begins or ends a text; one that is among ``pads`` too may end a text once.
    """

    pads: frozenset[int] = frozenset()
    ends: frozenset[int] = frozenset()

    @classmethod
    def of(cls, *origins: Any) -> EdgeTokens:
        """Those of tokenizers and configurations, as far as they name them; None among them names no token."""
        return cls(_named(origins, "pad_token_id"), _named(origins, "bos_token_id", "eos_token_id"))

    def __or__(self, other: EdgeTokens) -> EdgeTokens:
        """All tokens of both."""
        return EdgeTokens(self.pads | other.pads, self.ends | other.ends)


NO_EDGES: Final = EdgeTokens()
"""Where nothing is known of a model's tokens."""


class Padding(NamedTuple):
    """A run of one token at an end of prompts.

    Args:
        n_prompts: prompts that have it.
        longest: tokens of the longest run.
        is_certain: no text has such a run; else it may be a text's own.
    """

    token: int
    side: Side
    n_prompts: int
    longest: int
    is_certain: bool


def is_encoding(value: object) -> bool:
    """Say whether this is what a tokenizer returns: ids, and usually a mask that tells which are padding."""
    return isinstance(value, Mapping) and IDS in value


def encoded_prompts(encoding: Mapping[str, Any]) -> tuple[Prompt, ...]:
    """Return the prompts of a tokenizer's result, one or a batch, without the tokens that its mask leaves out.

    Raises:
        PromptError: its ids are no token ids, or its mask does not fit them, has gaps, or leaves nothing.
    """
    ids, mask = (_listed(encoding.get(key)) for key in (IDS, MASK))
    rows = [ids] if is_token_ids(ids) and ids else ids
    masks = [mask] if rows is not ids else mask
    if not isinstance(rows, list | tuple) or not rows or not all(is_token_ids(_listed(row)) for row in rows):
        raise PromptError(f"{IDS} must be a list of token ids or of such lists, not {ids!r:.60}.")
    if mask is None:
        return tuple(Prompt(ids=_listed(row)) for row in rows)
    if not isinstance(masks, list | tuple) or len(masks) != len(rows):
        raise PromptError(f"{MASK} must have the shape of {IDS}; give both as the tokenizer returns them.")
    return tuple(Prompt(ids=_unmasked(_listed(row), _listed(line))) for row, line in zip(rows, masks, strict=True))


def require_unpadded(prompts: Sequence[Prompt], edges: EdgeTokens) -> None:
    """Refuse bare token ids that are padded, and warn of those that look padded and may be texts' own.

    Args:
        edges: as far as they are known; without them a run of one token is taken for padding by its form.

    Raises:
        PromptError: padded ids, with what to give instead.
    """
    rows = [tuple(prompt.ids) for prompt in prompts if prompt.ids]
    if rows and max(map(len, rows)) >= _LONG_RUN and set().union(*rows) <= {0, 1}:
        warn(
            f"All {len(rows)} prompts of token ids hold 0 and 1 alone, as an {MASK} does, and are measured as text; if "
            f"it is one, give the tokenizer's whole result, or its {IDS}."
        )
    for side in ("begin with", "end in"):
        padding = find_padding(rows, side, edges)
        if padding is None:
            continue
        what = (
            f"{padding.n_prompts} of {len(rows)} prompts {side} token id {padding.token}, up to {padding.longest} times"
        )
        fix = f"give the tokenizer's whole result, with its {MASK}, or ids made without padding."
        if padding.is_certain:
            raise PromptError(f"{what}: padding, which would be measured as text; {fix}")
        warn(f"{what}, as padding does, and it is measured as text; if it is padding, {fix}")


def find_padding(rows: Sequence[Sequence[int]], side: Side, edges: EdgeTokens) -> Padding | None:
    """Return the run of one token at one end of prompts that is most likely padding; None where none is.

    A token that only pads (it neither begins nor ends texts) is padding wherever it comes twice; one that is also the
    end of texts where it comes three times, or twice in prompts that it fills up to one length; a text may end with it
    once. Of a token that begins or ends texts and is not known to pad, runs must differ: a single prompt may begin with
    several of its own. A token of which nothing is known must fill prompts of equal lengths by different runs and stand
    nowhere else in them. Prompts of one length are a batch, and there may be several.
    """
    runs = [_edge_run(row, side) for row in rows]
    longest_of: dict[int, int] = {}
    for token, length in runs:
        longest_of[token] = max(length, longest_of.get(token, 0))
    longest_of = {token: longest for token, longest in longest_of.items() if longest}
    for token, longest in sorted(longest_of.items(), key=lambda item: (-item[1], item[0])):
        lengths = [length if of_row == token else 0 for of_row, length in runs]
        is_certain = _is_certain(token, rows, lengths, edges)
        if is_certain is not None:
            return Padding(token, side, sum(length > 0 for length in lengths), longest, is_certain)
    return None


def _is_certain(token: int, rows: Sequence[Sequence[int]], lengths: Sequence[int], edges: EdgeTokens) -> bool | None:
    """Say whether runs of a token at an end of prompts are padding for certain; None = they are none.

    Args:
        lengths: of the run in each row, 0 = none.
    """
    longest = max(lengths)
    batches = _batches(rows, lengths)
    differ = all(len(set(batch)) > 1 for batch in batches)
    if token in edges.pads - edges.ends:
        if longest > 1:
            return True
        return False if differ else None
    if token in edges.pads | edges.ends:
        if longest == 1:
            return None
        if token in edges.pads:
            return longest >= _LONG_RUN or any(map(_is_filled, batches))
        # one text, or every text alike, may begin with several BOS of its own
        return any(len(set(batch)) > 1 and (max(batch) >= _LONG_RUN or _is_filled(batch)) for batch in batches)
    in_most = 2 * sum(length > 0 for batch in batches for length in batch) >= sum(map(len, batches))
    if not (differ and longest >= _LONG_RUN and (in_most or longest > _LONG_RUN)):
        return None
    # the sign of padding: no text holds it
    inside = sum(row.count(token) for row in rows) - sum(lengths)
    return None if inside else False


def _batches(rows: Sequence[Sequence[int]], lengths: Sequence[int]) -> list[list[int]]:
    """Return the runs of prompts that are equally long, which one call of a tokenizer may have padded.

    Batches without any run are left out.
    """
    batches: dict[int, list[int]] = {}
    for row, length in zip(rows, lengths, strict=True):
        batches.setdefault(len(row), []).append(length)
    return [batch for batch in batches.values() if any(batch)]


def _is_filled(batch: Sequence[int]) -> bool:
    """Whether runs are in most of several prompts of one length, and one of them is no single token."""
    return len(batch) > 1 and max(batch) > 1 and 2 * sum(length > 0 for length in batch) >= len(batch)


def _edge_run(row: Sequence[int], side: Side) -> tuple[int, int]:
    """Return the token at an end of a prompt, and how often it is there in a row; never where there is no other."""
    from_edge = row if side == "begin with" else row[::-1]
    length = sum(1 for _ in takewhile(lambda token: token == from_edge[0], from_edge))
    # padding is next to a text
    return from_edge[0], length if length < len(row) else 0


def _unmasked(row: Sequence[int], mask: Any) -> list[int]:
    if not isinstance(mask, list | tuple) or len(mask) != len(row) or any(mark not in (0, 1) for mark in mask):
        raise PromptError(f"{MASK} must be a 0 or a 1 for each of the {len(row)} token ids, not {mask!r:.40}.")
    marks = [bool(mark) for mark in mask]
    if True not in marks:
        raise PromptError(f"{MASK} leaves out all {len(row)} tokens of a prompt; remove that prompt.")
    first, last = marks.index(True), len(marks) - marks[::-1].index(True)
    if not all(marks[first:last]):
        raise PromptError(f"{MASK} has zeros between ones, which is no padding; give the token ids that are measured.")
    return list(row[first:last])


def _named(origins: Sequence[Any], *names: str) -> frozenset[int]:
    values = [getattr(origin, name, None) for origin in origins for name in names]
    # a configuration may name several ends
    listed = [token for value in values for token in (value if isinstance(value, list | tuple) else [value])]
    return frozenset(token for token in listed if isinstance(token, int))


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else value
