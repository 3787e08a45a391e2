"""What it takes to repeat a paper: its models, what was measured on each, and which figure shows what.

Data only; ``bathyscope.reproducing`` carries it out. A paper is one module here with a ``REPRODUCTION``, listed in
``bathyscope.papers.reproductions``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Questions = tuple[tuple[str, str], ...]
"""Pairs of a question and its answer; together they are a prompt."""

TRAINED = "no survey of one published checkpoint: two models (bathyscope maps), or one trained first (bathyscope lab)"


@dataclass(frozen=True)
class Survey:
    """What is measured on one set of prompts, on every model.

    Args:
        name: of the folders of its runs.
        prompts: a source as ``survey`` takes it, with the paper's number of prompts, or questions with answers.
        measures: names; None = those of the paper's preset.
        options: measure → options beyond the preset's.
        all_tokens_only: skip effects are measured at all tokens and at no sampled position.
    """

    name: str
    prompts: str | Questions
    measures: tuple[str, ...] | None = None
    options: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    all_tokens_only: bool = False


@dataclass(frozen=True)
class Figure:
    """One or several published figures that show the same thing.

    Args:
        numbers: as published, ``(first, last)``.
        shows: what is seen.
        surveys: names of the surveys it is drawn from; none where a survey cannot give it.
        draws: names of the report's figures that show it.
        models: hub names of the models it shows; empty = all of the paper.
        checked: the numbers are known to be those of the published figures. Otherwise they follow the order in which
            the paper treats its measurements.
        reason: why there is no survey.
    """

    numbers: tuple[int, int]
    shows: str
    surveys: tuple[str, ...] = ()
    draws: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    checked: bool = False
    reason: str = ""

    @property
    def label(self) -> str:
        """``3`` or ``15–38``, with a leading ``~`` where the numbers were not checked."""
        first, last = self.numbers
        return ("" if self.checked else "~") + (str(first) if first == last else f"{first}–{last}")

    def includes(self, number: int) -> bool:
        """Whether this is the entry of a published figure."""
        return self.numbers[0] <= number <= self.numbers[1]


@dataclass(frozen=True)
class DepthTable:
    """A published table of effective depths (0-based).

    Args:
        estimators: of the measure ``effective_depth``.
        surveys: its data sets, by the names of their surveys.
        depths: model → for each estimator the depths by survey.
    """

    estimators: tuple[str, ...]
    surveys: tuple[str, ...]
    depths: Mapping[str, tuple[tuple[int, ...], ...]]

    def depth(self, model: str | None, survey: str, estimator: str) -> int | None:
        """The published number; None for a model that is not in the table."""
        if model is None or model not in self.depths:
            return None
        return self.depths[model][self.estimators.index(estimator)][self.surveys.index(survey)]


@dataclass(frozen=True)
class Sizes:
    """A model's blocks, heads of queries, and heads of keys and values."""

    blocks: int
    query_heads: int
    key_heads: int


@dataclass(frozen=True)
class Reproduction:
    """A paper.

    Args:
        paper: its key, which is also its preset's name.
        models: names on the hub, in the order in which the paper lists them.
        surveys: what is measured, by any of its figures or tables.
        figures: what can be drawn, and what cannot.
        depths: its table of effective depths, where it has one.
        sizes: its table of model sizes, where it has one: model → sizes.
        note: what has to be known to compare with its numbers.
    """

    paper: str
    models: tuple[str, ...]
    surveys: tuple[Survey, ...]
    figures: tuple[Figure, ...]
    depths: DepthTable | None = None
    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    note: str = ""

    def survey(self, name: str) -> Survey:
        """The survey of that name."""
        return next(survey for survey in self.surveys if survey.name == name)


def short_name(model: str) -> str:
    """A hub name without its owner, as tables show it."""
    return model.rsplit("/", 1)[-1]
