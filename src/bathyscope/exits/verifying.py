"""The advice beside what happens: ``generate`` with and without every exit, on prompts that gave no advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bathyscope.arrays import IntArray
from bathyscope.exits.drafting import Counts, counts, counts_of, total
from bathyscope.exits.generating import generated
from bathyscope.exits.reading import traces
from bathyscope.model import Model
from bathyscope.progress import ProgressBar
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.bootstrap import cluster_weights
from bathyscope.statistics.proportion import clustered_share, difference_of


def verified(
    model: Model,
    prompts: Sequence[Sequence[int]],
    new_tokens: int,
    drafts: Sequence[int],
    predicted: Sequence[Sequence[Counts]],
    level: float,
    foretold_from: IntArray | None = None,
    cluster: IntArray | None = None,
    progress: bool = True,
) -> dict[str, Any]:
    """Arrays by exit.

    Args:
        prompts: token ids; each is continued plainly, and then with every exit, one after the other.
        drafts: for every exit the tokens of a draft.
        predicted: for every exit the counts of each prompt of the advice, with drafts of these lengths.
        foretold_from, cluster: of the prompts of the advice, and of these: those of one number count as one.
    """
    exits = range(1, len(drafts) + 1)
    found: list[list[Counts]] = [[] for _ in exits]
    continued: list[TokenizedPrompt] = []
    same, seconds, plain = np.zeros((3, len(drafts)))
    with ProgressBar("generating with and without exits", len(prompts) * (1 + len(drafts)), quiet=not progress) as bar:
        done = 0
        for name, ids in enumerate(prompts):
            without = generated(model, ids, new_tokens)
            continued.append(TokenizedPrompt(str(name), (*ids, *without.tokens), len(without.tokens)))
            plain += without.seconds
            for place, (exit_, draft) in enumerate(zip(exits, drafts)):
                own = generated(model, ids, new_tokens, exit_, draft)
                found[place].append(counts_of(own.tokens, own.drafts))
                same[place] += own.tokens == without.tokens
                seconds[place] += own.seconds
                bar.advance_to(done := done + 1)
            bar.advance_to(done := done + 1)
    rows = [_row((own, cluster), (foretold, foretold_from), level) for own, foretold in zip(found, predicted)]
    plainly = traces(model, continued, progress)
    own_share = [
        _share([counts(trace.agrees[place], draft, new_tokens) for trace in plainly])
        for place, draft in enumerate(drafts)
    ]
    return {
        "own_share": np.array(own_share),
        "identical": same / len(prompts),
        "measured_speed": plain / seconds,
        "plain_seconds": plain / len(prompts),
        "exit_seconds": seconds / len(prompts),
        **{name: np.array([row[name] for row in rows]) for name in rows[0]},
    }


def _share(found: Sequence[Counts]) -> float:
    """Of the checked drafts those that are right; NaN where none was checked."""
    whole = total(found)
    return whole.accepted / whole.checked if whole.checked else np.nan


_Clustered = tuple[Sequence[Counts], IntArray | None]


def _row(found: _Clustered, foretold: _Clustered, level: float) -> Mapping[str, float]:
    one, other = (
        clustered_share(
            cluster_weights([own.accepted for own in several], cluster),
            cluster_weights([own.checked for own in several], cluster),
            level,
        )
        for several, cluster in (foretold, found)
    )
    apart, whole = difference_of(one, other), total(found[0])
    return {
        "foretold_share": one[0],
        "measured_share": other[0],
        "measured_low": other[1].low,
        "measured_high": other[1].high,
        "as_foretold": float(apart.low <= 0 <= apart.high),
        "measured_tokens_per_pass": whole.tokens / whole.passes,
    }
