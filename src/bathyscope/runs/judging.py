"""The verdict of a run, computed from its datasets and those of its controls."""

from collections.abc import Mapping

import numpy as np

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.cycles import Cycle
from bathyscope.errors import OptionError
from bathyscope.runs.departures import Settings, departures, of_answers, protected_tokens, reads_later_tokens
from bathyscope.runs.head import head_of
from bathyscope.runs.kept import kept_readings
from bathyscope.runs.readings import Datasets, DepthReading, Null, readings_by_prompt
from bathyscope.runs.verdict import Verdict


def verdict_of(
    measures: Datasets,
    controls: Mapping[str, Datasets] | None = None,
    seed: int = 0,
    cluster: IntArray | None = None,
    n_blocks: int | None = None,
    settings: Settings | None = None,
    cycle: Cycle | None = None,
    copies: int = 0,
    in_common: float = 0.0,
    stored: tuple[int, ...] | None = None,
    confirmed: bool = True,
) -> Verdict:
    """The verdict from the datasets of a run; only ``lens`` and ``skip`` are looked at.

    Args:
        measures: the run's datasets by name.
        controls: those of its controls, under names such as ``untrained-0``; on the same prompts in the same order.
        seed: of resampling.
        cluster: [P], prompts of one number are resampled as one; None = each for itself.
        n_blocks: L; None = as the lens's boundaries tell.
        settings: measure → its options, as they were surveyed; None = the defaults.
        cycle: which loop and block each step is, of a model that runs blocks several times.
        copies: prompts that have the tokens of others.
        in_common: share of all tokens that stand in beginnings which prompts share.
        stored: boundaries of the stored states that were measured; None = the model was run.
        confirmed: whether the predictions are known to be the model's.

    Raises:
        OptionError: there is no lens, or one without depths of tokens.
    """
    if "lens" not in measures:
        raise OptionError(
            "A verdict needs the lens, and skip effects of blocks; this run has "
            f"{', '.join(measures) or 'no measure'}. Survey with measures=['lens', 'skip']."
        )
    if "prediction_depth" not in measures["lens"]:
        raise OptionError(
            "A verdict needs prediction_depth of the lens, which this run is without: an early version wrote it, or "
            "some variables were selected. Survey again with measures=['lens', 'skip'], or ask the whole run."
        )
    settings = settings or {}
    n_blocks = measures["lens"].sizes["boundary"] - 1 if n_blocks is None else n_blocks

    def by_prompt(datasets: Datasets) -> dict[str, FloatArray]:
        return readings_by_prompt(
            datasets, later_is_read=reads_later_tokens(settings), protect_first=protected_tokens(settings)
        )

    controls_by_kind: dict[str, list[Datasets]] = {}
    for label, datasets in (controls or {}).items():
        controls_by_kind.setdefault(label.rpartition("-")[0], []).append(datasets)
    read = {kind: [by_prompt(datasets) for datasets in seeds] for kind, seeds in controls_by_kind.items()}
    lenses = {kind: [datasets["lens"] for datasets in seeds] for kind, seeds in controls_by_kind.items()}
    readings: dict[str, DepthReading] = dict(kept_readings(measures["lens"], lenses, n_blocks, seed, cluster))
    for name, values in by_prompt(measures).items():
        rows = {kind: np.stack([seed_of[name] for seed_of in seeds]) for kind, seeds in read.items()}
        nulls = {kind: Null(row, values - row, n_blocks, cluster) for kind, row in rows.items()}
        readings[name] = DepthReading(name, values, n_blocks, seed, nulls, cluster)
    skip = measures.get("skip")
    return Verdict(
        **readings,
        head=head_of(
            measures["lens"], readings["half"], readings["readable"], readings["own"], cycle, of_answers(settings)
        ),
        departed=departures(settings, has_skip=skip is not None),
        skipped_parts=() if skip is None or "part" not in skip.coords else tuple(map(str, skip["part"].values)),
        cut="skip" in settings and (skip is None or "output_all" not in skip),
        has_means="mean" in ((settings.get("skip") or {}).get("output_reductions") or ["mean"]),
        copies=copies,
        # what predicts an answer stands behind what prompts share
        in_common=0.0 if of_answers(settings) else in_common,
        stored=stored,
        confirmed=confirmed,
    )
