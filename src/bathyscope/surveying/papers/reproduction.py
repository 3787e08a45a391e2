"""What it takes to repeat a paper: its models, what is computed of each, and which published figure shows what.

Data only; ``bathyscope.pages.papers`` carries it out. A paper is one module here with a ``REPRODUCTION``, which
``bathyscope.surveying.papers.reproductions`` lists.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

Questions = tuple[tuple[str, str], ...]
"""Pairs of a question and its answer; together they are a prompt."""

Verb = Literal["survey", "maps", "evaluate", "wic", "ing", "subjoiner", "depth_performance"]
"""What computes it: a command, or one of ``bathyscope probe``."""


@dataclass(frozen=True)
class Work:
    """What is computed on one set of data: a run, or another command's result, of every model that is shown.

    Args:
        name: of the folders of its results.
        data: a source as ``survey`` takes it, with the paper's number of prompts; questions with answers; for
            ``evaluate`` the tasks; otherwise what the paper's file is called.
        options: beyond the preset's: measure → options; of another command, its arguments.
        verb: what computes it. A survey takes the measures that the figures drawn from it show.
        all_tokens_only: skip effects are measured at all tokens and at no sampled position.
    """

    name: str
    data: str | Questions
    options: Mapping[str, Any] = field(default_factory=dict)
    verb: Verb = "survey"
    all_tokens_only: bool = False


@dataclass(frozen=True)
class Figure:
    """A published figure, or several that show the same thing.

    Args:
        label: its numbers as printed in the paper's final version: ``3a``, or ``10, 12b, 22``.
        shows: what is seen.
        data: names of the works it is drawn from.
        draws: figures of the report that show it, or single panels or variables of them: ``skip.future``.
        models: hub names of the models it shows, in order; empty = all of the paper.
        needs: what nobody can load, such as models that the authors trained and did not publish; the figure is made
            of models that are given.
    """

    label: str
    shows: str
    data: tuple[str, ...]
    draws: tuple[str, ...]
    models: tuple[str, ...] = ()
    needs: str = ""

    @property
    def numbers(self) -> list[str]:
        """The figure's numbers one by one."""
        return self.label.split(", ")

    def includes(self, number: str) -> bool:
        """Whether this is the entry of a published figure; ``3`` is all of its parts."""
        return any(re.fullmatch(f"{re.escape(number)}(?:(?<=[0-9])[a-z])?", label) for label in self.numbers)


@dataclass(frozen=True)
class Table:
    """A published table of numbers.

    Args:
        shows: what the numbers are.
        quantities: of the measure ``effective_depth`` its estimators, 0-based; of configurations their fields.
        data: names of the works they were measured on; none = read from the models' configurations.
        values: model → for each quantity the numbers by data, or the one number.
        note: what has to be known to compare with them.
        marked: panel or variable → the estimator whose published depths are marked there.
        weights: in which precision the models were measured; empty where nothing was computed.
    """

    shows: str
    quantities: tuple[str, ...]
    data: tuple[str, ...]
    values: Mapping[str, tuple[tuple[int, ...], ...]]
    note: str = ""
    marked: Mapping[str, str] = field(default_factory=dict)
    weights: str = ""

    def published(self, model: str | None, quantity: str, data: str = "") -> int | None:
        """Return the published number; None for a model, or data, that the table does not have."""
        if model is None or model not in self.values or (self.data and data not in self.data):
            return None
        return self.values[model][self.quantities.index(quantity)][self.data.index(data) if self.data else 0]


@dataclass(frozen=True)
class Reproduction:
    """A paper; its key is also its preset's name.

    Args:
        models: names on the hub, in the order in which the paper lists them.
        works: what is computed, for any of its figures or tables.
        figures: by the paper's own numbers.
        tables: its tables of numbers, by theirs.
    """

    paper: str
    models: tuple[str, ...]
    works: tuple[Work, ...]
    figures: tuple[Figure, ...]
    tables: Mapping[str, Table] = field(default_factory=dict)

    def work(self, name: str) -> Work:
        """Return the work of that name."""
        return next(work for work in self.works if work.name == name)

    @property
    def listed(self) -> tuple[str, ...]:
        """All models of any figure, the paper's own list first."""
        return tuple(dict.fromkeys([*self.models, *(model for figure in self.figures for model in figure.models)]))


def short_name(model: str) -> str:
    """Return a hub name without its owner, as tables show it."""
    return model.rsplit("/", 1)[-1]
