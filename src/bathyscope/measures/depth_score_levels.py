"""Depth scores of difficulty levels, from the effects of their prompts, and the trend over levels."""

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple, Self

import numpy as np
import xarray as xr

from bathyscope.core.arrays import collect
from bathyscope.errors import OptionError, did_you_mean, warn
from bathyscope.labels import REDUCTIONS
from bathyscope.measures.of.depth_score import DECLARATION, DepthScoreOptions
from bathyscope.prompts.levels import DIFFICULTY_LABELS, difficulty_label
from bathyscope.prompts.parts import clusters_in, levels_in_order
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.depth_score import DepthScoreEstimate, depth_score
from bathyscope.statistics.sampling import Sampling
from bathyscope.statistics.trend import trend

SCORES = ("layer", "output")
EVERYONE = "all"


def check_label(by: str | None, prompts: Sequence[TokenizedPrompt]) -> str | None:
    """The label to group by; None where none is asked for and the prompts have none of ``DIFFICULTY_LABELS``.

    Raises:
        OptionError: no prompt has the label that is asked for.
    """
    label_names = dict.fromkeys(name for prompt in prompts for name in prompt.labels)
    if by is None:
        by = difficulty_label(label_names)
    elif by not in label_names:
        listed = (
            f"Their labels: {', '.join(label_names)}."
            if label_names
            else "They have no labels; give Prompt(labels={...})."
        )
        raise OptionError(
            f"depth_score: no measured prompt has the label {by!r}.{did_you_mean(by, label_names)} {listed}"
        )
    without = 0 if by is None else sum(by not in prompt.labels for prompt in prompts)
    if without:
        warn(
            f"depth_score: {without} of {len(prompts)} measured prompts have no label {by!r} and belong to no level.",
        )
    return by


class Levels(NamedTuple):
    """Difficulty levels in order, and each prompt's number among them (−1 = it has none)."""

    names: np.ndarray
    of_prompt: np.ndarray
    no_order: str
    """Why a trend over them has no meaning; empty where it has one."""

    @classmethod
    def of(cls, merged: xr.Dataset, by: str | None) -> Self:
        """Return the levels of a merged dataset by one of its labels; without a label all prompts are one level."""
        n_prompts = merged.sizes["prompt"]
        if by is None:
            reason = f"a trend needs prompts with a label such as {', '.join(DIFFICULTY_LABELS)}"
            return cls(np.array([EVERYONE], dtype=object), np.zeros(n_prompts, dtype=np.intp), reason)
        values = merged[by].values
        names, of_prompt = levels_in_order(values.tolist())
        has_text = values.dtype.kind not in "iuf"
        reason = f"the labels {by!r} are texts; a trend needs numbers" if has_text else ""
        return cls(np.array(names, dtype=values.dtype), of_prompt, reason)

    @property
    def difficulty(self) -> np.ndarray:
        """Each prompt's level as a number, NaN where it has none."""
        if self.no_order:
            return np.full(len(self.of_prompt), np.nan)
        return np.where(self.of_prompt < 0, np.nan, self.names.astype(np.float64)[self.of_prompt])


def level_results(merged: xr.Dataset, by: str | None, options: DepthScoreOptions, seed: int) -> xr.Dataset:
    """Depth scores by level and their trend, from a run's effects and scores by prompt, with the prompts' labels."""
    coverage = options.coverage
    levels = Levels.of(merged, by)
    largest = merged.sel(reduction="max")
    effects = {"layer": largest["effect"].values, "output": largest["output_effect"].values}
    member = clusters_in(merged, options.cluster)
    sampling = Sampling(options.resamples, coverage, seed, member)

    def score(kind: str, level: int, how: str) -> DepthScoreEstimate:
        is_member = levels.of_prompt == level
        return depth_score(effects[kind][is_member], how, sampling.take(is_member))

    scores = [
        [[score(kind, level, how) for how in REDUCTIONS] for level in range(len(levels.names))] for kind in SCORES
    ]
    test = partial(trend, cluster=member, permutations=options.permutations, coverage=coverage, seed=seed)
    trends = [
        [test(merged[f"prompt_score_{kind}"].sel(reduction=how).values, levels.difficulty) for how in REDUCTIONS]
        for kind in SCORES
    ]
    measured = ~np.isnan(effects["output"]).any(axis=1)
    counts = [int((measured & (levels.of_prompt == n)).sum()) for n in range(len(levels.names))]
    data = {
        **{f"score_{kind}": collect(kind_scores, "score") for kind, kind_scores in zip(SCORES, scores)},
        **{name: collect(scores, name) for name in ("ci_low", "ci_high", "reason")},
        "n_prompts": counts,
        **_trend(trends, merged.sizes["skipped"], levels.no_order),
    }
    what = "all prompts" if by is None else f"label {by!r} of the prompts"
    coords = {
        "level": ("level", levels.names, {"long_name": what}),
        "score": list(SCORES),
        "reduction": list(REDUCTIONS),
    }
    return DECLARATION.dataset(data, coords, percent=f"{100 * coverage:g} %")


def _trend(trends: Sequence[Sequence[Any]], n_blocks: int, no_order: str) -> dict[str, np.ndarray]:
    """``trends`` is [score][reduction]; the reduction is that of the prompts' effects over tokens."""
    fields = ("slope", "ci_low", "ci_high", "effect_size", "rank_correlation", "p_value", "reason")
    results = {f"trend_{field}": collect(trends, field) for field in fields}
    results["trend_share"] = results["trend_slope"] / n_blocks
    if no_order:
        results["trend_reason"] = np.full_like(results["trend_reason"], no_order)
    return {name: results[name] for name in DECLARATION.table or () if name in results}
