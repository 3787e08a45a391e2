"""Prediction neurons where the KL falls: a dot for each block. Source: lad2024, Section 4.3."""

from collections.abc import Sequence
from functools import partial
from typing import Final, NamedTuple

import numpy as np
from matplotlib.figure import FigureBase
from scipy import stats

from bathyscope.core.arrays import FloatArray, IntArray
from bathyscope.core.estimates import Estimate
from bathyscope.core.text import elided
from bathyscope.measures.curves import one_norm
from bathyscope.pages.figures.kind import Drawing, FigureKind, Member, Panel, Shared
from bathyscope.pages.figures.kit import legend, style
from bathyscope.pages.figures.kit.series import nth_look
from bathyscope.pages.figures.kit.summary import weights_of
from bathyscope.pages.figures.options import FigureOptions
from bathyscope.prompts.parts import clusters_in, resampled
from bathyscope.runs.run import Run
from bathyscope.statistics.difference import Contrast, Reading, Term, contrast
from bathyscope.statistics.reduce import weighted_mean

_NAME_LETTERS: Final = 40


class _Correlation(NamedTuple):
    """Each block's share of prediction neurons (L,) and fall of the KL (L,), with their rank correlation."""

    share: FloatArray
    fall: FloatArray
    rho: Contrast

    def describe(self) -> str:
        rho = self.rho
        if not np.isfinite(rho.estimate):
            return "no ρ, because all shares or all falls are equal"
        return f"ρ = {Estimate(rho.estimate, rho.ci_low, rho.ci_high):.2f}"


def _make_drawing(run: Run, options: FigureOptions) -> Drawing:
    """Draw the fall of the KL in each block against its share of prediction neurons."""
    lens = one_norm(run["lens"])
    note = (
        "Each dot is a block: its share of prediction neurons, and how far the lens's KL from the final prediction "
        "falls between its two boundaries, mean over tokens. ρ: rank correlation over the blocks; its interval "
        f"resamples {resampled(options.cluster)}. Blocks are not a sample, and neighbours are alike: "
        "ρ describes this model and is not a test."
    )
    if "kl_lens_final" not in lens or "prediction_fraction" not in run["neurons"]:
        return Drawing([], note)
    kl, share = lens["kl_lens_final"].transpose("prompt", ...).values, run["neurons"]["prediction_fraction"].values
    weights = weights_of(lens, "kl_lens_final", options)
    usable = (weights > 0) & np.isfinite(kl).all(axis=1)
    if not usable.any() or not np.isfinite(share).all() or len(share) + 1 != kl.shape[1]:
        return Drawing([], note)
    cluster = clusters_in(lens, options.cluster)
    rho = prediction_fall(kl[usable], share, weights[usable], None if cluster is None else cluster[usable])
    correlation = _Correlation(share, fall(weighted_mean(kl[usable], weights[usable])), rho)
    return Drawing([_make_panel("fall", [Member("", 0, correlation)])], note, note)


def fall(kl_B: FloatArray) -> FloatArray:
    """Return how far each block lowers the KL, [..., boundaries] → [..., blocks]; negative where it rises."""
    return -np.diff(kl_B, axis=-1)


def prediction_fall(
    kl_PB: FloatArray, fraction_L: FloatArray, weights_P: FloatArray, cluster_P: IntArray | None = None
) -> Contrast:
    """Correlate, by rank and over blocks, the share of prediction neurons with the fall of the mean KL.

    The interval of Spearman's ρ resamples prompts. Blocks of one model are not a sample, and neighbours are alike, so
    ρ = 0 is not tested over blocks. NaN where all shares or all falls are equal.

    Args:
        kl_PB: KL of the lens to the final prediction, for each prompt and boundary.
        fraction_L: share of the block's neurons that are prediction neurons.
        weights_P: tokens of each prompt.
        cluster_P: prompts of one number are resampled as one; None = each for itself.
    """
    reading = Reading(
        kl_PB, weights_P, partial(_correlate_ranks, fraction_L=fraction_L), (-1.0, 1.0), cluster=cluster_P
    )
    return contrast([[Term(reading, 1.0)]])


def _correlate_ranks(mean_B: FloatArray, fraction_L: FloatArray) -> FloatArray:
    falls = stats.rankdata(fall(mean_B), axis=-1)
    shares = stats.rankdata(fraction_L)
    falls, shares = falls - falls.mean(axis=-1, keepdims=True), shares - shares.mean()
    size = np.sqrt((falls**2).sum(axis=-1) * (shares**2).sum())
    # Equal shares or equal falls have no ranks: 0 / 0 is the NaN that the caption explains.
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray((falls * shares).sum(axis=-1) / size)


def _make_panel(name: str, members: Sequence[Member]) -> Panel:
    names = [
        ": ".join(filter(None, [elided(member.run, _NAME_LETTERS), member.content.describe()])) for member in members
    ]
    width, height = style.PANEL_SIZE
    size = (width, height + legend.measure_height(names, width))
    shared = (Shared(name, name, members[0].content, _make_panel),) if len(members) == 1 else ()
    descriptions = "; ".join(names)
    alt = f"Scatter plot, a dot a block: fall of the KL (nats) against the share of prediction neurons. {descriptions}."
    return Panel(name, partial(_draw_blocks, members=members, names=names), alt, size, shared)


def _draw_blocks(figure: FigureBase, members: Sequence[Member], names: Sequence[str]) -> None:
    ax = figure.subplots()
    handles = []
    for member in members:
        look = nth_look(member.number)
        handles += ax.plot(member.content.share, member.content.fall, look.marker, color=look.colour, markersize=5)
    ax.axhline(0.0, **style.BROKEN, zorder=1)
    ax.set_xlabel("prediction neurons (share of the block's, dimensionless)")
    ax.set_ylabel("fall of KL(lens ‖ final) in the block (nats)")
    ax.set_title("Prediction neurons where the KL falls")
    legend.draw_legend(figure, handles, names)


FIGURE: Final = FigureKind(
    "prediction_fall", "Prediction neurons and the lens", (), _make_drawing, "neurons", ("lens",)
)
