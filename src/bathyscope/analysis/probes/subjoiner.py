"""Sub-joiner heads: heads that gather a word's earlier tokens at its last one.

A head's score is the attention that a word's last token gives to the word's n−1 earlier tokens, minus what the last
token of a word of one token gives to the n−1 tokens before it; mean over words. All words are at the end of the same
number of tokens, after the same context, so that a head which merely looks back a fixed way scores 0. Heads are ranked
on one half of the words and reported on the other. Source: lad2024, sub-joiner heads.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd
import torch
import xarray as xr
from numpy.typing import NDArray

from bathyscope.analysis.options import CONTEXT, FEWEST_WORDS, SubjoinerOptions
from bathyscope.analysis.probes.skeleton import Finding, batches, lent, require_room
from bathyscope.analysis.probes.words import place_words, read_words
from bathyscope.core.arrays import FloatArray
from bathyscope.core.calls import takes
from bathyscope.core.common_options import Progress
from bathyscope.core.estimates import Estimate
from bathyscope.core.result import LabelledResult, tabulate_over
from bathyscope.errors import OptionError
from bathyscope.labels import Label, Table, interval
from bathyscope.model import Model, ModelArgument
from bathyscope.model.anatomy.attention import attention_heads
from bathyscope.statistics.difference import Contrast, two_sample_difference
from bathyscope.statistics.reading import Reading
from bathyscope.statistics.sampling import Sampling
from bathyscope.wavefront.observer import Probe
from bathyscope.wavefront.probe import BaselineView

_OF_A_HEAD = ("rank", "top_block", "top_head", "top_score", "ci_low", "ci_high", "top_split", "top_whole")
_SOURCE = "lad2024, sub-joiner heads"
_by_head = partial(Label, "block head", source=_SOURCE)
_by_rank = partial(Label, "rank", source=_SOURCE)
_TABLE: Final[Table] = {
    "score": _by_head(
        "sub-joiner score, held-out words",
        formula="mean of Σ A[T−1, T−1−i], i = 1 … n−1, over words of n tokens, minus the same over words of one token",
    ),
    "ranking_score": _by_head("sub-joiner score, words that heads are ranked on"),
    "top_block": _by_rank("block of the head", "block"),
    "top_head": _by_rank("head within its block", "head"),
    "top_score": _by_rank("sub-joiner score, held-out words"),
    **interval("ci", _by_rank, "the {percent=95 %} interval"),
    "top_split": _by_rank("attention in words of n tokens, held-out words"),
    "top_whole": _by_rank("attention in words of one token, held-out words"),
    "attention": Label(
        "word block head",
        "attention of a word's last token to the n − 1 tokens before it",
        formula="Σ A[T−1, T−1−i], i = 1 … n−1",
        source=_SOURCE,
    ),
}


@takes(SubjoinerOptions)
def subjoiner(
    model: ModelArgument,
    words: str | Path | Sequence[str],
    *,
    pieces: int = 4,
    context: str = CONTEXT,
    window: int = 16,
    count: int = 200,
    top: int = 10,
    characters: int | None = 2_000_000,
    resamples: int = 1000,
    level: float = 0.95,
    seed: int = 0,
    progress: Progress = True,
) -> LabelledResult:
    """Heads that attend from a word's last token to its earlier tokens.

    Args:
        words: a list of words, or a UTF-8 text file (gzipped where its name ends in ``.gz``) whose different words
            are taken, so also a file with a word on every line.
        ...: the options of ``SubjoinerOptions``.
        characters: None = all.

    Returns:
        A result; its ``data`` holds the following.
        By ``block`` and ``head``: score (held-out half) and ranking_score (the other half), NaN where a block shows no
        attention weights. By ``rank``, in the order of the ranking_score: top_block, top_head, top_score, ci_low and
        ci_high, all but the order from the held-out half, and the two means whose difference the score is: top_split
        in words of n tokens, top_whole in words of one. attention (word, block, head): the weights of every word.

    Raises:
        OptionError: an option out of range.
        PromptError: no words, or too few of n tokens or of one token.
        ModelError: the model cannot be ready, has no tokenizer, or shows no attention weights.
    """
    if window <= pieces:
        raise OptionError(f"window={window} is not allowed; give a whole number, more than the {pieces} pieces.")
    with lent(model, "Words are") as ready:
        placed = place_words(
            read_words(words, characters),
            ready.tokenizer,
            (pieces, 1),
            context=context,
            window=window,
            count=count,
            least=FEWEST_WORDS,
            seed=seed,
        )
        ids = [token_ids for kind in placed.values() for token_ids in kind.values()]
        require_room(ready, len(ids[0]), window)
        measured = Measured(placed, attention_to_earlier(ready, ids, pieces - 1, progress))
        sampling = Sampling(resamples, level, seed)
        return _FINDING.result(
            *_score(measured, top, sampling),
            ready,
            sampling,
            pieces=pieces,
            context=context,
            window=window,
            top=top,
            seed=seed,
            level=level,
            resamples=resamples,
        )


def _tabulate(data: xr.Dataset) -> pd.DataFrame:
    return tabulate_over(data, {name: name.removeprefix("top_") for name in _OF_A_HEAD}, ("rank",))


def _conclude(data: xr.Dataset) -> str:
    """Return which head gathers most, what its score is of, and how many words it comes from."""
    best = data.isel(rank=0)
    ranked, top = data.sizes["rank"], data.attrs["top"]
    order = "The order" if ranked == top else f"The order, of all {ranked} heads that there are (top={top}),"
    pieces, held_out, split = data.attrs["pieces"], data["held_out"].values, data["split"].values
    return (
        f"Head {int(best['top_head'])} of block {int(best['top_block'])} gathers the tokens of words most: score "
        f"{Estimate.of(best, 'top_score', 'ci'):.3f}. Attention of a "
        f"word's last token to the {pieces - 1} tokens before it: in words of {pieces} tokens (split), in words of one "
        f"(whole), and the difference (score), on {int((held_out & split).sum())} and "
        f"{int((held_out & ~split).sum())} held-out words. {order} is that of the other half of the words."
    )


_FINDING: Final = Finding(_TABLE, _conclude, _tabulate, "subjoiner")


def attention_to_earlier(model: Model, prompts: Sequence[Sequence[int]], earlier: int, progress: bool) -> FloatArray:
    """The attention that the last token of each prompt gives to the ``earlier`` tokens before it, together.

    [prompts, blocks, heads], NaN where a block has no such weights.
    """
    heads = max(attention_heads(model.anatomy))
    attention_PLH = np.full((len(prompts), model.n_blocks, heads), np.nan)
    for wave, batch, picked in batches(model, prompts, progress):
        probe = _LastQuery(earlier, batch.size, model.n_blocks, heads)
        wave.run(batch, [probe])
        attention_PLH[picked] = probe.attention_BLH.numpy()
    return attention_PLH


class _LastQuery(Probe):
    """Attention of the last token to the tokens before it; prompts of one length only."""

    def __init__(self, earlier: int, prompts: int, n_blocks: int, heads: int) -> None:
        super().__init__(wants_weights=True)
        self._earlier = earlier
        self.attention_BLH = torch.full((prompts, n_blocks, heads), torch.nan, dtype=torch.float64)

    def baseline(self, view: BaselineView) -> None:
        if view.weights is None:
            return
        _, heads, queries, _ = view.weights.size
        last_BHK = view.weights.weights(queries - 1, queries)[:, :, 0]
        total_BH = last_BHK[..., queries - 1 - self._earlier : queries - 1].double().sum(-1)
        self.attention_BLH[:, view.block, :heads] = total_BH.cpu()


@dataclass(frozen=True)
class Measured:
    """Words and what their last tokens attend to; of either kind the first half ranks heads, the rest is held out.

    Args:
        placed: words by their number of tokens, those of n first, in random order.
        attention: to the n − 1 tokens before, [words, blocks, heads], in the same order.
    """

    placed: Mapping[int, Collection[str]]
    attention: FloatArray

    @property
    def split(self) -> NDArray[np.bool_]:
        """True at the words of n tokens."""
        return np.concatenate([np.full(len(kind), number > 1) for number, kind in self.placed.items()])

    @property
    def held_out(self) -> NDArray[np.bool_]:
        """True at the words that heads are not ranked on."""
        return np.concatenate([np.arange(len(kind)) >= len(kind) // 2 for kind in self.placed.values()])

    def score(self, held_out: bool) -> FloatArray:
        """Each head's score on one of the halves, [blocks, heads]."""
        half = self.held_out == held_out
        whole = self.attention[half & ~self.split].mean(0)
        return np.asarray(self.attention[half & self.split].mean(0) - whole)

    def interval(self, block: int, head: int, sampling: Sampling) -> Contrast:
        """One head's score on the held-out words, either kind resampled on its own."""
        readings = []
        for kind in (~self.split, self.split):
            values = self.attention[self.held_out & kind, block, head]
            # Attention weights: their mean over words lies between 0 and 1, and so do the ends of the interval.
            readings.append(Reading(values, np.ones(len(values)), np.asarray, (0.0, 1.0)))
        return two_sample_difference(readings[0], readings[1], sampling)


