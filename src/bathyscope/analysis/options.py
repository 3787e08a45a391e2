"""Options of questions about several runs, two models or labelled data; importing them does not import torch."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from bathyscope.core.common_options import (
    Level,
    ProblemSeed,
    PromptCluster,
    PromptResamples,
    ReadingOptions,
    TestResamples,
)
from bathyscope.core.conditions import Excludes, Needs
from bathyscope.core.descriptions import Doc
from bathyscope.options import Coverage, Distinct, Permutations, Positive, Range, Resamples, Share, TextForm
from bathyscope.prompts.label_checks import require_label_name
from bathyscope.prompts.parts import SOLVED_BY
from bathyscope.statistics.least_squares import RIDGE

Against = Literal["blocks", "parameters"]
Question = Literal["size", "reasoning", "difficulty"]
Unit = Literal["ratio", "blocks"]
Feature = Literal["concatenation", "difference"]
CONTEXT = (
    "What follows is a list of words that somebody once copied out of an old book, one after another and in no "
    "particular order:"
)
FEWEST_WORDS = 8
"""Words of either kind that are needed: four in each half."""


GroupLabel = Annotated[
    str, Doc("label of the prompts that makes the groups, such as solved_by, level or hops; or dataset.")
]


@dataclass(frozen=True)
class CompareOptions:
    """Options of ``compare``.

    Args:
        question: ``size`` = slope of the ratio over model sizes; ``reasoning`` = base models and their long
            chain-of-thought models; ``difficulty`` = hardest minus easiest data set, or label within a run.
        all_pairs: compare every two runs.
        by: label of difficulty within each run; None = the first of level, hops, steps and digits.
        against: what size means for ``question="size"``: blocks, or parameters as the model's name tells them.
        estimators: names of the estimators; None = all.
        equivalence: differences smaller than this count as none, and each gets a test that it is; None = 0.05 of the
            ratio for a ``question``, else no test.
        equivalence_unit: unit of ``equivalence``: ratio, or blocks where both models have equally many.
        seed: of the resampling.
    """

    question: Question | None = None
    all_pairs: Annotated[
        bool, Excludes("question", "do not go together, since a question says itself what is compared")
    ] = False
    by: Annotated[str | None, Needs("question", "chooses the label of difficulty", "difficulty", only=True)] = None
    against: Annotated[Against, Needs("question", "chooses the size", "size", only=True)] = "blocks"
    estimators: Sequence[str] | None = None
    cluster: PromptCluster = None
    equivalence: float | None = None
    equivalence_unit: Annotated[Unit, Needs("equivalence", "is the unit of a bound", 1)] = "ratio"
    resamples: PromptResamples = 2000
    level: Level = 0.95
    seed: int = 0


@dataclass(frozen=True)
class GroupOptions:
    """Options of ``group``.

    Args:
        estimators: names of the estimators; None = all that the run allows.
        cluster: label of prompts that belong together, such as document; they are resampled, and permuted, as one.
        resamples: bootstrap resamples of the prompts of each group.
        permutations: random permutations of two groups' prompts; the smallest p-value is 1 / (1 + permutations).
        seed: of resamples and permutations.
    """

    estimators: Sequence[str] | None = None
    cluster: str | None = None
    resamples: Resamples = 2000
    permutations: Permutations = 9999
    level: Level = 0.95
    seed: int = 0


@dataclass(frozen=True)
class SimilarityOptions(ReadingOptions):
    """Options of ``cka`` besides those of the measure.

    Args:
        seed: of the sampled tokens.
    """

    seed: int = 0


@dataclass(frozen=True)
class DiffOptions(ReadingOptions):
    """Options of ``diff``.

    Args:
        seed: of generated problems and of resampling.
    """

    seed: int = 0
    resamples: PromptResamples = 1000
    level: Level = 0.95


@dataclass(frozen=True)
class MapsOptions(ReadingOptions):
    """Options of ``maps``.

    Args:
        ridge: penalties to choose from, such as ``0,1e-4,1``; 1 is the mean variance of standardised features.
        choose_share: share of the prompts that penalties are chosen on.
        test_share: share of the prompts that errors are measured on.
        memory: GiB that the sums of one pass over the text may take; where those of all sources take more, sources are
            computed in groups, with a pass for each.
        sources_per_pass: boundaries of the source in one pass; None = as many as ``memory`` allows, at least one.
        cluster: label of prompts that belong together, such as document; they go to fitting, choosing or testing
            together, and are resampled as one.
        seed: of the split of the prompts and of resampling.
    """

    ridge: Sequence[Annotated[float, Range(0)]] = RIDGE
    choose_share: Share = 0.1
    test_share: Share = 0.2
    memory: Positive = 4.0
    sources_per_pass: Annotated[int, Range(1)] | None = None
    resamples: TestResamples = 1000
    level: Level = 0.95
    cluster: str | None = None
    seed: int = 0


@dataclass(frozen=True)
class DepthPerformanceOptions:
    """Options of ``depth_performance``.

    Args:
        score: name of the score's column.
        covariates: columns that are controlled for; ``none`` = no others.
        fixed_effects: a constant for each family, so that only differences within families count.
        clustered: also standard errors that allow models of one family to deviate together.
        level: coverage of intervals and band.
    """

    score: str = "score"
    covariates: Sequence[str] = ("d_model", "d_ff")
    fixed_effects: bool = False
    clustered: bool = False
    level: Coverage = 0.95


@dataclass(frozen=True)
class SolvedOptions(ReadingOptions):
    """Options of ``solved``."""

    seed: ProblemSeed = 0


@dataclass(frozen=True)
class SolvedByOptions(ReadingOptions):
    """Options of ``solved_by``.

    Args:
        label: name of the label.
    """

    label: Annotated[str, TextForm(require_label_name)] = SOLVED_BY
    seed: ProblemSeed = 0


@dataclass(frozen=True)
class WicOptions:
    """Options of the probe of word meaning.

    Args:
        features: of the two hidden states h and h': ``concatenation`` [h, h'],
            ``difference`` |h − h'|, or both.
        train_rows: only the first this many training rows; None = all.
        C: inverse strength of the L2 penalty; None = chosen at each boundary by cross-validation of the training
            rows.
        resamples: bootstrap resamples of the validation rows.
        seed: of folds and resamples.
    """

    features: Annotated[tuple[Feature, ...], Distinct()] = ("concatenation",)
    train_rows: Annotated[int, Range(1)] | None = None
    C: float | None = None
    resamples: Resamples = 1000
    level: Level = 0.95
    seed: int = 0


@dataclass(frozen=True)
class IngOptions:
    """Options of the probes of single neurons.

    Args:
        contexts: how many, half of them before a token that ends in "ing"; fewer if the text has fewer.
        window: tokens of a context, the predicted one and a BOS included.
        neurons: of either kind, those with the largest effect on such tokens.
        characters: only this many from the beginning of the corpus.
        C: inverse strength of the probes' L2 penalty.
        resamples: bootstrap resamples of the held-out contexts.
        seed: of the choice of contexts, their split into two halves, and the resamples.
    """

    contexts: Annotated[int, Range(8)] = 2000
    window: Annotated[int, Range(4)] = 24
    neurons: Annotated[int, Range(1)] = 32
    characters: Annotated[int, Range(1)] | None = 2_000_000
    C: float = 1.0
    resamples: Resamples = 1000
    level: Level = 0.95
    seed: int = 0


@dataclass(frozen=True)
class SubjoinerOptions:
    """Options of the search for sub-joiner heads.

    Args:
        pieces: n, the number of tokens of a word that is split.
        context: text before every word.
        window: tokens of context and word together, counted from the end; special tokens that the tokenizer puts in
            front come on top.
        count: at most this many words of either kind, sampled at random.
        top: heads that are reported with an interval.
        characters: only this many from the beginning of a text.
        resamples: bootstrap resamples of the held-out words.
        seed: of the choice of words, of their halves, and of the resamples.
    """

    pieces: Annotated[int, Range(2)] = 4
    context: str = CONTEXT
    window: int = 16
    count: Annotated[int, Range(FEWEST_WORDS)] = 200
    top: Annotated[int, Range(1)] = 10
    characters: Annotated[int, Range(1)] | None = 2_000_000
    resamples: Resamples = 1000
    level: Level = 0.95
    seed: int = 0


@dataclass(frozen=True)
class WrittenOptions:
    """Options of ``written``.

    Args:
        permutations: of the answers over prompts, for the test of no relation.
        seed: of both.
    """

    resamples: PromptResamples = 1000
    level: Level = 0.95
    permutations: Permutations = 9999
    seed: int = 0
