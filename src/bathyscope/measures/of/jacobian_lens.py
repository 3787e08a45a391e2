"""Declaration of the Jacobian lens; its code is ``measures.jacobian_lens``."""

from dataclasses import dataclass
from functools import partial
from os import PathLike, fspath
from typing import Annotated, Any, Final, Literal, Protocol, runtime_checkable

from bathyscope.errors import OptionError
from bathyscope.labels import Label, interval
from bathyscope.measures.declaration import Declaration
from bathyscope.options import Range
from bathyscope.prompts.in_memory import Source, kept_source
from bathyscope.prompts.prompt import PromptSet

SOURCE: Final = "jlens 2026, Jacobian lens"
_label = partial(Label, source=SOURCE)
_by_boundary = partial(_label, "prompt reader boundary")
_of_the_lens = partial(_label, "boundary")


def _of_the_band(what: str, units: str, formula: str = "", source: str = SOURCE) -> Label:
    return Label("", what, units, formula, source)


@runtime_checkable
class LensLike(Protocol):
    """What ``fit_lens`` and ``open`` return; here without torch."""

    @property
    def fingerprint(self) -> str:
        """SHA-256 over the lens."""

    def matrix(self, boundary: int) -> Any:
        """Return J_b."""


@dataclass(frozen=True)
class JacobianLensOptions:
    """Options of the Jacobian lens; either ``lens`` or ``prompts`` must be given.

    Args:
        lens: a fitted lens, or the path of one.
        prompts: what a lens is fitted to before the survey, given as the survey's prompts are (such as
            wikitext.txt:100); none of them may be surveyed too.
        directions: random orthonormal directions of each prompt that it is fitted to; None = all, exact.
        skip_first: tokens at the beginning of each prompt that it is not fitted to.
        memory: GiB that fitting may take.
        translated: fit the maps of ``translated_lens`` to the same prompts, where they have enough tokens, and read
            with them too.
        positions: "all" = every token of a prompt but its first is read; "answer" = where the answer is predicted.
    """

    lens: str | PathLike[str] | LensLike | None = None
    prompts: PromptSet | Source | None = None
    directions: Annotated[int | None, Range(1, none="all of them")] = None
    skip_first: Annotated[int, Range(0)] = 16
    memory: Annotated[float, Range(0.001)] = 4.0
    translated: bool = True
    positions: Literal["all", "answer"] = "all"

    def __post_init__(self) -> None:
        if isinstance(self.lens, PathLike):
            object.__setattr__(self, "lens", fspath(self.lens))
        object.__setattr__(self, "prompts", kept_source(self.prompts))
        fitting = ("directions", "skip_first", "memory", "translated")
        changed = next((name for name in fitting if getattr(self, name) != getattr(type(self), name)), None)
        if self.lens is not None and changed is not None:
            raise OptionError(
                f"jacobian_lens: {changed}={getattr(self, changed)!r} is of fitting a lens to prompts, and lens= is "
                f"fitted already; leave {changed} out, or give prompts in place of lens."
            )


DECLARATION: Final = Declaration(
    "jacobian_lens",
    "Readout at every boundary behind the mean Jacobian of the last one.",
    JacobianLensOptions,
    {
        "kl": _by_boundary(
            "KL of the final distribution from what is read at a boundary",
            "nats",
            "KL(p_L ‖ p_b), p_b = softmax(readout(J_b h_b)); lens: J_b = I",
            direction="0 = the final prediction is reached",
        ),
        "top1_agreement": _by_boundary(
            "top-1 agreement of what is read at a boundary with the final distribution",
            "1",
            "mean of [argmax p_b = argmax p_L]",
            direction="higher = closer to the final prediction",
        ),
        "mrr": _by_boundary(
            "reciprocal rank of the final top-1 token",
            "1",
            "mean of 1/rank_b(argmax p_L)",
            direction="higher = closer to the final prediction",
        ),
        "n_averaged": _label("prompt", "tokens that a prompt's means are over", "token"),
        "half_agreement": _of_the_lens(
            "agreement of two halves of the prompts that the lens is fitted to",
            formula="cosine of J_b of the halves, over all entries",
            direction="1 = the halves agree",
        ),
        "half_agreement_rest": _of_the_lens(
            "agreement of the two halves without the identity",
            formula="cosine of J_b − I of the halves, over all entries",
            direction="1 = the halves agree",
        ),
        "identity_share": _of_the_lens(
            "share of the lens that is a multiple of the identity",
            formula="(tr J_b)² / (d ‖J_b‖²)",
            direction="1 = the lens is a multiple of the plain lens",
        ),
        "sampling_error": _of_the_lens(
            "error of the lens by sampling directions, relative to its size",
            formula="√(V / (‖Ĵ‖² − V)), V = (1 − k/d) Σ ‖Ĵ_i − I‖² / n² over n prompts; 0 with all directions",
            direction="lower = better",
        ),
        "band_first": _of_the_band(
            "first boundary of the band where the Jacobian lens is nearer to the final prediction than the plain lens "
            "(NaN = no band)",
            "boundary",
            "longest run of boundaries each of which has KL(lens) − KL(jacobian) above 0, with p ≤ 0.05 over all",
        ),
        "band_last": _of_the_band("last boundary of the band", "boundary"),
        **interval("band_first", _of_the_band, "the 95 % interval of band_first", "boundary", "bootstrap over prompts"),
        **interval("band_last", _of_the_band, "the 95 % interval of band_last", "boundary", "bootstrap over prompts"),
        "band_gain": _of_the_band("gain over the band", "nats", "mean of KL(lens) − KL(jacobian) over its boundaries"),
        **interval("band_gain", _of_the_band, "the 95 % interval of band_gain", "nats", "bootstrap over prompts"),
        "band_p": _of_the_band(
            "p-value of the band: of its weakest boundary, or of the strongest one where there is no band",
            "1",
            "share of signs of whole prompts whose largest Σx / √Σx² over boundaries is as large",
            "Westfall, Young 1993; Nichols, Holmes 2002",
        ),
    },
    order=40,
    synonyms=("jlens", "jacobian"),
    panels={
        "kl": ("kl",),
        "top1_agreement": ("top1_agreement",),
        "trust": ("half_agreement", "half_agreement_rest", "identity_share"),
    },
    question="what would be said from there if the other blocks acted as they do on average?",
    rows="a plain forward; backward passes to fit it",
    needs="last boundary",
)
