"""What a measure is: it declares options and needs, observes a wavefront, and yields a labelled dataset.

Nothing here imports torch, so that a measure whose functions import what they compute with is one light file.
"""

from __future__ import annotations

import abc
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self, TypeVar

from bathyscope.errors import ModelError, PromptError
from bathyscope.measures.former_names import FormerName, take_former_names
from bathyscope.options import NoOptions, coerce
from bathyscope.prompts.tokenizer import pieces
from bathyscope.wavefront.observer import Probe

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr
    from torch import Tensor
    from transformers import PreTrainedTokenizerBase

    from bathyscope.labels import Table
    from bathyscope.measures.declaration import Declaration, Needs
    from bathyscope.measures.token_values import TokenValues
    from bathyscope.model.anatomy.anatomy import Anatomy
    from bathyscope.model.anatomy.measured_gaps import Checks
    from bathyscope.model.identity import ModelIdentity
    from bathyscope.prompts.in_memory import Source
    from bathyscope.prompts.prompt import TokenizedPrompt
    from bathyscope.wavefront.batch import Batch
    from bathyscope.wavefront.engine import Wavefront

Options = TypeVar("Options")


@dataclass(frozen=True)
class ModelFacts:
    """What a measure may know about the model before any prompt is run."""

    anatomy: Anatomy
    checks: Checks
    tokenizer: PreTrainedTokenizerBase | None = None
    keeps_text: bool = True
    """Whether results may hold texts; numbers of tokens they always may."""
    identity: ModelIdentity | None = None
    """Which model it is; None = unknown."""

    @property
    def n_blocks(self) -> int:
        """L, the number of blocks."""
        return self.anatomy.n_blocks

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The boundaries that a plain forward shows: 0 … L, or those of stored states."""
        return self.anatomy.boundaries

    @property
    def seen_blocks(self) -> tuple[int, ...]:
        """The blocks in front of which and behind which it shows a boundary."""
        return tuple(block for block, after in pairwise(self.boundaries) if after == block + 1)

    @property
    def of_states(self) -> bool:
        """Whether stored states are measured: there are no blocks that could be run."""
        return self.anatomy.is_stored

    @property
    def has_weights(self) -> bool:
        """Whether the model can be run; one whose cost is estimated is an outline alone."""
        from bathyscope.model.anatomy.plain import home_of

        return home_of(self.anatomy.model).type != "meta"

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Each token as text, for labels; its number where the prompts came as token ids, or no text may be kept."""
        return pieces(ids, self.tokenizer if self.keeps_text else None)

    def require_parts(self, measure: str) -> None:
        """Refuses measures of attention and MLP contributions where a model has none.

        Raises:
            ModelError: a looped model's states hold more than the stream, or the contribution identity does not hold,
                with the measured gap.
        """
        loops = self.anatomy.loops
        if loops is not None and loops.slots:
            raise ModelError(
                f"{measure} needs attention and MLP contributions, and states of this {self.anatomy.family.name} model "
                f"hold the stream and what {len(loops.slots)} earlier steps gave, to which no part adds. Measures of "
                "whole blocks are allowed."
            )
        if not self.checks.parts:
            gaps = [g for g in self.checks.contributions if not g <= self.checks.tolerance]
            raise ModelError(
                f"{measure} needs attention and MLP contributions, which do not sum to the change of the residual "
                f"stream in {len(gaps)} of {self.n_blocks} blocks of this {self.anatomy.family.name} model (largest "
                f"gap {max(gaps):.1e}, allowed {self.checks.tolerance:.0e}). Measures of whole blocks are allowed."
            )


def refusal(attempt: Callable[[], object]) -> str | None:
    """Why something cannot be done, as ``Measure.unavailable`` tells it; None where it can."""
    try:
        attempt()
    except (ModelError, PromptError) as error:
        return str(error).rstrip(".")
    return None