def _score(measured: Measured, top: int, sampling: Sampling) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the variables of the result, and its coordinates."""
    # Heads are ranked on one half of the words and scored on the other: the best of many would look better than it is.
    ranking, score = measured.score(held_out=False), measured.score(held_out=True)
    # equals stay in the order of blocks and heads; NaN comes last
    order = np.argsort(-ranking, axis=None, kind="stable")[: min(top, int(np.isfinite(ranking).sum()))]
    blocks, heads = np.unravel_index(order, ranking.shape)
    intervals = [measured.interval(b, h, sampling) for b, h in zip(blocks.tolist(), heads.tolist())]
    values = {
        "score": score,
        "ranking_score": ranking,
        "top_block": blocks,
        "top_head": heads,
        "top_score": [contrast.estimate for contrast in intervals],
        "ci_low": [contrast.ci_low for contrast in intervals],
        "ci_high": [contrast.ci_high for contrast in intervals],
        "top_split": [contrast.estimates[1] for contrast in intervals],
        "top_whole": [contrast.estimates[0] for contrast in intervals],
        "attention": measured.attention,
    }
    coords = {
        "block": np.arange(ranking.shape[0]),
        "head": np.arange(ranking.shape[1]),
        "rank": np.arange(len(order)),
        "text": ("word", [word for kind in measured.placed.values() for word in kind]),
        "split": ("word", measured.split),
        "held_out": ("word", measured.held_out),
    }
    return values, coords
