"""Maps between models: the best affine map from every boundary of one to every boundary of another.

A map takes h_s of the source model to h_t of the target model at the same token; position 0 of every prompt is left
out. Maps are fitted by least squares with a ridge penalty (``statistics.least_squares``) on some of the prompts, the
penalty of each pair (s, t) is the one with the smallest squared error on others, and errors are those on the rest.
Source: csordas2025, maps between models (trained there by Adam; the optimum of least squares is what that approaches).

Every prompt is run once by each model for a block of sources: first those that sums are taken of, then, with the maps
at hand, those that test them. How many sources form a block decides how much memory the sums take.
"""

from collections.abc import Sequence
from itertools import zip_longest

import numpy as np
import torch
from torch import Tensor

from bathyscope.analysis.between.map_errors import MapErrors
from bathyscope.analysis.between.map_results import dataset, maps_result
from bathyscope.analysis.between.streams import Streams
from bathyscope.analysis.options import MapsOptions
from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress
from bathyscope.core.progress import ProgressBar
from bathyscope.core.result import LabelledResult
from bathyscope.errors import OptionError, PromptError, warn
from bathyscope.measures.normal_equations import NormalEquations
from bathyscope.model import AnyModel, Model, alone, loaded
from bathyscope.model.reading import PromptReading, vocabularies_differ
from bathyscope.prompts.in_memory import Source, listed_once
from bathyscope.prompts.prompts import Prompts
from bathyscope.statistics.least_squares import RIDGE, Array
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.splits import Splits, require_shares, require_tokens, split


