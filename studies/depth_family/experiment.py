"""Does a model that is given more blocks use more of them?

Models that differ in their number of blocks alone are trained on the same texts, by recipe, and surveyed on the same
prompts; others of one depth have their norms elsewhere. It is asked how effective depth goes with depth: whether the
ratio is stable as blocks grow. Source: hu2025 (effective depth over model sizes), on models of which nothing else
differs; csordas2025 (maps between models).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import xarray as xr

from bathyscope import Model, Run, compare, load, survey
from bathyscope.errors import OptionError, PromptError
from bathyscope.extend import Range, variable
from bathyscope.extend.prompts import tokenized
from bathyscope.extend.statistics import Sampling, Term, contrast
from studies.depth_family.maps import ARROW, diagonal
from studies.depth_family.members import FAMILY, Member, members_of, trained
from studies.depth_family.placements import differences, placements
from studies.depth_family.profiles import MEASURES as OF_PROFILES
from studies.depth_family.profiles import profiles
from studies.depth_family.trend import depth_trend, n_blocks, score_readings

ONE_SEED: Final = (
    "One model of each depth: a difference between depths cannot be told from one between seeds, and the intervals are "
    "about other prompts for these very models. Give several seeds."
)
_SOURCE: Final = "hu2025, effective depth; csordas2025, depth score"


_ALWAYS = ("residual", "lens", "skip", "effective_depth")


@dataclass(frozen=True)
class DepthFamily:
    """What is trained and measured.

    Args:
        recipes: of the models that are trained; None = depth_6, depth_12, depth_24, depth_12_peri, depth_12_post and
            depth_12_mixed, or none where models are given.
        seeds: of weights and order of texts; each is a model of its own. One alone cannot tell depth from seed.
        models: folders that bathyscope lab train finished, as further members.
        prompts: that all models are surveyed on, any source.
        measures: to survey besides residual, lens, skip, effective_depth, gradient and, where prompts have answers,
            depth_score.
        maps: also map the boundaries of members to each other's (needs many more tokens than models are wide).
        resamples: bootstrap resamples of the prompts.
        level: coverage of the intervals.
        seed: of generated prompts, sampled positions and resampling.
    """

    recipes: tuple[str, ...] | None = None
    seeds: tuple[int, ...] = (0,)
    models: tuple[str, ...] = ()
    prompts: str | Path | Sequence[Any] = "problems:60?steps=1-6"
    measures: tuple[str, ...] = ()
    maps: bool = False
    resamples: int = 2000
    level: float = 0.95
    seed: int = 0

    def __post_init__(self) -> None:
        Range(1).check(self.resamples, "resamples")
        Range(0.01, 0.9999).check(self.level, "level")
        if self.seed < 0 or any(seed < 0 for seed in self.seeds):
            raise OptionError("seed and seeds are whole numbers of at least 0.")
        for name in ("recipes", "seeds", "models", "measures"):
            if isinstance(getattr(self, name), list):
                object.__setattr__(self, name, tuple(getattr(self, name)))
        if isinstance(self.prompts, Iterator):
            object.__setattr__(self, "prompts", list(self.prompts))  # every model reads them

    @property
    def settings(self) -> dict[str, Any]:
        """Of resampling."""
        return {"resamples": self.resamples, "level": self.level, "seed": self.seed}


class Measured(NamedTuple):
    """A member, what its training came to, and its run."""

    member: Member
    summary: Mapping[str, Any]
    run: Run


class Depth(NamedTuple):
    """A depth with its interval over prompts, and why something is missing."""

    depth: float
    low: float
    high: float
    reason: str


def depth_family(
    options: DepthFamily,
    out: str | Path,
    data: str | Path | None = None,
    device: str | None = None,
    progress: bool = True,
    changes: tuple[str, ...] = (),
) -> xr.Dataset:
    """Trains, surveys and compares; what is finished under ``out`` is not done again.

    Args:
        options: what is trained and measured.
        out: folder of models, runs and maps.
        data: folder of the texts that recipes train on.
        device: ``cpu`` or ``cuda``; None = the first accelerator, else the CPU.
        progress: show progress bars on standard error.
        changes: of the recipes, ``KEY=VALUE``.

    Returns:
        By ``member``: ``loss`` (member, text), held out, in nats per token; ``depth``, ``ratio`` with their intervals
        over prompts (member, estimator); what ``profiles`` gives (member, boundary). By ``norms``, for each place of
        norms that several depths have: what ``depth_trend`` gives (norms, estimator). By ``pair``, members of equal
        depth and seed with norms elsewhere: ``difference`` of the ratio, other − reference, paired (pair, estimator);
        ``placement`` (pair) names the two recipes.
        With maps by ``map`` and ``direction``: the diagonal statistics of ``maps`` between members; ``map_seconds``.

    Raises:
        OptionError: members that differ in more than depth and seed, and as ``train`` and ``survey``.
        PromptError: members that see other tokens, and as ``survey``.
        ModelError, StoreError: as ``train`` and ``survey``.
    """
    folder = Path(out)
    recipes = options.recipes if options.recipes is not None else () if options.models else FAMILY
    members = members_of(recipes, options.seeds, options.models, changes, folder)
    summaries = trained(members, data, device, progress)
    models = [load(member.folder, dtype="float32", device=device) for member in members]
    measures = _measures(models, members, options)
    measured = [
        Measured(member, summary, _surveyed(model, measures, folder / "runs" / member.name, options, progress))
        for member, summary, model in zip(members, summaries, models)
    ]
    found = family_results(measured, options)
    if options.maps:
        pairs = _maps_of(measured)
        named = {f"{members[a].name}{ARROW}{members[b].name}": (models[a], models[b]) for a, b in pairs}
        mapped = diagonal(named, options.prompts, folder / "maps", progress=progress, **options.settings)
        found = found.merge(mapped, join="exact", combine_attrs="override")
    return found


def _measures(models: Sequence[Model], members: Sequence[Member], options: DepthFamily) -> list[str]:
    """The measures of all members, once it is known that they read the same tokens."""
    read = [tokenized(model, options.prompts, seed=options.seed) for model in models]
    for member, own in zip(members, read):
        if own.hash != read[0].hash:
            raise PromptError(
                f"{member.name} reads the prompts as other tokens than {members[0].name}, so that the two cannot be "
                "compared prompt by prompt. Give members with one vocabulary; a text file also needs its window "
                "(corpus.txt?window=256) where contexts differ."
            )
    has_answers = any(prompt.answer_tokens is not None for prompt in read[0])
    scores = ["depth_score"] if has_answers else []
    return list(dict.fromkeys([*_ALWAYS, *OF_PROFILES, *scores, *options.measures]))


def _surveyed(model: Model, measures: Sequence[str], out: Path, options: DepthFamily, progress: bool) -> Run:
    return survey(model, options.prompts, measures, out=out, seed=options.seed, progress=progress)


def family_results(measured: Sequence[Measured], options: DepthFamily) -> xr.Dataset:
    """Everything but the maps, from what was trained and surveyed."""
    members = [one.member for one in measured]
    runs = [one.run for one in measured]
    blocks = [n_blocks(run) for run in runs]
    parts = [_losses(measured), _depths(measured, options)]
    parts.append(profiles(runs, **options.settings))
    series: dict[str, list[int]] = {}
    for number, member in enumerate(members):
        series.setdefault(member.norms, []).append(number)
    trends = [
        depth_trend([runs[n] for n in numbers], **options.settings).expand_dims(norms=[norms])
        for norms, numbers in series.items()
        if len({blocks[n] for n in numbers}) > 1
    ]
    if trends:
        parts.append(xr.concat(trends, "norms"))
    pairs = placements(members, runs)
    if pairs:
        parts.append(differences(members, runs, pairs, options.settings))
    coords = {
        "member": [member.name for member in members],
        "recipe": ("member", [member.recipe.name for member in members]),
        "member_norms": ("member", [member.norms for member in members]),
        "blocks": ("member", blocks),
        "model_seed": ("member", [member.recipe.seed for member in members]),
        "parameters": ("member", [int(one.summary["parameters"]) for one in measured]),
        "tokens": ("member", [int(one.summary["tokens"]) for one in measured]),
    }
    found = xr.merge(parts, join="exact", combine_attrs="drop").assign_coords(coords)
    alone = len({(member.norms, n) for member, n in zip(members, blocks)}) == len(members)
    identity = measured[0].run.identity
    prompts = f"{identity.dataset}, {identity.prompts} prompts"
    hashes = ", ".join(f"{member.name}: {member.recipe.hash()}" for member in members)
    return found.assign_attrs(note=ONE_SEED if alone else "", recipes=hashes, prompts=prompts, **options.settings)


def _losses(measured: Sequence[Measured]) -> xr.Dataset:
    held_out = [one.summary["held_out"] for one in measured]
    texts = list(dict.fromkeys(name for own in held_out for name in own if name.endswith("_loss")))
    values = np.array([[own.get(name, np.nan) for name in texts] for own in held_out], dtype=np.float64)
    loss = variable(("member", "text"), values, "held-out loss", "nats", source="training", formula="per token")
    return xr.Dataset({"loss": loss}, {"text": [name.removesuffix("_loss") for name in texts]})


def _depths(measured: Sequence[Measured], options: DepthFamily) -> xr.Dataset:
    """Depth and ratio of every member by every estimator, each with its own interval over prompts."""
    estimates = _estimates([one.run for one in measured], options)
    names = list(estimates[0])
    blocks = np.array([n_blocks(one.run) for one in measured])[:, None]
    data = {}
    for number, (end, text) in enumerate(
        {"": "effective depth", "_low": "lower end of its interval", "_high": "upper end of its interval"}.items()
    ):
        depth = np.array([[own[name][number] for name in names] for own in estimates], dtype=np.float64)
        dims = ("member", "estimator")
        data[f"depth{end}"] = variable(dims, depth, text, "block", source=_SOURCE)
        ratio = depth / blocks
        data[f"ratio{end}"] = variable(dims, ratio, f"{text} (ratio)", "1", formula="depth / L", source=_SOURCE)
    reasons = np.array([[own[name].reason for name in names] for own in estimates], dtype=object)
    data["reason"] = variable(dims, reasons, "why there is no depth or no interval", "", source=_SOURCE)
    return xr.Dataset(data, {"estimator": names})


def _estimates(runs: Sequence[Run], options: DepthFamily) -> list[dict[str, Depth]]:
    """Of each run every estimator's depth, and the depth scores of answers."""
    if len(runs) > 1:
        with_first = [(0, number) for number in range(1, len(runs))]
        ratios = compare(runs, pairs=with_first, **options.settings).runs
        ends = [ratios[end].values * ratios["blocks"].values[:, None] for end in ("ci_low", "ci_high")]
    else:
        # nothing to compare with: the intervals are those of the survey
        ends = [runs[0]["effective_depth"][end].values[None] for end in ("ci_low", "ci_high")]
    found = []
    for run, lows, highs in zip(runs, *ends):
        own = run["effective_depth"]
        columns = (own["estimator"].values.tolist(), own["depth"].values, lows, highs, own["reason"].values.tolist())
        estimates = {name: Depth(float(d), float(low), float(high), why) for name, d, low, high, why in zip(*columns)}
        found.append(estimates | _score_depths(run, options))
    return found


def _score_depths(run: Run, options: DepthFamily) -> dict[str, Depth]:
    found = {}
    for name, reading in score_readings(run).items():
        ratio = contrast([[Term(reading, 1.0)]], Sampling(**options.settings))
        reason = "" if np.isfinite(ratio.ci_low) else "too few prompts have a depth score"
        depth, low, high = (n_blocks(run) * value for value in (ratio.estimate, ratio.ci_low, ratio.ci_high))
        found[name] = Depth(depth, low, high, reason)
    return found


def _maps_of(measured: Sequence[Measured]) -> list[tuple[int, int]]:
    """(source, target): every two depths of one series, shallower first, and placements; the first seed of each."""
    seen: dict[tuple[str, int], int] = {}
    for number, one in enumerate(measured):
        seen.setdefault((one.member.norms, n_blocks(one.run)), number)
    depths = [
        (own, other)
        for ((norms, blocks), own), ((others, more), other) in combinations(sorted(seen.items()), 2)
        if norms == others and blocks < more
    ]
    first = set(seen.values())
    pairs = placements([one.member for one in measured], [one.run for one in measured])
    return depths + [(a, b) for a, b in pairs if a in first and b in first]
