"""Fitting a Jacobian lens: plain forwards of prompts, and directions of the last boundary pulled back to the others."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import torch
import transformers
from torch import Tensor

from bathyscope.core.calls import takes
from bathyscope.core.common_options import ChatForm, Progress
from bathyscope.core.interrupts import ended_as_interrupted
from bathyscope.core.paths import require_writable
from bathyscope.core.progress import ProgressBar
from bathyscope.errors import OptionError, PromptError, StoreError, warn
from bathyscope.measures.jacobian.files import read_lens
from bathyscope.measures.jacobian.matrices import FittedLens, LensOrigin, joined, text_key
from bathyscope.measures.jacobian.writing import lens_place
from bathyscope.measures.options import FitLensOptions
from bathyscope.model import AnyModel, alone, loaded
from bathyscope.model.anatomy.anatomy import Anatomy
from bathyscope.model.anatomy.plain import home_of
from bathyscope.model.identity import compare_models, identity_of
from bathyscope.model.reading import PromptReading
from bathyscope.options import Range
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.prompts.prompts import Prompts
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.gradients.differentiable import differentiating, require_differentiable
from bathyscope.wavefront.gradients.jacobian import JacobianRows, sweep_back
from bathyscope.wavefront.observer import BoundaryReader

FEWEST_PROMPTS: Final = 2
"""A lens of one prompt could not be compared with itself."""
_SAVE_EVERY: Final = 60.0
"""Seconds between two writings of a fit that is not finished."""


@dataclass(frozen=True)
class LensFit:
    """How a lens is fitted.

    Args:
        directions: random orthonormal cotangents of each prompt; None = all, so that the lens is exact.
        skip_first: tokens at the beginning of each prompt that are neither sources nor targets, besides the last one.
        memory: GiB that the lens, and what is on its way back, may take.
        seed: of the random directions.
    """

    directions: int | None = None
    skip_first: int = 16
    memory: float = 4.0
    seed: int = 0

    def require_possible(self, anatomy: Anatomy) -> None:
        """Refuse what cannot be fitted to a model, before any compute.

        Raises:
            OptionError: more directions than the stream is wide, or matrices that do not fit into ``memory``.
            ModelError: no gradients pass through the model.
        """
        width = anatomy.width
        if self.directions is not None:
            Range(1, width).check(self.directions, "directions")
        size = self.lens_bytes(anatomy) / 2**30
        if size >= self.memory:
            raise OptionError(
                f"A lens of {anatomy.n_blocks} matrices of width {width} takes {size:.3g} GiB while it is fitted, and "
                f"memory={self.memory:g} is allowed. Allow more, such as memory={2 * size:.2g}."
            )
        require_differentiable(anatomy, "A Jacobian lens", streams=True)

    def counted(self, tokens: int) -> slice:
        """Return the tokens of a prompt that are sources and targets."""
        return slice(self.skip_first, tokens - 1)

    def usable(self, lengths: Sequence[int]) -> list[int]:
        """Return the numbers of the prompts that have such tokens; warn of the others.

        Raises:
            PromptError: fewer than two have any.
        """
        numbers = [n for n, length in enumerate(lengths) if length >= self.skip_first + 2]
        shortest = f"at least {self.skip_first + 2} tokens (skip_first={self.skip_first} and the last are left out)"
        if len(numbers) < FEWEST_PROMPTS:
            enough = len(numbers) == len(lengths)
            cure = "Give more prompts" if enough else "Give longer prompts, or a smaller skip_first"
            raise PromptError(
                f"A Jacobian lens is fitted to at least {FEWEST_PROMPTS} prompts of {shortest}; {len(numbers)} of "
                f"{len(lengths)} have them. {cure}."
            )
        if len(numbers) < len(lengths):
            warn(f"{len(lengths) - len(numbers)} of {len(lengths)} prompts have not {shortest}; they are left out.")
        return numbers

    def lens_bytes(self, anatomy: Anatomy) -> int:
        """Return what the sums of both halves take, and those of the prompts that are being added."""
        return 2 * 2 * 4 * anatomy.n_blocks * anatomy.width**2

    def directions_of(self, ids: Sequence[int], width: int) -> Tensor:
        """Return the cotangents of one prompt, [K, width].

        Random ones depend on the seed and on the prompt alone, so that parts of a set of prompts can be fitted apart.
        """
        if self.directions is None:
            return torch.eye(width)
        digest = hashlib.sha256(repr((self.seed, list(ids))).encode()).digest()
        generator = torch.Generator().manual_seed(int.from_bytes(digest[:7]))
        gaussian_DK = torch.randn(width, self.directions, generator=generator, dtype=torch.float64)
        return torch.linalg.qr(gaussian_DK).Q.mT.float()


def each_once(prompts: Sequence[TokenizedPrompt]) -> list[TokenizedPrompt]:
    """Return prompts, of equal ones the first; copies would make a lens look surer than it is. A warning counts them.

    Prompts are equal for a lens where their tokens but the last are, which is neither source nor target.
    """
    first_places = {text_key(prompt.ids): place for place, prompt in reversed(list(enumerate(prompts)))}
    once = [prompts[place] for place in sorted(first_places.values())]
    copies = len(prompts) - len(once)
    if copies:
        alone = " How far halves agree is unknown of a single prompt." if len(once) < FEWEST_PROMPTS else ""
        warn(
            f"{copies} of {len(prompts)} prompts that a lens is fitted to are copies of others and are left out, so "
            f"that each counts once.{alone}"
        )
    return once


@takes(FitLensOptions)
def fit_lens(
    model: AnyModel,
    prompts: Source | Prompts,
    *,
    directions: int | None = None,
    skip_first: int = 16,
    out: str | Path | None = None,
    memory: float = 4.0,
    seed: int = 0,
    beyond_context: bool | None = None,
    add_special_tokens: bool = True,
    chat: ChatForm = False,
    progress: Progress = True,
) -> FittedLens:
    """Fit a Jacobian lens: how the stream at each boundary acts on the stream at the end, on average.

    Args:
        model: what ``load`` returns or takes; a streamed model is read once forward and once back for as many prompts
            as fit into ``memory`` together.
        prompts: as for ``survey``; 100 of 128 tokens are usable. Prompts without tokens to count are left out.
        ...: the options of ``FitLensOptions``.
        out: file to write (.safetensors). A fit that was interrupted goes on from there.

    Returns:
        The lens: ``matrix(b)`` [width, width] of boundaries 0 … L, ``data``, ``text`` and ``save``.

    Raises:
        OptionError, PromptError, ModelError, StoreError: what is asked for cannot be done; raised before any compute.

    Example:
        >>> lens = bathyscope.fit_lens(model, "prompts.jsonl", skip_first=2)
        >>> lens.matrix(0).shape
        torch.Size([32, 32])
    """
    place = None if out is None else lens_place(out, "out")
    if place is not None:
        require_writable(place)
    # lenses are added up in place, which tensors of inference mode do not allow outside of it
    with alone(model), torch.inference_mode(False):
        ready = loaded(model, prompts)
        fit = LensFit(directions, skip_first, memory, seed)
        fit.require_possible(ready.anatomy)
        read = PromptReading(beyond_context, add_special_tokens, chat).read(ready, prompts, seed=seed)
        origin = LensOrigin.of_model(identity_of(ready), prompts=read.dataset, prompt_hash=read.hash)
        fitting = Fitting(fit, ready.anatomy, read, origin, place)
        return fitting.run(Wavefront(ready.anatomy, tails=False), progress=progress)


class Fitting:
    """A fit on its way: ``lens`` holds whole prompts alone, so that it can be written at any moment.

    Args:
        fit: how.
        anatomy: of the model.
        prompts: what ``usable`` chooses from.
        origin: what is known of the model and of the prompts.
        out: file to write; None = none. A part of the same fit in it is continued.

    Raises:
        PromptError: too few prompts with tokens that count.
        StoreError: ``out`` holds something else.
    """

    def __init__(
        self,
        fit: LensFit,
        anatomy: Anatomy,
        prompts: Sequence[TokenizedPrompt],
        origin: LensOrigin,
        out: Path | None = None,
    ) -> None:
        self._fit, self._anatomy, self._out = fit, anatomy, out
        usable = [prompts[number] for number in fit.usable([len(prompt) for prompt in prompts])]
        self._prompts = [prompt.ids for prompt in each_once(usable)]
        self._origin = replace(
            origin,
            n_blocks=anatomy.n_blocks,
            directions=fit.directions,
            skip_first=fit.skip_first,
            seed=fit.seed,
            tokens=sum(len(ids) - 1 - fit.skip_first for ids in self._prompts),
            fitted=tuple(map(text_key, self._prompts)),
            versions=(("torch", torch.__version__), ("transformers", transformers.__version__)),
        )
        self.lens = self._empty([0, 0])
        if out is not None and out.exists():
            self._go_on(out)

    def run(self, wave: Wavefront, *, progress: bool) -> FittedLens:
        """Return the lens of all prompts; what is fitted is written every minute, and where it is interrupted."""
        per_token = self._anatomy.n_blocks * self._directions
        total = per_token * sum(len(ids) for ids in self._prompts)
        done = per_token * sum(len(ids) for ids in self._prompts[: self.lens.prompts])
        written = time.monotonic()
        with (
            ended_as_interrupted(),
            ProgressBar(f"fitting a lens of {self._origin.model}", total, done, quiet=not progress) as bar,
        ):
            try:
                for group in self._groups():
                    self.lens = joined(self.lens, self._fitted(wave, group, bar), self._origin)
                    if time.monotonic() - written > _SAVE_EVERY:
                        self._write()
                        written = time.monotonic()
            except KeyboardInterrupt:
                self._write()
                raise
        self._write()
        return self.lens

    @property
    def _directions(self) -> int:
        return self._fit.directions or self._anatomy.width

    def _empty(self, counts: Sequence[int]) -> FittedLens:
        """Return a lens whose sums are still zero."""
        width, n_blocks = self._anatomy.width, self._anatomy.n_blocks
        sums_HBDD = torch.zeros(2, n_blocks, width, width)
        squares_B = torch.zeros(n_blocks, dtype=torch.float64)
        return FittedLens(self._origin, range(n_blocks), sums_HBDD, counts, squares_B)

    def _go_on(self, out: Path) -> None:
        try:
            lens, unfinished = read_lens(out)
        except StoreError as error:
            raise StoreError(f"{out} is in the place of the lens to be written (out=…, --out): {error}") from error
        agreement = compare_models(lens.origin.identity, self._origin.identity, "the lens", "this model")
        if agreement.differences:
            raise StoreError(
                f"{out} holds the lens of another model: {agreement.text}. Give another file (out=…, --out), or the "
                "model as it was."
            )
        if lens.origin.renamed(self._origin) != self._origin:
            raise StoreError(
                f"{out} holds another lens than the one that is asked for (of {lens.origin.model}, {lens.prompts} "
                "prompts). Give another file (out=…, --out), or the same model, prompts and options."
            )
        if unfinished is not None and unfinished != lens.prompts:
            raise StoreError(f"{out} is no whole Jacobian lens; delete it and fit again.")
        if agreement.unknown:
            warn(f"{out} does not tell the {' and '.join(agreement.unknown)} of its model; fit again to be sure of it.")
        # what an earlier version began tells no more of its model when it is finished
        self._origin = replace(lens.origin, fitted=self._origin.fitted)
        self.lens = lens

    def _write(self) -> None:
        if self._out is not None and self.lens.prompts:
            done = self.lens.prompts
            self.lens.save(self._out, unfinished=done if done < len(self._prompts) else None)

    def _groups(self) -> Iterator[list[int]]:
        """Yield the places of prompts whose directions fit into memory together, those that are done left out.

        The groups do not depend on what is done or on where the blocks are, so that a fit that was interrupted, or
        of a streamed model, adds up in the same order.
        """
        group: list[int] = []
        size = 0
        for place, ids in enumerate(self._prompts):
            prompt_bytes = self._bytes_of_direction(len(ids)) * (self._directions + self._anatomy.n_blocks + 1)
            if group and size + prompt_bytes > self._room:
                yield group
                group, size = [], 0
            if place >= self.lens.prompts:
                group.append(place)
            size += prompt_bytes
        if group:
            yield group

    @property
    def _room(self) -> float:
        return self._fit.memory * 2**30 - self._fit.lens_bytes(self._anatomy)

    def _bytes_of_direction(self, tokens: int) -> int:
        itemsize = (self._anatomy.dtype or torch.float32).itemsize
        return tokens * self._anatomy.width * itemsize

    def _fitted(self, wave: Wavefront, group: Sequence[int], bar: ProgressBar) -> FittedLens:
        """Return the lens of some prompts alone."""
        anatomy, device = self._anatomy, home_of(self._anatomy.model)
        readers = [BoundaryReader(lambda resid_BTD: resid_BTD[0].clone()) for _ in group]
        batches = [Batch.of([self._prompts[place]], device) for place in group]
        wave.run_convoy([(batch, [reader]) for batch, reader in zip(batches, readers)])
        lens = self._empty([sum(place % 2 == half for place in group) for half in range(2)])
        width = anatomy.width
        if self._fit.directions is not None:
            for half, count in enumerate(lens.counts):
                lens.sums_HBDD[half].diagonal(dim1=-2, dim2=-1).add_(count)
        directions = [self._fit.directions_of(self._prompts[place], width) for place in group]
        # where the directions of one prompt do not fit, the blocks are visited again for the rest of them
        tokens = sum(batch.tokens for batch in batches)
        at_once = max(1, min(self._directions, int(self._room // self._bytes_of_direction(tokens))))
        for first in range(0, self._directions, at_once):
            some = slice(first, min(first + at_once, self._directions))
            tasks = [
                JacobianRows(batch.ids_BT[0], reader.taken, self._fit.counted(batch.tokens), directions_KD[some])
                for batch, reader, directions_KD in zip(batches, readers, directions)
            ]
            with differentiating(anatomy.model):
                for boundary, number, rows_KD in sweep_back(anatomy, tasks):
                    half = group[number] % 2
                    self._add(lens, half, boundary, directions[number][some], rows_KD.cpu())
                    bar.advance(len(rows_KD) * batches[number].tokens)
        return lens

    def _add(self, lens: FittedLens, half: int, boundary: int, directions_KD: Tensor, rows_KD: Tensor) -> None:
        """Add rows of one prompt's Jacobian, or of what of it is random where directions are, to a lens.

        Random orthonormal rows Q have the mean Q'Q = (k/d) I, so that (d/k) Q'Q A has the mean A. Every J_b holds the
        identity, which need not be sampled: A is J_b − I, and ``_fitted`` adds the identity once for every prompt.
        """
        if self._fit.directions is not None:
            rows_KD = rows_KD - directions_KD
        scale = self._anatomy.width / self._directions
        lens.sums_HBDD[half, boundary].addmm_(directions_KD.mT, rows_KD, alpha=scale)
        lens.squares_B[boundary] += scale**2 * float(rows_KD.double().square().sum())