@takes(MapsOptions)
def maps(
    source: AnyModel,
    target: AnyModel,
    prompts: Source | Prompts,
    *,
    ridge: Sequence[float] = RIDGE,
    choose_share: float = 0.1,
    test_share: float = 0.2,
    memory: float = 4.0,
    sources_per_pass: int | None = None,
    resamples: int = 1000,
    level: float = 0.95,
    cluster: str | None = None,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    progress: Progress = True,
) -> LabelledResult:
    """How well every boundary of one model is an affine map of every boundary of another.

    Args:
        source, target: what ``load`` returns or takes; both must see the same token ids, which must mean the same to
            both: where both tokenizers are known, the tokens of all ids in the prompts are compared, otherwise only
            the sizes of the vocabularies.
        prompts: as for ``survey``: at least four, with more tokens than the source is wide, better many times as many.
        ...: the options of ``MapsOptions``.

    Returns:
        A result; its ``data`` holds the following.
        By ``source`` and ``target`` (boundaries 0 … L): ``relative_error``, ``summed_error`` and ``r2`` on the test
        prompts with the ends of their intervals (``…_low``, ``…_high``), and the chosen ``ridge``; by ``direction``
        the diagonal statistics. docs/comparing.md lists all.

    Raises:
        OptionError, PromptError, ModelError: what is asked for cannot be done; raised before any compute.

    Example:
        >>> found = bathyscope.maps("shallow", model, "prompts.jsonl", resamples=20)
        >>> dict(found.relative_error.sizes)
        {'source': 3, 'target': 5}
    """
    with alone(source, target):
        if not ridge:
            raise OptionError(f"ridge=[] names no penalty; give one or more, such as {list(RIDGE)}.")
        require_shares(choose_share, test_share)
        listed: Source | Prompts = listed_once(prompts)
        first, second = (loaded(model, listed) for model in (source, target))
        reading = PromptReading(beyond_context, add_special_tokens, chat)
        read, other = (reading.read(model, listed, seed=seed) for model in (first, second))
        _require_same_tokens(first, read, second, other)
        streams = Streams(first, second, read)
        together = read.clusters(cluster)
        noun = "different prompts" if cluster is None and together is not None else ""
        splits = split(len(streams.prompts), choose_share, test_share, seed, together, noun)
        require_tokens(splits, streams.tokens, streams.widths[0])
        block = _block(streams, memory, sources_per_pass)
        errors, ridge_ST = _Mapping(streams, splits, sorted(set(ridge)), progress).run(block)
        sampling = Sampling(resamples, level, seed, together)
        data = dataset(errors, ridge_ST, streams, splits, sampling).assign_attrs(
            source_model=first.name,
            target_model=second.name,
            prompts=read.dataset,
            **_counts(streams, splits),
            sources_per_pass=block,
            passes=-(-streams.boundaries[0] // block),
            resamples=resamples,
            level=level,
            seed=seed,
            **({} if cluster is None else {"cluster": cluster}),
        )
        return maps_result(data)


class _Mapping:
    """The passes over the text, block of sources after block of sources."""

    def __init__(self, streams: Streams, splits: Splits, penalties: Sequence[float], progress: bool) -> None:
        self._streams = streams
        self._splits = splits
        self._penalties = tuple(penalties)
        sources, targets = streams.boundaries
        self._errors = MapErrors(splits.test, sources, targets)
        self._chosen_ST = np.zeros((sources, targets))
        # one source's decomposition and products with it cost about as much as its sums over 3 × width tokens
        self._solving = 3 * streams.widths[0]
        everything = streams.tokens(range(len(streams.prompts)))
        names = " → ".join(model.name for model in streams.models)
        self._bar = ProgressBar(f"mapping {names}", sources * (everything + self._solving), quiet=not progress)

    @torch.no_grad()
    def run(self, block: int) -> tuple[MapErrors, Array]:
        """Errors on the test prompts, and the chosen penalty of every pair, [S, T]."""
        n_sources = self._streams.boundaries[0]
        with self._bar:
            for first in range(0, n_sources, block):
                sources = range(first, min(first + block, n_sources))
                # no sums outlive this line: those of the next block take their place
                self._test(self._solved(self._summed(self._splits.fit, sources), sources), sources)
        return self._errors, self._chosen_ST

    def _summed(self, prompts: Sequence[int], sources: range) -> NormalEquations:
        streams = self._streams
        sums = NormalEquations(len(sources), streams.boundaries[1], streams.widths, streams.device)
        for picked in streams.batches(prompts, len(sources)):
            states = streams.states(picked, sources)
            sums.add(states.source, states.target)
            self._bar.advance(len(sources) * streams.tokens(picked))
        return sums

    def _solved(self, fit: NormalEquations, sources: range) -> NormalEquations:
        """``fit`` with the chosen maps W in the place of Σ (x − x̄)(y − ȳ)', which are needed no more."""
        choosing = self._summed(self._splits.choose, sources)
        for place, source in enumerate(sources):
            self._chosen_ST[source] = fit.solve(place, choosing, self._penalties)
            self._bar.advance(self._solving)
        return fit

    def _test(self, maps: NormalEquations, sources: range) -> None:
        for picked in self._streams.batches(self._splits.test, len(sources)):
            states = self._streams.states(picked, sources)
            if sources.start == 0:
                self._errors.add_targets(states, maps.mean_y_TE)
            centred_x = [x_ND.to(mean_D) - mean_D for x_ND, mean_D in zip(states.source, maps.mean_x_SD)]
            for t, (target_NE, mean_E) in enumerate(zip(states.target, maps.mean_y_TE)):
                # In float64 as the maps are; the models' own dtype may be bfloat16.
                y_NE: Tensor = target_NE.to(mean_E)
                norm_N, centred_NE = y_NE.norm(dim=1), y_NE - mean_E
                for place, (source, x_ND) in enumerate(zip(sources, centred_x)):
                    error_N = (centred_NE - x_ND @ maps.xy_STDE[place, t]).norm(dim=1)
                    self._errors.add(states, source, t, norm_N, error_N)
            self._bar.advance(len(sources) * self._streams.tokens(picked))


def _require_same_tokens(first: Model, read: Prompts, second: Model, other: Prompts) -> None:
    unequal = (
        (prompt, counterpart)
        for prompt, counterpart in zip_longest(read, other)
        if prompt is None or counterpart is None or prompt.ids != counterpart.ids
    )
    differs = next(unequal, None)
    if differs is not None:
        name = next(prompt.id for prompt in differs if prompt is not None)
        lengths = [f"{len(prompt or ())} tokens for {model.name}" for prompt, model in zip(differs, (first, second))]
        raise PromptError(
            f"The two models see other tokens: prompt {name!r} is {lengths[0]} and {lengths[1]}, and their ids differ. "
            "A map goes from token to token: give models of one vocabulary, or prompts as token ids. (A text file is "
            "cut into windows of a model's context unless the window is given: corpus.txt?window=256.)"
        )
    # the same ids are not enough: prompts given as ids have them with any two models
    reason = vocabularies_differ(first, second, (token for prompt in read for token in prompt.ids))
    if reason is not None:
        raise PromptError(
            f"The two models see other tokens, though the ids are the same: {reason}. A map goes from token to token: "
            "give models of one vocabulary. (A tokenizer that was not found can be given: load(model, tokenizer=…).)"
        )


def _counts(streams: Streams, splits: Splits) -> dict[str, int]:
    """Prompts and tokens of each part of the text."""
    return {
        f"{name}_{what}": count
        for name, numbers in (("fit", splits.fit), ("choose", splits.choose), ("test", splits.test))
        for what, count in (("prompts", len(numbers)), ("tokens", streams.tokens(numbers)))
    }


def _block(streams: Streams, memory: float, sources_per_pass: int | None) -> int:
    """How many sources are done in one pass."""
    n_sources, n_targets = streams.boundaries
    if sources_per_pass is not None:
        if not 1 <= sources_per_pass <= n_sources:
            raise OptionError(
                f"sources_per_pass={sources_per_pass} is out of range; allowed: 1 to {n_sources}, the boundaries of "
                "the source."
            )
        return sources_per_pass
    # sums of the prompts that are fitted to, and of those that penalties are chosen by
    source_gib = 2 * NormalEquations.bytes(n_targets, streams.widths) / 2**30
    if source_gib > memory:
        warn(
            f"The sums of a single source take {source_gib:.3g} GiB, more than memory={memory:g}; sources are done "
            "one at a time."
        )
    # Each pass is one more forward of both models over all prompts, so a pass holds all sources that fit.
    return min(n_sources, max(1, int(memory / source_gib)))