class MeasureProbe(Probe):
    """A measure's observer for one batch; ``result`` gives the batch's dataset after ``finish``.

    ``tokens`` is where values of single tokens are left that the measure forms anyway; None = nobody keeps them.

    Example:
        >>> class Length(bathyscope.extend.MeasureProbe):
        ...     def __init__(self, batch):
        ...         super().__init__()
        ...         self.lengths = batch.lengths
        ...
        ...     def result(self):
        ...         return xr.Dataset({"length": ("prompt", list(self.lengths))})
    """

    tokens: TokenValues | None = None
    _noise: Tensor | None = None
    beside = FormerName("meet_probes")

    def __init_subclass__(cls, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        take_former_names(cls)

    def meet_probes(self, others: Mapping[str, MeasureProbe]) -> None:
        """Take note, before the wave begins, of the probes that look at the same batch, this one among them."""

    @abc.abstractmethod
    def result(self) -> xr.Dataset:
        """Variables with a leading ``prompt`` dimension, in the batch's order."""

    def after(self, wave: Wavefront, step: Callable[[float], None]) -> None:
        """Compute of the measure's own, once the wave has passed (gradients).

        Args:
            step: called with the share that is done, 0 … 1.
        """

    def noise(self) -> np.ndarray | None:
        """Per prompt the largest deviation of the control row from the plain forward, in the effect's units."""
        return None if self._noise is None else self._noise.cpu().numpy()


class Measure(abc.ABC, Generic[Options]):
    """One measure with its options.

    A measure of the package takes its class attributes and docstring from its declaration: ``class Lens(...,
    declared=...)``. One from outside gives those that differ from the defaults.

    Class attributes:
        name: group of its dataset in a run; the class's name in small letters (``MyMeasure``: my_measure) by default.
        options_type: dataclass of its options; the single definition of them.
        table: its variables; None = whatever its probe gives.
        requires: measures that are computed along with it.
        needs: what it must have of a model (``measures.declaration``): stored states of one have no blocks.
        needs_answers: it looks at the prompts' answers, so that prompts without one have no value.
        derived: computed once from the merged datasets of ``requires``, not by observing the wavefront.
        by_prompt: what it gives of a prompt depends on no prompt behind it, but for the lengths in
            ``lengths_by_dim``; a run that grows by prompts keeps it, and computes all others again.
        reads_values_of: measures whose probes leave it values (``MeasureProbe.tokens``), where they are in the survey.
        looks_at_weights: ``unavailable`` and ``prepare`` run the model or read its weights; they are left out where
            only the cost is asked for, of a model without weights.
        compares_in_all_ways: it compares predictions in most of the ways that there are, and not in one or two (for
            estimates).
        keeps_boundaries: its probe holds the plain stream, or what blocks add to it, of all boundaries until the wave
            has passed (for estimates).
        lends: it has rows for which others, each of another block, keep keys and values (for estimates).

    Args:
        options: anything that ``options.coerce`` takes; None = the defaults.

    Raises:
        OptionError: unknown option, or value not allowed.

    Example:
        >>> class Length(bathyscope.extend.MeasureProbe):
        ...     def __init__(self, batch):
        ...         super().__init__()
        ...         self.lengths = batch.lengths
        ...
        ...     def result(self):
        ...         return xr.Dataset({"length": ("prompt", list(self.lengths))})
        >>> class Lengths(bathyscope.extend.Measure):
        ...     def probe(self, facts, batch, indices):
        ...         return Length(batch)
        >>> bathyscope.survey(model, ["One text.", "Another, longer text."], [Lengths])["lengths"].length.dims
        ('prompt',)
    """

    name: ClassVar[str]
    options_type: ClassVar[type] = NoOptions
    table: ClassVar[Table | None] = None
    requires: ClassVar[tuple[str, ...]] = ()
    needs: ClassVar[Needs] = "blocks"
    derived: ClassVar[bool] = False
    needs_answers: ClassVar[bool] = False
    by_prompt: ClassVar[bool] = False
    reads_values_of: ClassVar[tuple[str, ...]] = ()
    looks_at_weights: ClassVar[bool] = False
    compares_in_all_ways: ClassVar[bool] = False
    keeps_boundaries: ClassVar[bool] = False
    lends: ClassVar[bool] = False
    listens = FormerName("reads_values_of")
    begin = FormerName("read_reference")
    extents = FormerName("lengths_by_dim")
    stands = FormerName("stays_valid")

    def __init_subclass__(cls, declared: Declaration | None = None, **rest: Any) -> None:
        super().__init_subclass__(**rest)
        take_former_names(cls)
        if declared is not None:
            cls.name = declared.name
            cls.options_type = declared.options_type
            cls.table = declared.table
            cls.requires = declared.requires
            cls.needs = declared.needs
            cls.derived = declared.derived
            cls.needs_answers = declared.needs_answers
            cls.__doc__ = cls.__doc__ or declared.summary
        elif "name" not in vars(cls):
            # MyMeasure → my_measure; a subclass of a named measure is a measure of its own.
            cls.name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", cls.__name__).lower()

    def __init__(self, options: Options | Mapping[str, Any] | None = None) -> None:
        self.options: Options = coerce(self.options_type, options, self.name)

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        """Why a survey that does not ask for this measure by name leaves it out; None = it stays."""
        if self.needs_answers and not any(p.answer_tokens for p in prompts):
            return "no prompt has an answer; give prompts with answers (answer=…, or a data set that has them)"
        return None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        """Checks options against the model and all prompts, and draws what is random, before any compute.

        Args:
            prompts: every prompt of the survey, in order.

        Raises:
            OptionError, PromptError, ModelError: what is asked for cannot be done on this model or these prompts.
        """

    @property
    def reference(self) -> Source | None:
        """A further prompt set that the measure compares with, as ``survey`` takes them; None = the survey's own."""
        return None

    @property
    def fingerprints(self) -> Mapping[str, str]:
        """What the measure reads besides prompts, once prepared: name → SHA-256, part of a run's identity."""
        return {}

    def read_reference(self, wave: Wavefront, reference: Sequence[TokenizedPrompt]) -> None:
        """Computes what must be known before the first shard (runs once, and again when a run is resumed).

        Args:
            reference: the prompts of ``reference``.
        """

    @property
    def lengths_by_dim(self) -> Mapping[str, int]:
        """Dimensions that are as long as one of the survey's prompts needs, and their lengths."""
        return {}

    def stays_valid(self, before: Self, prompts: int) -> bool:
        """Return whether results of the first prompts of a survey are the same once further prompts follow.

        Args:
            before: this measure, prepared for the first ones alone.
            prompts: how many these are.
        """
        return self.by_prompt

    def measures_prompt(self, number: int) -> bool:
        """Return whether the prompt of this number is measured (known once prepared); one left out costs nothing."""
        return True

    def rows_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        """About how many full rows each prompt of this length brings (for batching and estimates)."""
        return 0.0

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        """The observer for one batch; ``indices`` are the prompts' numbers in the survey."""
        if not self.derived:
            raise TypeError(f"{self.name} has no method probe(), which gives what observes a batch")
        raise TypeError(f"{self.name} is derived from other measures and observes nothing itself")

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        """About how often each token is read out (for estimates): at the end of every row and half-row."""
        return 2 * self.rows_per_prompt(facts, tokens)

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        """The cost of ``MeasureProbe.after`` for a prompt of this length, in full rows."""
        return 0.0

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        """Run-level variables that this measure adds to its own merged dataset, if any."""
        return None

    def derive(self, facts: ModelFacts, merged: Mapping[str, xr.Dataset], seed: int) -> xr.Dataset:
        """A derived measure's dataset from the merged datasets of ``requires``."""
        if self.derived:
            raise TypeError(f"{self.name} has no method derive(), which gives its dataset")
        raise TypeError(f"{self.name} observes the wavefront; it is not derived from other measures")
