"""Jacobian lens: what a boundary disposes the model to say, if the rest of the model acted as it does on average.

lens_b(h) = readout(J_b h), where J_b is the mean Jacobian of the last boundary (``measures.jacobian``). It is read next
to the plain lens, whose J is the identity, and to the translated lens, whose maps are fitted to the same prompts, all
on the same tokens of prompts that nothing is fitted to. Source: jlens 2026, Jacobian lens.

The *band* is the longest run of boundaries at each of which the Jacobian lens is shown to be nearer to the final
prediction than the plain lens (``statistics.band``). Position 0, often an attention sink, is left out.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from bathyscope.errors import ModelError, OptionError, PromptError, warn
from bathyscope.measures.answered import require_answers
from bathyscope.measures.base import Measure, MeasureProbe, ModelFacts
from bathyscope.measures.finite import require_finite
from bathyscope.measures.jacobian.files import open_lens
from bathyscope.measures.jacobian.fitting import Fitting, LensFit, each_once
from bathyscope.measures.jacobian.matrices import PROPERTIES, FittedLens, LensOrigin, text_key, transported
from bathyscope.measures.of.jacobian_lens import DECLARATION, JacobianLensOptions
from bathyscope.measures.settling import at_boundary
from bathyscope.measures.token_values import NO_TOKEN, TokenValues
from bathyscope.measures.translated_lens import Translators, count_tokens, counted_tokens, too_few_tokens
from bathyscope.model.anatomy.plain import home_of
from bathyscope.model.identity import compare_models
from bathyscope.prompts.in_memory import Source
from bathyscope.prompts.parts import clusters_in
from bathyscope.prompts.prompt import TokenizedPrompt
from bathyscope.statistics.band import find_band
from bathyscope.statistics.sampling import Sampling
from bathyscope.wavefront.batch import Batch
from bathyscope.wavefront.compare import compare
from bathyscope.wavefront.engine import Wavefront
from bathyscope.wavefront.probe import BaselineView, FinalStates

READERS = ("jacobian", "lens", "translated")
"""In this order; the last one only where it is fitted."""
_METRICS = {"kl": "kl_from_reference", "top1_agreement": "top1_agreement", "mrr": "rank"}
_OF_TOKENS = {"jacobian_id": "top1_id", "jacobian_probability": "top1_probability"}
"""Variable of ``tokens`` → what is compared for it."""
_NOTHING = {"jacobian_id": NO_TOKEN, "jacobian_probability": torch.nan}
_CHOOSING = 10
"""One in this many of the prompts that the translated lens is fitted to chooses its penalties."""


class JacobianLens(Measure[JacobianLensOptions], declared=DECLARATION):
    keeps_boundaries = True

    def unavailable(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt]) -> str | None:
        return _NOTHING_TO_FIT if self.options.lens is None and self.options.prompts is None else None

    def prepare(self, facts: ModelFacts, prompts: Sequence[TokenizedPrompt], seed: int) -> None:
        options = self.options
        if options.prompts is not None and facts.of_states:
            raise OptionError(
                "jacobian_lens: a lens is fitted by gradients through the blocks, and these are states. Give one that "
                "was fitted to the model elsewhere: lens= (--jacobian_lens.lens FILE)."
            )
        if (options.lens is None) == (options.prompts is None):
            problem = "both are given" if options.lens is not None else _NOTHING_TO_FIT
            raise OptionError(f"jacobian_lens: {problem}. Give a fitted lens= or prompts= to fit one to, not both.")
        if options.positions == "answer":
            require_answers(self.name, prompts)
        self._facts, self._seed = facts, seed
        self._surveyed = [text_key(prompt.ids) for prompt in prompts]
        self._fit = LensFit(options.directions, options.skip_first, options.memory, seed)
        if options.prompts is not None:
            self._fit.require_possible(facts.anatomy)
            return
        assert options.lens is not None
        self.lens = options.lens if isinstance(options.lens, FittedLens) else open_lens(str(options.lens))
        _require_fitted_to(facts, self.lens)
        self._require_others(self.lens.origin.fitted)

    @property
    def reference(self) -> Source | None:
        return self.options.prompts

    @property
    def fingerprints(self) -> Mapping[str, str]:
        return {} if self.options.lens is None else {"lens": self.lens.fingerprint}

    def read_reference(self, wave: Wavefront, reference: Sequence[TokenizedPrompt]) -> None:
        """Fit the lens, and the maps of the translated lens, to the reference prompts.

        Raises:
            PromptError: one of them is surveyed too, or too few have tokens that count.
        """
        self.translators: Translators | None = None
        if self.options.prompts is not None:
            self._require_others([text_key(prompt.ids) for prompt in reference])
            reference = each_once(reference)
            named = self._facts.anatomy.family.name
            identity = self._facts.identity
            origin = LensOrigin(named) if identity is None else replace(LensOrigin.of_model(identity), model=named)
            self.lens = Fitting(self._fit, wave.anatomy, reference, origin).run(wave, progress=True)
            self.translators = self._translators(wave, reference)
        device = home_of(wave.anatomy.model)
        self.matrices = {b: self.lens.matrix(b).to(device) for b in self.lens.boundaries}

    @property
    def readers(self) -> tuple[str, ...]:
        """What is read with."""
        return READERS if self.translators is not None else READERS[:-1]

    def rows_after(self, facts: ModelFacts, tokens: int) -> float:
        return 1.0

    def readouts_per_prompt(self, facts: ModelFacts, tokens: int) -> float:
        return len(READERS) * (len(facts.boundaries) - 1) + 1.0

    def probe(self, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> MeasureProbe:
        return JacobianLensProbe(self, facts, batch, indices)

    def summarise(self, facts: ModelFacts, merged: xr.Dataset, seed: int) -> xr.Dataset | None:
        kl = merged["kl"].isel(boundary=slice(0, -1))
        gain_PB = (kl.sel(reader="lens") - kl.sel(reader="jacobian")).transpose("prompt", "boundary").values
        band = find_band(gain_PB, Sampling(seed=seed, cluster=clusters_in(merged, None)))
        values = {"band_p": band.p, "band_gain": band.gain}
        values |= {"band_gain_low": band.gain_interval.low, "band_gain_high": band.gain_interval.high}
        for name, end, ends in (
            ("band_first", band.first, band.first_interval),
            ("band_last", band.last, band.last_interval),
        ):
            places = {name: end, f"{name}_low": ends.low, f"{name}_high": ends.high}
            values |= {key: at_boundary(place, facts.boundaries) for key, place in places.items()}
        return DECLARATION.dataset(values, {})

    def _require_others(self, fitted: Sequence[str] | None) -> None:
        """Refuse prompts that a lens is fitted to and that would be read with it, all tokens but the last alike."""
        if fitted is None:
            warn(
                f"The Jacobian lens {self.lens.origin.model!r} does not say which prompts it was fitted to; on those "
                "it reads better than on others."
            )
            return
        same = len({*fitted} & {*self._surveyed})
        if not same:
            return
        if self.options.prompts is not None:
            raise PromptError(
                f"jacobian_lens: {same} of the {len(fitted)} prompts that the lens would be fitted to are surveyed "
                "too. Give prompts= other texts than the survey's."
            )
        raise PromptError(
            f"jacobian_lens: {same} of the {len({*self._surveyed})} prompts of the survey are among those that the "
            "lens was fitted to. Survey other texts, or fit a lens to others."
        )

    def _translators(self, wave: Wavefront, reference: Sequence[TokenizedPrompt]) -> Translators | None:
        """Return the maps of the translated lens; None, with a note, where there is too little text for them."""
        positions = "all"  # as the Jacobian lens, whose prompts need have no answers
        order = np.random.default_rng([self._seed, 4]).permutation(len(reference))
        choosing, fitted = ([reference[i] for i in part] for part in np.split(order, [max(1, len(order) // _CHOOSING)]))
        if not self.options.translated:
            return None
        few = too_few_tokens(self._facts, [count_tokens(len(p), None, positions) for p in fitted], len(reference))
        if few is not None:
            warn(f"jacobian_lens reads without the translated lens: {few}.")
            return None
        return Translators.fit(wave, fitted, choosing, positions)


_NOTHING_TO_FIT = "it has no fitted lens (lens=) and no prompts to fit one to (prompts=)"


def _require_fitted_to(facts: ModelFacts, lens: FittedLens) -> None:
    """Refuse a lens of another model.

    Raises:
        ModelError: of another width, with other boundaries, or fitted to another model.
    """
    width, last = facts.anatomy.width, facts.n_blocks
    if lens.width != width:
        raise ModelError(f"The Jacobian lens is {lens.width} wide and the model {width}; fit one to this model.")
    if lens.origin.n_blocks not in (None, last) or max(lens.boundaries) > last:
        blocks = lens.origin.n_blocks or f"at least {max(lens.boundaries)}"
        raise ModelError(f"The Jacobian lens is of a model of {blocks} blocks, and this one has {last}; fit another.")
    if facts.identity is None:
        return
    agreement = compare_models(lens.origin.identity, facts.identity, "the lens", "this model")
    if agreement.differences:
        what = "weights" if "weights" in agreement.differences else "settings"
        raise ModelError(
            f"The Jacobian lens was fitted to other {what} (of {lens.origin.model}) than this model's "
            f"({agreement.text}). Fit it to this model; for controls, give jacobian_lens.prompts, to which each model "
            "has a lens fitted."
        )
    if agreement.unknown and facts.of_states:
        warn(
            "Whether the Jacobian lens was fitted to the weights that were served is unknown: states do not tell them."
        )
    elif agreement.unknown:
        what = "weights it was fitted to" if "weights" in agreement.unknown else "configuration it was fitted with"
        warn(f"The Jacobian lens {lens.origin.model!r} does not say which {what}.")


class JacobianLensProbe(MeasureProbe):
    """Keeps the boundaries of the plain forward, and reads them as they are and behind each reader's maps."""

    def __init__(self, measure: JacobianLens, facts: ModelFacts, batch: Batch, indices: Sequence[int]) -> None:
        super().__init__()
        self._measure, self._facts, positions = measure, facts, measure.options.positions
        self._batch = batch
        # numbers of the lens itself come with the first prompt of the survey
        self._first = 0 in indices
        self._tokens = [count_tokens(n, answer, positions) for n, answer in zip(batch.lengths, batch.answers)]
        self._read_BT = counted_tokens(batch, [True] * batch.size, positions)
        self._states: list[Tensor] = []
        self._values: dict[str, Tensor] = {}

    def baseline(self, view: BaselineView) -> None:
        self._states.append(view.before_BTD[self._read_BT])

    def finish(self, final: FinalStates) -> None:
        last_ND = final.baseline_BTD[self._read_BT]
        readers = self._measure.readers
        rows = [row for reader in readers for row in (*self._read_by(reader), last_ND)]
        of_tokens = _OF_TOKENS.values() if self.tokens is not None else ()
        comparison = compare(final.reader, last_ND, rows, (*_METRICS.values(), *of_tokens))
        values = {name: comparison[metric].unflatten(0, (len(readers), -1)) for name, metric in _METRICS.items()}
        require_finite("A lens", [values["kl"]])
        values["mrr"] = 1 / values["mrr"]
        # a lens from elsewhere may lack boundaries
        missing = [place for place, b in self._places() if b not in self._measure.matrices]
        for of_metric in values.values():
            of_metric[READERS.index("jacobian"), missing] = torch.nan
        if self.tokens is not None:
            self._leave(self.tokens, comparison, missing)
        self._values = values
        self._states.clear()

    def _leave(self, tokens: TokenValues, comparison: Mapping[str, Tensor], missing: Sequence[int]) -> None:
        """Hand over what the Jacobian lens says at single tokens; nothing where it does not read."""
        boundaries = len(self._facts.boundaries)
        row = READERS.index("jacobian") * boundaries
        read_N = self._batch.flat(self._read_BT)
        for name, metric in _OF_TOKENS.items():
            values_LN = comparison[metric][row : row + boundaries].clone()
            values_LN[missing] = _NOTHING[name]
            everywhere_LN = values_LN.new_full((boundaries, len(read_N)), _NOTHING[name])
            everywhere_LN[:, read_N] = values_LN
            tokens.put(name, everywhere_LN.long() if name == "jacobian_id" else everywhere_LN)

    def _places(self) -> list[tuple[int, int]]:
        """Return the place of each boundary but the last among the states, and the boundary."""
        return list(enumerate(self._facts.boundaries[:-1]))

    def _read_by(self, reader: str) -> list[Tensor]:
        """Return what one reader makes of each boundary but the last, [N, width] each."""
        measure, states = self._measure, self._states
        if reader == "jacobian":
            matrices = measure.matrices
            return [transported(matrices[b], states[p]) if b in matrices else states[p] for p, b in self._places()]
        if reader == "translated":
            assert measure.translators is not None
            return [measure.translators.translate(b, state_ND) for b, state_ND in enumerate(states)]
        return states

    def result(self) -> xr.Dataset:
        boundaries = np.array(self._facts.boundaries)
        means = {name: self._by_prompt(values_RLN) for name, values_RLN in self._values.items()}
        lens = self._measure.lens
        properties = lens.data.reindex(boundary=boundaries)
        data = {
            **means,
            "n_averaged": np.array(self._tokens, dtype=np.int64),
            **{name: properties[name].values if self._first else np.zeros(len(boundaries)) for name in PROPERTIES},
        }
        coords = {"reader": list(self._measure.readers), "boundary": boundaries}
        dataset = DECLARATION.dataset(data, coords)
        for name in PROPERTIES:
            dataset[name].attrs["merge"] = "sum"
        dataset.attrs |= {"fit_prompts": lens.prompts, "fit_tokens": lens.origin.tokens or 0}
        return dataset

    def _by_prompt(self, values_RLN: Tensor) -> np.ndarray:
        """Return means over each prompt's tokens, [prompt, reader, boundary]; NaN where none are read."""
        pieces = values_RLN.split(self._tokens, dim=-1)
        return torch.stack([piece.mean(-1) for piece in pieces]).cpu().numpy()
